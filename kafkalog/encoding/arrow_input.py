"""Arrow's columns as columns to be written; bytes stay where they are.

Whatever hands itself over as Arrow does: pyarrow's own arrays, Polars' and pandas'
series, the columns of a scan.

Knows: Arrow's types. Does not know: which column is needed for what.
Source: Arrow's columnar format.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import numpy as np

from kafkalog.encoding.record_columns import ByteColumn, HeaderColumns, Int64s
from kafkalog.errors import MissingDependencyError, UnfitRecordsError
from kafkalog.formats.layout import NO_TIMESTAMP

MAX_LENGTH: Final = 2**31 - 1
_UNITS: Final = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}
"""What a time is multiplied with, and divided by, to be in ms."""

_NO_HEADERS: Final = (ByteColumn.nulls(0), ByteColumn.nulls(0))


def is_arrow(given: Any) -> bool:
    """Whether something hands itself over as Arrow, or is pandas'."""
    names = ("__arrow_c_stream__", "__arrow_c_array__", "iloc")
    return any(hasattr(given, name) for name in names)


def columns_from_arrow(table: Any) -> dict[str, Any]:
    """Take a table apart into its columns, by name; an index of pandas is none.

    Raises `UnfitRecordsError` where two have the same name.
    """
    if hasattr(table, "iloc"):
        columns = [(str(name), table.iloc[:, i]) for i, name in enumerate(table)]
    else:
        taken = _pyarrow().table(table)
        columns = list(zip(taken.column_names, taken.columns, strict=True))
    names = [name for name, _ in columns]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UnfitRecordsError(f"columns there twice: {', '.join(twice)}")
    return dict(columns)


def bytes_from_arrow(column: Any) -> ByteColumn:
    """Take bytes, or text as UTF-8, of any of Arrow's types for them."""
    pa, array = _pyarrow(), _taken(column)
    kind = array.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if not (_is_bytes(kind) or pa.types.is_null(kind)):
        raise UnfitRecordsError(f"{array.type}, which is neither bytes nor text")
    array = _whole(array.cast(pa.large_binary()))
    rows = len(array)
    if not rows:
        return ByteColumn.nulls(0)
    _, ends, data = array.buffers()
    offsets = np.frombuffer(ends, np.int64, rows + 1, 8 * array.offset)
    if (offsets[1:] - offsets[:-1]).max() > MAX_LENGTH:
        raise UnfitRecordsError("a value of more than 2147483647 bytes")
    content = np.frombuffer(data or b"", np.uint8)
    return ByteColumn.gathered(content, offsets, _validity(array))


def timestamps_from_arrow(column: Any) -> Int64s:
    """Take times, or whole numbers of ms; null is -1, and a time without zone UTC's."""
    pa, array = _pyarrow(), _taken(column)
    kind = array.type
    times, parts = 1, 1
    if pa.types.is_timestamp(kind):
        times, parts = _UNITS[kind.unit]
    elif not (pa.types.is_integer(kind) or pa.types.is_null(kind)):
        raise UnfitRecordsError(f"{kind}, which is neither a time nor whole ms")
    try:
        array = _whole(array.cast(pa.int64()))
    except pa.ArrowInvalid as error:
        raise UnfitRecordsError(_first_line(error)) from None
    valid = _validity(array)
    raw: Int64s = array.fill_null(0).to_numpy(zero_copy_only=False)
    if times > 1 and len(raw) and max(-raw.min(), raw.max()) > 2**63 // times - 1:
        raise UnfitRecordsError("a time that is too far away for ms in an int64")
    made = raw * times // parts
    return made if valid is None else np.where(valid, made, NO_TIMESTAMP)


def headers_from_arrow(column: Any) -> HeaderColumns:
    """Take lists of structs of key and value, or maps; a null list has none."""
    pa, array = _pyarrow(), _taken(column)
    kind = array.type
    if pa.types.is_null(kind):
        return np.zeros(len(array) + 1, np.int64), *_NO_HEADERS
    if pa.types.is_map(kind):
        pair = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        array = array.cast(pa.list_(pair))
    elif not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        raise UnfitRecordsError(f"{kind}, which is no list of keys and values")
    array = _whole(array)
    pairs = array.flatten()
    names = [field.name for field in pairs.type] if _is_struct(pairs) else []
    if sorted(names) != ["key", "value"]:
        raise UnfitRecordsError(f"{kind}, whose items are not a key and a value")
    parts = dict(zip(names, pairs.flatten(), strict=True))
    counts = pa.compute.list_value_length(array).fill_null(0).to_numpy()
    bounds = np.zeros(len(array) + 1, np.int64)
    np.cumsum(counts, out=bounds[1:])
    return bounds, bytes_from_arrow(parts["key"]), bytes_from_arrow(parts["value"])


def _pyarrow() -> Any:
    try:
        import_module("pyarrow.compute")
        return import_module("pyarrow")
    except ModuleNotFoundError:
        raise MissingDependencyError("pyarrow", "arrow") from None


def _taken(column: Any) -> Any:
    """Take over a column as an array of Arrow's, in one or several parts."""
    pa = _pyarrow()
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        return column
    try:
        if hasattr(column, "__arrow_c_stream__") and not hasattr(column, "iloc"):
            return pa.chunked_array(column)
        return pa.array(column, from_pandas=True)
    except (pa.ArrowException, TypeError) as error:
        raise UnfitRecordsError(_first_line(error)) from None


def _whole(array: Any) -> Any:
    """See an array as one part; only several are copied together."""
    if not hasattr(array, "chunks"):
        return array
    return array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()


def _validity(array: Any) -> Any:
    if not array.null_count:
        return None
    return array.is_valid().to_numpy(zero_copy_only=False)


def _is_bytes(kind: Any) -> bool:
    types = _pyarrow().types
    kinds = ("binary", "large_binary", "fixed_size_binary", "binary_view")
    texts = ("string", "large_string", "string_view")
    return any(getattr(types, f"is_{name}")(kind) for name in (*kinds, *texts))


def _is_struct(array: Any) -> bool:
    return bool(_pyarrow().types.is_struct(array.type))


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
