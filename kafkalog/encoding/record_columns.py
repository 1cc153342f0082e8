"""Records as columns, the form in which they are written: one array a field.

A column of bytes is three arrays, so that rows may lie anywhere in `data`: gathered one
behind another, or left where a decoder found them. The header columns are flat; record
i has those from ``header_bounds[i]`` to ``header_bounds[i + 1]``.

Knows: shapes. Does not know: any layout of bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

Int64s: TypeAlias = npt.NDArray[np.int64]
HeaderColumns: TypeAlias = "tuple[Int64s, ByteColumn, ByteColumn]"
Header: TypeAlias = tuple[str | bytes, bytes | None]

NULL = -1
"""The length of a row that is null."""


class ByteColumn(NamedTuple):
    """Rows of bytes in `data`: `start` int64 (n,), `length` int32 (n,), -1 for null."""

    data: npt.NDArray[np.uint8]
    start: Int64s
    length: npt.NDArray[np.int32]

    @classmethod
    def of(cls, values: Sequence[bytes | None]) -> Self:
        """Gather `values`, one a row.

        >>> ByteColumn.of([b"ab", None, b""]).length
        array([ 2, -1,  0], dtype=int32)
        """
        lengths = [NULL if value is None else len(value) for value in values]
        data = b"".join([value for value in values if value])
        return cls.packed(np.frombuffer(data, np.uint8), np.array(lengths, np.int32))

    @classmethod
    def packed(cls, data: npt.NDArray[np.uint8], length: npt.NDArray[np.int32]) -> Self:
        """Rows one behind another in `data`, as long as `length` says, -1 for null."""
        start = np.zeros(length.size, np.int64)
        np.cumsum(np.maximum(length[:-1], 0), out=start[1:])
        return cls(data, start, length)

    @classmethod
    def gathered(
        cls,
        data: npt.NDArray[np.uint8],
        offsets: npt.NDArray[np.integer],
        valid: npt.NDArray[np.bool_] | None,
    ) -> Self:
        """Rows as Arrow has them: n + 1 `offsets` into `data`, and what is no null."""
        length = np.diff(offsets).astype(np.int32)
        if valid is not None:
            length[~valid] = NULL
        return cls(data, offsets[:-1].astype(np.int64), length)

    @classmethod
    def nulls(cls, rows: int) -> Self:
        """Make a column of `rows` nulls."""
        return cls.packed(np.empty(0, np.uint8), np.full(rows, NULL, np.int32))

    def between(self, first: int, end: int) -> Self:
        """See the rows from `first` up to `end`; the bytes stay where they are."""
        return self._replace(start=self.start[first:end], length=self.length[first:end])


class RecordColumns(NamedTuple):
    """Records: `offset`, `timestamp` in ms (int64, -1 none), key, value, headers.

    `headers` is None where no record has any, else (bounds, keys, values).
    """

    offset: Int64s
    timestamp: Int64s
    key: ByteColumn
    value: ByteColumn
    headers: HeaderColumns | None = None

    def between(self, first: int, end: int) -> Self:
        """See the records from `first` up to `end`."""
        headers = self.headers
        if headers is not None:
            headers = (headers[0][first : end + 1], *headers[1:])
        return self._replace(
            offset=self.offset[first:end],
            timestamp=self.timestamp[first:end],
            key=self.key.between(first, end),
            value=self.value.between(first, end),
            headers=headers,
        )


def header_columns(headers: Iterable[Sequence[Header]]) -> HeaderColumns | None:
    """Flatten each record's headers into columns; None where there are none at all.

    >>> bounds, keys, values = header_columns([[("h", b"v"), ("n", None)], []])
    >>> bounds, keys.data.tobytes(), values.length
    (array([0, 2, 2]), b'hn', array([ 1, -1], dtype=int32))
    """
    bounds, keys, values = [0], list[bytes](), list[bytes | None]()
    for row in headers:
        for key, value in row:
            keys.append(key.encode() if isinstance(key, str) else key)
            values.append(value)
        bounds.append(len(keys))
    if not keys:
        return None
    return np.array(bounds, np.int64), ByteColumn.of(keys), ByteColumn.of(values)
