"""Records of an append in a batch of the leader's making: another format, or codec.

Offsets run without a gap, timestamps stay, and whether it was a control batch is lost.

Knows: what carries over. Does not know: whether a topic takes it.
Source: ``LogValidator.java``, ``MemoryRecordsBuilder.java``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kafkalog import _speedups
from kafkalog.codecs.bytes_text import repair_utf8
from kafkalog.codecs.compression import Codec
from kafkalog.decoding.batch_decoder import RecordViews, find_headers
from kafkalog.encoding.batch_builder import BatchSettings, encode_batches
from kafkalog.encoding.record_columns import ByteColumn, HeaderColumns, RecordColumns
from kafkalog.errors import LogArgumentError, RecordTooLargeError
from kafkalog.formats.batch_headers import scan_headers
from kafkalog.formats.layout import NO_TIMESTAMP, TRANSACTIONAL_FLAG, TimestampType
from kafkalog.validation.append_policy import Leadership
from kafkalog.validation.appends import Appends, bounds_of
from kafkalog.validation.batch_records import Found

_ASCII = 0x80


def rebuild(append: Appends, found: Sequence[Found], as_leader: Leadership) -> Appends:
    """Build one batch of all that was found, in the topic's codec.

    Raises `LogArgumentError` for what Kafka's builder refuses, `RecordTooLargeError`
    where the batch exceeds ``max.message.bytes``.
    """
    for one in found:
        check_timestamps(one)
    settings = _settings(append, as_leader)
    columns = _columns(found)
    data = np.empty(0, np.uint8)
    if len(columns.offset):
        data = np.frombuffer(encode_batches(columns, None, settings=settings), np.uint8)
    most = as_leader.rules.max_message_bytes
    if len(data) > most:
        raise RecordTooLargeError(
            f"a rebuilt batch of {len(data)} bytes exceeds {most}"
        )
    rows, _, _ = scan_headers(data)
    info = append.info.copy()
    info["records"] = len(columns.offset)
    info["rebuilt"] = True
    info["max_timestamp"] = columns.timestamp.max(initial=NO_TIMESTAMP)
    if as_leader.at_append:
        info["max_timestamp"] = info["log_append_time"] = as_leader.now_ms
    return Appends(data, rows, bounds_of([len(rows)]), bounds_of([len(data)]), info, {})


def check_timestamps(found: Found) -> None:
    """Refuse a negative timestamp that does not mean that there is none."""
    least = found.places["timestamp"].min(initial=NO_TIMESTAMP)
    if least < NO_TIMESTAMP:
        raise LogArgumentError(f"timestamp {least} is negative")


def _settings(append: Appends, as_leader: Leadership) -> BatchSettings:
    """Say of the new batch what its first batch said, and what the leader says."""
    first = append.rows[0]
    codec, level = as_leader.rules.target(Codec(int(append.info["source_codec"][0])))
    producer: dict[str, Any] = {
        name: int(first[name])
        for name in ("producer_id", "producer_epoch", "base_sequence")
    }
    transactional = bool(
        first["magic"] == 2 and first["attributes"] & TRANSACTIONAL_FLAG
    )
    if transactional and producer["producer_id"] == -1:
        raise LogArgumentError("a transactional batch needs a producer id")
    if producer["producer_id"] != -1:
        if producer["producer_epoch"] == -1:
            raise LogArgumentError("a producer id without an epoch")
        if producer["base_sequence"] < 0:
            raise LogArgumentError(f"sequence {producer['base_sequence']} is negative")
    return BatchSettings(
        codec=codec,
        level=level,
        leader_epoch=as_leader.leader_epoch,
        timestamp_type=TimestampType(as_leader.at_append),
        log_append_time=as_leader.now_ms if as_leader.at_append else None,
        is_transactional=transactional,
        **producer,
    )


def _columns(found: Sequence[Found]) -> RecordColumns:
    """Take the records as columns, with offsets from 0 on."""
    data = found[0].views.data

    def column(name: str) -> Any:
        return np.concatenate([one.places[name] for one in found])

    def parts(name: str) -> ByteColumn:
        start = column(f"{name}_start").astype(np.int64)
        return ByteColumn(data, start, column(f"{name}_length"))

    timestamp = column("timestamp")
    return RecordColumns(
        np.arange(len(timestamp)),
        timestamp,
        parts("key"),
        parts("value"),
        read_headers(found[0].views) if len(found) == 1 else None,
    )


def read_headers(views: RecordViews) -> HeaderColumns | None:
    """Return the headers of records as Kafka writes them again; None if there are none.

    Their keys are text that Java has read: invalid UTF-8 is replaced.
    """
    bounds, places = find_headers(views)
    if not len(places[0]):
        return None
    key_start, key_length, value_start, value_length = places
    keys = ByteColumn(views.data, key_start.astype(np.int64), key_length)
    values = ByteColumn(views.data, value_start.astype(np.int64), value_length)
    return bounds.astype(np.int64), _as_text(keys), values


def _as_text(keys: ByteColumn) -> ByteColumn:
    """Make of keys what Java makes of them, having read them as UTF-8."""
    joined = np.empty(int(keys.length.sum()), np.uint8)
    _speedups.gather_bytes(keys.data, keys.start.astype(np.int32), keys.length, joined)
    if not len(joined) or joined.max() < _ASCII:
        return keys
    ends = bounds_of(keys.length.tolist()).tolist()
    raw = joined.tobytes()
    texts = [repair_utf8(raw[ends[i] : ends[i + 1]]) for i in range(len(keys.length))]
    return ByteColumn.of([text.encode() for text in texts])
