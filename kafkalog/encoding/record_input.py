"""Whatever holds records, as columns to be written.

    columns    a table of Arrow, pandas or Polars; a mapping of arrays or lists; the
               `Records` of a scan
    rows       mappings, or objects with the attributes

Columns are ``key``, ``value``, ``timestamp`` and ``headers``. All that is wrong with
what was given is said at once.

Knows: shapes and types. Does not know: Arrow (`arrow_input`); what is done with them.
Source: ``ProducerRecord.java``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from kafkalog.codecs.close_matches import with_close_matches
from kafkalog.encoding.arrow_input import (
    bytes_from_arrow,
    columns_from_arrow,
    headers_from_arrow,
    is_arrow,
    timestamps_from_arrow,
)
from kafkalog.encoding.record_columns import (
    ByteColumn,
    HeaderColumns,
    Int64s,
    RecordColumns,
)
from kafkalog.errors import UnfitRecordsError
from kafkalog.formats.layout import NO_TIMESTAMP

WRITTEN: Final = ("key", "value", "timestamp", "headers")
"""The columns that are written; others a scan has, below, are left aside."""

LEFT_ASIDE: Final = frozenset(
    {
        *("topic", "partition", "offset", "timestamp_type", "leader_epoch"),
        *("producer_id", "producer_epoch", "sequence", "is_transactional"),
        *("is_control", "magic", "codec", "segment", "position"),
    }
)
"""Where records come from is not where they go."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
_MOST_INT64: Final = 2**63 - 1
_BYTES: Final = (bytes, bytearray, memoryview)


class ArrowStream(Protocol):
    """A table or stream of Arrow's C interface: pyarrow, Polars, a `Scan`."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand over the stream."""


class ColumnsByName(Protocol):
    """What holds columns by their names, as the `Records` of a scan."""

    @property
    def columns(self) -> Mapping[str, object]:
        """The columns."""


RecordsLike: TypeAlias = (
    Mapping[str, object] | ArrowStream | ColumnsByName | Iterable[object]
)
"""Columns, or rows: mappings, or objects with the attributes."""


def record_columns(records: RecordsLike, now_ms: int) -> RecordColumns:
    """Take whatever holds records for columns; their offsets mean nothing.

    `now_ms` is the time of records that say nothing of times.

    Raises `UnfitRecordsError`, which names all that is wrong.

    >>> columns = record_columns({"value": [b"a", "b", None]}, now_ms=7)
    >>> columns.value.length.tolist(), columns.timestamp.tolist()
    ([1, 1, -1], [7, 7, 7])
    """
    faults: list[str] = []
    named = {
        name: column
        for name, column in _named(records, faults).items()
        if column is not None and name not in LEFT_ASIDE
    }
    if unknown := [str(name) for name in named if name not in WRITTEN]:
        named_near = [with_close_matches(name, WRITTEN) for name in sorted(unknown)]
        faults.append(f"no such columns: {', '.join(named_near)}")
    if not faults and not {"key", "value"} & named.keys():
        faults.append("neither a key nor a value")
    made: dict[str, Any] = {}
    for name, read in _READERS.items():
        if name in named:
            try:
                made[name] = read(named[name])
            except UnfitRecordsError as error:
                faults += [f"{name}: {fault}" for fault in error.faults]
    lengths = {name: _rows_of(column) for name, column in made.items()}
    if len({*lengths.values()}) > 1:
        told = ", ".join(f"{name} {rows}" for name, rows in lengths.items())
        faults.append(f"the columns differ in length: {told}")
    if faults:
        raise UnfitRecordsError(*faults)
    rows = lengths.popitem()[1]
    for name in {"key", "value"} - made.keys():
        made[name] = ByteColumn.nulls(rows)
    if "timestamp" not in made:
        made["timestamp"] = np.full(rows, now_ms)
    if "headers" in made and not len(made["headers"][1].length):
        del made["headers"]
    return RecordColumns(offset=np.arange(rows), **made)


def _named(records: Any, faults: list[str]) -> Mapping[str, Any]:
    """Take apart into columns by name; adds to `faults` what is wrong with rows."""
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
    raise UnfitRecordsError(f"neither columns nor rows, but {kind}")


def _columns_of_rows(records: Iterable[Any], faults: list[str]) -> dict[str, Any]:
    """Gather what rows say, column by column; None where they do not."""
    cells: dict[str, list[Any]] = {name: [] for name in WRITTEN}
    said, strange = {"key", "value"}, list[tuple[int, str]]()
    for number, row in enumerate(records):
        if isinstance(row, Mapping):
            said.update(row)
            for name in WRITTEN:
                cells[name].append(row.get(name))
        elif hasattr(row, "key") or hasattr(row, "value"):
            for name in WRITTEN:
                cells[name].append(getattr(row, name, None))
            said.update(name for name in WRITTEN if hasattr(row, name))
        else:
            strange.append((number, type(row).__name__))
    if strange:
        number, kind = strange[0]
        reason = f"row {number} is of type {kind}, without key and value"
        faults.append(reason + _and_more(strange))
    columns: dict[str, Any] = {name: cells[name] for name in WRITTEN if name in said}
    return columns | dict.fromkeys(said - {*WRITTEN} - LEFT_ASIDE, ())


