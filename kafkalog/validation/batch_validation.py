"""One append as a leader judges it: batch by batch, record by record, in Kafka's order.

The first batch or record that breaks the format ends it. Records that only may not be
so (no key, a timestamp out of range) are collected, and refused together.

Knows: Kafka's order of checks. Does not know: how many appends there are, the log.
Source: ``LogValidator.java``.
"""

from __future__ import annotations

import numpy as np

from kafkalog import _speedups
from kafkalog._speedups import header_fault
from kafkalog.codecs.compression import Codec
from kafkalog.errors import (
    InvalidAppendError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordValidationError,
    UnevenOffsetsError,
)
from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.formats.layout import (
    CONTROL_FLAG,
    LOG_APPEND_TIME_FLAG,
    NO_TIMESTAMP,
)
from kafkalog.validation.append_policy import Leadership
from kafkalog.validation.appends import AppendMemory, AppendOrigin, Appends, as_bytes
from kafkalog.validation.batch_conversion import check_timestamps, rebuild
from kafkalog.validation.batch_records import Found, find_appended

_SHOWN = 3

_HEADER_FAULTS = (
    "offsets {base_offset} to {last_offset}, expected a range that rises",
    "record count {count}, expected at least 1",
    "record count {count}, expected {offsets} (offsets {base_offset} to {last_offset})",
    "control batch, expected records of a client",
    "sequence {base_sequence} of producer {producer_id}, expected at least 0",
)
"""What is wrong, by the number that `header_fault` returns, less 1."""


def judge_append(
    append: Appends, as_leader: Leadership, memory: AppendMemory
) -> Appends:
    """Judge a single append of at least one batch; return it stamped, or rebuilt.

    Raises what `validation.validate_appends` names.
    """
    rows = append.rows
    source = Codec(int(append.info["source_codec"][0]))
    target, _ = as_leader.rules.target(source)
    plain = source == target == Codec.NONE
    _check_one_batch(rows, source)
    in_place = bool(rows["magic"][0] == 2)
    if not plain:
        control = bool(rows["attributes"][0] & CONTROL_FLAG) and source == Codec.NONE
        in_place = in_place and (source == target or control)
    found = []
    for row in rows:
        _check_batch(rows[0], row, as_leader.origin)
        one = find_appended(append.data, row, as_leader, memory, as_it_came=in_place)
        _check_records(row, one, as_leader)
        if plain and not in_place:
            check_timestamps(one)
        found.append(one)
    if not plain and in_place:
        offset = found[0].places["offset"]
        in_place = bool((offset == np.arange(len(offset))).all())
        if source != Codec.NONE and not in_place:
            # Kafka has passed over keys and values, which it now would need.
            reason = "offsets inside a compressed batch do not count from 0"
            raise UnevenOffsetsError(reason)
    if in_place:
        return _stamped(append, found[0], as_leader)
    return rebuild(append, found, as_leader)


def _stamped(append: Appends, found: Found, as_leader: Leadership) -> Appends:
    """Write into the batch what the leader says of it; its records stay as they are."""
    timestamp = found.places["timestamp"]
    append.info["records"] = len(timestamp)
    append.info["max_timestamp"] = timestamp.max(initial=NO_TIMESTAMP)
    _speedups.stamp_batches(
        as_bytes(append.rows),
        as_bytes(append.info),
        as_leader.at_append,
        as_leader.now_ms,
        as_leader.leader_epoch,
        append.data,
    )
    return append


def _check_one_batch(rows: BatchHeaders, source: Codec) -> None:
    """Refuse a second batch, unless they are messages that nothing holds together."""
    alone = rows["magic"][0] == 2 or source != Codec.NONE
    if alone and len(rows) > 1:
        raise InvalidRecordError(f"an append of one batch has {len(rows)}")


def _check_batch(first: np.void, row: np.void, origin: AppendOrigin) -> None:
    """Refuse a batch for what its header says."""
    if row["magic"] != first["magic"]:
        reason = f"magic {row['magic']} behind a first batch of magic {first['magic']}"
        raise InvalidRecordError(reason)
    if origin is not AppendOrigin.CLIENT or row["magic"] < 2:
        return
    if fault := header_fault(as_bytes(np.array([row]))):
        names = *(row.dtype.names or ()), "offsets"
        offsets = int(row["last_offset"]) - int(row["base_offset"]) + 1
        fields = dict(zip(names, (*row.tolist(), offsets), strict=True))
        raise InvalidRecordError(_HEADER_FAULTS[fault - 1].format(**fields))


def _check_records(row: np.void, found: Found, as_leader: Leadership) -> None:
    """Refuse the records of a batch that may not be so, all of them together."""
    timestamps = _wrong_timestamps(row, found, as_leader)
    others: dict[int, str] = {}
    if as_leader.rules.compacted:
        keyless = np.flatnonzero(found.places["key_length"] < 0)
        others = dict.fromkeys(keyless.tolist(), "no key, in a compacted topic")
    foreign = f"a magic other than {row['magic']}, its batch's"
    others |= dict.fromkeys(found.foreign, foreign)
    if not timestamps and not others:
        return
    errors = tuple(sorted((timestamps | others).items()))
    shown = "; ".join(f"record {i}: {why}" for i, why in errors[:_SHOWN])
    summary = f"{len(errors)} records are refused: {shown}"
    cause: InvalidAppendError = InvalidRecordError(summary)
    if timestamps.keys() - others.keys():
        cause = InvalidTimestampError(summary)
    raise RecordValidationError(cause, errors)


def _wrong_timestamps(
    row: np.void, found: Found, as_leader: Leadership
) -> dict[int, str]:
    """Say which timestamps may not be so, and why.

    The arithmetic wraps, as Java's. Where the time is not the record's own, or it has
    none, only what the batch says of its type is looked at.
    """
    rules, timestamp = as_leader.rules, found.places["timestamp"]
    ranged = np.full(len(timestamp), not as_leader.at_append)
    ranged &= timestamp != NO_TIMESTAMP
    age = np.int64(as_leader.now_ms) - timestamp
    outside = age > rules.timestamp_before_max_ms
    outside |= -age > rules.timestamp_after_max_ms
    least = as_leader.now_ms - rules.timestamp_before_max_ms
    most = as_leader.now_ms + rules.timestamp_after_max_ms
    reason = f"a timestamp outside of {least} to {most}"
    wrong = dict.fromkeys(np.flatnonzero(ranged & outside).tolist(), reason)
    if row["magic"] > 0 and row["attributes"] & LOG_APPEND_TIME_FLAG:
        stamped = np.flatnonzero(~ranged).tolist()
        wrong |= dict.fromkeys(stamped, "LogAppendTime, which no producer may set")
    return wrong
