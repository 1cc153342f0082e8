"""The time index of an active segment; `time_index` describes its layout.

An entry has the greatest timestamp so far, and the last offset of the first batch with
it. Timestamps ascend strictly: an equal one is skipped, a lower one is an error. One
slot is reserved for the entry that is appended when the segment is closed.

Source: ``TimeIndex.java``.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, ClassVar, Final, NamedTuple

from kafkalog import _speedups
from kafkalog._speedups import IndexFault
from kafkalog.errors import (
    CorruptIndexError,
    InvalidOffsetError,
    LogStateError,
)
from kafkalog.formats.layout import NO_TIMESTAMP
from kafkalog.indexes.growing_index import GrowingIndex
from kafkalog.indexes.time_index import ENTRY, OFFSET, TIMESTAMP, TimeIndex

_SLOT: Final = Struct(">qi")


class TimeIndexEntry(NamedTuple):
    """A timestamp in ms, -1 for none, and its absolute offset."""

    timestamp: int
    offset: int


class GrowingTimeIndex(GrowingIndex[TimeIndex, TimeIndexEntry]):
    """The time index of a segment that is appended to.

    `maybe_append` raises `IndexFullError` if only the reserved slot is left, even for
    an entry that would be skipped, `InvalidOffsetError` for an offset below the last
    one, `LogStateError` for a timestamp below the last one, and
    `IndexOffsetOverflowError` for an offset too far from the base.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     index = GrowingTimeIndex(Path(directory, "500.timeindex"), 500, 24)
    ...     index.maybe_append(1_000, 507)
    ...     index.maybe_append(1_000, 510, skip_full=True)
    ...     index.entry_count, index.is_full, index.lookup(2_000)
    (1, True, TimeIndexEntry(timestamp=1000, offset=507))
    """

    TABLE: ClassVar[Any] = TimeIndex
    ENTRY_BYTES: ClassVar[int] = ENTRY.itemsize
    OFFSET: ClassVar[tuple[int, int]] = OFFSET

    @property
    def entries_left(self) -> int:
        """Number of entries that still fit, without the reserved slot."""
        self.load()
        return (self._size - self._used) // self.ENTRY_BYTES - 1

    @property
    def last_entry(self) -> TimeIndexEntry:
        """The last entry, or timestamp -1 and the base offset."""
        self.load()
        if not self._last:
            return TimeIndexEntry(NO_TIMESTAMP, self.base_offset)
        return self._entry_of(self._last)

    def lookup(self, timestamp: int) -> TimeIndexEntry:
        """Return the last entry at or before `timestamp`, or -1 and the base offset."""
        with self._lock:
            self._ready()
            slot = self._find(TIMESTAMP, 0, timestamp)
            if slot < 0:
                return TimeIndexEntry(NO_TIMESTAMP, self.base_offset)
            return self._at(slot)

    def maybe_append(
        self, timestamp: int, offset: int, *, skip_full: bool = False
    ) -> None:
        """Append an entry if `timestamp` is above the last one.

        With `skip_full` the reserved slot may be used: when a segment is closed.
        """
        with self._lock:
            self._ready()
            left, newest = self.end
            entry, fault = _speedups.time_entry(
                self.base_offset,
                (1 if skip_full else left, newest),
                timestamp,
                offset,
            )
            if fault:
                raise self.rejection(fault, timestamp, offset)
            if entry and self._count >= self.max_entries:
                error = self._full()
                error.kafka_name = "BufferOverflowException"
                raise error
            if entry:
                self.extend(entry)

    def rejection(
        self, fault: IndexFault, timestamp: int, offset: int
    ) -> LogStateError:
        """Return the error for an entry that cannot be appended."""
        if fault == IndexFault.TIMES_FULL:
            return self._full()
        if fault == IndexFault.TIME_FAR:
            return self._too_far(offset)
        last = self.last_entry
        if offset < last.offset:
            reason = f"offset {offset}, expected at least {last.offset}"
            return InvalidOffsetError(f"{reason}: {self.path}")
        reason = (
            f"timestamp {timestamp}, expected at least {last.timestamp}, the last one"
        )
        return LogStateError(f"{reason}: {self.path}")

    def check(self) -> None:
        """Raise `CorruptIndexError` if the last entry or the size is invalid."""
        with self._lock:
            if self.entry_count:
                last, first = self.last_entry, self._at(0).timestamp
                at = (self._count - 1) * self.ENTRY_BYTES
                reason = None
                if last.timestamp < first:
                    reason = (
                        f"last timestamp {last.timestamp}, expected at least {first}"
                    )
                elif last.offset < self.base_offset:
                    reason = (
                        f"last offset {last.offset}, expected at least "
                        f"{self.base_offset}, the base offset"
                    )
                if reason is not None:
                    raise CorruptIndexError(reason, position=at).located(self.path)
            if torn := self._torn():
                raise torn

    def _at(self, slot: int) -> TimeIndexEntry:
        return self._entry_of(self._entry(slot))

    def _entry_of(self, slot: bytes | memoryview) -> TimeIndexEntry:
        timestamp, relative = _SLOT.unpack(slot)
        return TimeIndexEntry(timestamp, self.base_offset + relative)
