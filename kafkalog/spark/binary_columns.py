"""`decode_batches` and `batch_headers`: columns of bytes that hold Kafka's batches.

Segments that ``binaryFile`` has read, batches that a table keeps: each row of bytes
becomes many rows by ``mapInArrow``, or an array of structs by the UDF.

Knows: how Spark hands columns to Python. Does not know: what batches hold.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from kafkalog.errors import BatchTooLargeError, ConfigError, LocatedError
from kafkalog.export.arrow import bitmap
from kafkalog.export.optional_packages import require
from kafkalog.query.part_reading import Problem
from kafkalog.query.scan import ON_CORRUPTION, OnCorruption
from kafkalog.spark.binary_decoding import (
    DEFAULT_RECORD_COLUMNS,
    POSITION,
    RECORD_COLUMNS,
    HeadersOf,
    RecordsOf,
    Unpacked,
    Unpacking,
)
from kafkalog.spark.workers import freeze_imports

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = require("pyarrow", "spark")


from kafkalog.formats.entry_headers import Bytes, scan_headers

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Run:
    """Rows from number `first` on: their bytes, and where in them each begins."""

    first: int
    starts: Positions
    data: Bytes

    def rows_at(self, positions: npt.ArrayLike) -> Positions:
        """Say which rows of the run have these positions; an empty row has none.

        >>> run = Run(4, np.array([0, 10, 10]), np.zeros(30, np.uint8))
        >>> run.rows_at([0, 9, 10, 29])
        array([0, 0, 2, 2])
        """
        return np.searchsorted(self.starts, positions, side="right") - 1


def find_runs(column: Any) -> Iterator[Run]:
    """Divide an Arrow column of bytes into runs; rows without bytes may be left out."""
    count = len(column)
    if not count:
        return
    _, offsets, content = column.buffers()
    kind = np.int64 if str(column.type).startswith("large") else np.int32
    ends = np.frombuffer(offsets, kind)[column.offset :][: count + 1].astype(np.int64)
    data = np.frombuffer(content or b"", np.uint8)
    null = column.is_null().to_numpy(zero_copy_only=False)
    barred = np.flatnonzero(null & (np.diff(ends) > 0))
    filled = np.flatnonzero(~null & (np.diff(ends) > 0))
    row = 0
    while (place := int(np.searchsorted(filled, row))) < len(filled):
        row = int(filled[place])
        limit = int(np.append(barred, count)[np.searchsorted(barred, row)])
        stop = row + max(1, _whole_rows(data, ends[row : limit + 1]))
        starts = ends[row:stop] - ends[row]
        yield Run(row, starts, data[ends[row] : ends[stop]])
        row = stop


def _whole_rows(data: Bytes, ends: Positions) -> int:
    """How many rows from the first on end where an entry ends."""
    found, _, place = scan_headers(data[ends[0] : ends[-1]])
    wanted = ends[1:] - ends[0]
    wanted = wanted[: np.searchsorted(wanted, place, side="right")]
    whole = np.isin(wanted, found["position"] + found["size_in_bytes"])
    return len(wanted) if whole.all() else int(np.argmin(whole))


CONTENT: Final = "content"
"""How ``binaryFile`` calls its column of bytes."""

log = logging.getLogger("kafkalog")


def decode_batches(
    column: str = CONTENT,
    columns: Iterable[str] | None = None,
    *,
    keep: Mapping[str, str] | None = None,
    control_records: bool = False,
    on_corruption: OnCorruption = "raise",
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
    on_corruption: OnCorruption = "raise",
) -> BytesDecoder:
    """Say how to read the headers of batches in a column of bytes; a row for each.

    What a header says is given as it stands there, times in ms, and besides `isValid`:
    whether the checksum is that of the bytes. Parameters as of `decode_batches`.

    >>> batch_headers().schema
    '`baseOffset` bigint, `lastOffset` bigint, ... `crc` bigint, `isValid` boolean'
    """
    return BytesDecoder(column, HeadersOf(skip=_skips(on_corruption)), keep or {})


def _skips(on_corruption: OnCorruption) -> bool:
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
            for rows, made in self._unpack(batch.column(self.column)):
                kept = [batch.column(name).take(rows) for name in self.keep]
                names = [*self.keep, *made.schema.names]
                yield pa.RecordBatch.from_arrays([*kept, *made.columns], names=names)
        freeze_imports()

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
        for rows, batch in self._unpack(column):
            made.append(batch)
            counts[1:] += np.bincount(rows, minlength=len(column))
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

    def _unpack(self, column: pa.Array) -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
        """Yield what the rows of bytes are unpacked into, and of which rows it is."""
        kind = column.type
        if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
            raise ConfigError(f"expected a column of bytes, {self.column} is {kind}")
        for run in find_runs(column):
            try:
                for made in self.unpacking.batches(run.data):
                    if isinstance(made, Problem):
                        where, position = self._place(run, made.position)
                        text = f"{where}: {made.reason} at byte {position}"
                        log.warning("left out: %s", text)
                    else:
                        rows = run.rows_at(made.positions)
                        yield pa.array(run.first + rows), _apart(made, run.starts[rows])
            except LocatedError as error:
                where, position = self._place(run, error.position)
                reason, of = f"{where}: {error.reason}", type(error)
                raise of(reason, position=position, cause=error.cause) from None

    def _place(self, run: Run, position: int | None) -> tuple[str, int]:
        """Say in which row a position of a run lies, and where there."""
        place = 0 if position is None else position
        row = int(run.rows_at(place))
        where = f"row {run.first + row} of {self.column}"
        return where, place - int(run.starts[row])


def _apart(made: Unpacked, starts: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """Return a batch whose positions count from the start of their own row's bytes."""
    batch = made.batch
    if POSITION not in batch.schema.names:
        return batch
    place = batch.schema.get_field_index(POSITION)
    own = pa.array(made.positions - starts)
    columns = [*batch.columns[:place], own, *batch.columns[place + 1 :]]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


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
