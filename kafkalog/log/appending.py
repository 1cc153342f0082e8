"""Appends to a log, in the order in which Kafka takes the steps.

    1. validate     headers and checksums; for a leader also records, timestamps, codec
    2. offsets      a leader assigns them; otherwise they must follow the log's end
    3. epochs       the leader epochs of the batches are assigned
    4. size, roll   an append above segment.bytes is rejected; a segment may roll
    5. producers    sequences and transactions; a duplicate ends here, unwritten
    6. write        the log's end moves
    7. finish       producers, aborted transactions, stable offset, a flush if due

An append rejected at 4 or 5 leaves its epochs, and its roll, in place, as in Kafka.

All appends go one way. They are validated together. `write_run` then writes as many as
the active segment takes unchanged, in one write. Each other append is one general step:
a roll, a new epoch, a transaction, a duplicate or a rejection.

Source: ``UnifiedLog.append``, ``LogAppendInfo.java``.
"""

from __future__ import annotations

from contextlib import closing
from operator import index
from typing import Any, Final, NamedTuple

import numpy as np

from kafkalog import _speedups
from kafkalog.array_types import Bytes
from kafkalog.decoding.record_batch import RecordBatch
from kafkalog.encoding.producer_batches import BUFFER_BYTES, ProducerBatches
from kafkalog.errors import (
    CorruptRecordError,
    KafkaLogError,
    LogArgumentError,
    RecordBatchTooLargeError,
    UnexpectedAppendOffsetError,
)
from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.formats.layout import (
    CODECS,
    MAX_BATCH_BYTES,
    MAX_OFFSET_DELTA,
    NO_LEADER_EPOCH,
    NO_PRODUCER_ID,
    CodecName,
)
from kafkalog.integer_limits import MAX_INT32
from kafkalog.log import rolling
from kafkalog.log.flushing import flush, flush_due_at
from kafkalog.log.markers import read_markers
from kafkalog.log.producers.producer_append import TV_UNKNOWN
from kafkalog.log.producers.producer_entry import NO_GUARD, BatchMetadata
from kafkalog.log.producers.producer_updates import (
    ProducerUpdates,
    continue_sequences,
    known_sequences,
)
from kafkalog.log.rolling import roll, should_roll
from kafkalog.log.state import LogState
from kafkalog.log.watermarks import find_first_unstable, raise_to_log_end
from kafkalog.storage.file_names import MAX_OFFSET
from kafkalog.validation.append_analysis import analyze_appends
from kafkalog.validation.append_policy import AppendPolicy, rules_of
from kafkalog.validation.appends import (
    UNKNOWN_OFFSET,
    AppendMemory,
    AppendOrigin,
    Appends,
    Origin,
)
from kafkalog.validation.batch_records import read_records
from kafkalog.validation.leader_validation import validate_for_leader


class AppendResult(NamedTuple):
    """The offsets of an append, and other results of it.

    For a duplicate, the offsets are those of the batch that was written before.

    Attributes
    ----------
    first_offset, last_offset : int
        The offsets of the first and the last record. `first_offset` is -1 if it would
        take decompressing a batch of magic 0 or 1 to find it.
    max_timestamp : int
        The greatest timestamp, in ms since 1970.
    log_append_time : int
        The time that was written to the batches; -1 with ``CreateTime``.
    log_start_offset : int
        The log start offset at the time of the append.
    last_leader_epoch : int or None
        The leader epoch of the last batch, as it was passed in.
    source_codec : str
        The codec of the batches, as they were passed in.
    valid_bytes : int
        The size of the complete batches that were passed in.
    is_duplicate : bool
        Whether the batch was in the log already, and was not written again.
    """

    first_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time: int
    log_start_offset: int
    last_leader_epoch: int | None
    source_codec: CodecName
    valid_bytes: int
    is_duplicate: bool = False


Outcome = AppendResult | KafkaLogError
"""The result of an append, or the error with which it was rejected."""

_ORIGINS: Final[dict[str, AppendOrigin]] = {each.value: each for each in AppendOrigin}

