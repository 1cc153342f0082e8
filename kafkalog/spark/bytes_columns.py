"""`decode_batches` and `batch_headers`: columns of bytes that hold Kafka's batches.

Segments that ``binaryFile`` has read, batches that a table keeps: each row of bytes
becomes many rows by ``mapInArrow``, or an array of structs by the UDF.

Knows: how Spark hands columns to Python. Does not know: what batches hold.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kafkalog.errors import BatchTooLargeError, ConfigError, LocatedError
from kafkalog.export.arrow import bitmap
from kafkalog.export.missing import require
from kafkalog.query.reading import Problem
from kafkalog.query.scan import ON_CORRUPTION
from kafkalog.spark.rows import MOST_BYTES, MOST_ROWS
from kafkalog.spark.unpacked import (
    DEFAULT_RECORD_COLUMNS,
    RECORD_COLUMNS,
    HeadersOf,
    RecordsOf,
    Unpacking,
)

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = require("pyarrow", "arrow")

CONTENT: Final = "content"
"""How ``binaryFile`` calls its column of bytes."""

log = logging.getLogger("kafkalog")


def decode_batches(
    column: str = CONTENT,
    columns: Iterable[str] | None = None,
    *,
    keep: Mapping[str, str] | None = None,
    control_records: bool = False,
    on_corruption: str = "raise",
) -> BytesDecoder:
    """Say how to decode a column of batches' bytes into records.

    Parameters
    ----------
    column : str
        The column of bytes; of no importance to the UDF, which is given one.
    columns : iterable of str, optional
        Columns of the source, but for ``topic``, ``partition`` and ``segment``, which
        bytes do not tell; by default key, value, offset, timestamp and its type.
        ``position`` counts from the start of a row's bytes.
    keep : {name: type}, optional
        Columns of the input to repeat beside each record, with their types in Spark:
        ``{"path": "string"}``. Not in the UDF.
    control_records : bool
        Whether transaction markers and the like are given as records.
    on_corruption : {"raise", "skip"}
        With the latter, what is damaged is left out, and named in the worker's log.

    Returns
    -------
    BytesDecoder
        For ``df.mapInArrow(decoder, decoder.schema)``, or ``decoder.udf("content")``.

    Examples
    --------
    >>> decode_batches(columns=["offset", "value"], keep={"path": "string"}).schema
    '`path` string, `offset` bigint, `value` binary'
    """
    names = DEFAULT_RECORD_COLUMNS if columns is None else tuple(columns)
    unknown = [name for name in names if name not in RECORD_COLUMNS]
    if unknown:
        raise ConfigError(
            f"expected columns out of {', '.join(RECORD_COLUMNS)},"
            f" got {', '.join(unknown)}"
        )
    skip = _skips(on_corruption)
    unpacking = RecordsOf(names=names, skip=skip, control_records=control_records)
    return BytesDecoder(column, unpacking, keep or {})


def batch_headers(
    column: str = CONTENT,
    *,
    keep: Mapping[str, str] | None = None,
    on_corruption: str = "raise",
) -> BytesDecoder:
    """Say how to read the headers of batches in a column of bytes; a row for each.

    What a header says is given as it stands there, times in ms, and besides `isValid`:
    whether the checksum is that of the bytes. Parameters as of `decode_batches`.

    >>> batch_headers().schema
    '`baseOffset` bigint, `lastOffset` bigint, ... `crc` bigint, `isValid` boolean'
    """
    return BytesDecoder(column, HeadersOf(skip=_skips(on_corruption)), keep or {})


def _skips(on_corruption: str) -> bool:
    if on_corruption not in ON_CORRUPTION:
        known = " or ".join(ON_CORRUPTION)
        raise ConfigError(f"on_corruption: expected {known}, got {on_corruption}")
    return on_corruption == "skip"


@dataclass(frozen=True)
class BytesDecoder:
    """What makes rows of a column of bytes; by `decode_batches` and `batch_headers`.

    A null, and no bytes, give no rows.
    """

    column: str
    unpacking: Unpacking
    keep: Mapping[str, str]

    def __post_init__(self) -> None:
        names = [*self.keep, *self.unpacking.sql_types]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ConfigError(f"columns named twice: {', '.join(repeated)}")

    @property
    def schema(self) -> str:
        """The columns that ``mapInArrow`` gives, as DDL: those kept, then its own."""
        types = dict(self.keep) | self.unpacking.sql_types
        return ", ".join(f"`{name}` {of}" for name, of in types.items())

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Make the rows of Arrow batches, for ``mapInArrow``."""
        for batch in batches:
            wanted, there = (self.column, *self.keep), batch.schema.names
            if absent := [name for name in wanted if name not in there]:
                raise ConfigError(
                    f"expected columns {', '.join(absent)}, got {', '.join(there)}"
                )
            packing = _Packing({name: batch.column(name) for name in self.keep})
            for row, made in self._unpack(batch.column(self.column)):
                yield from packing.add(row, made)
            yield from packing.give()

    @property
    def udf(self) -> Any:
        """A function of a column of bytes that gives an array of structs.

        One for Arrow from Spark 4.1 on. With 4.0 it is one for pandas, in which each
        record does become a Python object: ``mapInArrow`` is faster.
        """
        from pyspark.sql import functions

        types = self.unpacking.sql_types.items()
        kind = f"array<struct<{','.join(f'{name}:{of}' for name, of in types)}>>"
        if hasattr(functions, "arrow_udf"):
            return functions.arrow_udf(_on_arrow(self), kind)
        return functions.pandas_udf(_on_pandas(self), kind)

    def lists(self, column: pa.Array) -> pa.Array:
        """Make of a column of bytes one of lists of structs; null of null."""
        schema, counts = self.unpacking.schema, np.zeros(len(column) + 1, np.int64)
        made = []
        for row, batch in self._unpack(column):
            made.append(batch)
            counts[row + 1] += batch.num_rows
        table = pa.Table.from_batches(made, schema).combine_chunks()
        structs = table.to_struct_array()
        if structs.num_chunks > 1 or counts.sum() > np.iinfo(np.int32).max:
            raise BatchTooLargeError(
                f"{len(column)} rows of bytes hold more than 2 GiB of records; a"
                " smaller spark.sql.execution.arrow.maxRecordsPerBatch helps"
            )
        kind = pa.struct(list(schema))
        items = structs.chunk(0) if structs.num_chunks else pa.array([], kind)
        ends = pa.py_buffer(np.cumsum(counts).astype(np.int32))
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        buffers = [bitmap(valid), ends]
        return pa.Array.from_buffers(
            pa.list_(kind), len(column), buffers, children=[items]
        )

    def _unpack(self, column: pa.Array) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield what each row of bytes is unpacked into, with the row's number."""
        if not (
            pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)
        ):
            raise ConfigError(
                f"expected a column of bytes, {self.column} is {column.type}"
            )
        for row, cell in enumerate(column):
            data = cell.as_buffer()
            if not data:
                continue
            where = f"row {row} of {self.column}"
            try:
                for made in self.unpacking.batches(data):
                    if isinstance(made, Problem):
                        text = f"{made.reason} at byte {made.position}"
                        log.warning("left out: %s: %s", where, text)
                    else:
                        yield row, made
            except LocatedError as error:
                reason = f"{where}: {error.reason}"
                kind = type(error)
                raise kind(reason, position=error.position, cause=error.cause) from None


