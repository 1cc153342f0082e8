"""Validation of one append to a leader, batch by batch, in Kafka's order of checks.

The first batch or record of an invalid format raises an error. Records that only break
a rule of the topic (no key, a timestamp out of range) are collected, and rejected
together in one error.

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
from kafkalog.validation.append_policy import LeaderPolicy
from kafkalog.validation.appends import AppendMemory, AppendOrigin, Appends, as_bytes
from kafkalog.validation.batch_conversion import check_timestamps, rebuild
from kafkalog.validation.batch_records import (
    BatchRecords,
    foreign_magic_reason,
    read_batch_records,
)

_SHOWN = 3
"""Number of invalid records that a message lists."""

_HEADER_FAULTS = (
    "offsets {base_offset} to {last_offset}, expected an ascending range",
    "record count {count}, expected at least 1",
    "record count {count}, expected {offsets} (offsets {base_offset} to {last_offset})",
    "control batch from a client, expected a data batch",
    "sequence {base_sequence} of producer {producer_id}, expected at least 0",
)
"""Message for each number that `header_fault` returns, less 1."""


def validate_append(
    append: Appends, policy: LeaderPolicy, memory: AppendMemory
) -> Appends:
    """Validate one append of at least one batch, and return it as it is to be written.

    Raises the errors that `leader_validation.validate_for_leader` lists.
    """
    rows = append.rows
    source = Codec(int(append.info["source_codec"][0]))
    target, _ = policy.rules.target(source)
    uncompressed = source == target == Codec.NONE
    _check_one_batch(rows, source)
    in_place = bool(rows["magic"][0] == 2)
    if not uncompressed:
        control = bool(rows["attributes"][0] & CONTROL_FLAG) and source == Codec.NONE
        in_place = in_place and (source == target or control)
    batches = []
    for row in rows:
        _check_batch(rows[0], row, policy.origin)
        records = read_batch_records(
            append.data, row, policy, memory, in_place=in_place
        )
        _check_records(row, records, policy)
        if uncompressed and not in_place:
            check_timestamps(records)
        batches.append(records)
    if not uncompressed and in_place:
        offset = batches[0].spans["offset"]
        in_place = bool((offset == np.arange(len(offset))).all())
        if source != Codec.NONE and not in_place:
            # Kafka would rebuild the batch now, but has skipped keys and values.
            reason = "offsets of a compressed batch are not consecutive from 0"
            raise UnevenOffsetsError(reason)
    if in_place:
        return _stamped(append, batches[0], policy)
    return rebuild(append, batches, policy)


def stamp(appends: Appends, policy: LeaderPolicy) -> None:
    """Write leader epoch, timestamp type and max timestamp into the batch headers."""
    _speedups.stamp_batches(
        as_bytes(appends.rows),
        as_bytes(appends.info),
        policy.at_append,
        policy.now_ms,
        policy.leader_epoch,
        appends.data,
    )


def _stamped(append: Appends, records: BatchRecords, policy: LeaderPolicy) -> Appends:
    """Return the append with the leader's fields; its records are not changed."""
    timestamp = records.spans["timestamp"]
    append.info["records"] = len(timestamp)
    append.info["max_timestamp"] = timestamp.max(initial=NO_TIMESTAMP)
    stamp(append, policy)
    return append


def _check_one_batch(rows: BatchHeaders, source: Codec) -> None:
    """Reject more than one batch; uncompressed messages may be many."""
    only_one = rows["magic"][0] == 2 or source != Codec.NONE
    if only_one and len(rows) > 1:
        raise InvalidRecordError(f"{len(rows)} batches in an append, expected 1")


def _check_batch(first: np.void, row: np.void, origin: AppendOrigin) -> None:
    """Reject an invalid batch header."""
    if row["magic"] != first["magic"]:
        reason = f"magic {row['magic']}, expected {first['magic']} as the first batch"
        raise InvalidRecordError(reason)
    if origin is not AppendOrigin.CLIENT or row["magic"] < 2:
        return
    if fault := header_fault(as_bytes(np.array([row]))):
        names = *(row.dtype.names or ()), "offsets"
        offsets = int(row["last_offset"]) - int(row["base_offset"]) + 1
        fields = dict(zip(names, (*row.tolist(), offsets), strict=True))
        raise InvalidRecordError(_HEADER_FAULTS[fault - 1].format(**fields))


def _check_records(row: np.void, records: BatchRecords, policy: LeaderPolicy) -> None:
    """Reject the records of a batch that break a rule, all in one error."""
    timestamps = _invalid_timestamps(row, records, policy)
    others: dict[int, str] = {}
    if policy.rules.compacted:
        keyless = np.flatnonzero(records.spans["key_length"] < 0)
        others = dict.fromkeys(keyless.tolist(), "no key in a compacted topic")
    reason = foreign_magic_reason(int(row["magic"]))
    others |= dict.fromkeys(records.foreign, reason)
    if not timestamps and not others:
        return
    errors = tuple(sorted((timestamps | others).items()))
    shown = "; ".join(f"record {i}: {reason}" for i, reason in errors[:_SHOWN])
    summary = f"{len(errors)} invalid records: {shown}"
    cause: InvalidAppendError = InvalidRecordError(summary)
    if timestamps.keys() - others.keys():
        cause = InvalidTimestampError(summary)
    raise RecordValidationError(cause, errors)


def _invalid_timestamps(
    row: np.void, records: BatchRecords, policy: LeaderPolicy
) -> dict[int, str]:
    """Return the records whose timestamp is invalid, with the reason.

    The arithmetic wraps, as in Java. A timestamp that the topic replaces, or that is
    missing, need not be in the range, but must not be of type LogAppendTime.
    """
    rules, timestamp = policy.rules, records.spans["timestamp"]
    ranged = np.full(len(timestamp), not policy.at_append)
    ranged &= timestamp != NO_TIMESTAMP
    age = np.int64(policy.now_ms) - timestamp
    outside = age > rules.timestamp_before_max_ms
    outside |= -age > rules.timestamp_after_max_ms
    least = policy.now_ms - rules.timestamp_before_max_ms
    greatest = policy.now_ms + rules.timestamp_after_max_ms
    invalid = {
        i: f"timestamp {timestamp[i]}, expected {least} to {greatest}"
        for i in np.flatnonzero(ranged & outside).tolist()
    }
    if row["magic"] > 0 and row["attributes"] & LOG_APPEND_TIME_FLAG:
        others = np.flatnonzero(~ranged).tolist()
        reason = "timestamp type LogAppendTime from a producer, expected CreateTime"
        invalid |= dict.fromkeys(others, reason)
    return invalid
