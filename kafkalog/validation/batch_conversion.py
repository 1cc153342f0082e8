"""Conversion of an append to a new batch of magic 2 in the codec of the topic.

The offsets of the new batch have no gaps. Timestamps are kept. As in Kafka, the control
flag is lost.

Source: ``LogValidator.java``, ``MemoryRecordsBuilder.java``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kafkalog import _speedups
from kafkalog.codecs.compression import Codec
from kafkalog.decoding.batch_decoder import RecordViews, find_headers
from kafkalog.encoding.batch_builder import BatchSettings, encode_batches
from kafkalog.encoding.record_columns import ByteColumn, HeaderColumns, RecordColumns
from kafkalog.errors import (
    InvalidRecordError,
    LogArgumentError,
    RecordTooLargeError,
)
from kafkalog.formats.batch_headers import scan_headers
from kafkalog.formats.layout import NO_TIMESTAMP, TRANSACTIONAL_FLAG, TimestampType
from kafkalog.text.bytes_text import repair_utf8
from kafkalog.validation.append_policy import AppendPolicy
from kafkalog.validation.appends import Appends, bounds_of
from kafkalog.validation.batch_records import BatchRecords

_FIRST_NOT_ASCII = 0x80


def rebuild(
    append: Appends, batches: Sequence[BatchRecords], policy: AppendPolicy
) -> Appends:
    """Return the append as one batch of the records of all `batches`.

    Raises `LogArgumentError` for fields that Kafka's builder rejects, and
    `RecordTooLargeError` if the new batch exceeds ``max.message.bytes``.
    """
    for records in batches:
        check_timestamps(records)
    settings = _settings(append, policy)
    columns = _columns(batches)
    data = np.empty(0, np.uint8)
    if len(columns.offset):
        data = np.frombuffer(encode_batches(columns, None, settings=settings), np.uint8)
    max_bytes = policy.rules.max_message_bytes
    if len(data) > max_bytes:
        error = RecordTooLargeError(
            f"rebuilt batch of {len(data)} bytes, expected at most {max_bytes}"
        )
        error.add_note(f"Decided by max.message.bytes={max_bytes}.")
        raise error
    rows, _, _ = scan_headers(data)
    info = append.info.copy()
    info["records"] = len(columns.offset)
    info["rebuilt"] = True
    info["max_timestamp"] = columns.timestamp.max(initial=NO_TIMESTAMP)
    if policy.at_append:
        info["max_timestamp"] = info["log_append_time"] = policy.now_ms
    return Appends(data, rows, bounds_of([len(rows)]), bounds_of([len(data)]), info, {})


def check_timestamps(records: BatchRecords) -> None:
    """Reject a timestamp below -1, which stands for no timestamp."""
    least = records.spans["timestamp"].min(initial=NO_TIMESTAMP)
    if least < NO_TIMESTAMP:
        raise LogArgumentError(f"timestamp {least}, expected at least {NO_TIMESTAMP}")


def _settings(append: Appends, policy: AppendPolicy) -> BatchSettings:
    """Return the settings of the new batch: of its first batch and of the leader."""
    first = append.rows[0]
    codec, level = policy.rules.target(Codec(int(append.info["source_codec"][0])))
    producer: dict[str, Any] = {
        name: int(first[name])
        for name in ("producer_id", "producer_epoch", "base_sequence")
    }
    transactional = bool(
        first["magic"] == 2 and first["attributes"] & TRANSACTIONAL_FLAG
    )
    try:
        return BatchSettings(
            codec=codec,
            level=level,
            leader_epoch=policy.leader_epoch,
            timestamp_type=TimestampType(policy.at_append),
            log_append_time=policy.now_ms if policy.at_append else None,
            is_transactional=transactional,
            **producer,
        )
    except InvalidRecordError as error:
        raise LogArgumentError(str(error)) from None


def _columns(batches: Sequence[BatchRecords]) -> RecordColumns:
    """Return the records as columns, with offsets from 0 on."""
    data = batches[0].views.data

    def column(name: str) -> Any:
        return np.concatenate([records.spans[name] for records in batches])

    def byte_column(name: str) -> ByteColumn:
        start = column(f"{name}_start").astype(np.int64)
        return ByteColumn(data, start, column(f"{name}_length"))

    timestamp = column("timestamp")
    return RecordColumns(
        np.arange(len(timestamp)),
        timestamp,
        byte_column("key"),
        byte_column("value"),
        read_headers(batches[0].views) if len(batches) == 1 else None,
    )


def read_headers(views: RecordViews) -> HeaderColumns | None:
    """Return record headers as Kafka writes them again, None if there are none.

    Their keys are text that Java has read: invalid UTF-8 is replaced.
    """
    bounds, spans = find_headers(views)
    if not len(spans[0]):
        return None
    key_start, key_length, value_start, value_length = spans
    keys = ByteColumn(views.data, key_start.astype(np.int64), key_length)
    values = ByteColumn(views.data, value_start.astype(np.int64), value_length)
    return bounds.astype(np.int64), _valid_utf8(keys), values


def _valid_utf8(keys: ByteColumn) -> ByteColumn:
    """Return keys as Java writes them after reading them as UTF-8."""
    joined = np.empty(int(keys.length.sum()), np.uint8)
    _speedups.gather_bytes(keys.data, keys.start.astype(np.int32), keys.length, joined)
    if not len(joined) or joined.max() < _FIRST_NOT_ASCII:
        return keys
    ends = bounds_of(keys.length.tolist()).tolist()
    raw = joined.tobytes()
    texts = [repair_utf8(raw[ends[i] : ends[i + 1]]) for i in range(len(keys.length))]
    return ByteColumn.of([text.encode() for text in texts])