REPORTED_OFFSETS: Final = 10
"""How many records of a rejected append of a follower are read for its error."""


def integer(what: str, value: int, most: int = MAX_OFFSET) -> int:
    """Return an argument as an int; a float or bool would get into a checkpoint.

    Raises `LogArgumentError` if it is no integer, or above `most`.
    """
    try:
        number = int(index(value))
    except TypeError:
        raise LogArgumentError(f"{what} {value!r}, expected an integer") from None
    if number > most:
        raise LogArgumentError(f"{what} {number}, expected at most {most}")
    return number


def origin_of(name: str) -> AppendOrigin:
    """Return the origin of this name; raise `LogArgumentError` for an unknown one."""
    if name not in _ORIGINS:
        names = ", ".join(_ORIGINS)
        raise LogArgumentError(f"origin {name!r}, expected one of {names}")
    return _ORIGINS[name]


class Appender:
    """Appends to one log, with buffers that are kept from call to call."""

    def __init__(self, log: LogState) -> None:
        self._log = log
        self._memory = AppendMemory()
        self._encoded: tuple[Bytes, Bytes] | None = None
        # The policy of the last call, and what it follows from: mostly the same.
        self._asked: tuple[Any, ...] = ()
        self._policy: AppendPolicy | None = None

    def policy(
        self,
        origin: Origin,
        leader_epoch: int | None,
        guard: int = NO_GUARD,
        transaction_version: int = TV_UNKNOWN,
        *,
        as_follower: bool = False,
    ) -> AppendPolicy:
        """Return the policy of a call at the present time.

        The leader epoch is by default the latest one of the log, or 0.
        """
        log = self._log
        now_ms, latest = log.runtime.now_ms(), log.leader_epochs.latest
        asked = (
            log.config,
            latest,
            origin,
            leader_epoch,
            guard,
            transaction_version,
            as_follower,
        )
        if self._policy is not None and asked == self._asked:
            return self._policy.at(now_ms)
        if leader_epoch is None:
            leader_epoch = 0 if latest is None else latest.epoch
        policy = AppendPolicy.of(
            rules_of(log.config),
            origin_of(origin),
            integer("leader epoch", leader_epoch, MAX_INT32),
            now_ms,
            as_follower=as_follower,
            guard=guard,
            transaction_version=transaction_version,
        )
        self._asked, self._policy = asked, policy
        return policy

    def append(self, views: list[Any], policy: AppendPolicy) -> list[Outcome]:
        """Append each of `views`, made by `as_view`, and return the outcome of each.

        The outcome of a rejected append is its error; the appends after it are written
        all the same. Raises `OSError`, after which the outcome of none is known.
        """
        if policy.assigns_offsets:
            appends = validate_for_leader(views, policy, self._memory)
        else:
            required = policy.header_requirements
            appends = analyze_appends(views, required, self._memory)
        return self.write(appends, policy)

    def append_records(
        self, batches: ProducerBatches, policy: AppendPolicy
    ) -> list[Outcome]:
        """Encode batches and append them, as many at a time as fit a buffer."""
        if self._encoded is None:
            self._encoded = (
                np.empty(BUFFER_BYTES, np.uint8),
                np.empty(BUFFER_BYTES, np.uint8),
            )
        outcomes: list[Outcome] = []
        with closing(batches.encode(self._encoded)) as encoded:
            for group in encoded:
                now_ms = self._log.runtime.now_ms()
                outcomes += self.append(group, policy._replace(now_ms=now_ms))
        return outcomes

    def write(self, appends: Appends, policy: AppendPolicy) -> list[Outcome]:
        """Write appends that were validated, and return the outcome of each."""
        log = self._log
        log.topic_id_file.flush()
        outcomes: list[Outcome] = []
        count = len(appends)
        while (index := len(outcomes)) < count:
            end = write_run(log, appends, index, policy)
            outcomes += _results(log, appends, index, end)
            if end == index:
                outcomes.append(_try_append(log, appends, index, policy))
        return outcomes


