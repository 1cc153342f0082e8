"""An append, from bytes to the log: what Kafka does, in Kafka's order.

    1. judged by itself     headers, checksums; a leader's: records, stamped or rebuilt
    2. offsets              a leader gives them; others bring them, and they must follow
    3. leader epochs        entered, batch by batch
    4. size, roll           against segment.bytes; a new segment begins if it must
    5. producers            sequences, transactions; a duplicate ends here, unwritten
    6. written              and with that the log's end moves
    7. what follows         producers, aborted transactions, stable offset, a flush

What is refused at 4 or 5 has left its epochs, and its roll, behind, as in Kafka.

Knows: the order. Does not know: who calls.
Source: ``UnifiedLog.append``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import numpy as np

from kafkalog import _speedups
from kafkalog.decoding.record_batch import RecordBatch
from kafkalog.errors import (
    KafkaLogError,
    LogArgumentError,
    RecordBatchTooLargeError,
    UnexpectedAppendOffsetError,
)
from kafkalog.formats.batch_headers import BatchHeaders, Bytes
from kafkalog.formats.checkpoint import EpochEntry
from kafkalog.formats.layout import (
    CODECS,
    MAX_BATCH_BYTES,
    MAX_OFFSET_DELTA,
    NO_LEADER_EPOCH,
    NO_PRODUCER_ID,
)
from kafkalog.indexes.txn_index import AbortedTransaction
from kafkalog.log import rolling
from kafkalog.log.append_result import AppendResult
from kafkalog.log.flushing import flush
from kafkalog.log.markers import read_markers
from kafkalog.log.producers.producer_append import TV_UNKNOWN
from kafkalog.log.producers.producer_entry import NO_GUARD, BatchMetadata
from kafkalog.log.producers.producer_updates import (
    SEQUENCE,
    ProducerUpdates,
    continue_sequences,
    known_sequences,
)
from kafkalog.log.rolling import roll, should_roll
from kafkalog.log.state import LogState
from kafkalog.log.watermarks import find_first_unstable, raise_to_log_end
from kafkalog.validation.append_analysis import analyze_appends
from kafkalog.validation.append_policy import AppendRules, rules_of
from kafkalog.validation.appends import (
    UNKNOWN_OFFSET,
    AppendMemory,
    AppendOrigin,
    Appends,
    Origin,
    as_bytes,
)
from kafkalog.validation.batch_records import read_records
from kafkalog.validation.leader_validation import validate_for_leader


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendTerms:
    """How something is appended: by whom, in which leader's epoch.

    `follows`: as a follower. `assigns`: offsets are given here; else they come with the
    batches. `guard` is that of a verified transaction, `transaction_version` -1 not
    told.
    """

    origin: AppendOrigin
    leader_epoch: int
    follows: bool
    assigns: bool = field(init=False)
    guard: int = NO_GUARD
    transaction_version: int = TV_UNKNOWN

    def __post_init__(self) -> None:
        assigns = not self.follows and self.origin is not AppendOrigin.RAFT_LEADER
        object.__setattr__(self, "assigns", assigns)


def origin_of(name: str) -> AppendOrigin:
    """Return the origin of this name; raises `LogArgumentError` where there is none."""
    try:
        return AppendOrigin(name)
    except ValueError:
        names = ", ".join(one.value for one in AppendOrigin)
        raise LogArgumentError(f"origin {name!r}, expected one of {names}") from None


@lru_cache(maxsize=64)
def terms_of(
    origin: Origin,
    leader_epoch: int | None,
    latest: EpochEntry | None,
    guard: int,
    transaction_version: int,
    follows: bool,
) -> AppendTerms:
    """Give the terms for what was asked: those of the call before, mostly.

    The epoch is by default the `latest` known, or 0.
    """
    if leader_epoch is None:
        leader_epoch = 0 if latest is None else latest.epoch
    return AppendTerms(
        origin=origin_of(origin),
        leader_epoch=leader_epoch,
        follows=follows,
        guard=guard,
        transaction_version=transaction_version,
    )


TOLD_RECORDS: Final = 10
"""So many offsets are told of a follower's append that does not follow."""

NO_SEQUENCES: Final = np.empty(0, SEQUENCE)

Outcome = AppendResult | KafkaLogError