@dataclass(slots=True)
class _Packing:
    """Gathers small batches until they are worth handing on; `kept` go beside them."""

    kept: Mapping[str, pa.Array]
    _made: list[pa.RecordBatch] = field(default_factory=list)
    _of_rows: list[int] = field(default_factory=list)
    _bytes: int = 0
    _count: int = 0

    def add(self, row: int, made: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take what a row gave; hand on what came before, where both are too much."""
        size = made.nbytes
        if self._bytes + size > MOST_BYTES or self._count + len(made) > MOST_ROWS:
            yield from self.give()
        self._made.append(made)
        self._of_rows.append(row)
        self._bytes += size
        self._count += len(made)

    def give(self) -> Iterator[pa.RecordBatch]:
        """Hand on all that was taken."""
        if not self._made:
            return
        table = pa.Table.from_batches(self._made).combine_chunks()
        rows = np.repeat(self._of_rows, [len(one) for one in self._made])
        beside = [column.take(pa.array(rows)) for column in self.kept.values()]
        names = [*self.kept, *table.column_names]
        yield from pa.table([*beside, *table.columns], names=names).to_batches()
        self._made, self._of_rows, self._bytes, self._count = [], [], 0, 0


def _on_arrow(decoder: BytesDecoder) -> Any:
    def decode(column: pa.Array) -> pa.Array:
        return decoder.lists(column)

    return decode


def _on_pandas(decoder: BytesDecoder) -> Any:
    import pandas as pd

    def decode(column: Any) -> Any:
        return pd.Series(decoder.lists(pa.array(column, pa.binary())).to_pylist())

    decode.__annotations__ = {"column": pd.Series, "return": pd.Series}
    return decode
