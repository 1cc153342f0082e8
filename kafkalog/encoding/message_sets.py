"""Columns of records -> message sets of magic 0 and 1, plain or in a wrapper.

A plain set is messages one behind another. A compressed one is one message, the
*wrapper*: no key, and as its value the packed messages. Inside, magic 0 keeps absolute
offsets and magic 1 offsets relative to the set's base; outside, the wrapper has the
offset of the last. A wrapper's timestamp is the greatest inside or, with log append
time, that time, which the messages inside have then too.

Knows: what magic 0 and 1 have. Does not know: magic 2; files.
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
    """Encode records as messages of `magic` 0 or 1, in one wrapper if `codec` is not 0.

    `base_offset` is what relative offsets start from, the first record's if None. With
    `log_append_time`, in ms, every timestamp is that one. Magic 0 has no timestamps.

    Raises `InvalidRecordError` for headers, for offsets that do not rise, and for a key
    or value that does not lie in its column.

    >>> one = RecordColumns(
    ...     np.array([7]),
    ...     np.array([-1]),
    ...     ByteColumn.of([b"k"]),
    ...     ByteColumn.of([b"hello"]),
    ... )
    >>> encode_messages(one, magic=0).hex(" ", -8)
    '0000000000000007 00000014a4cdab3a 0000000000016b00 00000568656c6c6f'
    """
    check_columns(columns)
    if columns.headers is not None:
        raise InvalidRecordError(f"magic {magic} has no headers")
    if not columns.offset.size:
        raise InvalidRecordError("a message set needs a record")
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
    packed = compress(
        codec, _messages(inner, magic, attributes), level=level, magic=magic
    )
    wrapper = RecordColumns(
        columns.offset[-1:],
        columns.timestamp.max(keepdims=True),
        ByteColumn.nulls(1),
        ByteColumn.of([packed]),
    )
    return _messages(wrapper, magic, attributes | codec)


def _messages(columns: RecordColumns, magic: int, attributes: int) -> bytes:
    least = layout.MIN_MESSAGE_BYTES + (8 if magic else 0)
    size = least * columns.offset.size
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
        raise InvalidRecordError(f"record {done} does not lie in its column")
    return out.tobytes()
