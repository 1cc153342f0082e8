"""The time index: where in a segment to start looking for a time.

A sparse, sorted table beside the offset index, big-endian:

    0           8                 12
    | timestamp | relative_offset |    timestamp        int64, ms since 1970
                                       relative_offset  int32, offset - base_offset

An entry (t, o) says: every record with a timestamp above t has an offset above o. t is
the greatest timestamp so far, o the last offset of the first batch that bears it (of
the record itself, from leaders up to Kafka 3.7). Timestamps rise strictly, offsets may
rest. A segment without timestamps has an empty time index.

Preallocated like the offset index. An all-zero slot is no entry, but for slot 0 before
one that rises (timestamp 0 at the base offset); an index of that one entry alone reads
as empty, which answers every lookup alike.

Knows: entries and their order. Does not know: records, segments, when to append.
Source: ``TimeIndex.java``, ``AbstractIndex.java`` in Apache Kafka's storage module.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar, Final, Self, overload

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog.indexes.index_table import Entries, IndexTable

ENTRY: Final = np.dtype([("timestamp", ">i8"), ("relative_offset", ">i4")])
TIMESTAMP: Final = (0, 8)  # byte in an entry, and width
OFFSET: Final = (8, 4)


class TimeIndex(IndexTable):
    """One segment's time index: `entries` mapped, `timestamps` and `offsets` native.

    >>> index = TimeIndex.build([1_700_000_000_000], [507], base_offset=500)
    >>> index, index.lookup(1_800_000_000_000)
    (TimeIndex(1 entries from 500), np.int64(507))
    """

    ENTRY: ClassVar[np.dtype[np.void]] = ENTRY

    @classmethod
    def build(
        cls, timestamps: npt.ArrayLike, offsets: npt.ArrayLike, base_offset: int
    ) -> Self:
        """Make an index of `timestamps` (ms), rising, and their absolute `offsets`.

        Raises `ValueError` where timestamps do not rise strictly from 0, where offsets
        fall, or where one is not within 2**31 of the base.
        """
        absolute = np.asarray(offsets)
        relative = absolute - base_offset if absolute.size else absolute.tolist()
        return cls._built(
            {"timestamp": timestamps, "relative_offset": relative}, base_offset
        )

    @cached_property
    def timestamps(self) -> npt.NDArray[np.int64]:
        """Timestamps in ms, ascending, as one native copy."""
        return self.entries["timestamp"].astype(np.int64)

    @cached_property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Absolute offsets, never falling, as one native copy."""
        return self.entries["relative_offset"].astype(np.int64) + self.base_offset

    @overload
    def lookup(self, timestamps: int) -> np.int64: ...
    @overload
    def lookup(self, timestamps: npt.ArrayLike) -> npt.NDArray[np.int64]: ...
    def lookup(
        self, timestamps: npt.ArrayLike | int
    ) -> npt.NDArray[np.int64] | np.int64:
        """From which offset on to look for each of many timestamps.

        Parameters
        ----------
        timestamps : array_like of int, any shape
            Milliseconds since 1970 in any order; sorted ones are several times faster.

        Returns
        -------
        offsets : ndarray of int64, of the same shape
            Absolute offset of the greatest entry ``<=`` each target, or the base offset
            where every entry lies above it.

        Raises
        ------
        TypeError
            If `timestamps` are not integers.

        Notes
        -----
        Same rule as Kafka's ``TimeIndex.lookup``. A record *at* an entry's timestamp
        lies in the batch that ends with that offset, or behind.

        Examples
        --------
        >>> index = TimeIndex.build([1000, 3000], [507, 520], base_offset=500)
        >>> index.lookup([[999, 1000], [2999, 3000]])
        array([[500, 507],
               [507, 520]])
        """
        base = self.base_offset
        if type(timestamps) is int:
            found = _speedups.search_value(  # TIMESTAMP, then OFFSET, spelled out
                self._data, 12, 0, 8, 0, 8, 4, base, base, timestamps
            )
            return np.int64(found)
        return self._take(OFFSET, base, base, self.slots(timestamps))[()]

    def slots(self, timestamps: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Slot of the greatest entry at or before each timestamp, else -1.

        >>> TimeIndex.build([1000, 3000], [507, 520], 500).slots([999, 1000, 5000])
        array([-1,  0,  1])
        """
        return self._slots(TIMESTAMP, 0, timestamps)

    def slots_at_offsets(self, offsets: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Slot of the last entry at or below each absolute offset, else -1.

        >>> index = TimeIndex.build([1000, 3000], [507, 520], 500)
        >>> index.slots_at_offsets([506, 507, 520])
        array([-1,  0,  1])
        """
        return self._slots(OFFSET, self.base_offset, offsets)

    def between_timestamps(self, start: int, end: int) -> slice[int, int, None]:
        """Slice of the entries with ``start <= timestamp < end``, in ms.

        >>> index = TimeIndex.build([1000, 3000], [507, 520], 500)
        >>> index.offsets[index.between_timestamps(1000, 3000)]
        array([507])
        """
        return self._between(TIMESTAMP, 0, start, end)

    def between_offsets(self, start: int, end: int) -> slice[int, int, None]:
        """Slice of the entries with ``start <= offset < end``.

        >>> index = TimeIndex.build([1000, 3000], [507, 520], 500)
        >>> index.timestamps[index.between_offsets(508, 600)]
        array([3000])
        """
        return self._between(OFFSET, self.base_offset, start, end)

    @classmethod
    def count_sound(cls, data: npt.NDArray[np.uint8], base_offset: int) -> int:
        """Count the slots at the front: timestamps rise, offsets do not fall."""
        return _speedups.count_rising(data, 12, 8, 4, True)

    @classmethod
    def _fault(cls, entries: Entries, slot: int, base_offset: int) -> str | None:
        timestamp, offset = entries[slot].item()
        if timestamp < 0 or offset < 0:
            return f"is negative: timestamp {timestamp}, relative offset {offset}"
        return None
