"""The transaction index: which transactions a segment's abort markers ended.

Appended to, never preallocated, and there only once something aborted; big-endian:

    0         2             10             18            26                   34
    | version | producer_id | first_offset | last_offset | last_stable_offset |

``version``             int16  0. Brokers up to 4.3 compare its first byte alone, so
                        the second is not judged here.
``first_offset``        int64  of the transaction in this partition, absolute; it may
                        lie in an earlier segment.
``last_offset``         int64  of the abort marker, which lies in this segment.
``last_stable_offset``  int64  after this abort: the first offset of the earliest
                        transaction still open, or one behind the marker.

Entries rise by ``last_offset``; their first offsets are in no order. A broker ignores a
torn entry at the end, and would append behind it: `open` refuses one, `read_live`
ignores it.

Knows: entries and their order. Does not know: records, producers, other segments.
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
    """An entry: what a producer began at `first_offset`, and a marker ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex(IndexTable):
    """One segment's aborted transactions, by the offsets of their markers.

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
        """Make an index of columns, one row an aborted transaction, by `last_offsets`.

        Raises `ValueError` where those do not rise from the base offset, or a
        transaction ends before it begins.
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
        """Offsets of the abort markers, ascending, as one native copy."""
        return self.entries["last_offset"].astype(np.int64)

    def aborted(self, start: int, end: int) -> Entries:
        """Entries of the aborted transactions that a read of ``[start, end)`` meets.

        Kafka's rule: those that end at or behind `start` and begin before `end`, up to
        and with the first after which everything before `end` is decided (`covers`).

        >>> index = TransactionIndex.build([7, 9], [10, 12], [15, 18], [12, 19], 0)
        >>> index.aborted(16, 30)["producer_id"].tolist()
        [9]
        """
        entries = self.entries[: self._deciding(end)]
        meets = (entries["last_offset"] >= start) & (entries["first_offset"] < end)
        return np.asarray(entries[meets])

    def covers(self, end: int) -> bool:
        """Whether no later segment can hold an abort of a record before `end`.

        >>> index = TransactionIndex.build([7, 9], [10, 12], [15, 18], [12, 19], 0)
        >>> index.covers(19), index.covers(20)
        (True, False)
        """
        return bool((self.entries["last_stable_offset"] >= end).any())

    def _deciding(self, end: int) -> int:
        """Count the entries up to and with the first whose stable offset is `end`."""
        decided = np.flatnonzero(self.entries["last_stable_offset"] >= end)
        return int(decided[0]) + 1 if len(decided) else len(self)

    @classmethod
    def count_sound(cls, data: npt.NDArray[np.uint8], base_offset: int) -> int:
        """Count the entries at the front that rise and end in this segment."""
        slots = data[: len(data) // ENTRY.itemsize * ENTRY.itemsize]
        entries = slots.view(ENTRY)
        first, last = entries["first_offset"], entries["last_offset"]
        sound = (slots[:: ENTRY.itemsize] == 0) & (first >= 0) & (last >= first)
        sound &= last >= base_offset
        sound[1:] &= last[1:] > last[:-1]
        sound &= slots.reshape(-1, ENTRY.itemsize).any(axis=1)
        return int(sound.argmin()) if not sound.all() else len(sound)

    @classmethod
    def _fault(cls, entries: Entries, slot: int, base_offset: int) -> str | None:
        version, _, first, last, _ = entries[slot].item()
        if not 0 <= version < 256:
            return f"has version {version}, not 0"
        if first < 0:
            return f"begins at {first}"
        if last < first:
            return f"ends at {last}, before its first offset {first}"
        if last < base_offset:
            return f"ends at {last}, before the base offset {base_offset}"
        return None
