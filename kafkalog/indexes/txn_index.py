"""The transaction index: the aborted transactions whose markers are in a segment.

The file is appended to, not preallocated, and exists only after an abort; big-endian:

    0         2             10             18            26                   34
    | version | producer_id | first_offset | last_offset | last_stable_offset |

``version``             int16  0. Brokers up to 4.3 compare only its first byte, so the
                        second is not validated here.
``first_offset``        int64  of the transaction in this partition, absolute; it may
                        be in an earlier segment.
``last_offset``         int64  of the abort marker, which is in this segment.
``last_stable_offset``  int64  after this abort: the first offset of the earliest
                        transaction still open, or that after the marker.

Entries ascend by ``last_offset``; their first offsets are in no order. A broker ignores
a partial entry at the end, and would append after it. `open` rejects one, `read_live`
ignores it.

Source: ``TransactionIndex.java``, ``AbortedTxn.java``.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar, Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from kafkalog.indexes.index_table import Entries, IndexTable

ENTRY: Final = np.dtype(
    [
        ("version", ">i2"),
        ("producer_id", ">i8"),
        ("first_offset", ">i8"),
        ("last_offset", ">i8"),
        ("last_stable_offset", ">i8"),
    ]
)


class AbortedTransaction(NamedTuple):
    """An aborted transaction: its producer, first offset, and abort marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex(IndexTable):
    """Transaction index of one segment: aborted transactions, sorted by marker.

    Attributes
    ----------
    entries : ndarray
        Rows of `version`, `producer_id`, `first_offset`, `last_offset` and
        `last_stable_offset`, big-endian, as on disk.
    base_offset : int
        The segment's base offset.
    offsets : ndarray of int64
        Offsets of the abort markers.

    Examples
    --------
    >>> index = TransactionIndex.build([4242], [1000], [1005], [1006], base_offset=1000)
    >>> index, index.aborted(1003, 2000)["producer_id"].tolist()
    (TransactionIndex(1 entries from 1000), [4242])
    """

    ENTRY: ClassVar[np.dtype[np.void]] = ENTRY

    @classmethod
    def build(
        cls,
        producer_ids: npt.ArrayLike,
        first_offsets: npt.ArrayLike,
        last_offsets: npt.ArrayLike,
        last_stable_offsets: npt.ArrayLike,
        base_offset: int,
    ) -> Self:
        """Build an index of columns, with one row for each aborted transaction.

        Parameters
        ----------
        producer_ids, first_offsets, last_offsets, last_stable_offsets : array_like
            Integers; `last_offsets`, of the abort markers, must ascend strictly.
        base_offset : int
            The segment's base offset.

        Returns
        -------
        TransactionIndex

        Raises
        ------
        ValueError
            If `last_offsets` do not ascend from the base offset, or one is below its
            first offset.

        Examples
        --------
        >>> TransactionIndex.build([4242], [1000], [1005], [1006], base_offset=1000)
        TransactionIndex(1 entries from 1000)
        """
        columns = {
            "producer_id": producer_ids,
            "first_offset": first_offsets,
            "last_offset": last_offsets,
            "last_stable_offset": last_stable_offsets,
        }
        return cls._built(columns, base_offset)

    @cached_property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Offsets of the abort markers, ascending, as a native copy."""
        return self.entries["last_offset"].astype(np.int64)

    def aborted(self, start: int, end: int) -> Entries:
        """Return the entries of the aborted transactions in ``[start, end)``.

        Parameters
        ----------
        start, end : int
            Range of offsets to read.

        Returns
        -------
        ndarray
            Kafka's rule: the entries with a last offset at or above `start` and a first
            offset below `end`, up to the first with a last stable offset at or above
            `end`. If there is no such entry (see `covers`), later segments may have
            more.

        Examples
        --------
        >>> index = TransactionIndex.build([7, 9], [10, 12], [15, 18], [12, 19], 0)
        >>> index.aborted(16, 30)["producer_id"].tolist()
        [9]
        """
        entries = self.entries[: self._deciding(end)]
        overlaps = (entries["last_offset"] >= start) & (entries["first_offset"] < end)
        return np.asarray(entries[overlaps])

    def covers(self, end: int) -> bool:
        """Return whether no later segment can have an abort of a record before `end`.

        Parameters
        ----------
        end : int
            End of the range of offsets to read.

        Returns
        -------
        bool

        Examples
        --------
        >>> index = TransactionIndex.build([7, 9], [10, 12], [15, 18], [12, 19], 0)
        >>> index.covers(19), index.covers(20)
        (True, False)
        """
        return bool((self.entries["last_stable_offset"] >= end).any())

    def _deciding(self, end: int) -> int:
        """Return the number of entries up to the first that covers `end`."""
        decided = np.flatnonzero(self.entries["last_stable_offset"] >= end)
        return int(decided[0]) + 1 if len(decided) else len(self)

    @classmethod
    def count_valid(cls, data: npt.NDArray[np.uint8], base_offset: int) -> int:
        """Return the number of valid entries at the start with ascending markers.

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
        >>> index = TransactionIndex.build([7], [10], [15], [16], 0)
        >>> file = np.frombuffer(index.to_bytes() * 2, np.uint8)
        >>> TransactionIndex.count_valid(file, 0)
        1
        """
        slots = data[: len(data) // ENTRY.itemsize * ENTRY.itemsize]
        entries = slots.view(ENTRY)
        first, last = entries["first_offset"], entries["last_offset"]
        valid = (slots[:: ENTRY.itemsize] == 0) & (first >= 0) & (last >= first)
        valid &= last >= base_offset
        valid[1:] &= last[1:] > last[:-1]
        valid &= slots.reshape(-1, ENTRY.itemsize).any(axis=1)
        return int(valid.argmin()) if not valid.all() else len(valid)

    @classmethod
    def _fault(cls, entries: Entries, slot: int, base_offset: int) -> str | None:
        version, _, first, last, _ = entries[slot].item()
        if not 0 <= version < 256:
            return f"has version {version}, expected 0"
        if first < 0:
            return f"has first offset {first}, expected at least 0"
        if last < first:
            return f"has last offset {last}, expected at least first offset {first}"
        if last < base_offset:
            return (
                f"has last offset {last}, expected at least base offset {base_offset}"
            )
        return None
