"""Records as Arrow: a table, or a stream of record batches.

Columns are handed over as they were gathered: Arrow's own form, no copy. What has a
meaning in Arrow and none in NumPy is put in here: null timestamps, dictionaries, header
keys as text.

Knows: Arrow. Does not know: where records are from.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kafkalog.codecs.bytes_text import repair_utf8
from kafkalog.export.optional_packages import require
from kafkalog.query.records import BytesColumn, HeadersColumn, Records

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkalog.query.scan import Scan
else:
    pa = require("pyarrow", "arrow")

HEADERS = pa.list_(
    pa.struct(
        [pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]
    )
)

TYPES = {
    "topic": pa.dictionary(pa.int32(), pa.string()),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("ms", tz="UTC"),
    "timestamp_type": pa.int8(),
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": HEADERS,
    "leader_epoch": pa.int32(),
    "producer_id": pa.int64(),
    "producer_epoch": pa.int16(),
    "sequence": pa.int32(),
    "is_transactional": pa.bool_(),
    "is_control": pa.bool_(),
    "magic": pa.int8(),
    "codec": pa.dictionary(pa.int8(), pa.string()),
    "segment": pa.dictionary(pa.int32(), pa.string()),
    "position": pa.int64(),
}
"""The type of each column."""


def schema_of(columns: tuple[str, ...]) -> pa.Schema:
    """Return the Arrow schema of these columns."""
    return pa.schema([pa.field(name, TYPES[name]) for name in columns])


def to_batch(records: Records, schema: pa.Schema) -> pa.RecordBatch:
    """See a chunk as a record batch; its columns are not copied."""
    arrays = [_array(name, records) for name in schema.names]
    if not arrays:
        struct = pa.array([{}] * len(records), pa.struct([]))
        return pa.RecordBatch.from_struct_array(struct)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def to_batches(scan: Scan) -> Iterator[pa.RecordBatch]:
    """Read, chunk by chunk."""
    schema = scan.schema
    for records in scan.chunks():
        yield to_batch(records, schema)


def to_reader(scan: Scan) -> pa.RecordBatchReader:
    """Return a stream of record batches, read as it is taken."""
    return pa.RecordBatchReader.from_batches(scan.schema, to_batches(scan))


def to_table(scan: Scan) -> pa.Table:
    """Read all into one table, its columns chunked as they were read."""
    return pa.Table.from_batches(to_batches(scan), scan.schema)


def _array(name: str, records: Records) -> pa.Array:
    if name == "topic":
        codes = np.zeros(len(records), np.int32)
        return pa.DictionaryArray.from_arrays(codes, [records.topic])
    column = getattr(records, name)
    if name in ("codec", "segment"):
        names = records.codecs if name == "codec" else records.segments
        dictionary = pa.array(names, pa.string())
        return pa.DictionaryArray.from_arrays(np.ascontiguousarray(column), dictionary)
    if name == "timestamp":
        missing = column == -1
        valid = None if not missing.any() else bitmap(~missing)
        buffers = [valid, pa.py_buffer(column)]
        return pa.Array.from_buffers(TYPES[name], len(column), buffers)
    if isinstance(column, BytesColumn):
        return bytes_array(column)
    if isinstance(column, HeadersColumn):
        return headers_array(column)
    return pa.array(column, TYPES[name])


def bitmap(valid: npt.NDArray[np.bool_]) -> Any:
    """Pack a mask as Arrow has it, a bit a row."""
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def bytes_array(column: BytesColumn, kind: Any = None) -> pa.Array:
    """See gathered byte strings as an Arrow array, binary unless `kind` says else."""
    valid = None if column.valid is None else bitmap(column.valid)
    buffers = [valid, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    kind = pa.binary() if kind is None else kind
    return pa.Array.from_buffers(kind, len(column), buffers)


def headers_array(column: HeadersColumn) -> pa.Array:
    """See headers as lists of structs, their keys as text."""
    key, value = column.key, column.value
    struct = pa.StructArray.from_arrays(
        [bytes_array(_as_text(key), pa.string()), bytes_array(value)],
        fields=list(HEADERS.value_type),
    )
    buffers = [None, pa.py_buffer(column.offsets)]
    return pa.Array.from_buffers(HEADERS, len(column), buffers, children=[struct])


def _as_text(keys: BytesColumn) -> BytesColumn:
    """Return header keys as they are where all are ASCII; else mended, as Java does."""
    ascii_only = not len(keys.data) or int(keys.data.max()) < 0x80
    if ascii_only:
        return keys
    texts = [repair_utf8(key or b"").encode() for key in keys.to_list()]
    offsets = np.zeros(len(texts) + 1, np.int32)
    np.cumsum([len(text) for text in texts], out=offsets[1:])
    return BytesColumn(np.frombuffer(b"".join(texts), np.uint8), offsets, None)
