"""Conversion of Arrow columns to columns of records, without a copy of their bytes.

The module accepts pyarrow arrays, objects with Arrow's C interface (Polars series,
columns of a scan) and pandas series.

Source: Arrow's columnar format.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import numpy as np

from kafkalog.array_types import Int64s
from kafkalog.encoding.record_columns import ByteColumn, HeaderColumns
from kafkalog.errors import MissingDependencyError, UnfitRecordsError
from kafkalog.formats.layout import NO_TIMESTAMP
from kafkalog.integer_limits import MAX_INT64

MAX_LENGTH: Final = 2**31 - 1
_UNITS: Final = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}
"""Factor and divisor to convert a time of each unit to ms."""

_NO_HEADERS: Final = (ByteColumn.nulls(0), ByteColumn.nulls(0))


def is_arrow(column: Any) -> bool:
    """Return whether an object has Arrow's C interface, or is one of pandas."""
    names = ("__arrow_c_stream__", "__arrow_c_array__", "iloc")
    return any(hasattr(column, name) for name in names)


def columns_from_arrow(table: Any) -> dict[str, Any]:
    """Return the columns of a table by name, without the index of a pandas frame.

    Raises `UnfitRecordsError` if two columns have the same name.
    """
    if hasattr(table, "iloc"):
        columns = [(str(name), table.iloc[:, i]) for i, name in enumerate(table)]
    else:
        arrow = _pyarrow().table(table)
        columns = list(zip(arrow.column_names, arrow.columns, strict=True))
    names = [name for name, _ in columns]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UnfitRecordsError(f"duplicate columns: {', '.join(twice)}")
    return dict(columns)


def bytes_from_arrow(column: Any) -> ByteColumn:
    """Return a column of bytes, or of text as UTF-8, of any such type of Arrow."""
    pa, array = _pyarrow(), _as_arrow(column)
    dtype = array.type
    if pa.types.is_dictionary(dtype):
        dtype = dtype.value_type
    if not (_is_bytes(dtype) or pa.types.is_null(dtype)):
        raise UnfitRecordsError(f"type {array.type}, expected bytes or text")
    array = _one_chunk(array.cast(pa.large_binary()))
    rows = len(array)
    if not rows:
        return ByteColumn.nulls(0)
    _, ends, data = array.buffers()
    offsets = np.frombuffer(ends, np.int64, rows + 1, 8 * array.offset)
    if (offsets[1:] - offsets[:-1]).max() > MAX_LENGTH:
        longest = int((offsets[1:] - offsets[:-1]).max())
        reason = f"value of {longest} bytes, expected at most {MAX_LENGTH}"
        raise UnfitRecordsError(reason)
    content = np.frombuffer(data or b"", np.uint8)
    return ByteColumn.from_offsets(content, offsets, _validity(array))


def timestamps_from_arrow(column: Any) -> Int64s:
    """Return times or integers as ms, null as -1; a time without zone is UTC."""
    pa, array = _pyarrow(), _as_arrow(column)
    dtype = array.type
    factor, divisor = 1, 1
    if pa.types.is_timestamp(dtype):
        factor, divisor = _UNITS[dtype.unit]
    elif not (pa.types.is_integer(dtype) or pa.types.is_null(dtype)):
        raise UnfitRecordsError(f"type {dtype}, expected a timestamp or integers of ms")
    try:
        array = _one_chunk(array.cast(pa.int64()))
    except pa.ArrowInvalid as error:
        raise UnfitRecordsError(_first_line(error)) from None
    valid = _validity(array)
    raw: Int64s = array.fill_null(0).to_numpy(zero_copy_only=False)
    most = (MAX_INT64 + 1) // factor - 1
    if factor > 1 and len(raw) and max(-raw.min(), raw.max()) > most:
        reason = f"times from {raw.min()} to {raw.max()} {dtype.unit}"
        raise UnfitRecordsError(f"{reason}, expected -{most} to {most}")
    ms = raw * factor // divisor
    return ms if valid is None else np.where(valid, ms, NO_TIMESTAMP)


def headers_from_arrow(column: Any) -> HeaderColumns:
    """Return headers from lists of structs of key and value, or from maps.

    A null list has no headers.
    """
    pa, array = _pyarrow(), _as_arrow(column)
    dtype = array.type
    if pa.types.is_null(dtype):
        return np.zeros(len(array) + 1, np.int64), *_NO_HEADERS
    if pa.types.is_map(dtype):
        pair = pa.struct([("key", dtype.key_type), ("value", dtype.item_type)])
        array = array.cast(pa.list_(pair))
    elif not (pa.types.is_list(dtype) or pa.types.is_large_list(dtype)):
        raise UnfitRecordsError(f"type {dtype}, expected lists of keys and values")
    array = _one_chunk(array)
    pairs = array.flatten()
    names = [field.name for field in pairs.type] if _is_struct(pairs) else []
    if sorted(names) != ["key", "value"]:
        raise UnfitRecordsError(f"type {dtype}, expected lists of keys and values")
    fields = dict(zip(names, pairs.flatten(), strict=True))
    counts = pa.compute.list_value_length(array).fill_null(0).to_numpy()
    bounds = np.zeros(len(array) + 1, np.int64)
    np.cumsum(counts, out=bounds[1:])
    return bounds, bytes_from_arrow(fields["key"]), bytes_from_arrow(fields["value"])


def _pyarrow() -> Any:
    try:
        import_module("pyarrow.compute")
        return import_module("pyarrow")
    except ModuleNotFoundError:
        raise MissingDependencyError("pyarrow", "arrow") from None


def _as_arrow(column: Any) -> Any:
    """Return a column as a pyarrow array or chunked array."""
    pa = _pyarrow()
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        return column
    try:
        if hasattr(column, "__arrow_c_stream__") and not hasattr(column, "iloc"):
            return pa.chunked_array(column)
        return pa.array(column, from_pandas=True)
    except (pa.ArrowException, TypeError) as error:
        raise UnfitRecordsError(_first_line(error)) from None


def _one_chunk(array: Any) -> Any:
    """Return an array as one chunk; only several chunks are copied."""
    if not hasattr(array, "chunks"):
        return array
    return array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()


def _validity(array: Any) -> Any:
    """Return which rows are not null, None if all are."""
    if not array.null_count:
        return None
    return array.is_valid().to_numpy(zero_copy_only=False)


def _is_bytes(dtype: Any) -> bool:
    types = _pyarrow().types
    binary = ("binary", "large_binary", "fixed_size_binary", "binary_view")
    texts = ("string", "large_string", "string_view")
    return any(getattr(types, f"is_{name}")(dtype) for name in (*binary, *texts))


def _is_struct(array: Any) -> bool:
    return bool(_pyarrow().types.is_struct(array.type))


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
