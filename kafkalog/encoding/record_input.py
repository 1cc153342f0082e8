"""Conversion of tables and rows of any kind to columns of records.

The module accepts columns (a table of Arrow, pandas or Polars, a mapping of arrays or
lists, the `Records` of a scan) and rows (mappings, or objects with attributes). The
fields are ``key``, ``value``, ``timestamp`` and ``headers``. One error lists all faults
of the input.

Source: ``ProducerRecord.java``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from kafkalog.array_types import Int64s
from kafkalog.encoding.arrow_input import (
    bytes_from_arrow,
    columns_from_arrow,
    headers_from_arrow,
    is_arrow,
    timestamps_from_arrow,
)
from kafkalog.encoding.record_columns import ByteColumn, HeaderColumns, RecordColumns
from kafkalog.errors import UnfitRecordsError
from kafkalog.formats.layout import NO_TIMESTAMP
from kafkalog.integer_limits import MAX_INT64
from kafkalog.text.close_matches import with_close_matches

WRITTEN_COLUMNS: Final = ("key", "value", "timestamp", "headers")
"""Columns that are written."""

IGNORED_COLUMNS: Final = frozenset(
    {
        *("topic", "partition", "offset", "timestamp_type", "leader_epoch"),
        *("producer_id", "producer_epoch", "sequence", "is_transactional"),
        *("is_control", "magic", "codec", "segment", "position"),
    }
)
"""Columns of a scan that are ignored: they state where a record was read from."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
_BYTES: Final = (bytes, bytearray, memoryview)


class ArrowStream(Protocol):
    """Table or stream with Arrow's C interface: pyarrow, Polars, a `Scan`."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the stream."""


class ColumnsByName(Protocol):
    """Object with named columns, such as the `Records` of a scan."""

    @property
    def columns(self) -> Mapping[str, object]:
        """Columns by name."""


RecordsLike: TypeAlias = (
    Mapping[str, object] | ArrowStream | ColumnsByName | Iterable[object]
)
"""Columns, or rows: mappings or objects with attributes."""


def record_columns(records: RecordsLike, now_ms: int) -> RecordColumns:
    """Return records of any kind as columns, with offsets from 0.

    `now_ms` is the timestamp of records without one.

    Raises `UnfitRecordsError` with all faults of the input.

    >>> columns = record_columns({"value": [b"a", "b", None]}, now_ms=7)
    >>> columns.value.length.tolist(), columns.timestamp.tolist()
    ([1, 1, -1], [7, 7, 7])
    """
    faults: list[str] = []
    named = {
        name: column
        for name, column in _named(records, faults).items()
        if column is not None and name not in IGNORED_COLUMNS
    }
    if unknown := [str(name) for name in named if name not in WRITTEN_COLUMNS]:
        suggestions = [
            with_close_matches(name, WRITTEN_COLUMNS) for name in sorted(unknown)
        ]
        faults.append(f"no such columns: {', '.join(suggestions)}")
    if not faults and not {"key", "value"} & named.keys():
        faults.append("neither a key nor a value column")
    columns: dict[str, Any] = {}
    for name, read in _READERS.items():
        if name in named:
            try:
                columns[name] = read(named[name])
            except UnfitRecordsError as error:
                faults += [f"{name}: {fault}" for fault in error.faults]
    lengths = {name: _rows_of(column) for name, column in columns.items()}
    if len({*lengths.values()}) > 1:
        counts = ", ".join(f"{name} {rows}" for name, rows in lengths.items())
        faults.append(f"columns of different lengths: {counts}")
    if faults:
        raise UnfitRecordsError(*faults)
    rows = lengths.popitem()[1]
    for name in {"key", "value"} - columns.keys():
        columns[name] = ByteColumn.nulls(rows)
    if "timestamp" not in columns:
        columns["timestamp"] = np.full(rows, now_ms)
    if "headers" in columns and not len(columns["headers"][1].length):
        del columns["headers"]
    return RecordColumns(offset=np.arange(rows), **columns)


