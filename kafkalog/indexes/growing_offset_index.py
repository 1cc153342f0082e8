"""The offset index of an active segment; `offset_index` describes its layout.

An entry has the last offset of a batch, and the position where the batch begins.
Offsets ascend strictly. Lookups use Kafka's own search, so that a damaged index returns
the same positions as in a broker.

Source: ``OffsetIndex.java``.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, ClassVar, Final, NamedTuple

from kafkalog import _speedups
from kafkalog._speedups import IndexFault
from kafkalog.errors import CorruptIndexError, InvalidOffsetError, LogStateError
from kafkalog.indexes.growing_index import GrowingIndex
from kafkalog.indexes.offset_index import ENTRY, OFFSET, POSITION, OffsetIndex

_SLOT: Final = Struct(">ii")


class OffsetPosition(NamedTuple):
    """An absolute offset, and the position in the ``.log`` to read from."""

    offset: int
    position: int


class GrowingOffsetIndex(GrowingIndex[OffsetIndex, OffsetPosition]):
    """The offset index of a segment that is appended to.

    `append` raises `IndexFullError` if the index is full, `InvalidOffsetError` for an
    offset that does not ascend, `IndexOffsetOverflowError` for one too far from the
    base.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     index = GrowingOffsetIndex(Path(directory, "500.index"), 500, 1000)
    ...     index.append(510, 4096)
    ...     index.append(520, 8192)
    ...     print(index.lookup(519), index.lookup(509).position, index.size_in_bytes)
    ...     index.close()
    ...     index.path.stat().st_size
    OffsetPosition(offset=510, position=4096) 0 1000
    16
    """

    TABLE: ClassVar[Any] = OffsetIndex
    ENTRY_BYTES: ClassVar[int] = ENTRY.itemsize
    OFFSET: ClassVar[tuple[int, int]] = OFFSET

    @property
    def last_offset(self) -> int:
        """Offset of the last entry, or the base offset."""
        self.load()
        relative = _SLOT.unpack(self._last)[0] if self._last else 0
        return self.base_offset + int(relative)

    def lookup(self, offset: int) -> OffsetPosition:
        """Return the last entry at or below `offset`, or the base offset at byte 0."""
        with self._lock:
            self._ready()
            slot = self._find(OFFSET, self.base_offset, offset)
            return OffsetPosition(self.base_offset, 0) if slot < 0 else self._at(slot)

    def fetch_upper_bound(self, position: int, size: int) -> int | None:
        """Return an upper bound of the offsets in a range of the ``.log``, or None.

        The range has `size` bytes from `position` on. The bound is the offset of the
        first entry at or after its end. The end is an int32, as in Kafka. If it equals
        the position of the first entry, the second one is used.
        """
        end = (position + size + 2**31) % 2**32 - 2**31
        with self._lock:
            self._ready()
            slot = self._find(POSITION, 0, end, above=True)
            return None if slot < 0 else self._offset_at(slot)

    def append(self, offset: int, position: int) -> None:
        """Append an entry for the batch at `position` whose last offset is `offset`."""
        with self._lock:
            self._ready()
            entry, fault = _speedups.offset_entry(
                self.base_offset, self.end, offset, position
            )
            if fault:
                raise self.rejection(fault, offset)
            self.extend(entry)

    def rejection(self, fault: IndexFault, offset: int) -> LogStateError:
        """Return the error for an entry that cannot be appended."""
        if fault == IndexFault.OFFSETS_FULL:
            return self._full()
        if fault == IndexFault.OFFSET_FAR:
            return self._too_far(offset)
        reason = f"offset {offset}, expected above {self.last_offset}, the last"
        return InvalidOffsetError(f"{reason}: {self.path}")

    def check(self) -> None:
        """Raise `CorruptIndexError` if the last offset or the size is invalid."""
        if self.entry_count and self.last_offset < self.base_offset:
            reason = (
                f"last offset {self.last_offset}, expected at least "
                f"{self.base_offset}, the base offset"
            )
            at = (self._count - 1) * self.ENTRY_BYTES
            raise CorruptIndexError(reason, position=at).located(self.path)
        if torn := self._torn():
            raise torn

    def _at(self, slot: int) -> OffsetPosition:
        relative, position = _SLOT.unpack_from(self._content(), slot * _SLOT.size)
        return OffsetPosition(self.base_offset + relative, position)
