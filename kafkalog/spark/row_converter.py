"""Records as Arrow batches of Spark's types and of limited size.

Columns are not copied. Unlike in `kafkalog.export`, timestamps are microseconds and
never null, headers are null where a record has none, and there are no dictionaries.

Source: ``KafkaRecordToRowConverter.scala``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import numpy.typing as npt

from kafkalog.errors import InvalidRecordError
from kafkalog.export.arrow import bitmap, bytes_array, headers_array
from kafkalog.formats.timestamps import MAX_MS_IN_US, US_PER_MS
from kafkalog.optional_packages import require
from kafkalog.query.chunk_columns import BytesColumn, HeadersColumn
from kafkalog.query.records import Records
from kafkalog.spark.spark_columns import COLUMNS, canonical_name

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = require("pyarrow", "spark")

MAX_ROWS: Final = 32_000
MAX_BYTES: Final = 8 << 20
OFFSET_BYTES: Final = 4
HEADER_BYTES: Final = 2 * OFFSET_BYTES + 3
LONGEST_NAME: Final = 32
"""The length of the longest name of a codec or segment."""

CONSTANT: Final = ("topic", "partition", "segment")
"""Columns with one value for all records of a chunk."""


@dataclass(slots=True)
class RowConverter:
    """A converter of records to Arrow batches of at most `MAX_ROWS` and `MAX_BYTES`.

    A larger record has a batch of its own.
    """

    schema: pa.Schema
    names: list[str] = field(init=False)
    """The names of the schema's columns, spelled as in `COLUMNS`."""

    _constants: dict[str, tuple[Any, pa.Array]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = [canonical_name(name) or name for name in self.schema.names]

    @property
    def scan_columns(self) -> tuple[str, ...]:
        """The columns that the scan must have."""
        return tuple(COLUMNS[name].scan_name for name in self.names)

    def batches(self, records: Records) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a chunk of records."""
        whole = {
            name: self._array(name, records)
            for name in self.names
            if name not in CONSTANT
        }
        for start, stop in _cuts(self._bytes_through(records)):
            count = stop - start
            arrays = [
                whole[name].slice(start, count)
                if name in whole
                else self._constant(name, records).slice(0, count)
                for name in self.names
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _constant(self, name: str, records: Records) -> pa.Array:
        if name == "topic":
            return self._repeat(name, records.topic)
        if name == "segment":
            return self._repeat(name, records.segments[records.segment[0]])
        return self._repeat(name, int(records.partition[0]))

    def _repeat(self, name: str, value: Any) -> pa.Array:
        """Return an array with `MAX_ROWS` times one value; the last one is kept."""
        kept = self._constants.get(name)
        if kept is None or kept[0] != value:
            scalar = pa.scalar(value, COLUMNS[name].arrow_type)
            kept = self._constants[name] = (value, pa.repeat(scalar, MAX_ROWS))
        return kept[1]

    def _array(self, name: str, records: Records) -> pa.Array:
        column = getattr(records, COLUMNS[name].scan_name)
        if isinstance(column, BytesColumn):
            return bytes_array(column)
        if isinstance(column, HeadersColumn):
            return _headers(column)
        if name == "timestamp":
            return _microseconds(column, records.topic)
        if name == "codec":
            codes = pa.array(np.ascontiguousarray(column))
            return pa.DictionaryArray.from_arrays(
                codes, pa.array(records.codecs, pa.string())
            ).dictionary_decode()
        kind = COLUMNS[name].arrow_type.to_pandas_dtype()
        return pa.array(column.astype(kind, copy=False))

    def _bytes_through(self, records: Records) -> npt.NDArray[np.int64]:
        """Return an upper bound of the Arrow bytes of all rows through each."""
        fixed = len(self.names)  # for the validity bitmaps
        for kind in self.schema.types:
            fixed += OFFSET_BYTES if pa.types.is_nested(kind) else _width(kind)
        if "topic" in self.names:
            fixed += len(records.topic.encode())
        total = np.arange(fixed, (len(records) + 1) * fixed, fixed)
        for column in records.columns.values():
            if isinstance(column, BytesColumn):
                total += column.offsets[1:]
            elif isinstance(column, HeadersColumn):
                ends = column.offsets[1:]
                for part in (column.key, column.value):
                    total += cast("BytesColumn", part).offsets[ends]
                total += ends * HEADER_BYTES
        return total


def _microseconds(column: npt.NDArray[np.int64], topic: str) -> pa.Array:
    """Return timestamps in microseconds; -1 ms, no timestamp, is not null."""
    if len(column) and (
        int(column.max()) > MAX_MS_IN_US or int(column.min()) < -MAX_MS_IN_US
    ):
        outside = column[(column > MAX_MS_IN_US) | (column < -MAX_MS_IN_US)][0]
        raise InvalidRecordError(
            f"timestamp {outside} ms of topic {topic}, expected at most"
            f" {MAX_MS_IN_US} ms either side of 1970, the range of Spark's"
        )
    buffers = [None, pa.py_buffer(column * US_PER_MS)]
    kind = COLUMNS["timestamp"].arrow_type
    return pa.Array.from_buffers(kind, len(column), buffers)


def _headers(column: HeadersColumn) -> pa.Array:
    """Return headers as lists of structs, null where a record has none."""
    some = np.diff(column.offsets) > 0
    valid = None if some.all() else bitmap(some)
    pairs = headers_array(column).values
    kind = COLUMNS["headers"].arrow_type
    struct = pa.StructArray.from_arrays(pairs.flatten(), fields=list(kind.value_type))
    buffers = [valid, pa.py_buffer(column.offsets)]
    return pa.Array.from_buffers(kind, len(column), buffers, children=[struct])


def _cuts(ends: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows within the limits; `ends` are the bytes up to each row."""
    start = 0
    while start < len(ends):
        before = ends[start - 1] if start else 0
        stop = int(np.searchsorted(ends, before + MAX_BYTES, side="right"))
        stop = max(start + 1, min(stop, start + MAX_ROWS))
        yield start, stop
        start = stop


def _width(kind: pa.DataType) -> int:
    """Return the bytes of one value, without those of a binary value."""
    if pa.types.is_string(kind):
        return OFFSET_BYTES + LONGEST_NAME
    return OFFSET_BYTES if pa.types.is_binary(kind) else -(-int(kind.bit_width) // 8)
