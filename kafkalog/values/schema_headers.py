"""Schema ids, payloads and message indexes of columns in Confluent's wire format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, overload

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog.integer_limits import MAX_INT32
from kafkalog.optional_packages import require
from kafkalog.query.chunk_columns import BytesColumn, ViewColumn

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkalog.array_types import Bytes

__all__ = ["MessageIndexes", "message_indexes", "payloads", "schema_ids"]

NO_SCHEMA_ID: Final = -1

Places = npt.NDArray[Any]
"""Positions in a column's data, int32 or int64 as its offsets are."""


@dataclass(frozen=True, slots=True)
class MessageIndexes:
    """Message indexes of n values: ``data[offsets[i]:offsets[i + 1]]``, where `valid`.

    `valid` is None where every value has them.
    """

    data: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int32]
    valid: npt.NDArray[np.bool_] | None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def to_list(self) -> list[list[int] | None]:
        """Return the indexes of each value, None where there are none."""
        data, ends = self.data.tolist(), self.offsets.tolist()
        rows = [data[a:b] for a, b in pairwise(ends)]
        return [row or None for row in rows]  # there is at least one


@overload
def schema_ids(column: BytesColumn | ViewColumn) -> npt.NDArray[np.int32]: ...
@overload
def schema_ids(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray: ...


def schema_ids(column: Any) -> Any:
    r"""Return the schema id of each value.

    Parameters
    ----------
    column : pyarrow.Array, pyarrow.ChunkedArray, BytesColumn or ViewColumn
        Values: Arrow's ``binary`` or ``large_binary``, or a column of `Records`.

    Returns
    -------
    pyarrow.Array, pyarrow.ChunkedArray or ndarray of int32
        The ids. A value that is not in the wire format has none: null in Arrow, -1 in
        NumPy.

    Raises
    ------
    TypeError
        If the column is none of these.
    ValueError
        If the offsets of a column point outside of its data.

    Notes
    -----
    Serializers that are set to write the schema's id into the record headers
    ``__key_schema_id`` and ``__value_schema_id`` leave keys and values without one.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from kafkalog.values import schema_ids
    >>> column = pa.array([b"\x00\x00\x00\x00\x07abc", b"abc", None])
    >>> schema_ids(column).to_pylist()
    [7, None, None]
    """
    if isinstance(column, BytesColumn | ViewColumn):
        ids, _ = _ids(_rows_of_records(column))
        return ids
    return _of_chunks(column, _arrow_ids)


@overload
def payloads(
    column: BytesColumn | ViewColumn, *, protobuf: bool = False
) -> ViewColumn: ...
@overload
def payloads(
    column: pa.Array | pa.ChunkedArray, *, protobuf: bool = False
) -> pa.Array | pa.ChunkedArray: ...


def payloads(column: Any, *, protobuf: bool = False) -> Any:
    r"""Return the payload of each value: the bytes that follow the header.

    Parameters
    ----------
    column : pyarrow.Array, pyarrow.ChunkedArray, BytesColumn or ViewColumn
        Values: Arrow's ``binary`` or ``large_binary``, or a column of `Records`.
    protobuf : bool
        Whether message indexes precede the payload, as they do in Protobuf. A value
        with invalid ones has no payload then: if they do not end in the value, the
        count is negative, or a varint takes more than 5 bytes.

    Returns
    -------
    pyarrow.Array, pyarrow.ChunkedArray or ViewColumn
        The payloads; null where a value is not in the wire format. In Arrow they have
        the type of the column, and are copied: the payloads of a chunk follow one
        another in its data. In NumPy they are views of the column's data.

    Raises
    ------
    TypeError
        If the column is none of these.
    ValueError
        If the offsets of a column point outside of its data.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from kafkalog.values import payloads
    >>> column = pa.array([b"\x00\x00\x00\x00\x07\x00abc", b"abc", None])
    >>> payloads(column).to_pylist()
    [b'\x00abc', None, None]
    >>> payloads(column, protobuf=True).to_pylist()
    [b'abc', None, None]
    """
    if isinstance(column, BytesColumn | ViewColumn):
        rows = _rows_of_records(column)
        return ViewColumn(rows.data, *_payload_places(rows, protobuf))
    return _of_chunks(column, partial(_arrow_payloads, protobuf=protobuf))


@overload
def message_indexes(column: BytesColumn | ViewColumn) -> MessageIndexes: ...
@overload
def message_indexes(
    column: pa.Array | pa.ChunkedArray,
) -> pa.Array | pa.ChunkedArray: ...


def message_indexes(column: Any) -> Any:
    r"""Return the message indexes of each value that Protobuf's serializer wrote.

    Parameters
    ----------
    column : pyarrow.Array, pyarrow.ChunkedArray, BytesColumn or ViewColumn
        Values: Arrow's ``binary`` or ``large_binary``, or a column of `Records`.

    Returns
    -------
    pyarrow.Array, pyarrow.ChunkedArray or MessageIndexes
        Lists of int32; null where a value is not in the wire format, or has invalid
        message indexes, as for `payloads`.

    Raises
    ------
    TypeError
        If the column is none of these.
    ValueError
        If the offsets of a column point outside of its data.

    Notes
    -----
    Old clients for Python and Go could be set to write varints without zig-zag. Such
    indexes are not recognized.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from kafkalog.values import message_indexes
    >>> header = b"\x00\x00\x00\x00\x07"
    >>> column = pa.array([header + b"\x00abc", header + b"\x04\x02\x00abc", b"abc"])
    >>> message_indexes(column).to_pylist()
    [[0], [1, 0], None]
    """
    if isinstance(column, BytesColumn | ViewColumn):
        data, offsets, valid = _indexes(_rows_of_records(column))
        return MessageIndexes(data, offsets, None if valid.all() else valid)
    return _of_chunks(column, _arrow_indexes)


@dataclass(frozen=True, slots=True)
class _Values:
    """Byte strings as the kernels take them: row i is ``data[begins[i]:ends[i]]``."""

    data: Bytes
    begins: Places
    ends: Places
    valid: npt.NDArray[np.uint8] | None

    def __len__(self) -> int:
        return len(self.begins)

    def call(self, kernel: Callable[..., int], *arguments: Any) -> None:
        """Call a kernel, which returns the number of rows within the data."""
        done = kernel(self.data, self.begins, self.ends, *arguments)
        if done != len(self):
            begin, end = self.begins[done], self.ends[done]
            raise ValueError(
                f"row {done} has bytes {begin} to {end} of the column's data, expected "
                f"at most {len(self.data)}"
            )


def _rows_of_records(column: BytesColumn | ViewColumn) -> _Values:
    if isinstance(column, ViewColumn):
        start, length = map(np.ascontiguousarray, (column.start, column.length))
        return _Values(column.data, start, start + length, None)
    valid = None if column.valid is None else column.valid.view(np.uint8)
    return _Values(column.data, column.offsets[:-1], column.offsets[1:], valid)


def _ids(rows: _Values) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    """Return the id of each row, and whether it has one."""
    ids, found = np.empty(len(rows), np.int32), np.empty(len(rows), np.uint8)
    rows.call(_speedups.read_schema_ids, rows.valid, NO_SCHEMA_ID, ids, found)
    return ids, found.view(np.bool_)


def _payload_places(rows: _Values, protobuf: bool) -> tuple[Places, Places]:
    """Return the start of each payload, and its length, -1 if there is none."""
    starts, lengths = np.empty_like(rows.begins), np.empty_like(rows.begins)
    rows.call(_speedups.skip_schema_headers, rows.valid, protobuf, starts, lengths)
    return starts, lengths


def _indexes(
    rows: _Values,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    """Return all message indexes, the offsets of each row, and whether it has any."""
    counts, offsets = (np.empty(len(rows) + i, np.int32) for i in (0, 1))
    valid = np.empty(len(rows), np.uint8)
    rows.call(_speedups.count_message_indexes, rows.valid, counts)
    total, _ = _speedups.lengths_to_offsets(counts, offsets, valid)
    if total > MAX_INT32:
        raise ValueError(f"{total} message indexes in a chunk, expected {MAX_INT32}")
    indexes = np.empty(total, np.int32)
    rows.call(_speedups.read_message_indexes, offsets, indexes)
    return indexes, offsets, valid.view(np.bool_)


def _of_chunks(column: Any, read: Callable[[Any], Any]) -> Any:
    """Return the result of `read` for an Arrow array, or for each chunk of one."""
    pa = require("pyarrow", "arrow")
    if not isinstance(column, pa.Array | pa.ChunkedArray):
        name = type(column).__name__
        raise TypeError(
            f"column of type {name}, expected an Arrow array or a column of Records"
        )
    if column.type not in (pa.binary(), pa.large_binary()):
        raise TypeError(f"column of {column.type}, expected binary or large_binary")
    if isinstance(column, pa.Array):
        return read(column)
    chunks = column.chunks or [pa.array([], column.type)]
    return pa.chunked_array([read(chunk) for chunk in chunks])


def rows_of_arrow(chunk: pa.Array) -> _Values:
    """Return the rows of an Arrow array, which may be a slice of a longer one."""
    pa = require("pyarrow", "arrow")
    first, count = chunk.offset, len(chunk)
    offset = np.dtype(np.int32 if chunk.type == pa.binary() else np.int64)
    validity, places, data = chunk.buffers()
    offsets = np.zeros(1, offset)
    if count:  # the buffers of an empty array may be empty, or missing
        offsets = np.frombuffer(places, offset, count + 1, first * offset.itemsize)
    valid = None
    if chunk.null_count:
        bits = np.frombuffer(validity, np.uint8)[first // 8 :]
        skipped = first % 8
        valid = np.unpackbits(bits, count=skipped + count, bitorder="little")[skipped:]
    held = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return _Values(held, offsets[:-1], offsets[1:], valid)


def _arrow_ids(chunk: pa.Array) -> pa.Array:
    pa = require("pyarrow", "arrow")
    ids, found = _ids(rows_of_arrow(chunk))
    buffers = [_validity(found), pa.py_buffer(ids)]
    return pa.Array.from_buffers(pa.int32(), len(ids), buffers)


def _arrow_payloads(chunk: pa.Array, *, protobuf: bool) -> pa.Array:
    pa = require("pyarrow", "arrow")
    rows = rows_of_arrow(chunk)
    starts, lengths = _payload_places(rows, protobuf)
    offsets, valid = (
        np.empty(len(rows) + 1, starts.dtype),
        np.empty(len(rows), np.uint8),
    )
    total, _ = _speedups.lengths_to_offsets(lengths, offsets, valid)
    data = np.empty(total, np.uint8)
    _speedups.gather_bytes(rows.data, starts, lengths, data)
    buffers = [_validity(valid.view(np.bool_)), *map(pa.py_buffer, (offsets, data))]
    return pa.Array.from_buffers(chunk.type, len(rows), buffers)


def _arrow_indexes(chunk: pa.Array) -> pa.Array:
    pa = require("pyarrow", "arrow")
    data, offsets, valid = _indexes(rows_of_arrow(chunk))
    kind = pa.list_(pa.int32())
    buffers = [_validity(valid), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(kind, len(valid), buffers, children=[pa.array(data)])


def _validity(valid: npt.NDArray[np.bool_]) -> pa.Buffer | None:
    """Return an Arrow validity bitmap, None if no row is null."""
    from kafkalog.export.arrow import bitmap

    return None if valid.all() else bitmap(valid)
