"""`decode_batches` and `batch_headers`: decode record batches in a binary column.

The column may have whole segments, as the ``binaryFile`` source reads them, or batches
that a table stores. ``mapInArrow`` makes rows of them, the UDF an array of structs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from kafkalog.array_types import Bytes, Int64s
from kafkalog.decoding.read_policy import OnCorruption
from kafkalog.errors import BatchTooLargeError, ConfigError, LocatedError
from kafkalog.export.arrow import bitmap
from kafkalog.formats.batch_headers import scan_headers
from kafkalog.optional_packages import require
from kafkalog.query.partition_reader import ScanProblem
from kafkalog.query.scan import ON_CORRUPTION
from kafkalog.spark.binary_decoding import (
    DEFAULT_RECORD_COLUMNS,
    HEADER_POLICY,
    POSITION,
    RECORD_COLUMNS,
    RECORD_POLICY,
    BatchHeaderDecoder,
    BinaryDecoder,
    DecodedRows,
    RecordDecoder,
)
from kafkalog.spark.workers import freeze_imports

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = require("pyarrow", "spark")

CONTENT: Final = "content"
"""The name of the binary column of Spark's ``binaryFile`` source."""

LOGGER: Final = logging.getLogger("kafkalog")


def decode_batches(
    column: str = CONTENT,
    columns: Iterable[str] | None = None,
    *,
    keep: Mapping[str, str] | None = None,
    control_records: bool = False,
    on_corruption: OnCorruption = "raise",
) -> BytesDecoder:
    """Return a decoder of the records in a binary column of record batches.

    Parameters
    ----------
    column : str
        The binary column. The UDF ignores it, and decodes its argument.
    columns : iterable of str, optional
        Columns of the source other than ``topic``, ``partition`` and ``segment``; by
        default key, value, offset, timestamp and timestampType. ``position`` counts
        from the start of the row's value.
    keep : mapping of str to str, optional
        Columns of the input to repeat with each record, and their SQL types:
        ``{"path": "string"}``. The UDF ignores it.
    control_records : bool
        Whether to return control records, such as transaction markers.
    on_corruption : {"raise", "skip"}
        Whether corrupt bytes raise an error, or are skipped and named in the worker's
        log.

    Returns
    -------
    BytesDecoder
        Used as ``df.mapInArrow(decoder, decoder.schema)`` or
        ``decoder.udf("content")``.

    Raises
    ------
    ConfigError
        If a column is unknown or a duplicate, or `on_corruption` is invalid.

    Examples
    --------
    >>> decode_batches(columns=["offset", "value"], keep={"path": "string"}).schema
    '`path` string, `offset` bigint, `value` binary'
    """
    names = DEFAULT_RECORD_COLUMNS if columns is None else tuple(columns)
    unknown = [name for name in names if name not in RECORD_COLUMNS]
    if unknown:
        raise ConfigError(
            f"expected columns of {', '.join(RECORD_COLUMNS)}, got {', '.join(unknown)}"
        )
    _check_on_corruption(on_corruption)
    policy = replace(
        RECORD_POLICY, on_corruption=on_corruption, control_records=control_records
    )
    decoder = RecordDecoder(names=names, policy=policy)
    return BytesDecoder(column, decoder, keep or {})


def batch_headers(
    column: str = CONTENT,
    *,
    keep: Mapping[str, str] | None = None,
    on_corruption: OnCorruption = "raise",
) -> BytesDecoder:
    """Return a decoder of the batch headers in a binary column, a row for each batch.

    The columns are the header fields as stored, times in ms, and ``isValid``: whether
    the stored checksum is that of the batch.

    Parameters
    ----------
    column, keep, on_corruption
        As in `decode_batches`.

    Returns
    -------
    BytesDecoder
        Used as ``df.mapInArrow(decoder, decoder.schema)`` or
        ``decoder.udf("content")``.

    Raises
    ------
    ConfigError
        If a kept column has the name of a header field, or `on_corruption` is invalid.

    Examples
    --------
    >>> batch_headers().schema
    '`baseOffset` bigint, `lastOffset` bigint, ... `crc` bigint, `isValid` boolean'
    """
    _check_on_corruption(on_corruption)
    policy = replace(HEADER_POLICY, on_corruption=on_corruption)
    return BytesDecoder(column, BatchHeaderDecoder(policy=policy), keep or {})


