"""Writing of the copy of one partition, by appends as of a follower.

Offsets and timestamps stay, and so do leader epochs unless the target has another one.
Segments begin where those of the source do. Indexes, producer states and transaction
indexes are made anew.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkalog.copies.selected_batches import (
    CopiedBatches,
    LogExtent,
    SelectedBatches,
)
from kafkalog.copies.target_cluster import FIRST_EPOCH, TargetCluster
from kafkalog.encoding.batch_builder import RecordBatchBuilder, empty_batch
from kafkalog.errors import KafkaLogError
from kafkalog.formats.batch_headers import (
    PARTITION_LEADER_EPOCH,
    BatchHeaders,
    have_flag,
)
from kafkalog.formats.checkpoint import parse_epochs
from kafkalog.formats.control_keys import ControlRecordType
from kafkalog.formats.layout import CONTROL_FLAG, MAX_OFFSET_DELTA, NO_PRODUCER_ID
from kafkalog.log.producers.producer_entry import ProducerStateEntry
from kafkalog.log.writable_log import WritableLog
from kafkalog.messages.control_records import end_transaction_marker
from kafkalog.storage.checkpoint_file import LEADER_EPOCHS, read_if_exists

ALL_EPOCHS: Final = 2**31 - 1
"""A leader epoch with which batches of all epochs are appended."""


class WrittenPartition(NamedTuple):
    """Records of each segment by base offset, and numbers of transactions.

    `largest_producer_id` is that of the producers whose state is kept.
    """

    records: dict[int, int]
    largest_producer_id: int
    open_transactions: int
    aborted_transactions: int


def plan_partition(
    log: SelectedBatches,
    extent: LogExtent,
    cluster: TargetCluster,
    *,
    abort_open: bool,
) -> dict[int, int]:
    """Return the records of each segment of a copy, by base offset, without writing.

    The empty segment after markers that abort transactions, whose number is not known,
    is not among them.
    """
    records: dict[int, int] = {}
    segment: int | None = None
    base = extent.first
    for copied in log.batches(extent):
        if segment is None:
            base = _first_base(copied, extent)
            records[base] = 0
        if segment != copied.segment.start_offset:
            segment = copied.segment.start_offset
            base = max(base, segment)
        records[base] = records.get(base, 0) + copied.records
    records.setdefault(base, 0)
    has_batches = segment is not None or base < extent.end
    if has_batches and not cluster.keeps_producers and not abort_open:
        records.setdefault(extent.end, 0)
    return records


def write_partition(
    copy: WritableLog, log: SelectedBatches, cluster: TargetCluster, *, abort_open: bool
) -> WrittenPartition:
    """Append the selected batches of a log to an empty copy, and force it to disk.

    Raises `LocatedError` for damage in the source, unless it is skipped, and `OSError`.
    """
    extent = log.extent()
    records: dict[int, int] = {}
    segment: int | None = None
    first_modern: int | None = None
    for copied in log.batches(extent):
        if segment is None:
            _begin(copy, log, _first_base(copied, extent), extent, cluster)
        if segment != copied.segment.start_offset:
            segment = copied.segment.start_offset
            _roll(copy, segment)
        copied = _with_epochs(copied, copy, cluster)
        _append(copy, copied)
        modern = copied.rows["base_offset"][copied.rows["magic"] == 2]
        if first_modern is None and len(modern):
            first_modern = int(modern[0])
        base = copy.growing_segments[-1].base_offset
        records[base] = records.get(base, 0) + copied.records
    if segment is None:
        _begin(copy, log, extent.first, extent, cluster)
    if first_modern is not None and not copy.leader_epochs:
        # A batch of magic 0 or 1 after one of magic 2 clears all epochs.
        copy.assign_epoch(FIRST_EPOCH, first_modern)
    if copy.log_end_offset < extent.end:
        end = empty_batch(
            base_offset=extent.end - 1,
            last_offset=extent.end - 1,
            leader_epoch=_latest_epoch(copy),
        )
        copy.append_as_follower(end, leader_epoch=ALL_EPOCHS)
    aborted = _abort_open_transactions(copy) if abort_open else 0
    if not cluster.keeps_producers and copy.growing_segments[-1].size:
        copy.roll()  # so that a recovery does not read the state from batches
    copy.update_high_watermark(copy.log_end_offset)
    if extent.remote_from is None:
        copy.delete_records(extent.start)
    copy.flush(include_active=True)
    unended = [entry.producer_id for entry in _open_producers(copy)]
    kept = copy.producers if cluster.keeps_producers else unended
    largest = max(kept, default=NO_PRODUCER_ID)
    return WrittenPartition(records, largest, len(unended), aborted)


def _first_base(copied: CopiedBatches, extent: LogExtent) -> int:
    """Return the base offset of a copy's first segment, by its first batches.

    It is the first offset to copy, which is that of a segment without bounds, or that
    of the batch that has it.
    """
    first = int(copied.rows["base_offset"][0])
    return extent.first if first < 0 else min(extent.first, first)


def _begin(
    copy: WritableLog,
    log: SelectedBatches,
    base: int,
    extent: LogExtent,
    cluster: TargetCluster,
) -> None:
    """Begin a copy at a base offset, with the leader epochs of the source if kept.

    Epochs that begin above the end of the copy are not assigned.
    """
    if base != copy.log_end_offset:
        copy.truncate_fully(base, extent.remote_from)
    if cluster.leader_epoch is not None:
        return
    epochs = read_if_exists(log.directory / LEADER_EPOCHS, parse_epochs) or []
    least = base if extent.remote_from is None else extent.remote_from
    for entry in epochs:
        if entry.start_offset <= extent.end:
            copy.assign_epoch(entry.epoch, max(entry.start_offset, least))


def _open_producers(copy: WritableLog) -> list[ProducerStateEntry]:
    """Return the producers with an open transaction, by its first offset."""
    entries = [each for each in copy.producers.values() if each.txn_first_offset >= 0]
    return sorted(entries, key=lambda entry: entry.txn_first_offset)


def _abort_open_transactions(copy: WritableLog) -> int:
    """Append a marker for each open transaction; return their number."""
    producers = _open_producers(copy)
    for entry in producers:
        coordinator_epoch = max(entry.coordinator_epoch, 0)
        marker = end_transaction_marker(ControlRecordType.ABORT, coordinator_epoch)
        batch = RecordBatchBuilder(
            base_offset=copy.log_end_offset,
            leader_epoch=_latest_epoch(copy),
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            is_transactional=True,
            is_control=True,
        )
        batch.append(*marker, timestamp=time.time_ns() // 1_000_000)
        copy.append_as_follower(batch.build(), leader_epoch=ALL_EPOCHS)
    return len(producers)


def _roll(copy: WritableLog, base: int) -> None:
    """Begin a segment where the source does."""
    active = copy.growing_segments[-1]
    if active.size or base > active.base_offset:
        copy.roll(base)


def _append(copy: WritableLog, copied: CopiedBatches) -> None:
    """Append batches; each transaction marker ends an append.

    The stable offset that a marker's entry of the transaction index has is otherwise
    that of the append, and may hide transactions that began after the marker.

    An append also ends before an offset that is too far from its first one.
    """
    rows = copied.rows
    ends = rows["position"] + rows["size_in_bytes"] - rows["position"][0]
    markers = np.flatnonzero(have_flag(rows, CONTROL_FLAG))
    inner = {*ends[markers].tolist(), *(int(ends[i]) for i in _before_far(rows))}
    cuts = [0, *sorted(inner), len(copied.data)]
    appends = [copied.data[a:b] for a, b in pairwise(cuts) if a < b]
    for outcome in copy.append_many_as_follower(appends, leader_epoch=ALL_EPOCHS):
        if isinstance(outcome, KafkaLogError):
            raise outcome


def _before_far(rows: BatchHeaders) -> Iterator[int]:
    """Yield the index of each batch after which an offset is too far for a segment."""
    last = rows["last_offset"]
    first = np.where(rows["base_offset"] < 0, last, rows["base_offset"])
    begin = 0
    while last[-1] - first[begin] > MAX_OFFSET_DELTA:
        far = int((last[begin:] - first[begin] > MAX_OFFSET_DELTA).argmax())
        begin += max(far, 1)  # a batch cannot be divided
        if begin == len(rows):
            return
        yield begin - 1


def _with_epochs(
    copied: CopiedBatches, copy: WritableLog, cluster: TargetCluster
) -> CopiedBatches:
    """Return batches with the leader epoch of the target, if it has one.

    A batch without one, as it is written anew from magic 0 or 1, gets the latest.
    """
    rows = copied.rows
    if cluster.leader_epoch is not None:
        return with_leader_epoch(copied, cluster.leader_epoch, rows["magic"] == 2)
    without = (rows["magic"] == 2) & (rows["leader_epoch"] < 0)
    if not without.any():
        return copied
    return with_leader_epoch(copied, _latest_epoch(copy), without)


def _latest_epoch(copy: WritableLog) -> int:
    epochs = copy.leader_epochs
    return epochs[-1].epoch if epochs else FIRST_EPOCH


def with_leader_epoch(
    copied: CopiedBatches, leader_epoch: int, chosen: npt.NDArray[np.bool_]
) -> CopiedBatches:
    """Return batches, of which the chosen ones get a leader epoch; no CRC covers it."""
    data = copied.data.copy()
    rows = copied.rows
    starts = (rows["position"] - rows["position"][0])[chosen]
    encoded = np.frombuffer(leader_epoch.to_bytes(4, signed=True), np.uint8)
    places = starts[:, None] + np.arange(
        PARTITION_LEADER_EPOCH.start, PARTITION_LEADER_EPOCH.stop
    )
    data[places] = encoded
    return copied._replace(data=data)
