"""The time index: offsets in a segment from which to search for a timestamp.

A sparse, sorted table next to the offset index, big-endian:

    0           8                 12
    | timestamp | relative_offset |    timestamp        int64, ms since 1970
                                       relative_offset  int32, offset - base_offset

An entry (t, o) means: all records with a timestamp above t have an offset above o. t is
the greatest timestamp so far, o the last offset of the first batch with it (leaders up
to Kafka 3.7: the offset of the record itself). Timestamps ascend strictly, offsets may
repeat. A segment without timestamps has an empty time index.

The file is preallocated like the offset index. A slot of zeros is no entry, except slot
0 if the next one ascends (timestamp 0 at the base offset). An index with only that
entry reads as empty, for which lookups return the same.

Source: ``TimeIndex.java``, ``AbstractIndex.java`` in Apache Kafka's storage module.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import ClassVar, Final, Self, overload

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog.indexes.index_table import Entries, IndexTable
from kafkalog.storage.byte_source import FileSource

ENTRY: Final = np.dtype([("timestamp", ">i8"), ("relative_offset", ">i4")])
TIMESTAMP: Final = (0, 8)  # byte in an entry, and width
OFFSET: Final = (8, 4)


def last_slot_timestamp(path: Path) -> int:
    """Return the timestamp in the last slot of a file, -1 if it has no slot.

    A broker that loads the file takes it for the greatest timestamp of the segment, and
    zeros for timestamp 0. Part of a slot is ignored.

    Raises `FileNotFoundError`.

    Source: ``TimeIndex.lastEntryFromIndexFile``.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory, "00000000000000000500.timeindex")
    ...     _ = path.write_bytes(TimeIndex.build([1000], [507], 500).to_bytes())
    ...     written = last_slot_timestamp(path)
    ...     _ = path.write_bytes(bytes(24))
    ...     written, last_slot_timestamp(path)
    (1000, 0)
    """
    with FileSource(path) as source:
        slot = source.size // ENTRY.itemsize - 1
        if slot < 0:
            return -1
        data = source.read(slot * ENTRY.itemsize, ENTRY.itemsize)
    return int(data.view(ENTRY)["timestamp"][0])


class TimeIndex(IndexTable):
    """Time index of one segment: sorted entries of a timestamp and an offset.

    Attributes
    ----------
    entries : ndarray
        Rows of `timestamp` and `relative_offset`, big-endian, as on disk.
    base_offset : int
        The segment's base offset.
    timestamps, offsets : ndarray of int64
        Timestamps in ms, and absolute offsets.

    Examples
    --------
    >>> index = TimeIndex.build([1_700_000_000_000], [507], base_offset=500)
    >>> index, index.lookup(1_800_000_000_000)
    (TimeIndex(1 entries from 500), np.int64(507))
    """

    ENTRY: ClassVar[np.dtype[np.void]] = ENTRY

    @classmethod
    def build(
        cls, timestamps: npt.ArrayLike, offsets: npt.ArrayLike, base_offset: int
    ) -> Self:
        """Build an index of timestamps and their absolute offsets.

        Parameters
        ----------
        timestamps : array_like of int
            Milliseconds since 1970, strictly ascending from 0 or more.
        offsets : array_like of int
            Absolute offsets, ascending; they may repeat.
        base_offset : int
            The segment's base offset.

        Returns
        -------
        TimeIndex

        Raises
        ------
        ValueError
            If they do not ascend, or an offset is not within 2**31 of the base.

        Examples
        --------
        >>> TimeIndex.build([1000, 3000], [507, 520], base_offset=500)
        TimeIndex(2 entries from 500)
        """
        absolute = np.asarray(offsets)
        relative = absolute - base_offset if absolute.size else absolute.tolist()
        return cls._built(
            {"timestamp": timestamps, "relative_offset": relative}, base_offset
        )

    @cached_property
    def timestamps(self) -> npt.NDArray[np.int64]:
        """Timestamps in ms, ascending, as a native copy."""
        return self.entries["timestamp"].astype(np.int64)

    @cached_property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Absolute offsets, ascending, as a native copy."""
        return self.entries["relative_offset"].astype(np.int64) + self.base_offset

    @overload
    def lookup(self, timestamps: int) -> np.int64: ...
    @overload
    def lookup(self, timestamps: npt.ArrayLike) -> npt.NDArray[np.int64]: ...
    def lookup(
        self, timestamps: npt.ArrayLike | int
    ) -> npt.NDArray[np.int64] | np.int64:
        """Return the offset from which to read for each timestamp.

        Parameters
        ----------
        timestamps : array_like of int, any shape
            Milliseconds since 1970 in any order; sorted ones are several times faster.

        Returns
        -------
        offsets : ndarray of int64, of the same shape
            The offset of the last entry whose timestamp is ``<=`` the target, or the
            base offset if there is none.

        Raises
        ------
        TypeError
            If `timestamps` are not integers.

        Notes
        -----
        The rule is that of Kafka's ``TimeIndex.lookup``. A record with the timestamp of
        an entry is in the batch that ends with that offset, or after it.

        Examples
        --------
        >>> index = TimeIndex.build([1000, 3000], [507, 520], base_offset=500)
        >>> index.lookup([[999, 1000], [2999, 3000]])
        array([[500, 507],
               [507, 520]])
        """
        base = self.base_offset
        if type(timestamps) is int:
            offset = _speedups.search_value(  # TIMESTAMP, then OFFSET, as literals
                self._data, 12, (0, 8, 0), (8, 4, base), base, timestamps
            )
            return np.int64(offset)
        return self._take(OFFSET, base, base, self.slots(timestamps))[()]

    def slots(self, timestamps: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return the slot of the last entry at or before each timestamp, else -1.

        Parameters
        ----------
        timestamps : array_like of int, any shape
            Milliseconds since 1970 in any order.

        Returns
        -------
        slots : ndarray of int64, of the same shape
            Indexes into `entries`, -1 for none.

        Raises
        ------
        TypeError
            If `timestamps` are not integers.

        Examples
        --------
        >>> TimeIndex.build([1000, 3000], [507, 520], 500).slots([999, 1000, 5000])
        array([-1,  0,  1])
        """
        return self._slots(TIMESTAMP, 0, timestamps)

    def slots_at_offsets(self, offsets: npt.ArrayLike) -> npt.NDArray[np.int64]:
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
        >>> index = TimeIndex.build([1000, 3000], [507, 520], 500)
        >>> index.slots_at_offsets([506, 507, 520])
        array([-1,  0,  1])
        """
        return self._slots(OFFSET, self.base_offset, offsets)

    def between_timestamps(self, start: int, end: int) -> slice[int, int, None]:
        """Return the slice of the entries with ``start <= timestamp < end``.

        Parameters
        ----------
        start, end : int
            Range of timestamps, in ms since 1970.

        Returns
        -------
        slice
            Slots of the entries.

        Examples
        --------
        >>> index = TimeIndex.build([1000, 3000], [507, 520], 500)
        >>> index.offsets[index.between_timestamps(1000, 3000)]
        array([507])
        """
        return self._between(TIMESTAMP, 0, start, end)

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
        >>> index = TimeIndex.build([1000, 3000], [507, 520], 500)
        >>> index.timestamps[index.between_offsets(508, 600)]
        array([3000])
        """
        return self._between(OFFSET, self.base_offset, start, end)

    @classmethod
    def count_valid(cls, data: npt.NDArray[np.uint8], base_offset: int) -> int:
        """Return the number of slots at the start with ascending timestamp and offset.

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
        >>> index = TimeIndex.build([1000, 3000], [507, 520], 500)
        >>> file = np.frombuffer(index.to_bytes() + bytes(12), np.uint8)
        >>> TimeIndex.count_valid(file, 500)
        2
        """
        return _speedups.count_rising(data, 12, (0, 8, 0), (8, 4, 0), True)

    @classmethod
    def _fault(cls, entries: Entries, slot: int, base_offset: int) -> str | None:
        timestamp, offset = entries[slot].item()
        if timestamp < 0 or offset < 0:
            return f"is negative: timestamp {timestamp}, relative offset {offset}"
        return None