def write_run(log: LogState, appends: Appends, first: int, policy: AppendPolicy) -> int:
    """Write the appends from `first` on that the active segment takes unchanged.

    Return the number of the first append that it does not take. Such an append needs a
    roll, a new leader epoch or the check of a transaction, or it is a duplicate or
    rejected.
    """
    segment = log.segments.active
    if (
        log.leader_epochs.latest is None
        or not segment.has_indexes
        # The general step lowers such a high watermark.
        or log.high_watermark.offset > log.end.offset
    ):
        return first
    try:
        segment_end = rolling.segment_end(log)
    except CorruptRecordError:
        # The general step raises it after the errors of the append itself.
        return first
    # Epochs that were truncated must leave the file before a record has their offsets.
    log.leader_epochs.flush()
    # Without known sequences, a batch of a producer is left to the general step.
    sequences: BatchHeaders | None = None
    if policy.origin is AppendOrigin.CLIENT and not log.producers.is_empty:
        rows = appends.rows[appends.row_bounds[first] :]
        sequences = known_sequences(log.producers, rows)
    limits = rolling.segment_limits(log)
    end, next_offset, *entries = _speedups.plan_run(
        appends.arrays,
        first,
        policy.assigns_offsets,
        limits,
        segment_end,
        sequences,
        policy.now_ms,
    )
    if end > first:
        start, stop = appends.byte_bounds[first], appends.byte_bounds[end]
        extend(log, appends.data[start:stop].data, entries, next_offset)
        if sequences is not None:
            rows = appends.rows[appends.row_bounds[first] : appends.row_bounds[end]]
            continue_sequences(log.producers, rows)
        _flush_if_due(log)
    return end


def extend(
    log: LogState, data: memoryview, entries: list[Any], next_offset: int
) -> None:
    """Write bytes and index entries to the active segment, and move the log's end."""
    producers = log.producers
    log.segments.active.extend(data, *entries)
    log.move_end(next_offset)
    producers.map_end_offset = next_offset
    if log.first_unstable or producers.ongoing or producers.unreplicated:
        find_first_unstable(log)


def _try_append(
    log: LogState, appends: Appends, index: int, policy: AppendPolicy
) -> Outcome:
    """Append one by the general step; return its error if it is rejected."""
    rejection = appends.errors.get(index)
    if rejection is not None:
        return rejection
    try:
        return _append(log, appends, index, policy)
    except KafkaLogError as error:
        return error


def _append(
    log: LogState, appends: Appends, index: int, policy: AppendPolicy
) -> AppendResult:
    """Append one that is valid by the general step."""
    if appends.info["valid_bytes"][index] <= 0:
        return _result(log, appends, index)
    if policy.assigns_offsets:
        appends.assign_offsets(log.log_end_offset, index, index + 1)
    else:
        _check_follows(log, appends, index)
    rows, data = _batches(appends, index)
    info = appends.info[index]
    first, last = int(info["first_offset"]), int(info["last_offset"])
    max_timestamp = int(info["max_timestamp"])
    _note_epochs(log, rows)
    _roll_if_needed(log, len(data), first, last, max_timestamp)
    segment = log.segments.active
    updates = ProducerUpdates(
        log.producers,
        policy.origin,
        guard=policy.guard,
        transaction_version=policy.transaction_version,
    )
    if (rows["producer_id"] != NO_PRODUCER_ID).any():
        original = updates.add(
            rows,
            read_markers(appends.data, rows),
            segment_base=segment.base_offset,
            position=segment.size,
        )
        if original is not None:
            return _duplicate(_result(log, appends, index), original)
    segment.append(data, rows, last)
    log.move_end(last + 1)
    raise_to_log_end(log)
    _finish(log, updates, last)
    return _result(log, appends, index)