class Appender:
    """Appends to one log, in memory that is kept from call to call."""

    def __init__(self, log: LogState) -> None:
        self._log = log
        self._memory = AppendMemory()
        self._config = log.config
        self._rules = rules_of(log.config)

    def terms(
        self, origin: Origin, epoch: int | None, guard: int, transaction_version: int
    ) -> AppendTerms:
        """Return how a leader appends; see `terms_of`."""
        latest = self._log.leader_epochs.latest
        return terms_of(origin, epoch, latest, guard, transaction_version, False)

    def terms_of_follower(self, epoch: int | None) -> AppendTerms:
        """Return how a follower appends."""
        latest = self._log.leader_epochs.latest
        return terms_of("replication", epoch, latest, NO_GUARD, TV_UNKNOWN, True)

    def append(self, batches: Sequence[Any], terms: AppendTerms) -> list[Outcome]:
        """Append each of `batches`, and return the outcome of each.

        A refused one leaves its error there, and those that follow are appended all the
        same. Raises `OSError`, after which nothing of this call is certain.
        """
        return self.write(self._validate(batches, terms), terms)

    def write(self, appends: Appends, terms: AppendTerms) -> list[Outcome]:
        """Write what was validated, and return the outcome of each append."""
        log = self._log
        log.topic_id_file.flush()
        outcomes: list[Outcome] = []
        while (index := len(outcomes)) < len(appends):
            end = write_run(log, appends, index, terms)
            outcomes += _results(log, appends, index, end)
            if end == index:
                outcomes.append(_try_append(log, appends, index, terms))
        return outcomes

    def _rules_now(self) -> AppendRules:
        """Give the rules of the settings that the log has now."""
        config = self._log.config
        if config is not self._config:
            self._config, self._rules = config, rules_of(config)
        return self._rules

    def _validate(self, batches: Sequence[Any], terms: AppendTerms) -> Appends:
        """Validate appends by themselves."""
        config = self._log.config
        if terms.assigns:
            return validate_for_leader(
                batches,
                self._rules_now(),
                origin=terms.origin,
                leader_epoch=terms.leader_epoch,
                now_ms=self._log.runtime.now_ms(),
                memory=self._memory,
            )
        return analyze_appends(
            batches,
            origin=terms.origin,
            leader_epoch=terms.leader_epoch,
            max_message_bytes=None if terms.follows else config.max_message_bytes,
            monotonic=True,
            memory=self._memory,
        )


def write_run(log: LogState, appends: Appends, first: int, terms: AppendTerms) -> int:
    """Write the appends from `first` on that the active segment takes as they are.

    Returns the number of the first that it does not: a roll, a new leader epoch, a
    transaction, a duplicate or a refused append is for the general step.
    """
    if (
        log.leader_epochs.latest is None
        or log.high_watermark.offset > log.end.offset  # each append lowers it
    ):
        return first
    if log.written is not None and log.written[0] is log.end:
        segment_end = log.written[1]
    elif log.segments.active.has_indexes_to(log.end.offset):
        segment_end = rolling.segment_end(log)
    else:
        return first
    log.leader_epochs.flush()
    if terms.assigns:
        appends.assign_offsets(log.end.offset, first)
    sequences = NO_SEQUENCES
    if terms.origin is AppendOrigin.CLIENT and not log.producers.is_empty:
        rows = appends.rows[appends.row_bounds[first] :]
        sequences = known_sequences(log.producers, rows)
    end, segment_end, index_entries, time_entries = _speedups.plan_run(
        as_bytes(appends.rows),
        appends.row_bounds,
        appends.byte_bounds,
        as_bytes(appends.info),
        first,
        rolling.segment_limits(log),
        segment_end,
        as_bytes(sequences),
        log.runtime.now_ms(),
    )
    if end > first:
        start, stop = appends.byte_bounds[first], appends.byte_bounds[end]
        entries = index_entries, time_entries
        extend(log, appends.data[start:stop].data, entries, segment_end)
        if len(sequences):
            rows = appends.rows[appends.row_bounds[first] : appends.row_bounds[end]]
            continue_sequences(log.producers, rows)
        _flush_if_due(log)
    return end


def extend(
    log: LogState,
    data: memoryview,
    entries: tuple[bytes, bytes],
    segment_end: tuple[int, ...],
) -> None:
    """Write bytes and index entries to the active segment, and move the log's end."""
    next_offset, _, _, _, since, timestamp, offset = segment_end
    producers = log.producers
    log.segments.active.extend(data, *entries, since, (timestamp, offset))
    log.move_end(next_offset)
    log.written = log.end, segment_end
    producers.map_end_offset = next_offset
    if log.first_unstable or producers.ongoing or producers.unreplicated:
        find_first_unstable(log)


def _try_append(
    log: LogState, appends: Appends, index: int, terms: AppendTerms
) -> Outcome:
    """Append one by itself; answers the error of one that is refused."""
    refusal = appends.errors.get(index)
    if refusal is not None:
        return refusal
    log.written = None  # also where a full index refuses what was written
    try:
        return _append(log, appends, index, terms)
    except KafkaLogError as error:
        return error


