"""Validation of one append to a leader, batch by batch, in Kafka's order of checks.

The first batch or record of an invalid format raises an error. Records that only break
a rule of the topic (no key, a timestamp out of range) are collected, and rejected
together in one error.

Source: ``LogValidator.java``.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kafkalog import _speedups
from kafkalog._speedups import (
    HeaderFault,
    RecordFault,
    find_record_faults,
    header_fault,
    stays_in_format,
)
from kafkalog.array_types import Bytes
from kafkalog.codecs.compression import Codec
from kafkalog.errors import (
    InvalidAppendError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordValidationError,
    UnevenOffsetsError,
)
from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.formats.layout import NO_TIMESTAMP
from kafkalog.validation.append_policy import AppendPolicy
from kafkalog.validation.appends import AppendMemory, AppendOrigin, Appends
from kafkalog.validation.batch_conversion import check_timestamps, rebuild
from kafkalog.validation.batch_records import (
    BatchRecords,
    foreign_magic_reason,
    read_batch_records,
)

_SHOWN = 3
"""Number of invalid records that a message lists."""

_HEADER_FAULTS: Final = {
    HeaderFault.OFFSET_RANGE: (
        "offsets {base_offset} to {last_offset}, expected an ascending range"
    ),
    HeaderFault.NO_RECORDS: "record count {count}, expected at least 1",
    HeaderFault.RECORD_COUNT: (
        "record count {count}, expected {offsets} (offsets {base_offset} to "
        "{last_offset})"
    ),
    HeaderFault.CONTROL_BATCH: "control batch from a client, expected a data batch",
    HeaderFault.NO_SEQUENCE: (
        "sequence {base_sequence} of producer {producer_id}, expected at least 0"
    ),
}
"""Message for each fault of a header."""


def validate_append(
    append: Appends, policy: AppendPolicy, memory: AppendMemory
) -> Appends:
    """Validate one append of at least one batch, and return it as it is to be written.

    Raises the errors that `leader_validation.validate_for_leader` lists.
    """
    rows = append.rows
    source = Codec(int(append.info["source_codec"][0]))
    target, _ = policy.rules.target(source)
    uncompressed = source == target == Codec.NONE
    _check_one_batch(rows, source)
    in_place = stays_in_format(rows[0], policy.record_requirements)
    batches, uneven = [], False
    for row in rows:
        _check_batch(rows[0], row, policy.origin)
        records = read_batch_records(
            append.data, row, policy, memory, in_place=in_place
        )
        faults = _find_faults(row, records, policy)
        _check_records(row, records, faults, policy)
        if uncompressed and not in_place:
            check_timestamps(records)
        uneven = uneven or bool((faults & RecordFault.UNEVEN_OFFSET).any())
        batches.append(records)
    if in_place and uneven and source != Codec.NONE:
        # Kafka would rebuild the batch now, but has skipped keys and values.
        reason = "offsets of a compressed batch are not consecutive from 0"
        raise UnevenOffsetsError(reason)
    if in_place and not uneven:
        return _stamped(append, batches[0], policy)
    return rebuild(append, batches, policy)


def _stamped(append: Appends, records: BatchRecords, policy: AppendPolicy) -> Appends:
    """Return the append with the leader's fields; its records are not changed."""
    timestamp = records.spans["timestamp"]
    append.info["records"] = len(timestamp)
    append.info["max_timestamp"] = timestamp.max(initial=NO_TIMESTAMP)
    _speedups.stamp_batches(append.arrays, policy.record_requirements, policy.now_ms)
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
    if fault := header_fault(row):
        names = *(row.dtype.names or ()), "offsets"
        offsets = int(row["last_offset"]) - int(row["base_offset"]) + 1
        fields = dict(zip(names, (*row.tolist(), offsets), strict=True))
        raise InvalidRecordError(_HEADER_FAULTS[fault].format(**fields))


def _find_faults(
    row: np.void,
    records: BatchRecords,
    policy: AppendPolicy,
) -> Bytes:
    """Return the `RecordFault` flags of each record."""
    spans, faults = records.spans, np.empty(len(records.spans), np.uint8)
    find_record_faults(
        row,
        spans["key_length"],
        spans["timestamp"],
        spans["offset"],
        policy.record_requirements,
        policy.now_ms,
        faults,
    )
    return faults


def _check_records(
    row: np.void, records: BatchRecords, faults: Bytes, policy: AppendPolicy
) -> None:
    """Reject the records of a batch that break a rule, all in one error."""

    def having(fault: RecordFault) -> list[int]:
        return np.flatnonzero(faults & fault).tolist()

    timestamp, rules = records.spans["timestamp"], policy.rules
    least = policy.now_ms - rules.timestamp_before_max_ms
    greatest = policy.now_ms + rules.timestamp_after_max_ms
    timestamps = {
        i: f"timestamp {timestamp[i]}, expected {least} to {greatest}"
        for i in having(RecordFault.TIMESTAMP)
    }
    reason = "timestamp type LogAppendTime from a producer, expected CreateTime"
    timestamps |= dict.fromkeys(having(RecordFault.TIMESTAMP_TYPE), reason)
    reason = "no key in a compacted topic"
    others = dict.fromkeys(having(RecordFault.NO_KEY), reason)
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
    error = RecordValidationError(cause, errors)
    late = {i for i in having(RecordFault.TIMESTAMP) if timestamp[i] > greatest}
    if late:
        limit = rules.timestamp_after_max_ms
        error.add_note(f"Decided by message.timestamp.after.max.ms={limit}.")
    if set(having(RecordFault.TIMESTAMP)) - late:
        limit = rules.timestamp_before_max_ms
        error.add_note(f"Decided by message.timestamp.before.max.ms={limit}.")
    if having(RecordFault.NO_KEY):
        error.add_note("Decided by cleanup.policy, which has compact.")
    raise error
