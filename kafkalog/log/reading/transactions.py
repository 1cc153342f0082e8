"""The aborted transactions of a log, and its last stable offset.

Both are computed from the log itself: from the headers of transactional batches, and
from the markers. A missing or corrupt transaction index has no effect. A producer
snapshot, which has a checksum, lists the transactions open at its offset, so the log
need not be read from its start. It also lists those whose first records have been
deleted with their segments, which the log itself does not show.

A transaction consists of the batches of one producer between two of its markers.

Source: ``ProducerStateManager.java``, ``CompletedTxn.java``, ``UnifiedLog.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from kafkalog.array_types import Int64s
from kafkalog.decoding.read_policy import STRICT, CrcCheck, ReadPolicy
from kafkalog.formats.batch_headers import BatchHeaders, have_flag
from kafkalog.formats.control_keys import ControlRecordType
from kafkalog.formats.layout import CONTROL_FLAG, TRANSACTIONAL_FLAG
from kafkalog.indexes.txn_index import TransactionIndex
from kafkalog.integer_limits import MAX_INT64
from kafkalog.log.markers import control_records
from kafkalog.log.producers.newest_snapshot import snapshot_of_open
from kafkalog.log.reading.log_segments import from_offset, read_on
from kafkalog.segment.file_records import FileRecords, Step
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.location import Location

ABORTED_FIELDS: Final = ("producer_id", "first_offset", "last_offset")
ABORTED: Final = np.dtype([(name, np.int64) for name in ABORTED_FIELDS])
"""An aborted transaction: the offsets of its first record and of its marker."""

ABORT: Final = int(ControlRecordType.ABORT)
MARKERS: Final = (ABORT, int(ControlRecordType.COMMIT))
NO_MARKER: Final = -1
NO_DATA: Final = -1
EVENT_HEADERS: Final = (
    "producer_id",
    "producer_epoch",
    "base_offset",
    "max_timestamp",
)
EVENT: Final = np.dtype(
    [
        ("producer_id", np.int64),
        ("producer_epoch", np.int16),
        ("base_offset", np.int64),
        ("max_timestamp", np.int64),
        ("marker", np.int64),
    ]
)
"""A batch with records of a transaction, or with its marker."""

ENDED: Final = np.dtype(
    [
        ("producer_id", np.int64),
        ("producer_epoch", np.int16),
        ("first_offset", np.int64),
        ("last_offset", np.int64),
        ("last_timestamp", np.int64),
        ("marker", np.int64),
    ]
)
"""A transaction that ended: offset and time of its marker, and the marker's type.