def _check_on_corruption(on_corruption: str) -> None:
    if on_corruption not in ON_CORRUPTION:
        known = " or ".join(ON_CORRUPTION)
        raise ConfigError(f"on_corruption: expected {known}, got {on_corruption}")


@dataclass(frozen=True)
class BytesDecoder:
    """A function for ``mapInArrow`` that decodes record batches in a binary column.

    Made by `decode_batches` and `batch_headers`. Null and empty values have no rows.
    """

    column: str
    decoder: BinaryDecoder
    keep: Mapping[str, str]

    def __post_init__(self) -> None:
        names = [*self.keep, *self.decoder.sql_types]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ConfigError(f"duplicate columns: {', '.join(repeated)}")

    @property
    def schema(self) -> str:
        """The columns that ``mapInArrow`` returns, as DDL; those kept come first."""
        types = dict(self.keep) | self.decoder.sql_types
        return ", ".join(f"`{name}` {of}" for name, of in types.items())

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the decoded rows of Arrow batches, for ``mapInArrow``."""
        for batch in batches:
            expected, column_names = (self.column, *self.keep), batch.schema.names
            if missing := [name for name in expected if name not in column_names]:
                raise ConfigError(
                    f"expected columns {', '.join(missing)}, "
                    f"got {', '.join(column_names)}"
                )
            for rows, decoded in self._decode(batch.column(self.column)):
                kept = [batch.column(name).take(rows) for name in self.keep]
                names = [*self.keep, *decoded.schema.names]
                arrays = [*kept, *decoded.columns]
                yield pa.RecordBatch.from_arrays(arrays, names=names)
        freeze_imports()

    @property
    def udf(self) -> Any:
        """A UDF of a binary column that returns an array of structs.

        An Arrow UDF from Spark 4.1 on, before that a pandas UDF, in which each record
        becomes a Python object: ``mapInArrow`` is faster.
        """
        from pyspark.sql import functions

        types = self.decoder.sql_types.items()
        kind = f"array<struct<{','.join(f'{name}:{of}' for name, of in types)}>>"
        if hasattr(functions, "arrow_udf"):
            return functions.arrow_udf(_arrow_function(self), kind)
        return functions.pandas_udf(_pandas_function(self), kind)

    def lists(self, column: pa.Array) -> pa.Array:
        """Return a list of structs for each value of a binary column; null for null."""
        schema, counts = self.decoder.schema, np.zeros(len(column) + 1, np.int64)
        batches = []
        for rows, batch in self._decode(column):
            batches.append(batch)
            counts[1:] += np.bincount(rows, minlength=len(column))
        table = pa.Table.from_batches(batches, schema).combine_chunks()
        structs = table.to_struct_array()
        if structs.num_chunks > 1 or counts.sum() > np.iinfo(np.int32).max:
            error = BatchTooLargeError(
                f"{len(column)} rows of batches have more than 2 GiB of records"
            )
            error.add_note("Lower spark.sql.execution.arrow.maxRecordsPerBatch.")
            raise error
        kind = pa.struct(list(schema))
        items = structs.chunk(0) if structs.num_chunks else pa.array([], kind)
        ends = pa.py_buffer(np.cumsum(counts).astype(np.int32))
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        buffers = [bitmap(valid), ends]
        return pa.Array.from_buffers(
            pa.list_(kind), len(column), buffers, children=[items]
        )

    def _decode(self, column: pa.Array) -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
        """Yield decoded batches, each with the input row of every decoded row."""
        kind = column.type
        if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
            raise ConfigError(f"expected a binary column, {self.column} is {kind}")
        for group in group_rows(column):
            try:
                for decoded in self.decoder.batches(group.data):
                    if isinstance(decoded, ScanProblem):
                        where, position = self._locate(group, decoded.position)
                        text = f"{where}: {decoded.reason} at byte {position}"
                        LOGGER.warning("skipped: %s", text)
                    else:
                        rows = group.rows_at(decoded.positions)
                        batch = _relative_positions(decoded, group.starts[rows])
                        yield pa.array(group.first + rows), batch
            except LocatedError as error:
                where, position = self._locate(group, error.position)
                reason, kind = f"{where}: {error.reason}", type(error)
                raise kind(reason, position=position, cause=error.cause) from None

    def _locate(self, group: AdjacentRows, position: int | None) -> tuple[str, int]:
        """Return the row that has a position of a group, and the position in it."""
        at = 0 if position is None else position
        row = int(group.rows_at(at))
        where = f"row {group.first + row} of {self.column}"
        return where, at - int(group.starts[row])


@dataclass(frozen=True, slots=True)
class AdjacentRows:
    """Adjacent rows of a binary column: the first row, and their bytes as one buffer.

    `starts` are the positions in `data` where the rows begin.
    """

    first: int
    starts: Int64s
    data: Bytes

    def rows_at(self, positions: npt.ArrayLike) -> Int64s:
        """Return the rows of the group that have these positions; never an empty row.

        >>> group = AdjacentRows(4, np.array([0, 10, 10]), np.zeros(30, np.uint8))
        >>> group.rows_at([0, 9, 10, 29])
        array([0, 0, 2, 2])
        """
        return np.searchsorted(self.starts, positions, side="right") - 1


def group_rows(column: Any) -> Iterator[AdjacentRows]:
    """Yield groups of adjacent rows of an Arrow column that can be decoded as one.

    Arrow stores the values of a column in one buffer. Rows that end with a whole batch
    are decoded together, which is a hundred times faster for small rows. A row that
    does not is a group of its own, so that its errors do not affect others. Rows
    without bytes may be skipped.
    """
    count = len(column)
    if not count:
        return
    _, offsets, content = column.buffers()
    kind = np.int64 if str(column.type).startswith("large") else np.int32
    ends = np.frombuffer(offsets, kind)[column.offset :][: count + 1].astype(np.int64)
    data = np.frombuffer(content or b"", np.uint8)
    null = column.is_null().to_numpy(zero_copy_only=False)
    null_with_bytes = np.flatnonzero(null & (np.diff(ends) > 0))
    nonempty = np.flatnonzero(~null & (np.diff(ends) > 0))
    row = 0
    while (index := int(np.searchsorted(nonempty, row))) < len(nonempty):
        row = int(nonempty[index])
        barrier = np.searchsorted(null_with_bytes, row)
        limit = int(np.append(null_with_bytes, count)[barrier])
        stop = row + max(1, _count_whole_rows(data, ends[row : limit + 1]))
        starts = ends[row:stop] - ends[row]
        yield AdjacentRows(row, starts, data[ends[row] : ends[stop]])
        row = stop


def _count_whole_rows(data: Bytes, ends: Int64s) -> int:
    """Return how many rows, from the first on, end where a batch ends."""
    headers, _, stopped_at = scan_headers(data[ends[0] : ends[-1]])
    row_ends = ends[1:] - ends[0]
    row_ends = row_ends[: np.searchsorted(row_ends, stopped_at, side="right")]
    whole = np.isin(row_ends, headers["position"] + headers["size_in_bytes"])
    return len(row_ends) if whole.all() else int(np.argmin(whole))


def _relative_positions(decoded: DecodedRows, starts: Int64s) -> pa.RecordBatch:
    """Return a batch whose position column counts from the start of the input row."""
    batch = decoded.batch
    if POSITION not in batch.schema.names:
        return batch
    index = batch.schema.get_field_index(POSITION)
    positions = pa.array(decoded.positions - starts)
    columns = [*batch.columns[:index], positions, *batch.columns[index + 1 :]]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _arrow_function(decoder: BytesDecoder) -> Any:
    def decode(column: pa.Array) -> pa.Array:
        return decoder.lists(column)

    return decode


def _pandas_function(decoder: BytesDecoder) -> Any:
    import pandas as pd

    def decode(column: Any) -> Any:
        return pd.Series(decoder.lists(pa.array(column, pa.binary())).to_pylist())

    decode.__annotations__ = {"column": pd.Series, "return": pd.Series}
    return decode