def _bytes(column: Any) -> ByteColumn:
    """Read a column of bytes or text, in any of its forms."""
    if isinstance(column, np.ndarray):
        if column.ndim == 2 and column.dtype == np.uint8:
            rows, width = column.shape
            data = np.ascontiguousarray(column).reshape(-1)
            return ByteColumn.packed(data, np.full(rows, width, np.int32))
        if column.ndim != 1 or column.dtype.kind not in "OSU":
            reason = f"{column.dtype} in {column.ndim} dimensions"
            raise UnfitRecordsError(f"{reason}, which is neither bytes nor text")
        return _bytes_of_cells(column.tolist())
    if is_arrow(column):
        return bytes_from_arrow(column)
    if hasattr(column, "valid"):
        return ByteColumn.gathered(column.data, column.offsets, column.valid)
    if hasattr(column, "length"):
        start = np.asarray(column.start, np.int64)
        return ByteColumn(column.data, start, column.length)
    return _bytes_of_cells(_cells(column))


def _bytes_of_cells(cells: Sequence[Any]) -> ByteColumn:
    if not {*map(type, cells)} <= {bytes, type(None)}:
        strange = [
            (row, type(cell).__name__)
            for row, cell in enumerate(cells)
            if not isinstance(cell, (str, *_BYTES, type(None)))
        ]
        if strange:
            row, kind = strange[0]
            reason = f"row {row} is of type {kind}, neither bytes nor text"
            raise UnfitRecordsError(reason + _and_more(strange))
        cells = [_encoded(cell) for cell in cells]
    return ByteColumn.of(cells)


def _encoded(cell: Any) -> bytes | None:
    if isinstance(cell, str):
        try:
            return cell.encode()
        except UnicodeEncodeError as error:
            raise UnfitRecordsError(f"no text: {error}") from None
    return None if cell is None else bytes(cell)


def _timestamps(column: Any) -> Int64s:
    """Read times; none may be negative but -1, which is none."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "iuM":
        if column.ndim != 1:
            raise UnfitRecordsError(f"an array of {column.ndim} dimensions")
        times = _whole_ms(column)
    elif is_arrow(column):
        times = timestamps_from_arrow(column)
    else:
        cells = column.tolist() if isinstance(column, np.ndarray) else _cells(column)
        times = _timestamps_of_cells(cells)
    if times.min(initial=0) < NO_TIMESTAMP:
        negative = np.flatnonzero(times < NO_TIMESTAMP)
        row = int(negative[0])
        reason = f"row {row} is negative, {times[row]}"
        raise UnfitRecordsError(reason + _and_more(negative))
    return times


def _whole_ms(column: Any) -> Int64s:
    if column.dtype.kind == "M":
        ms = column.astype("datetime64[ms]")
        return np.where(np.isnat(ms), NO_TIMESTAMP, ms.view(np.int64))
    if column.dtype == np.uint64 and column.max(initial=0) > _MOST_INT64:
        raise UnfitRecordsError("a number that is no int64")
    return np.ascontiguousarray(column, np.int64)


def _timestamps_of_cells(cells: Sequence[Any]) -> Int64s:
    times, strange = list[int](), list[tuple[int, str]]()
    for row, cell in enumerate(cells):
        if isinstance(cell, datetime) and cell.tzinfo is not None:
            times.append((cell - _EPOCH) // _MS)
        elif isinstance(cell, (int, np.integer)) and abs(int(cell)) <= _MOST_INT64:
            times.append(int(cell))
        elif cell is None:
            times.append(NO_TIMESTAMP)
        else:
            strange.append((row, f"{cell!r:.40}"))
    if strange:
        row, shown = strange[0]
        reason = f"row {row} is {shown}, neither ms nor a time with its zone"
        raise UnfitRecordsError(reason + _and_more(strange))
    return np.array(times, np.int64)


def _headers(column: Any) -> HeaderColumns:
    """Read headers: bounds, keys, values; each needs a key."""
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
        raise UnfitRecordsError("a header without a key")
    return bounds, keys, values


def _headers_of_cells(cells: Sequence[Any]) -> HeaderColumns:
    pairs: list[tuple[Any, Any]] = []
    bounds, strange = [0], list[tuple[int, str]]()
    for row, cell in enumerate(cells):
        try:
            pairs += [(key, value) for key, value in (() if cell is None else cell)]
        except (TypeError, ValueError):
            strange.append((row, f"{cell!r:.40}"))
        bounds.append(len(pairs))
    if strange:
        row, shown = strange[0]
        reason = f"row {row} is {shown}, which is no list of keys and values"
        raise UnfitRecordsError(reason + _and_more(strange))
    keys, values = ([pair[i] for pair in pairs] for i in (0, 1))
    return np.array(bounds, np.int64), _bytes_of_cells(keys), _bytes_of_cells(values)


def _cells(column: Any) -> Sequence[Any]:
    if isinstance(column, Iterable) and not isinstance(column, (str, *_BYTES)):
        return list(column)
    raise UnfitRecordsError(f"no column, but {type(column).__name__}")


def _rows_of(column: Any) -> int:
    """Count the rows of a column that was read."""
    if isinstance(column, ByteColumn):
        return len(column.length)
    return len(column[0]) - 1 if isinstance(column, tuple) else len(column)


def _and_more(strange: Sequence[Any] | Int64s) -> str:
    return f", and {len(strange) - 1} more" if len(strange) > 1 else ""


_READERS: Final = {
    "key": _bytes,
    "value": _bytes,
    "timestamp": _timestamps,
    "headers": _headers,
}
"""How each of the columns is read."""