def _append(
    log: LogState, appends: Appends, index: int, terms: AppendTerms
) -> AppendResult:
    """Append one of those that passed, by itself."""
    if appends.info["valid_bytes"][index] <= 0:
        return _result(log, appends, index)
    if terms.assigns:
        appends.assign_offsets(log.log_end_offset, index, index + 1)
    else:
        _check_follows(log, appends, index)
    rows, data = _batches(appends, index)
    info = appends.info[index]
    first, last = int(info["first_offset"]), int(info["last_offset"])
    max_timestamp = int(info["max_timestamp"])
    _note_epochs(log, rows)
    _make_room(log, len(data), first, last, max_timestamp)
    segment = log.segments.active
    updates = ProducerUpdates(
        log.producers,
        terms.origin,
        guard=terms.guard,
        transaction_version=terms.transaction_version,
    )
    if (rows["producer_id"] != NO_PRODUCER_ID).any():
        known = updates.add(
            rows,
            read_markers(appends.data, rows),
            segment_base=segment.base_offset,
            position=segment.size,
        )
        if known is not None:
            return _duplicate(_result(log, appends, index), known)
    segment.append(data, rows, last)
    log.move_end(last + 1)
    raise_to_log_end(log)
    _finish(log, updates, last)
    return _result(log, appends, index)


def _check_follows(log: LogState, appends: Appends, index: int) -> None:
    """Refuse offsets below the log's end; a gap before them is taken."""
    info = appends.info[index]
    first = known = int(info["first_offset"])
    if first == UNKNOWN_OFFSET:
        known = int(info["last_offset_of_first_batch"])
    if known >= log.log_end_offset:
        return
    rows, _ = _batches(appends, index)
    limit = max(len(appends.data), MAX_BATCH_BYTES)
    read_records(appends.data, rows, limit, TOLD_RECORDS)
    if first == UNKNOWN_OFFSET:
        first = RecordBatch(appends.data, int(rows["position"][0])).base_offset
    last = int(info["last_offset"])
    raise UnexpectedAppendOffsetError(
        f"offset {known} is below the log's end, {log.log_end_offset}", first, last
    )


def _batches(appends: Appends, index: int) -> tuple[BatchHeaders, Bytes]:
    begin, end = appends.row_bounds[index : index + 2]
    start, stop = appends.byte_bounds[index : index + 2]
    return appends.rows[begin:end], appends.data[start:stop]


def _note_epochs(log: LogState, rows: BatchHeaders) -> None:
    """Enter the batches' leader epochs; batches of old formats have none."""
    fields = rows[["magic", "leader_epoch", "base_offset"]].tolist()
    for magic, epoch, offset in fields:
        if magic >= 2:
            log.leader_epochs.assign(epoch, offset)
        elif log.leader_epochs.latest_epoch is not None:
            log.leader_epochs.clear_and_flush()
    log.leader_epochs.flush()


def _make_room(
    log: LogState, size: int, first: int, last: int, max_timestamp: int
) -> None:
    """Refuse what fits no segment, and begin a segment where one is needed."""
    if size > log.config.segment_size:
        raise RecordBatchTooLargeError(
            f"{size} bytes are appended at once, and a segment has "
            f"{log.config.segment_size}"
        )
    if should_roll(log, size, max_timestamp, last):
        # Without unpacking, all that is known of old formats is this bound.
        roll(log, last - MAX_OFFSET_DELTA if first == UNKNOWN_OFFSET else first)


def _finish(log: LogState, updates: ProducerUpdates, last_offset: int) -> None:
    """Do what follows once an append is written."""
    producers, index = log.producers, log.segments.active.txn_index
    updates.apply()
    for completed in updates.completed:
        stable = producers.last_stable_offset(completed)
        if completed.is_aborted:
            index.append(AbortedTransaction(*completed[:3], stable))
        producers.complete_txn(completed)
    producers.map_end_offset = last_offset + 1
    find_first_unstable(log)
    _flush_if_due(log)


def _flush_if_due(log: LogState) -> None:
    if log.log_end_offset - log.recovery_point >= log.config.flush_messages:
        flush(log, log.log_end_offset)


def _result(log: LogState, appends: Appends, index: int) -> AppendResult:
    return _results(log, appends, index, index + 1)[0]


def _results(
    log: LogState, appends: Appends, first: int, end: int
) -> list[AppendResult]:
    """Return the results of the appends ``[first, end)``, which were written."""
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


def _duplicate(result: AppendResult, known: BatchMetadata) -> AppendResult:
    """Return the result of an append that repeats a batch."""
    return result._replace(
        first_offset=known.first_offset,
        last_offset=known.last_offset,
        log_append_time=known.timestamp,
        is_duplicate=True,
    )