def _check_follows(log: LogState, appends: Appends, index: int) -> None:
    """Raise if offsets are below the log's end. A gap after the end is valid.

    Of a first batch with a negative base offset the last offset counts: it is rejected
    with its leader epoch, which cannot begin there.

    After the greatest offset of all, which Kafka takes, the log end is no int64.
    """
    info = appends.info[index]
    if info["last_offset"] == MAX_OFFSET:
        raise LogArgumentError(
            f"last offset {MAX_OFFSET}, expected at most {MAX_OFFSET - 1}"
        )
    first = lowest = int(info["first_offset"])
    if first < 0:
        lowest = int(info["last_offset_of_first_batch"])
    if lowest >= log.log_end_offset:
        return
    rows, _ = _batches(appends, index)
    limit = max(len(appends.data), MAX_BATCH_BYTES)
    read_records(appends.data, rows, limit, REPORTED_OFFSETS)
    if first == UNKNOWN_OFFSET:
        first = RecordBatch(appends.data, int(rows["position"][0])).base_offset
    last = int(info["last_offset"])
    raise UnexpectedAppendOffsetError(
        f"offset {lowest}, expected at least {log.log_end_offset}, the log end offset",
        first,
        last,
    )


def _batches(appends: Appends, index: int) -> tuple[BatchHeaders, Bytes]:
    """Return the headers and the bytes of an append."""
    begin, end = appends.row_bounds[index : index + 2]
    start, stop = appends.byte_bounds[index : index + 2]
    return appends.rows[begin:end], appends.data[start:stop]


def _note_epochs(log: LogState, rows: BatchHeaders) -> None:
    """Assign the leader epochs of batches. Batches of old formats have none."""
    fields = rows[["magic", "leader_epoch", "base_offset"]].tolist()
    for magic, epoch, offset in fields:
        if magic >= 2:
            log.leader_epochs.assign(epoch, offset)
        elif log.leader_epochs.latest_epoch is not None:
            log.leader_epochs.clear_and_flush()
    log.leader_epochs.flush()


def _roll_if_needed(
    log: LogState, size: int, first: int, last: int, max_timestamp: int
) -> None:
    """Raise if an append is larger than a segment; roll if it needs a new one."""
    if size > log.config.segment_size:
        limit = log.config.segment_size
        error = RecordBatchTooLargeError(
            f"append of {size} bytes, expected at most {limit}, the size of a segment"
        )
        error.add_note(f"Decided by segment.bytes={limit}.")
        raise error
    if should_roll(log, size, max_timestamp, last):
        # The first offset of old formats is known only by decompressing: this is a
        # lower bound.
        roll(log, last - MAX_OFFSET_DELTA if first == UNKNOWN_OFFSET else first)


def _finish(log: LogState, updates: ProducerUpdates, last_offset: int) -> None:
    """Update producers, transaction index and stable offset after a write."""
    producers = log.producers
    updates.apply()
    for completed in updates.completed:
        producers.write_completed_txn(completed, log.segments.active.txn_index)
    producers.map_end_offset = last_offset + 1
    find_first_unstable(log)
    _flush_if_due(log)


def _flush_if_due(log: LogState) -> None:
    """Force the log to disk if ``flush.messages`` requires it."""
    if log.log_end_offset >= flush_due_at(log):
        flush(log, log.log_end_offset)


def _result(log: LogState, appends: Appends, index: int) -> AppendResult:
    return _results(log, appends, index, index + 1)[0]


def _results(
    log: LogState, appends: Appends, first: int, end: int
) -> list[AppendResult]:
    """Return the results of the appends ``[first, end)``."""
    start = log.log_start_offset
    return [
        AppendResult(
            first_offset,
            last_offset,
            max_timestamp,
            log_append_time,
            start,
            None if epoch == NO_LEADER_EPOCH else epoch,
            CODECS[codec],
            valid_bytes,
        )
        for (
            first_offset,
            last_offset,
            _,
            max_timestamp,
            log_append_time,
            valid_bytes,
            epoch,
            _,
            codec,
            *_,
        ) in appends.info[first:end].tolist()
    ]


def _duplicate(result: AppendResult, original: BatchMetadata) -> AppendResult:
    """Return the result of an append that repeats the batch `original`."""
    return result._replace(
        first_offset=original.first_offset,
        last_offset=original.last_offset,
        log_append_time=original.timestamp,
        is_duplicate=True,
    )
