"""Records as Arrow batches, in just the types and sizes that suit Spark.

Columns are handed on as the decoder gathered them; no record becomes a Python object.
What Spark wants otherwise than users of Arrow is made here: timestamps in microseconds,
headers that are null where there are none, text in place of dictionaries.

Knows: Spark's columns as Arrow. Does not know: Spark, options, which bytes are read.
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
from kafkalog.export.optional_packages import require
from kafkalog.query.records import BytesColumn, HeadersColumn, Records
from kafkalog.spark.spark_columns import COLUMNS, spelled

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = require("pyarrow", "spark")

MOST_ROWS: Final = 32_000
MOST_BYTES: Final = 8 << 20
US_PER_MS: Final = 1000
MOST_MS: Final = (2**63 - 1) // US_PER_MS
OFFSET_BYTES: Final = 4
HEADER_BYTES: Final = 2 * OFFSET_BYTES + 3
LONGEST_NAME: Final = 32
"""No name of a codec or a segment is longer."""

CONSTANT: Final = ("topic", "partition", "segment")
"""Columns with one value for all records of a chunk."""


@dataclass(slots=True)
class RowMaker:
    """Makes Arrow batches of a schema, none above `MOST_ROWS` and `MOST_BYTES`.

    A record that is larger has a batch of its own.
    """

    schema: pa.Schema
    names: list[str] = field(init=False)
    """Of the schema's columns, as `COLUMNS` spells them."""

    _constants: dict[str, tuple[Any, pa.Array]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = [spelled(name) or name for name in self.schema.names]

    @property
    def scanned(self) -> tuple[str, ...]:
        """The columns that a scan must give."""
        return tuple(COLUMNS[name].scanned for name in self.names)

    def batches(self, records: Records) -> Iterator[pa.RecordBatch]:
        """Turn a chunk of records into batches."""
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
        """Return an array of one value, `MOST_ROWS` times; the last one is kept."""
        kept = self._constants.get(name)
        if kept is None or kept[0] != value:
            scalar = pa.scalar(value, COLUMNS[name].arrow_type)
            kept = self._constants[name] = (value, pa.repeat(scalar, MOST_ROWS))
        return kept[1]

    def _array(self, name: str, records: Records) -> pa.Array:
        column = getattr(records, COLUMNS[name].scanned)
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
        """How many bytes rows take as Arrow, up to each and with it; at most."""
        fixed = len(self.names)  # for what says which are null
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
    """Return times as Spark has them; -1, no time, is the last ms of 1969, as there."""
    if len(column) and (int(column.max()) > MOST_MS or int(column.min()) < -MOST_MS):
        beyond = column[(column > MOST_MS) | (column < -MOST_MS)][0]
        raise InvalidRecordError(
            f"a timestamp of {beyond} ms in {topic} is beyond Spark's microseconds;"
            " leave the column out to read the rest"
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
    """Cut rows, of which `ends` says how many bytes they take so far, within limits."""
    start = 0
    while start < len(ends):
        before = ends[start - 1] if start else 0
        stop = int(np.searchsorted(ends, before + MOST_BYTES, side="right"))
        stop = max(start + 1, min(stop, start + MOST_ROWS))
        yield start, stop
        start = stop


def _width(kind: pa.DataType) -> int:
    """Bytes that a value takes beside its text; what is short text is taken along."""
    if pa.types.is_string(kind):
        return OFFSET_BYTES + LONGEST_NAME
    return OFFSET_BYTES if pa.types.is_binary(kind) else -(-int(kind.bit_width) // 8)
