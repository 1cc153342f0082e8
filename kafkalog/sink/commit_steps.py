"""The steps that complete or undo a commit, each of which may be repeated.

The staged batches follow each other from the log end offset that a partition had before
the commit. So it is known which batch belongs to which offset, and the batches in a log
show how far an interrupted commit has come:

    none                              nothing was appended
    some from the first on            the others are missing
    others, or none, and a later end  power failed: the log is truncated to the first
                                      one that is missing
    all, and a transaction marker     the partition is complete

The missing ones are appended in all partitions, or all logs are truncated to where the
commit began. Another writer may append after all batches of the commit. Its batches
are a conflict where some are missing: no log is changed then.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog.encoding.batch_builder import RecordBatchBuilder
from kafkalog.errors import CommitConflictError, KafkaLogError
from kafkalog.formats.batch_headers import (
    BatchHeaders,
    crc_error,
    find_crc_mismatches,
    have_flag,
    scan_headers,
)
from kafkalog.formats.control_keys import ControlRecordType
from kafkalog.formats.layout import (
    BATCH,
    CONTROL_FLAG,
    SEQUENCE_MASK,
    TRANSACTIONAL_FLAG,
)
from kafkalog.log.ownership import Name
from kafkalog.log.writable_log import WritableLog
from kafkalog.manager.log_manager import LogManager
from kafkalog.messages.control_records import end_transaction_marker
from kafkalog.sink.journal import OpenCommit, Producer
from kafkalog.sink.staging import StagedBatches, read_staged
from kafkalog.storage.durable_file import Disk

READ_BYTES: Final = 8 << 20
THREADS: Final = "kafkalog-commit"
TRANSACTION_VERSION: Final = 1
"""With it, a marker has the epoch of the batches that it ends."""

COORDINATOR_EPOCH: Final = 0


class CommitProgress(NamedTuple):
    """How far a commit has come in a partition.

    `offset` is that of the first batch that is missing, `has_ended` whether the
    transaction marker is there, and `has_others` whether batches of another writer
    follow.
    """

    offset: int
    has_ended: bool = False
    has_others: bool = False


def complete(
    logs: LogManager, commit: OpenCommit, directory: Path, disk: Disk
) -> dict[Name, tuple[int, int]]:
    """Append what is missing of a commit, and force it to disk.

    Threads named ``kafkalog-commit``, one for each processor, append to the partitions;
    all have ended when this returns.

    Returns the first offset of each partition, and the one after the last.

    Raises `StagedFileError`, `CommitConflictError`, the error of a rejected append, or
    `OSError`.
    """
    prepare_topics(logs, commit)
    written = {name: logs.open(*name) for name in commit.begins}
    progress = {
        name: find_progress(log, commit, name, directory, disk)
        for name, log in written.items()
    }
    # What an interrupted attempt appended after the first missing batch is appended
    # again, in order.
    logs.truncate_to(
        {
            name: found.offset
            for name, found in progress.items()
            if not (found.has_ended or found.has_others)
            and written[name].log_end_offset > found.offset
        }
    )

    def append(name: Name) -> None:
        batches = _batches_of(commit, name, directory, disk)
        first, begin = progress[name].offset, commit.begins[name]
        _append_from(written[name], first, begin, batches)
        written[name].flush(include_active=True)

    with ThreadPoolExecutor(os.cpu_count(), THREADS) as threads:
        for call in [threads.submit(append, name) for name in written]:
            call.result()
    # The marker makes the batches visible, so all of them are on disk by now.
    if commit.producer is not None:
        marker = _commit_marker(commit.producer)
        for name, log in written.items():
            if not progress[name].has_ended:
                log.append(
                    marker,
                    origin="coordinator",
                    transaction_version=TRANSACTION_VERSION,
                )
        _flush(written.values())
    for log in written.values():
        # These logs have one replica.
        log.update_high_watermark(log.log_end_offset)
    return {
        name: (commit.begins[name], log.log_end_offset) for name, log in written.items()
    }


def undo(logs: LogManager, commit: OpenCommit) -> None:
    """Truncate the logs to where a commit began, and delete the topics it created.

    The caller knows that all batches after that are of the commit.
    """
    existing = {name: begin for name, begin in commit.begins.items() if name in logs}
    logs.truncate_to(existing)
    _flush(logs[name] for name in existing)
    for topic in commit.created:
        logs.delete_topic(topic)
    if commit.created:
        logs.remove_deleted()


def check_stored(
    logs: LogManager, commit: OpenCommit, directory: Path, disk: Disk
) -> None:
    """Raise `CommitConflictError` if a log has other batches after a commit's begin.

    Raises `StagedFileError` if there are batches and nothing to compare them with.
    """
    for name in commit.begins:
        if name in logs:
            found = find_progress(logs[name], commit, name, directory, disk)
            if found.has_others:
                raise _conflict(logs[name], found.offset)


def find_progress(
    log: WritableLog, commit: OpenCommit, name: Name, directory: Path, disk: Disk
) -> CommitProgress:
    """Compare the batches in a log with those of a commit.

    Raises `CommitConflictError` if the log has other batches in their place, and
    `StagedFileError`.
    """
    begin = end = commit.begins[name]
    if log.log_end_offset < begin or log.log_start_offset > begin:
        raise CommitConflictError(
            f"log of offsets {log.log_start_offset} to {log.log_end_offset}, expected "
            f"the offset {begin} of an interrupted commit: {log.path}"
        )
    if log.log_end_offset == begin:
        return CommitProgress(begin)
    rows = _read_stored(log, begin)
    missing: int | None = None
    ours = _are_markers(rows, commit.producer)
    has_ended = bool(ours.any())
    for batches in _batches_of(commit, name, directory, disk):
        ends = end + np.cumsum(batches.rows["count"])
        starts = ends - batches.rows["count"]
        places = np.searchsorted(rows["base_offset"], starts)
        found = np.isin(starts, rows["base_offset"])
        ours[places[found]] = _are_same(rows[places[found]], batches.rows[found])
        if missing is None and not found.all():
            missing = int(starts[found.argmin()])
        end = int(ends[-1])
    others = rows["base_offset"][~ours]
    if len(others) and (missing is not None or others[0] < end):
        raise _conflict(log, int(others[0]))
    if missing is not None:
        return CommitProgress(missing)
    return CommitProgress(end, has_ended, has_others=len(others) > 0)


def prepare_topics(logs: LogManager, commit: OpenCommit) -> None:
    """Apply the settings of a commit to its topics, and create those that are new."""
    if commit.settings:
        for topic in sorted({topic for topic, _ in commit.begins}):
            config = logs.config_of(topic).with_changes(commit.settings)
            logs.update_config(topic, config)
    for topic, partitions in commit.created.items():
        for partition in range(partitions):
            logs.open(topic, partition)


def _flush(logs: Iterable[WritableLog]) -> None:
    for log in logs:
        log.flush(include_active=True)


def _read_stored(log: WritableLog, begin: int) -> BatchHeaders:
    """Return the headers of the batches from offset `begin` on."""
    parts, offset = [np.empty(0, BATCH)], begin
    while offset < log.log_end_offset:
        fetched = log.read(offset, max_bytes=READ_BYTES)
        if fetched.next_offset == offset:
            break  # the log ends with a gap, after a power failure
        parts.append(scan_headers(np.frombuffer(fetched.data, np.uint8))[0])
        offset = fetched.next_offset
    return np.concatenate(parts)


def _are_markers(
    rows: BatchHeaders, producer: Producer | None
) -> npt.NDArray[np.bool_]:
    """Return which batches are the transaction marker of a producer's epoch."""
    if producer is None:
        return np.zeros(len(rows), np.bool_)
    is_ours = rows["producer_id"] == producer.producer_id
    is_ours &= rows["producer_epoch"] == producer.epoch
    are: npt.NDArray[np.bool_] = have_flag(rows, CONTROL_FLAG) & is_ours
    return are


