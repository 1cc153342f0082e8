"""The offset index: where in a segment to start looking for an offset.

A sparse, sorted table, one entry per ``index.interval.bytes`` of log, big-endian:

    0                 4          8
    | relative_offset | position |     relative_offset  int32, offset - base_offset
                                       position         int32, byte in the .log

An entry (o, p) says: every offset above o is stored at or behind p, where a batch
begins. Whether o is the last or the first offset of that batch, or the last of several,
depends on the version that wrote it; reading forward from p is right for all. The first
batch of a segment has no entry, so position 0 is never stored.

Preallocated: entries past the last append are zeros until the file is closed cleanly.
No checksum: a wrong index is rebuilt from its log, never repaired.

Knows: entries and their order. Does not know: records, segments, when to append.
Source: ``OffsetIndex.java``, ``AbstractIndex.java`` in Apache Kafka's storage module.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar, Final, Self, overload

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog.indexes.index_table import Entries, IndexTable

ENTRY: Final = np.dtype([("relative_offset", ">i4"), ("position", ">i4")])
OFFSET: Final = (0, 4)  # byte in an entry, and width
POSITION: Final = (4, 4)


class OffsetIndex(IndexTable):
    """One segment's offset index: `entries` as on disk, `offsets` native.

    >>> index = OffsetIndex.build([510, 520], [4096, 8192], base_offset=500)
    >>> index, index.lookup(515)
    (OffsetIndex(2 entries from 500), np.int64(4096))
    >>> index.to_bytes().hex(" ", 4)
    '0000000a 00001000 00000014 00002000'
    """

    ENTRY: ClassVar[np.dtype[np.void]] = ENTRY

    @classmethod
    def build(
        cls, offsets: npt.ArrayLike, positions: npt.ArrayLike, base_offset: int
    ) -> Self:
        """Make an index of absolute `offsets` and their `positions`, both rising.

        Raises `ValueError` where they do not, or where an offset is not within 2**31 of
        the base, or a position not below 2**31.
        """
        absolute = np.asarray(offsets)
        relative = absolute - base_offset if absolute.size else absolute.tolist()
        return cls._built(
            {"relative_offset": relative, "position": positions}, base_offset
        )

    @cached_property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Absolute offsets, ascending, as one native copy."""
        return self.entries["relative_offset"].astype(np.int64) + self.base_offset

    @overload
    def lookup(self, offsets: int) -> np.int64: ...
    @overload
    def lookup(self, offsets: npt.ArrayLike) -> npt.NDArray[np.int64]: ...
    def lookup(self, offsets: npt.ArrayLike | int) -> npt.NDArray[np.int64] | np.int64:
        """Where to start scanning the ``.log`` for each of many offsets.

        Parameters
        ----------
        offsets : array_like of int, any shape
            Absolute offsets in any order; sorted ones are several times faster.

        Returns
        -------
        positions : ndarray of int64, of the same shape
            Byte positions: that of the greatest indexed offset ``<=`` each target,
            or 0 where every entry lies above it.

        Raises
        ------
        TypeError
            If `offsets` are not integers: float64 skips offsets above 2**53.

        Notes
        -----
        O(n log m) for m entries; the log is not touched. Same rule as Kafka's
        ``OffsetIndex.lookup``, which answers one offset at a time.

        Examples
        --------
        >>> index = OffsetIndex.build([510, 520], [4096, 8192], base_offset=500)
        >>> index.lookup([505, 510, 519, 9_000])
        array([   0, 4096, 4096, 8192])
        """
        if type(offsets) is int:
            found = _speedups.search_value(  # OFFSET, then POSITION, spelled out
                self._data, 8, 0, 4, self.base_offset, 4, 4, 0, 0, offsets
            )
            return np.int64(found)
        return self._take(POSITION, 0, 0, self.slots(offsets))[()]

    def slots(self, offsets: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Slot of the greatest entry at or below each offset, else -1.

        >>> OffsetIndex.build([510, 520], [4096, 8192], 500).slots([509, 510, 521])
        array([-1,  0,  1])
        """
        return self._slots(OFFSET, self.base_offset, offsets)

    def slots_at_positions(self, positions: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Slot of the greatest entry at or before each byte of the ``.log``, else -1.

        >>> index = OffsetIndex.build([510, 520], [4096, 8192], 500)
        >>> index.slots_at_positions([4095, 4096, 10**12])
        array([-1,  0,  1])
        """
        return self._slots(POSITION, 0, positions)

    def between_offsets(self, start: int, end: int) -> slice[int, int, None]:
        """Slice of the entries with ``start <= offset < end``.

        >>> index = OffsetIndex.build([510, 520, 530], [4096, 8192, 12288], 500)
        >>> index.offsets[index.between_offsets(511, 531)]
        array([520, 530])
        """
        return self._between(OFFSET, self.base_offset, start, end)

    def between_positions(self, start: int, end: int) -> slice[int, int, None]:
        """Slice of the entries with ``start <= position < end``.

        With the size of the log as `end`, what is left out is stale.

        >>> index = OffsetIndex.build([510, 520, 530], [4096, 8192, 12288], 500)
        >>> index.offsets[index.between_positions(0, 12288)]
        array([510, 520])
        """
        return self._between(POSITION, 0, start, end)

    def offset_from(self, position: int) -> int | None:
        """Offset of the first entry at or behind a byte of the ``.log``; None for none.

        What Kafka's ``fetchUpperBoundOffset`` asks with the end of a fetch: every
        record before `position` has an offset at or below it.

        >>> index = OffsetIndex.build([510, 520], [4096, 8192], 500)
        >>> index.offset_from(4097), index.offset_from(8193)
        (520, None)
        """
        slot = self.between_positions(0, position).stop
        return int(self.offsets[slot]) if slot < len(self) else None

    @classmethod
    def count_sound(cls, data: npt.NDArray[np.uint8], base_offset: int) -> int:
        """Count the slots at the front whose offset and position both rise."""
        return _speedups.count_rising(data, 8, 4, 4, False)

    @classmethod
    def _fault(cls, entries: Entries, slot: int, base_offset: int) -> str | None:
        offset, position = entries[slot].item()
        if offset < 0 or position < 0:
            return f"is negative: relative offset {offset}, position {position}"
        return None