def _named(records: Any, faults: list[str]) -> Mapping[str, Any]:
    """Return the columns by name; append faults of rows to `faults`."""
    if isinstance(records, RecordColumns):
        return records._asdict()
    if isinstance(records, Mapping):
        return records
    columns = getattr(records, "columns", None)
    if isinstance(columns, Mapping):
        return columns
    if is_arrow(records):
        return columns_from_arrow(records)
    if isinstance(records, Iterable) and not isinstance(records, (str, *_BYTES)):
        return _columns_of_rows(records, faults)
    kind = type(records).__name__
    raise UnfitRecordsError(f"records of type {kind}, expected columns or rows")


def _columns_of_rows(records: Iterable[Any], faults: list[str]) -> dict[str, Any]:
    """Return the fields of rows as columns, None for a missing field."""
    cells: dict[str, list[Any]] = {name: [] for name in WRITTEN_COLUMNS}
    names, invalid = {"key", "value"}, list[tuple[int, str]]()
    for number, row in enumerate(records):
        if isinstance(row, Mapping):
            names.update(row)
            for name in WRITTEN_COLUMNS:
                cells[name].append(row.get(name))
        elif hasattr(row, "key") or hasattr(row, "value"):
            for name in WRITTEN_COLUMNS:
                cells[name].append(getattr(row, name, None))
            names.update(name for name in WRITTEN_COLUMNS if hasattr(row, name))
        else:
            invalid.append((number, type(row).__name__))
    if invalid:
        number, kind = invalid[0]
        reason = f"row {number} of type {kind}, expected fields key or value"
        faults.append(reason + _and_more(invalid))
    columns: dict[str, Any] = {
        name: cells[name] for name in WRITTEN_COLUMNS if name in names
    }
    return columns | dict.fromkeys(names - {*WRITTEN_COLUMNS} - IGNORED_COLUMNS, ())


def _bytes(column: Any) -> ByteColumn:
    """Return a column of bytes or text of any type."""
    if isinstance(column, np.ndarray):
        if column.ndim == 2 and column.dtype == np.uint8:
            rows, width = column.shape
            data = np.ascontiguousarray(column).reshape(-1)
            return ByteColumn.contiguous(data, np.full(rows, width, np.int32))
        if column.ndim != 1 or column.dtype.kind not in "OSU":
            reason = f"type {column.dtype} in {column.ndim} dimensions"
            raise UnfitRecordsError(f"{reason}, expected bytes or text in 1")
        return _bytes_of_cells(column.tolist())
    if is_arrow(column):
        return bytes_from_arrow(column)
    if hasattr(column, "valid"):
        return ByteColumn.from_offsets(column.data, column.offsets, column.valid)
    if hasattr(column, "length"):
        start = np.asarray(column.start, np.int64)
        return ByteColumn(column.data, start, column.length)
    return _bytes_of_cells(_cells(column))


def _bytes_of_cells(cells: Sequence[Any]) -> ByteColumn:
    if not {*map(type, cells)} <= {bytes, type(None)}:
        invalid = [
            (row, type(cell).__name__)
            for row, cell in enumerate(cells)
            if not isinstance(cell, (str, *_BYTES, type(None)))
        ]
        if invalid:
            row, kind = invalid[0]
            reason = f"row {row} of type {kind}, expected bytes or text"
            raise UnfitRecordsError(reason + _and_more(invalid))
        cells = [_encoded(cell) for cell in cells]
    return ByteColumn.of(cells)


def _encoded(cell: Any) -> bytes | None:
    if isinstance(cell, str):
        try:
            return cell.encode()
        except UnicodeEncodeError as error:
            raise UnfitRecordsError(
                f"text that is not valid Unicode: {error}"
            ) from None
    return None if cell is None else bytes(cell)