The epoch is that of the first batch. Without records, `first_offset` is -1.
"""


@dataclass(frozen=True, slots=True)
class Transactions:
    """The aborted transactions, and the last stable offset of a log."""

    aborted: npt.NDArray[np.void]
    last_stable_offset: int = MAX_INT64

    def committed(self, rows: BatchHeaders) -> npt.NDArray[np.bool_]:
        """Return which of `rows` a consumer with ``read_committed`` reads.

        A marker is no record of its transaction: compaction may remove the transaction
        and keep the marker.
        """
        visible = rows["last_offset"] < self.last_stable_offset
        flags = rows["attributes"] & (TRANSACTIONAL_FLAG | CONTROL_FLAG)
        transactional = np.flatnonzero(visible & (flags == TRANSACTIONAL_FLAG))
        if len(self.aborted) and len(transactional):
            visible[transactional] = ~self._is_aborted(rows[transactional])
        return visible

    def _is_aborted(self, rows: BatchHeaders) -> npt.NDArray[np.bool_]:
        """Return which of `rows` are between first record and marker of a transaction.

        Transactions of a producer do not overlap. So of those that begin at or before a
        batch only the latest can hold it. Transactions and batches are sorted together
        to find it.
        """
        count = len(self.aborted)
        producers = np.concatenate((self.aborted["producer_id"], rows["producer_id"]))
        offsets = np.concatenate((self.aborted["first_offset"], rows["base_offset"]))
        is_row = np.arange(len(producers)) >= count
        order = np.lexsort((is_row, offsets, producers))
        places = np.where(order < count, np.arange(len(order)), -1)
        latest = np.maximum.accumulate(places)
        holder = np.full(len(order), -1)
        holder[order[latest >= 0]] = order[latest[latest >= 0]]
        holder = holder[count:]
        transactions = self.aborted[holder]
        within: npt.NDArray[np.bool_] = (
            rows["base_offset"] <= transactions["last_offset"]
        )
        within &= (holder >= 0) & (transactions["producer_id"] == rows["producer_id"])
        return within


@dataclass(slots=True)
class TransactionReplay:
    """A replay of the transactions of a log, step by step.

    `open` are the first batches of the open transactions.
    """

    open: npt.NDArray[np.void] = field(default_factory=lambda: np.empty(0, EVENT))
    _aborted: list[npt.NDArray[np.void]] = field(default_factory=list)

    def feed(self, step: Step) -> npt.NDArray[np.void]:
        """Apply the transactional batches of a step, in their order.

        Return the transactions that they end, by producer, as `ENDED`.
        """
        rows = step.rows[have_flag(step.rows, TRANSACTIONAL_FLAG)]
        markers = _marker_types(step, rows)
        is_data = rows["attributes"] & CONTROL_FLAG == 0
        relevant = is_data | (markers != NO_MARKER)
        events = np.empty(int(relevant.sum()), EVENT)
        events["marker"] = markers[relevant]
        for name in EVENT_HEADERS:
            events[name] = rows[name][relevant]
        ended = self._advance(np.concatenate((self.open, events)))
        of_aborted = (ended["marker"] == ABORT) & (ended["first_offset"] != NO_DATA)
        aborted = np.empty(int(of_aborted.sum()), ABORTED)
        for name in ABORTED_FIELDS:
            aborted[name] = ended[name][of_aborted]
        self._aborted.append(aborted)
        return ended

    def _advance(self, events: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        """Split each producer's batches into transactions at its markers."""
        events = events[np.argsort(events["producer_id"], kind="stable")]
        is_end = events["marker"] != NO_MARKER
        first = np.ones(len(events), np.bool_)
        producers = events["producer_id"]
        first[1:] = (producers[1:] != producers[:-1]) | is_end[:-1]
        starts = np.flatnonzero(first)
        lasts = np.append(starts[1:], len(events))[: len(starts)] - 1
        self.open = events[starts[~is_end[lasts]]]
        starts, lasts = starts[is_end[lasts]], lasts[is_end[lasts]]
        ended = np.empty(len(starts), ENDED)
        ended["producer_id"] = producers[starts]
        ended["producer_epoch"] = events["producer_epoch"][starts]
        offsets = events["base_offset"]
        ended["first_offset"] = np.where(is_end[starts], NO_DATA, offsets[starts])
        ended["last_offset"] = offsets[lasts]
        ended["last_timestamp"] = events["max_timestamp"][lasts]
        ended["marker"] = events["marker"][lasts]
        return ended

    def settled(self, end_offset: int) -> bool:
        """Return whether every transaction that began below `end_offset` is decided."""
        return not (self.open["base_offset"] < end_offset).any()

    def result(self) -> Transactions:
        """Return the transactions up to this point of the log."""
        aborted = np.concatenate([np.empty(0, ABORTED), *self._aborted])
        stable = int(self.open["base_offset"].min()) if len(self.open) else MAX_INT64
        return Transactions(aborted, stable)


def _marker_types(step: Step, rows: BatchHeaders) -> Int64s:
    """Return the type of the marker in each control batch of `rows`, -1 for others."""
    types = np.full(len(rows), NO_MARKER, np.int64)
    for records in control_records(step.data, rows, step.origin):
        ends = np.isin(records.types, MARKERS)
        types[records.indexes[ends]] = records.types[ends]
    return types


