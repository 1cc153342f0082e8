"""The offset index: positions in a segment from which to search for an offset.

A sparse, sorted table, one entry per ``index.interval.bytes`` of log, big-endian:

    0                 4          8
    | relative_offset | position |     relative_offset  int32, offset - base_offset
                                       position         int32, byte in the .log

An entry (o, p) means: a batch begins at p, and all offsets above o are at or after p.
Depending on the version of the writer, o is the first or the last offset of that batch,
or the last of several; reading forward from p is correct for all. The first batch of a
segment has no entry, so position 0 is never stored.

The file is preallocated: unused entries are zeros until it is closed cleanly. It has no
checksum: a wrong index is rebuilt from its log, never repaired.

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
    """Offset index of one segment: sorted entries of an offset and a position.

    Attributes
    ----------
    entries : ndarray
        Rows of `relative_offset` and `position`, big-endian, as on disk.
    base_offset : int
        The segment's base offset.
    offsets : ndarray of int64
        Absolute offsets.

    Examples
    --------
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
        """Build an index of absolute offsets and their positions.

        Parameters
        ----------
        offsets, positions : array_like of int
            Absolute offsets and positions in the ``.log``, both strictly ascending.
        base_offset : int
            The segment's base offset.

        Returns
        -------
        OffsetIndex

        Raises
        ------
        ValueError
            If they do not ascend, an offset is not within 2**31 of the base, or a
            position is not below 2**31.

        Examples
        --------
        >>> OffsetIndex.build([510, 520], [4096, 8192], base_offset=500)
        OffsetIndex(2 entries from 500)
        """
        absolute = np.asarray(offsets)
        relative = absolute - base_offset if absolute.size else absolute.tolist()
        return cls._built(
            {"relative_offset": relative, "position": positions}, base_offset
        )

    @cached_property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Absolute offsets, ascending, as a native copy."""
        return self.entries["relative_offset"].astype(np.int64) + self.base_offset

    @overload
    def lookup(self, offsets: int) -> np.int64: ...
    @overload
    def lookup(self, offsets: npt.ArrayLike) -> npt.NDArray[np.int64]: ...
    def lookup(self, offsets: npt.ArrayLike | int) -> npt.NDArray[np.int64] | np.int64:
        """Return the position in the ``.log`` from which to read for each offset.

        Parameters
        ----------
        offsets : array_like of int, any shape
            Absolute offsets in any order; sorted ones are several times faster.

        Returns
        -------
        positions : ndarray of int64, of the same shape
            The position of the last entry whose offset is ``<=`` the target, or 0 if
            there is none.

        Raises
        ------
        TypeError
            If `offsets` are not integers.

        Notes
        -----
        Takes O(n log m) for m entries; the log is not read. The rule is that of Kafka's
        ``OffsetIndex.lookup``.

        Examples
        --------
        >>> index = OffsetIndex.build([510, 520], [4096, 8192], base_offset=500)
        >>> index.lookup([505, 510, 519, 9_000])
        array([   0, 4096, 4096, 8192])
        """
        if type(offsets) is int:
            position = _speedups.search_value(  # OFFSET, then POSITION, as literals
                self._data, 8, (0, 4, self.base_offset), (4, 4, 0), 0, offsets
            )
            return np.int64(position)
        return self._take(POSITION, 0, 0, self.slots(offsets))[()]

    def slots(self, offsets: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return the slot of the last entry at or below each offset, else -1.

        Parameters
        ----------
        offsets : array_like of int, any shape
            Absolute offsets in any order.

        Returns
        -------
        slots : ndarray of int64, of the same shape
            Indexes into `entries`, -1 for none.

        Raises
        ------
        TypeError
            If `offsets` are not integers.

        Examples
        --------
        >>> OffsetIndex.build([510, 520], [4096, 8192], 500).slots([509, 510, 521])
        array([-1,  0,  1])
        """
        return self._slots(OFFSET, self.base_offset, offsets)

    def slots_at_positions(self, positions: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return the slot of the last entry at or before each position, else -1.

        Parameters
        ----------
        positions : array_like of int, any shape
            Positions in the ``.log`` in any order.

        Returns
        -------
        slots : ndarray of int64, of the same shape
            Indexes into `entries`, -1 for none.

        Raises
        ------
        TypeError
            If `positions` are not integers.

        Examples
        --------
        >>> index = OffsetIndex.build([510, 520], [4096, 8192], 500)
        >>> index.slots_at_positions([4095, 4096, 10**12])
        array([-1,  0,  1])
        """
        return self._slots(POSITION, 0, positions)

    def between_offsets(self, start: int, end: int) -> slice[int, int, None]:
        """Return the slice of the entries with ``start <= offset < end``.

        Parameters
        ----------
        start, end : int
            Range of absolute offsets.

        Returns
        -------
        slice
            Slots of the entries.

        Examples
        --------
        >>> index = OffsetIndex.build([510, 520, 530], [4096, 8192, 12288], 500)
        >>> index.offsets[index.between_offsets(511, 531)]
        array([520, 530])
        """
        return self._between(OFFSET, self.base_offset, start, end)

    def between_positions(self, start: int, end: int) -> slice[int, int, None]:
        """Return the slice of the entries with ``start <= position < end``.

        Parameters
        ----------
        start, end : int
            Range of positions in the ``.log``.

        Returns
        -------
        slice
            Slots of the entries. If `end` is the size of the log, all entries after the
            slice are stale.

        Examples
        --------
        >>> index = OffsetIndex.build([510, 520, 530], [4096, 8192, 12288], 500)
        >>> index.offsets[index.between_positions(0, 12288)]
        array([510, 520])
        """
        return self._between(POSITION, 0, start, end)

    def offset_from(self, position: int) -> int | None:
        """Return the offset of the first entry at or after `position`, or None.

        Parameters
        ----------
        position : int
            Position in the ``.log``.

        Returns
        -------
        int or None
            The offset; all records before `position` have offsets at or below it.

        Notes
        -----
        Kafka's ``fetchUpperBoundOffset`` returns this for the end of a fetch.

        Examples
        --------
        >>> index = OffsetIndex.build([510, 520], [4096, 8192], 500)
        >>> index.offset_from(4097), index.offset_from(8193)
        (520, None)
        """
        slot = self.between_positions(0, position).stop
        return int(self.offsets[slot]) if slot < len(self) else None

    @classmethod
    def count_valid(cls, data: npt.NDArray[np.uint8], base_offset: int) -> int:
        """Return the number of slots at the start with ascending offset and position.

        Parameters
        ----------
        data : ndarray of uint8
            Bytes of an index file.
        base_offset : int
            The segment's base offset.

        Returns
        -------
        int
            The number of entries.

        Examples
        --------
        >>> index = OffsetIndex.build([510, 520], [4096, 8192], 500)
        >>> file = np.frombuffer(index.to_bytes() + bytes(8), np.uint8)
        >>> OffsetIndex.count_valid(file, 500)
        2
        """
        return _speedups.count_rising(data, 8, (0, 4, 0), (4, 4, 0), False)

    @classmethod
    def _fault(cls, entries: Entries, slot: int, base_offset: int) -> str | None:
        offset, position = entries[slot].item()
        if offset < 0 or position < 0:
            return f"is negative: relative offset {offset}, position {position}"
        return None
