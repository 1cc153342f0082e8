"""The time index of a segment that is written to; its layout is `time_index`'s.

An entry is the greatest timestamp so far, and the last offset of the first batch that
bears it. Timestamps rise strictly: what does not rise is left out, silently if it is
equal. One slot is kept free for the entry that is made when the segment is closed.

Knows: timestamps and offsets. Does not know: when an entry is due.
Source: ``TimeIndex.java``.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkalog.errors import (
    CorruptIndexError,
    InvalidOffsetError,
    LogStateError,
)
from kafkalog.formats.layout import NO_TIMESTAMP
from kafkalog.indexes.growing_index import GrowingIndex
from kafkalog.indexes.time_index import ENTRY, OFFSET, TIMESTAMP, TimeIndex

_SLOT: Final = Struct(">qi")


class TimestampOffset(NamedTuple):
    """A timestamp in ms, -1 for none, and the absolute offset that goes with it."""

    timestamp: int
    offset: int


class GrowingTimeIndex(GrowingIndex[TimeIndex, TimestampOffset]):
    """One segment's time index, as its writer has it.

    `maybe_append` and `maybe_append_many` raise `IndexFullError` where no slot is
    left but the one kept, even for an entry that would be left out,
    `InvalidOffsetError` for an offset below the last, `LogStateError` for a timestamp
    below the last, `IndexOffsetOverflowError` for an offset too far from the base;
    entries before it stay.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     index = GrowingTimeIndex(Path(directory, "500.timeindex"), 500, 24)
    ...     index.maybe_append(1_000, 507)
    ...     index.maybe_append(1_000, 510, skip_full=True)
    ...     index.entry_count, index.is_full, index.lookup(2_000)
    (1, True, TimestampOffset(timestamp=1000, offset=507))
    """

    TABLE: ClassVar[Any] = TimeIndex
    ENTRY_BYTES: ClassVar[int] = ENTRY.itemsize
    OFFSET: ClassVar[tuple[int, int]] = OFFSET

    @property
    def entries_left(self) -> int:
        """Number of entries that still fit; one slot is kept for the closing entry."""
        self.load()
        return (self._size - self._used) // self.ENTRY_BYTES - 1

    @property
    def last_entry(self) -> TimestampOffset:
        """The last entry, or -1 and the base offset."""
        self.load()
        if not self._last:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        return self._entry_of(self._last)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """Return the greatest entry at or before `timestamp`; else -1 and the base."""
        with self._lock:
            self._ready()
            slot = self._find(TIMESTAMP, 0, timestamp)
            if slot < 0:
                return TimestampOffset(NO_TIMESTAMP, self.base_offset)
            return self._at(slot)

    def maybe_append(
        self, timestamp: int, offset: int, *, skip_full: bool = False
    ) -> None:
        """Add an entry if `timestamp` is above the last one.

        With `skip_full` into the kept slot, too: when a segment is closed.
        """
        with self._lock:
            self._ready()
            if self._count >= self.max_entries - 1 and not skip_full:
                raise self._full()
            last = self.last_entry
            if self._count and (offset < last.offset or timestamp < last.timestamp):
                raise self._refusal(timestamp, offset)
            if timestamp > last.timestamp:
                if self._count >= self.max_entries:
                    error = self._full()
                    error.kafka_name = "BufferOverflowException"
                    raise error
                self.extend(_SLOT.pack(timestamp, self._relative(offset)))

    def maybe_append_many(
        self, timestamps: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64]
    ) -> None:
        """Do `maybe_append` for each of several, by one write if none is refused."""
        with self._lock:
            if not self.takes(timestamps, offsets):
                for timestamp, offset in zip(
                    timestamps.tolist(), offsets.tolist(), strict=True
                ):
                    self.maybe_append(timestamp, offset)
                return
            rises = np.empty(len(timestamps), bool)
            rises[:1] = timestamps[:1] > self.last_entry.timestamp
            np.greater(timestamps[1:], timestamps[:-1], out=rises[1:])
            entries = np.empty(np.count_nonzero(rises), ENTRY)
            if len(entries):
                entries["timestamp"] = timestamps[rises]
                entries["relative_offset"] = offsets[rises] - self.base_offset
                self.extend(entries.tobytes())

    def takes(
        self, timestamps: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64]
    ) -> bool:
        """Whether none of these would be refused: all rise, or rest, and have room."""
        self._ready()
        if not len(timestamps):
            return True
        first = TimestampOffset(int(timestamps[0]), int(offsets[0]))
        last = self.last_entry
        return bool(
            self._count + len(timestamps) < self.max_entries
            and first.timestamp >= last.timestamp
            and (first.offset >= last.offset or not self._count)
            and self.holds_offset(first.offset)
            and self.holds_offset(int(offsets[-1]))
            and (timestamps[1:] >= timestamps[:-1]).all()
            and (offsets[1:] >= offsets[:-1]).all()
        )

    def check(self) -> None:
        """Raise `CorruptIndexError` for an end below the start, or torn bytes."""
        with self._lock:
            if self.entry_count:
                last, first = self.last_entry, self._at(0).timestamp
                at = (self._count - 1) * self.ENTRY_BYTES
                reason = None
                if last.timestamp < first:
                    reason = f"last timestamp {last.timestamp} is below the first"
                elif last.offset < self.base_offset:
                    reason = f"last offset {last.offset} is below the base offset"
                if reason is not None:
                    raise CorruptIndexError(reason, position=at).located(self.path)
            if torn := self._torn():
                raise torn

    def _at(self, slot: int) -> TimestampOffset:
        return self._entry_of(self._entry(slot))

    def _entry_of(self, slot: bytes | memoryview) -> TimestampOffset:
        timestamp, relative = _SLOT.unpack(slot)
        return TimestampOffset(timestamp, self.base_offset + relative)

    def _refusal(self, timestamp: int, offset: int) -> LogStateError:
        last = self.last_entry
        if offset < last.offset:
            reason = f"offset {offset} is below the last one, {last.offset}"
            return InvalidOffsetError(f"{reason}: {self.path}")
        reason = f"timestamp {timestamp} is below the last one, {last.timestamp}"
        return LogStateError(f"{reason}: {self.path}")
