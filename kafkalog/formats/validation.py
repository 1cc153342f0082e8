"""What a leader does to an append before it is written: judged, stamped, or rebuilt.

Nearly every append is plain: one sound batch of magic 2 in the topic's codec, with
nothing to say against it. All of a call that are so go through a few kernel calls
together. Where one is not, each is taken by itself, and what is still not plain is
judged record by record (`judging`) and, where its format or codec is not the topic's,
built anew (`rebuilding`).

Knows: which appends are plain. Does not know: the log, producers' states.
Source: ``LogValidator.java``, ``BrokerCompressionType.java``.
"""

from __future__ import annotations

from kafkalog import _speedups
from kafkalog.errors import KafkaLogError
from kafkalog.formats.append_rules import AppendRules, Leadership
from kafkalog.formats.appends import AppendMemory, AppendOrigin, Appends
from kafkalog.formats.headers import Bytes
from kafkalog.formats.judging import judge_append
from kafkalog.formats.record_columns import Int64s
from kafkalog.formats.unpacking import Payloads, unpack

__all__ = ["AppendRules", "validate_appends"]


def validate_appends(
    appends: Appends,
    rules: AppendRules,
    *,
    origin: AppendOrigin,
    leader_epoch: int,
    now_ms: int,
    memory: AppendMemory,
) -> Appends:
    """Judge what `analyze_appends` has found, and make of it what is to be written.

    What comes out has the leader's epoch, timestamps and codec, and may have `data` of
    its own; each append has one batch at most, and is still to be given offsets by
    `Appends.place`.

    Errors, in `Appends.errors`: `InvalidRecordError`, `RecordValidationError`,
    `CorruptRecordError`, `CompressionError`, `RecordTooLargeError` where a rebuilt
    batch is too large, `LogArgumentError` where Kafka's builder refuses, and
    `BatchTooLargeError` where one unpacks to more than the rules allow.
    """
    as_leader = Leadership(rules, origin, leader_epoch, now_ms)
    if _take_plain(appends, as_leader, memory):
        return appends
    singles = [
        _single(appends.only(append), as_leader, memory)
        for append in range(len(appends))
    ]
    return Appends.merged(singles, memory.merged)


def _take_plain(appends: Appends, as_leader: Leadership, memory: AppendMemory) -> bool:
    """Stamp all appends if all are plain; else leave all as they are."""
    rows, info = appends.rows, appends.info
    if _survey(appends, as_leader, memory) < len(info):
        return False
    stamped = _speedups.stamp_batches(
        rows,
        info,
        as_leader.at_append,
        as_leader.now_ms,
        as_leader.leader_epoch,
        appends.data,
    )
    return stamped == len(rows)


def _survey(appends: Appends, as_leader: Leadership, memory: AppendMemory) -> int:
    """Walk the records of all appends; how many are plain before one that is not."""
    rows, rules = appends.rows, as_leader.rules
    place: tuple[Bytes, Int64s | None, Int64s | None] = (appends.data, None, None)
    if appends.info["source_codec"].any():
        # More than one run is more than is worth taking together.
        limit = rules.max_unpacked_bytes
        run = next(unpack(appends.data, 0, rows, limit, memory.unpacked), None)
        if not isinstance(run, Payloads) or len(run.rows) < len(rows):
            return 0
        place = (run.data, run.starts, run.lengths)
    return _speedups.survey_batches(
        *place,
        rows,
        appends.row_bounds,
        appends.info,
        as_leader.origin is AppendOrigin.CLIENT,
        rules.compacted,
        -1 if rules.codec is None else int(rules.codec),
        *as_leader.timestamp_range(),
    )


def _single(append: Appends, as_leader: Leadership, memory: AppendMemory) -> Appends:
    """Judge one append; what is refused becomes nothing but its error."""
    if not len(append.rows) or _take_plain(append, as_leader, memory):
        return append
    try:
        return judge_append(append, as_leader, memory)
    except KafkaLogError as error:
        return Appends.refused(error.with_traceback(None))