def _conflict(log: WritableLog, offset: int) -> CommitConflictError:
    return CommitConflictError(
        f"batch at offset {offset} is not of the interrupted commit: {log.path}"
    )


def _batches_of(
    commit: OpenCommit, name: Name, directory: Path, disk: Disk
) -> Iterator[StagedBatches]:
    """Yield the staged batches of a partition, with the fields of its producer."""
    sequence = 0
    for file in commit.files_of(name):
        for batches in read_staged(directory, file, disk):
            if commit.producer is None:
                yield batches
            else:
                yield _of_producer(batches, commit.producer, sequence)
                sequence += int(batches.rows["count"].sum())


def _of_producer(
    batches: StagedBatches, producer: Producer, sequence: int
) -> StagedBatches:
    """Return batches as those of a producer's transaction, from `sequence` on.

    Their checksums are computed anew. Raises `CorruptRecordError` if one was wrong.
    """
    data, rows = batches.data.copy(), batches.rows.copy()
    rows["position"] -= rows["position"][0]
    for index in find_crc_mismatches(data, 0, rows):
        raise crc_error(data, 0, rows[index])
    before = np.cumsum(rows["count"]) - rows["count"]
    rows["producer_id"], rows["producer_epoch"] = producer
    rows["base_sequence"] = (sequence + before) & SEQUENCE_MASK
    rows["attributes"] |= TRANSACTIONAL_FLAG
    _speedups.write_headers(rows, data)
    return StagedBatches(data, scan_headers(data)[0])


def _append_from(
    log: WritableLog, first: int, begin: int, batches: Iterator[StagedBatches]
) -> None:
    """Append the batches from offset `first` on, of those that start at `begin`.

    Raises the error of the first append that is rejected. Those after it may have been
    written.
    """
    offset = begin
    for data, rows in batches:
        ends = offset + np.cumsum(rows["count"])
        offset = int(ends[-1])
        missing = rows[ends > first]
        starts = (missing["position"] - rows["position"][0]).tolist()
        sizes = missing["size_in_bytes"].tolist()
        for outcome in log.append_many(
            [
                data[start : start + size].data
                for start, size in zip(starts, sizes, strict=True)
            ]
        ):
            if isinstance(outcome, KafkaLogError):
                outcome.add_note(f"Partition {log.partition} of topic {log.topic}.")
                raise outcome


def _are_same(stored: BatchHeaders, rows: BatchHeaders) -> npt.NDArray[np.bool_]:
    """Compare batches by the number of records, and by checksum.

    A log with ``LogAppendTime`` or a codec of its own has other attributes, and so
    another checksum.
    """
    changed = stored["attributes"] != rows["attributes"]
    same: npt.NDArray[np.bool_]
    same = (stored["count"] == rows["count"]) & (
        changed | (stored["crc"] == rows["crc"])
    )
    return same


def _commit_marker(producer: Producer) -> bytes:
    builder = RecordBatchBuilder(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        is_transactional=True,
        is_control=True,
    )
    key, value = end_transaction_marker(ControlRecordType.COMMIT, COORDINATOR_EPOCH)
    builder.append(key, value, timestamp=time.time_ns() // 1_000_000)
    return builder.build()


def plan_begins(logs: LogManager, names: Iterable[Name]) -> Mapping[Name, int]:
    """Return the log end offset of each partition, forced to disk; 0 for a new one."""
    begins = {}
    for name in names:
        begins[name] = 0
        if name in logs:
            logs[name].flush(include_active=True)
            begins[name] = logs[name].log_end_offset
    return begins
