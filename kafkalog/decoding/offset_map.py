"""`OffsetMap`: the last offset of each key, in a fixed amount of memory.

Keys are not stored: they are equal if their MD5 is. The table is a flat array that the
kernels of ``_speedups/offset_map.pyx`` read and write.

The map also marks the offsets that a later record with the same key supersedes, so that
most keys need not be searched again when the dirty range is copied. It has marks of the
first `MARKED_OFFSETS` offsets of that range.

Source: ``SkimpyOffsetMap.java``.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog._speedups import Mark
from kafkalog.array_types import Bools, Bytes, Int64s
from kafkalog.errors import InvalidRecordError, LogArgumentError

Keys: TypeAlias = tuple[Bytes, Int64s, npt.NDArray[np.int32]]
"""Bytes, and the start and length of each key in them; a length of -1 is null."""

SLOT_BYTES: Final = 24
"""The MD5 of a key, 16 bytes, and its offset."""

MAX_MEMORY: Final = 2**31 - 1
"""The maximum memory of a map in Kafka, in bytes."""

MARKED_OFFSETS: Final = 1 << 24
"""Number of offsets with a mark of two bits; they take 4 MiB."""

SLOTS_AT_ONCE: Final = 1 << 18
"""Number of slots that are copied at a time."""

NONE: Final = -1
"""The offset returned for a key that is not in the map."""


class OffsetMap:
    """A map of keys, which are any bytes, to offsets.

    Parameters
    ----------
    memory : int
        Size of the table, in bytes; each key takes 24.
    marked_offsets : int
        Number of offsets that get marks, four in a byte.

    Examples
    --------
    >>> from kafkalog.encoding.record_columns import ByteColumn
    >>> offsets = OffsetMap(240)
    >>> offsets.put(ByteColumn.of([b"a", b"b", b"a"]), np.arange(3), most=9)
    3
    >>> offsets.find(ByteColumn.of([b"a", b"b", b"c", None]))
    array([ 2,  1, -1, -1])
    >>> offsets.entries, offsets.slots, offsets.latest_offset
    (2, 10, 2)
    """

    def __init__(self, memory: int, marked_offsets: int = MARKED_OFFSETS) -> None:
        self.slots = min(memory, MAX_MEMORY) // SLOT_BYTES
        if self.slots < 1:
            raise LogArgumentError(
                f"offset map of {memory} bytes, expected at least {SLOT_BYTES}"
            )
        self._table = np.zeros(self.slots * SLOT_BYTES, np.uint8)
        self._marks = np.zeros(marked_offsets // 4, np.uint8)
        self.entries = 0
        self.latest_offset = NONE
        self._start = 0

    @property
    def utilization(self) -> float:
        """Share of the slots that are in use."""
        return self.entries / self.slots

    def clear(self, start: int = 0) -> None:
        """Remove all keys; `start` is the first offset that will be put."""
        if self.entries:
            self._table.fill(0)
            self._marks.fill(0)
        self.entries, self.latest_offset = 0, NONE
        self._start = start

    def put(self, keys: Keys, offsets: Int64s, most: int) -> int:
        """Set the offset of each key, in order, until the map has `most` keys.

        Returns the number of rows that were put. Once the map has `most` keys, no
        offset is set, not even that of a key in the map. Null keys are skipped.
        `latest_offset` becomes the offset that was set last.
        """
        rows, self.entries = _speedups.put_offsets(
            self._table,
            self.entries,
            min(most, self.slots),
            keys,
            offsets,
            self._marks,
            self._start,
        )
        if rows < 0:
            raise InvalidRecordError("key outside of its column")
        done = np.flatnonzero(keys[2][:rows] >= 0)
        if len(done):
            self.latest_offset = int(offsets[done[-1]])
        return rows

    def offsets(self) -> Int64s:
        """Return the offset of each key, in the order of the table."""
        slots = self._table[: self.slots * SLOT_BYTES].view(np.int64).reshape(-1, 3)
        found = np.empty(self.entries, np.int64)
        done = 0
        for first in range(0, self.slots, SLOTS_AT_ONCE):
            some = slots[first : first + SLOTS_AT_ONCE]
            here = some[some.any(1), 2]
            found[done : done + len(here)] = here
            done += len(here)
        return found

    def find(self, keys: Keys) -> Int64s:
        """Return the offset of each key; -1 for a null key or one not in the map."""
        found = np.empty(len(keys[2]), np.int64)
        if _speedups.find_offsets(self._table, keys, found) < len(found):
            raise InvalidRecordError("key outside of its column")
        return found

    def are_superseded(self, first: Int64s, last: Int64s) -> Bools:
        """Return whether the map has a higher offset for all keys of each range.

        A range is the offsets from `first` to `last`. The result is False for a range
        with an offset that has no mark, or was not put.
        """
        superseded = np.empty(len(first), np.bool_)
        _speedups.find_superseded(
            self._marks, self._start, first, last, superseded.view(np.uint8)
        )
        return superseded

    def are_latest(self, keys: Keys, offsets: Int64s) -> Bools:
        """Return whether the map has no higher offset for each key than `offsets`.

        `offsets` are those of the records that have the keys.
        """
        marks = np.empty(len(offsets), np.uint8)
        _speedups.read_marks(self._marks, self._start, offsets, marks)
        latest: Bools = marks == Mark.MARK_LATEST
        unknown = np.flatnonzero(~latest & (marks != Mark.MARK_SUPERSEDED))
        if len(unknown):
            data, start, length = keys
            searched = data, start[unknown], length[unknown]
            latest[unknown] = offsets[unknown] >= self.find(searched)
        return latest