def _timestamps(column: Any) -> Int64s:
    """Return a column of times in ms; -1 is no timestamp, less is a fault."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "iuM":
        if column.ndim != 1:
            raise UnfitRecordsError(f"array of {column.ndim} dimensions, expected 1")
        times = _whole_ms(column)
    elif is_arrow(column):
        times = timestamps_from_arrow(column)
    else:
        cells = column.tolist() if isinstance(column, np.ndarray) else _cells(column)
        times = _timestamps_of_cells(cells)
    if times.min(initial=0) < NO_TIMESTAMP:
        negative = np.flatnonzero(times < NO_TIMESTAMP)
        row = int(negative[0])
        reason = f"row {row} is {times[row]}, expected at least -1"
        raise UnfitRecordsError(reason + _and_more(negative))
    return times


def _whole_ms(column: Any) -> Int64s:
    if column.dtype.kind == "M":
        ms = column.astype("datetime64[ms]")
        return np.where(np.isnat(ms), NO_TIMESTAMP, ms.view(np.int64))
    if column.dtype == np.uint64 and column.max(initial=0) > MAX_INT64:
        raise UnfitRecordsError(f"{column.max()}, expected at most {MAX_INT64}")
    return np.ascontiguousarray(column, np.int64)


def _timestamps_of_cells(cells: Sequence[Any]) -> Int64s:
    times, invalid = list[int](), list[tuple[int, str]]()
    for row, cell in enumerate(cells):
        if isinstance(cell, datetime) and cell.tzinfo is not None:
            times.append((cell - _EPOCH) // _MS)
        elif isinstance(cell, (int, np.integer)) and abs(int(cell)) <= MAX_INT64:
            times.append(int(cell))
        elif cell is None:
            times.append(NO_TIMESTAMP)
        else:
            invalid.append((row, f"{cell!r:.40}"))
    if invalid:
        row, shown = invalid[0]
        reason = f"row {row} is {shown}, expected ms or a time with a time zone"
        raise UnfitRecordsError(reason + _and_more(invalid))
    return np.array(times, np.int64)


def _headers(column: Any) -> HeaderColumns:
    """Return a column of headers as bounds, keys and values."""
    if is_arrow(column):
        bounds, keys, values = headers_from_arrow(column)
    elif hasattr(column, "offsets"):
        bounds = np.asarray(column.offsets, np.int64)
        keys, values = _bytes(column.key), _bytes(column.value)
    elif isinstance(column, tuple) and any(
        isinstance(part, ByteColumn) for part in column
    ):
        bounds, keys, values = column
    else:
        cells = column.tolist() if isinstance(column, np.ndarray) else _cells(column)
        bounds, keys, values = _headers_of_cells(cells)
    if keys.length.min(initial=0) < 0:
        raise UnfitRecordsError("record header without a key")
    return bounds, keys, values


def _headers_of_cells(cells: Sequence[Any]) -> HeaderColumns:
    pairs: list[tuple[Any, Any]] = []
    bounds, invalid = [0], list[tuple[int, str]]()
    for row, cell in enumerate(cells):
        try:
            pairs += [(key, value) for key, value in (() if cell is None else cell)]
        except (TypeError, ValueError):
            invalid.append((row, f"{cell!r:.40}"))
        bounds.append(len(pairs))
    if invalid:
        row, shown = invalid[0]
        reason = f"row {row} is {shown}, expected a list of keys and values"
        raise UnfitRecordsError(reason + _and_more(invalid))
    keys, values = ([pair[i] for pair in pairs] for i in (0, 1))
    return np.array(bounds, np.int64), _bytes_of_cells(keys), _bytes_of_cells(values)


def _cells(column: Any) -> Sequence[Any]:
    if isinstance(column, Iterable) and not isinstance(column, (str, *_BYTES)):
        return list(column)
    raise UnfitRecordsError(f"type {type(column).__name__}, expected a column")


def _rows_of(column: Any) -> int:
    """Return the number of rows of a converted column."""
    if isinstance(column, ByteColumn):
        return len(column.length)
    return len(column[0]) - 1 if isinstance(column, tuple) else len(column)


def _and_more(invalid: Sequence[Any] | Int64s) -> str:
    return f", and {len(invalid) - 1} more" if len(invalid) > 1 else ""


_READERS: Final = {
    "key": _bytes,
    "value": _bytes,
    "timestamp": _timestamps,
    "headers": _headers,
}
"""Function that converts each column."""
