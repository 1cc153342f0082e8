"""Columns of records to be encoded: an array for each field.

A column of bytes is three arrays, so that the rows may be anywhere in `data`:
contiguous, or where a decoder found them. The columns of record headers are flat:
record i has the headers ``bounds[i]`` to ``bounds[i + 1]``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from kafkalog.array_types import Int64s

HeaderColumns: TypeAlias = "tuple[Int64s, ByteColumn, ByteColumn]"
Header: TypeAlias = tuple[str | bytes, bytes | None]

NULL = -1
"""Length of a null row."""


class ByteColumn(NamedTuple):
    """Rows of bytes in `data`: `start` int64 (n,), `length` int32 (n,), -1 for null."""

    data: npt.NDArray[np.uint8]
    start: Int64s
    length: npt.NDArray[np.int32]

    @classmethod
    def of(cls, values: Sequence[bytes | None]) -> Self:
        """Return a column of `values`, which are copied.

        >>> ByteColumn.of([b"ab", None, b""]).length
        array([ 2, -1,  0], dtype=int32)
        """
        lengths = [NULL if value is None else len(value) for value in values]
        data = b"".join([value for value in values if value])
        return cls.contiguous(
            np.frombuffer(data, np.uint8), np.array(lengths, np.int32)
        )

    @classmethod
    def contiguous(
        cls, data: npt.NDArray[np.uint8], length: npt.NDArray[np.int32]
    ) -> Self:
        """Return a column of contiguous rows in `data`; `length` is -1 for null."""
        start = np.zeros(length.size, np.int64)
        np.cumsum(np.maximum(length[:-1], 0), out=start[1:])
        return cls(data, start, length)

    @classmethod
    def from_offsets(
        cls,
        data: npt.NDArray[np.uint8],
        offsets: npt.NDArray[np.integer],
        valid: npt.NDArray[np.bool_] | None,
    ) -> Self:
        """Return a column of n + 1 `offsets` and a validity mask, as Arrow has it."""
        length = np.diff(offsets).astype(np.int32)
        if valid is not None:
            length[~valid] = NULL
        return cls(data, offsets[:-1].astype(np.int64), length)

    @classmethod
    def nulls(cls, rows: int) -> Self:
        """Return a column of `rows` nulls."""
        return cls.contiguous(np.empty(0, np.uint8), np.full(rows, NULL, np.int32))

    def between(self, first: int, end: int) -> Self:
        """Return the rows from `first` up to `end`, without a copy of the bytes."""
        return self._replace(start=self.start[first:end], length=self.length[first:end])

    def take(self, rows: npt.NDArray[np.integer]) -> Self:
        """Return the rows with these numbers, without a copy of the bytes."""
        return self._replace(start=self.start[rows], length=self.length[rows])


class RecordColumns(NamedTuple):
    """Records as columns.

    Parameters
    ----------
    offset : ndarray of int64, shape (n,)
        Ascending offsets.
    timestamp : ndarray of int64, shape (n,)
        Milliseconds since the epoch, -1 for none.
    key, value : ByteColumn
        n rows each; a null row has length -1.
    headers : (bounds, keys, values) or None
        `bounds` has n + 1 indexes into the columns `keys` and `values`. None if no
        record has headers.
    """

    offset: Int64s
    timestamp: Int64s
    key: ByteColumn
    value: ByteColumn
    headers: HeaderColumns | None = None

    def between(self, first: int, end: int) -> Self:
        """Return the records from `first` up to `end`."""
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

    def take(self, rows: npt.NDArray[np.integer]) -> Self:
        """Return the records with these numbers, with offsets from 0.

        >>> keys = ByteColumn.of([b"a", b"b", b"c"])
        >>> records = RecordColumns(np.arange(3), np.arange(3), keys, keys)
        >>> records.take(np.array([2, 0])).key.start
        array([2, 0])
        """
        headers = self.headers
        if headers is not None:
            bounds, keys, values = headers
            counts = np.diff(bounds)[rows]
            ends = np.cumsum(counts)
            pairs = np.arange(counts.sum()) + np.repeat(
                bounds[rows] - (ends - counts), counts
            )
            headers = np.append(0, ends), keys.take(pairs), values.take(pairs)
        return self._replace(
            offset=np.arange(len(rows)),
            timestamp=self.timestamp[rows],
            key=self.key.take(rows),
            value=self.value.take(rows),
            headers=headers,
        )


def header_columns(headers: Iterable[Sequence[Header]]) -> HeaderColumns | None:
    """Return the headers of records as columns, None if there are no headers.

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
