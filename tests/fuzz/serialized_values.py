"""A target: a column of values that may be in Confluent's wire format."""

from __future__ import annotations

import struct

import numpy as np

from kafkalog.query.chunk_columns import BytesColumn
from kafkalog.values import message_indexes, payloads, schema_ids
from tests import reference
from tests.guarded import at_the_end

MAX_BYTES = 512


def check_values(data: bytes) -> None:
    """Read a column, with lengths from its first bytes, as the reference does."""
    count = data[0] % 8 if data else 0
    lengths, body = data[1 : 1 + count], data[1 + count : MAX_BYTES]
    ends = np.minimum(np.cumsum([0, *lengths]), len(body)).astype(np.int32)
    column = BytesColumn(at_the_end(body), ends, None)
    values = column.to_list()
    ids = [reference.schema_id(value) for value in values]
    pairs = [reference.message_indexes(value) for value in values]
    assert schema_ids(column).tolist() == [-1 if i is None else i for i in ids]
    assert message_indexes(column).to_list() == [path for path, _ in pairs]
    assert payloads(column, protobuf=True).to_list() == [body for _, body in pairs]
    assert [body is None for body in payloads(column).to_list()] == [
        number is None for number in ids
    ]


def seeds() -> list[bytes]:
    """Return columns of one to three values."""
    header = struct.pack(">bi", 0, 7)
    values = [header, header + b"\0text", header + b"\x04\x02\xfe\xff\xff\xff\x0f"]
    return [
        bytes([count, *map(len, values[:count])]) + b"".join(values[:count])
        for count in (1, 2, 3)
    ]
