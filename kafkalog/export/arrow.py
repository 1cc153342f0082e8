"""Records as Arrow tables and streams of record batches.

Columns are not copied, except where Arrow has a form of its own: null timestamps,
dictionaries, header keys as text. Keys and values as text are the same bytes, which are
checked to be UTF-8.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from kafkalog.errors import InvalidTextError
from kafkalog.export.batch_streams import stream_of
from kafkalog.formats.timestamps import FIRST_DAY, LAST_DAY, MAX_MS_IN_US
from kafkalog.optional_packages import require
from kafkalog.query.chunk_columns import BytesColumn, HeadersColumn, ViewColumn
from kafkalog.text.bytes_text import repair_utf8

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkalog.query.records import Records
    from kafkalog.query.scan import Scan
    from kafkalog.query.scan_columns import Text
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
"""The Arrow type of each column."""

TEXTS = {"key": pa.string(), "value": pa.string()}
"""The types of the columns that may be text."""

PLACE: Final = ("partition", "offset")
"""Columns that the error about invalid text needs."""


def schema_of(columns: tuple[str, ...], *, text: Text = False) -> pa.Schema:
    """Return the Arrow schema of these columns."""
    texts = {name: kind for name, kind in TEXTS.items() if text in (True, name)}
    types = TYPES | texts
    return pa.schema([pa.field(name, types[name]) for name in columns])


def to_batch(records: Records[Any], schema: pa.Schema) -> pa.RecordBatch:
    """Return a chunk as a record batch, without copying its columns."""
    arrays = [
        text_array(column.name, records)
        if column.name in TEXTS and column.type == TEXTS[column.name]
        else _array(column.name, records)
        for column in schema
    ]
    if not arrays:
        struct = pa.array([{}] * len(records), pa.struct([]))
        return pa.RecordBatch.from_struct_array(struct)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def to_batches(scan: Scan) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of a scan, one for each chunk."""
    schema = scan.schema
    warns = "timestamp" in scan.columns
    places = scan.text or warns
    for records in _chunks_with_places(scan) if places else scan.chunks():
        warns = warns and not _warns_of_timestamp(records)
        yield to_batch(records, schema)


def _chunks_with_places(scan: Scan) -> Iterator[Records]:
    """Return the chunks of a scan, with the columns in `PLACE`."""
    more = (name for name in PLACE if name not in scan.columns)
    placed = replace(scan, columns=(*scan.columns, *more))
    chunks = placed.chunks()
    scan.problems = placed.problems
    return chunks


def _warns_of_timestamp(records: Records) -> bool:
    """Warn of the first timestamp that does not fit in microseconds; return if so.

    Arrow has it in milliseconds. DuckDB fails to convert it, and does not say where.
    """
    far = np.flatnonzero(np.abs(records.timestamp) > MAX_MS_IN_US)
    if not len(far):
        return False
    i = far[0]
    warnings.warn(
        f"timestamp {records.timestamp[i]} ms exceeds 64 bits of microseconds, which "
        f"some engines convert to: topic {records.topic!r}, partition "
        f"{records.partition[i]}, offset {records.offset[i]}",
        stacklevel=2,
    )
    return True


def to_reader(scan: Scan) -> pa.RecordBatchReader:
    """Return a ``RecordBatchReader`` that reads the scan as it is consumed."""
    return stream_of(scan.schema, to_batches(scan))


def to_table(scan: Scan) -> pa.Table:
    """Return all records of a scan as one table, whose chunks are those of the scan.

    All chunks of a column have one dictionary: Arrow groups and joins no others.
    """
    table = pa.Table.from_batches(to_batches(scan), scan.schema)
    return table.unify_dictionaries()


def _array(name: str, records: Records[Any]) -> pa.Array:
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
    if isinstance(column, BytesColumn | ViewColumn):
        return bytes_array(column)
    if isinstance(column, HeadersColumn):
        return headers_array(column)
    return pa.array(column, TYPES[name])


def bitmap(valid: npt.NDArray[np.bool_]) -> Any:
    """Return a mask as an Arrow validity bitmap."""
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def dates(timestamps: Any) -> Any:
    """Return the UTC dates of timestamps; null outside of the years 1 to 9999.

    >>> dates(pa.chunked_array([pa.array([-1, None], pa.timestamp("ms", "UTC"))]))[0]
    <pyarrow.Date32Scalar: datetime.date(1969, 12, 31)>
    """
    compute = require("pyarrow.compute", "arrow")
    days = timestamps.cast(pa.date32())
    numbers = days.cast(pa.int32())
    above = compute.greater_equal(numbers, FIRST_DAY)
    valid = compute.and_(above, compute.less_equal(numbers, LAST_DAY))
    return compute.if_else(valid, days, pa.scalar(None, pa.date32()))


def bytes_array(column: BytesColumn | ViewColumn, kind: Any = None) -> pa.Array:
    """Return a column of byte strings as an Arrow array of `kind`, default binary."""
    if isinstance(column, ViewColumn):
        raise TypeError("Arrow array of a chunk read with views=True, expected False")
    valid = None if column.valid is None else bitmap(column.valid)
    buffers = [valid, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    kind = pa.binary() if kind is None else kind
    return pa.Array.from_buffers(kind, len(column), buffers)


def text_array(name: str, records: Records) -> pa.Array:
    """Return a column of byte strings as an Arrow array of strings, not copied.

    Raises `InvalidTextError` if one is not UTF-8.
    """
    column = getattr(records, name)
    try:
        return bytes_array(column).cast(pa.string())
    except pa.ArrowInvalid:
        for row, value in enumerate(column.to_list()):
            try:
                (value or b"").decode()
            except UnicodeDecodeError as error:
                raise _invalid_text(name, records, row, error) from None
        raise


def _invalid_text(
    name: str, records: Records, row: int, error: UnicodeDecodeError
) -> InvalidTextError:
    topic = records.topic
    partition, offset = int(records.partition[row]), int(records.offset[row])
    found = f"{error.object[error.start]:02x} at byte {error.start} of the {name}"
    place = f"{topic}-{partition} at offset" if topic else "offset"
    invalid = InvalidTextError(
        f"expected UTF-8, found {found}: {place} {offset}",
        column=name,
        topic=topic,
        partition=partition,
        offset=offset,
    )
    other = "value" if name == "key" else "key"
    invalid.add_note(f'with text="{other}", each {name} is bytes')
    return invalid


def headers_array(column: HeadersColumn) -> pa.Array:
    """Return headers as an Arrow array of lists of structs with text keys."""
    key, value = column.key, column.value
    values = bytes_array(value)  # before the keys, as it refuses views
    struct = pa.StructArray.from_arrays(
        [bytes_array(_as_text(key), pa.string()), values],
        fields=list(HEADERS.value_type),
    )
    buffers = [None, pa.py_buffer(column.offsets)]
    return pa.Array.from_buffers(HEADERS, len(column), buffers, children=[struct])


def _as_text(keys: BytesColumn) -> BytesColumn:
    """Return header keys with invalid UTF-8 replaced as Java does."""
    ascii_only = not len(keys.data) or int(keys.data.max()) < 0x80
    if ascii_only:
        return keys
    texts = [repair_utf8(key or b"").encode() for key in keys.to_list()]
    offsets = np.zeros(len(texts) + 1, np.int32)
    np.cumsum([len(text) for text in texts], out=offsets[1:])
    return BytesColumn(np.frombuffer(b"".join(texts), np.uint8), offsets, None)
