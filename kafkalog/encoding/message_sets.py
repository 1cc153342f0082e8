"""Encoding of message sets of magic 0 and 1, which share no layout with magic 2.

An uncompressed set is a sequence of messages. A compressed set is one message, the
*wrapper*, which has no key, and the compressed messages as its value. The offsets of
inner messages are absolute in magic 0, and relative to the base offset of the set in
magic 1. The wrapper has the offset of the last message, and the greatest timestamp.
With log append time, the wrapper and all inner messages have that time.

Source: ``LegacyRecord.java``, ``AbstractLegacyRecordBatch.java``,
``MemoryRecordsBuilder.java``.
"""

from __future__ import annotations

import numpy as np

from kafkalog import _speedups
from kafkalog.codecs.compression import Codec, compress
from kafkalog.encoding.batch_encoder import check_columns
from kafkalog.encoding.record_columns import ByteColumn, RecordColumns
from kafkalog.errors import InvalidRecordError
from kafkalog.formats import layout


def encode_messages(
    columns: RecordColumns,
    *,
    magic: int,
    codec: int = Codec.NONE,
    level: int | None = None,
    base_offset: int | None = None,
    log_append_time: int | None = None,
) -> bytes:
    """Return records as messages of `magic` 0 or 1, in one wrapper if `codec` is not 0.

    `base_offset` is subtracted from relative offsets, None for that of the first
    record. With `log_append_time`, in ms, it is the timestamp of all messages. Magic 0
    has no timestamps.

    Raises `InvalidRecordError` for headers, for offsets that are not ascending, and for
    a key or value outside of its column.

    >>> columns = RecordColumns(
    ...     np.array([7]),
    ...     np.array([-1]),
    ...     ByteColumn.of([b"k"]),
    ...     ByteColumn.of([b"hello"]),
    ... )
    >>> encode_messages(columns, magic=0).hex(" ", -8)
    '0000000000000007 00000014a4cdab3a 0000000000016b00 00000568656c6c6f'
    """
    check_columns(columns)
    if columns.headers is not None:
        raise InvalidRecordError(f"record headers in magic {magic}, expected magic 2")
    if not columns.offset.size:
        raise InvalidRecordError("record count 0, expected at least 1")
    attributes = 0
    if log_append_time is not None and magic:
        attributes = layout.LOG_APPEND_TIME_FLAG
        columns = columns._replace(
            timestamp=np.full_like(columns.timestamp, log_append_time)
        )
    if codec == Codec.NONE:
        return _messages(columns, magic, attributes)
    inner = columns
    if magic:
        base = columns.offset[0] if base_offset is None else base_offset
        inner = columns._replace(offset=columns.offset - base)
    compressed = compress(
        codec, _messages(inner, magic, attributes), level=level, magic=magic
    )
    wrapper = RecordColumns(
        columns.offset[-1:],
        columns.timestamp.max(keepdims=True),
        ByteColumn.nulls(1),
        ByteColumn.of([compressed]),
    )
    return _messages(wrapper, magic, attributes | codec)


def _messages(columns: RecordColumns, magic: int, attributes: int) -> bytes:
    overhead = layout.MIN_MESSAGE_BYTES + (8 if magic else 0)
    size = overhead * columns.offset.size
    for column in (columns.key, columns.value):
        size += int(np.maximum(column.length, 0).sum(dtype=np.int64))
    out = np.empty(size, np.uint8)
    done, _ = _speedups.write_messages(
        columns.offset,
        columns.timestamp,
        columns.key,
        columns.value,
        magic,
        attributes,
        out,
    )
    if done < columns.offset.size:
        raise InvalidRecordError(f"record {done} is outside of its column")
    return out.tobytes()
