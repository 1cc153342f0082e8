"""The steps that complete or undo a commit, each of which may be repeated.

A partition is at one of these points, which its log end offset and batches show:

    log end = first offset of the commit     nothing is appended yet
    the first batches of the commit          some are appended
    all batches of the commit                all are
    and a transaction marker                 the transaction ended

So an interrupted commit is completed by appending the batches that are missing, in all
partitions, and undone by truncating each log to where the commit began. Batches of
anybody else after that offset are a conflict: nothing is changed then.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from kafkalog import _speedups
from kafkalog.encoding.batch_builder import RecordBatchBuilder
from kafkalog.errors import CommitConflictError, KafkaLogError
from kafkalog.formats.batch_headers import (
    BatchHeaders,
    crc_error,
    find_crc_mismatches,
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
TRANSACTION_VERSION: Final = 1
"""With it, a marker has the epoch of the batches that it ends."""

COORDINATOR_EPOCH: Final = 0


class StoredBatches(NamedTuple):
    """Headers of the batches after the begin of a commit, and whether it has ended."""

    rows: BatchHeaders
    has_marker: bool


def complete(
    logs: LogManager, commit: OpenCommit, directory: Path, disk: Disk
) -> dict[Name, tuple[int, int]]:
    """Append what is missing of a commit, and force it to disk.

    Returns the first offset of each partition, and the one after the last.

    Raises `StagedFileError`, `CommitConflictError`, the error of a rejected append, or
    `OSError`.
    """
    create_topics(logs, commit)
    written = {name: logs.open(*name) for name in commit.begins}
    ended = set()
    for name, log in written.items():
        stored = _read_stored(log, commit.begins[name], commit.producer)
        batches = _batches_of(commit, name, directory, disk)
        _append_missing(log, stored, batches)
        if stored.has_marker:
            ended.add(name)
    _flush(written.values())
    if commit.producer is not None:
        marker = _commit_marker(commit.producer)
        for name in written.keys() - ended:
            written[name].append(
                marker, origin="coordinator", transaction_version=TRANSACTION_VERSION
            )
        _flush(written.values())
    for log in written.values():
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
    for name, begin in commit.begins.items():
        if name in logs:
            stored = _read_stored(logs[name], begin, commit.producer)
            if len(stored.rows) or stored.has_marker:
                batches = _batches_of(commit, name, directory, disk)
                for _ in _missing(logs[name], stored, batches):
                    pass


def create_topics(logs: LogManager, commit: OpenCommit) -> None:
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


def _read_stored(
    log: WritableLog, begin: int, producer: Producer | None
) -> StoredBatches:
    """Return the batches from offset `begin` to the end of a log."""
    if log.log_end_offset < begin or log.log_start_offset > begin:
        raise CommitConflictError(
            f"log of offsets {log.log_start_offset} to {log.log_end_offset}, expected "
            f"the offset {begin} of an interrupted commit: {log.path}"
        )
    parts, offset = [], begin
    while offset < log.log_end_offset:
        fetched = log.read(offset, max_bytes=READ_BYTES)
        parts.append(scan_headers(np.frombuffer(fetched.data, np.uint8))[0])
        offset = fetched.next_offset
    if not parts:
        return StoredBatches(np.empty(0, BATCH), has_marker=False)
    rows = np.concatenate(parts)
    last = rows[-1]
    is_marker = bool(last["attributes"] & CONTROL_FLAG) and producer is not None
    if is_marker and (last["producer_id"], last["producer_epoch"]) == producer:
        return StoredBatches(rows[:-1], has_marker=True)
    return StoredBatches(rows, has_marker=False)


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


def _append_missing(
    log: WritableLog, stored: StoredBatches, batches: Iterator[StagedBatches]
) -> None:
    """Append the batches that are not stored yet.

    Raises the error of the first append that is rejected. Those after it may have been
    written.
    """
    for missing in _missing(log, stored, batches):
        for outcome in log.append_many(missing):
            if isinstance(outcome, KafkaLogError):
                outcome.add_note(f"Partition {log.partition} of topic {log.topic}.")
                raise outcome


def _missing(
    log: WritableLog, stored: StoredBatches, batches: Iterator[StagedBatches]
) -> Iterator[list[memoryview]]:
    """Yield the batches after the stored ones, several at a time.

    Raises `CommitConflictError` where a stored batch is not the one of the commit.
    """
    compared = 0
    for data, rows in batches:
        known = stored.rows[compared : compared + len(rows)]
        _check_same(log, known, rows[: len(known)])
        compared += len(known)
        starts = (rows["position"] - rows["position"][0])[len(known) :].tolist()
        sizes = rows["size_in_bytes"][len(known) :].tolist()
        if starts and stored.has_marker:
            _raise_conflict(log, log.log_end_offset - 1)
        if starts:
            yield [
                data[start : start + size].data
                for start, size in zip(starts, sizes, strict=True)
            ]
    if compared < len(stored.rows):
        _raise_conflict(log, int(stored.rows["base_offset"][compared]))


def _check_same(log: WritableLog, stored: BatchHeaders, rows: BatchHeaders) -> None:
    """Compare batches by the number of records, and by checksum.

    A log with ``LogAppendTime`` or a codec of its own has other attributes, and so
    another checksum.
    """
    unchanged = stored["attributes"] == rows["attributes"]
    differs = (stored["count"] != rows["count"]) | (
        unchanged & (stored["crc"] != rows["crc"])
    )
    if differs.any():
        _raise_conflict(log, int(stored["base_offset"][differs.argmax()]))


def _raise_conflict(log: WritableLog, offset: int) -> None:
    raise CommitConflictError(
        f"batch at offset {offset} is not of the interrupted commit: {log.path}"
    )


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