def replay(
    opened: Iterable[Callable[..., FileRecords]],
    policy: ReadPolicy = STRICT,
    *,
    begun: TransactionReplay | None = None,
    from_offset: int = 0,
    end_offset: int = MAX_INT64,
) -> Transactions:
    """Return the transactions of a log's segments, as far as `end_offset` needs them.

    Each function of `opened` reads the entries of a segment that is open meanwhile.
    `begun` has the transactions open at `from_offset`; batches below it are not read.
    The CRC of every other batch is checked first, unless `policy` checks none, so that
    no corrupt header affects a transaction.
    """
    state = begun or TransactionReplay()
    check: CrcCheck = "never" if policy.check_crcs == "never" else "before"
    policy = ReadPolicy(check_crcs=check, on_corruption=policy.on_corruption)

    def following(rows: BatchHeaders) -> tuple[npt.NDArray[np.bool_], bool]:
        return rows["last_offset"] >= from_offset, False

    for records_of in opened:
        records = records_of(select=following, policy=policy)
        for step in records:
            if isinstance(step, Step):
                state.feed(step)
                if records.limits.ordered:
                    # Compaction may move batches to a later file.
                    from_offset = int(step.rows["last_offset"][-1]) + 1
                past = int(step.rows["base_offset"][-1]) >= end_offset
                if past and state.settled(end_offset):
                    return state.result()
    return state.result()


def replay_partition(
    directory: Location,
    segments: list[LogSegment],
    start_offset: int,
    end_offset: int,
    policy: ReadPolicy = STRICT,
) -> Transactions:
    """Return the transactions needed to read ``[start_offset, end_offset)``.

    The replay begins at the newest valid snapshot at or below `start_offset`, else at
    the first segment. A transaction may have begun below it: the last stable offset is
    then below the log's start, where a consumer receives nothing.
    """
    first = segments[0].base_offset if segments else 0
    entries, base = snapshot_of_open(directory, max(start_offset, first), first)
    with closing(read_on(directory, from_offset(segments, base))) as opened:
        return replay(
            (segment.records for segment in opened),
            policy,
            begun=replay_with(entries),
            from_offset=base,
            end_offset=end_offset,
        )


def replay_with(entries: npt.NDArray[np.void]) -> TransactionReplay:
    """Return a replay in which the transactions of a snapshot's entries are open."""
    entries = entries[entries["current_txn_first_offset"] >= 0]
    begun = np.empty(len(entries), EVENT)
    begun["producer_id"] = entries["producer_id"]
    begun["producer_epoch"] = entries["producer_epoch"]
    begun["base_offset"] = entries["current_txn_first_offset"]
    begun["max_timestamp"] = entries["timestamp"]
    begun["marker"] = NO_MARKER
    return TransactionReplay(begun)


def find_stable(
    directory: Location,
    segments: list[LogSegment],
    log_start: int,
    end: int,
    *,
    start: int | None = None,
    policy: ReadPolicy = STRICT,
) -> int:
    """Return the last stable offset of a log from `log_start` to `end`.

    It is not below `log_start`, though a transaction may have begun there. The newest
    producer snapshot lists the transactions open at its offset. The log is read from
    there. With `start`, the snapshot is that of a reading from this offset:
    where damage is skipped, another one may have other open transactions.
    """
    first = end if start is None else min(start, end)
    stable = replay_partition(
        directory, segments, first, end, policy
    ).last_stable_offset
    return min(max(stable, log_start), end)


def aborted_between(
    segments: list[LogSegment], first: int, last: int
) -> npt.NDArray[np.void]:
    """Return the aborted transactions of records in ``[first, last)``, by the indexes.

    They are in the order of their markers.
    """
    parts = [np.empty(0, TransactionIndex.ENTRY)]
    for segment in from_offset(segments, first):
        index_path = segment.path.with_suffix(".txnindex")
        if index_path.exists():
            index = TransactionIndex.read(index_path, segment.base_offset)
            parts.append(index.aborted(first, last))
            if index.covers(last):
                break
    return np.concatenate(parts)
