"""Decode records straight into columns, in Arrow's layout of variable-size binary.

A column of byte strings has `data`, the bytes of all rows; n + 1 `offsets` into it; and
`valid`, which is 0 for null rows.

The size of a column is known only after decoding. Values are nearly all of a batch's
bytes, so a buffer of that size is taken for them. Keys and headers are usually small: a
fraction of that size is tried first, and a larger one if it does not suffice.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog._speedups import Status
from kafkalog.decoding.workspace import (
    DecodeResult,
    DecompressionBuffer,
    Int64s,
    Within,
)
from kafkalog.formats.batch_headers import BatchHeaders, Bytes
from kafkalog.formats.layout import MIN_RECORD_BYTES

MIN_HEADER_BYTES: Final = 2
FIRST_SHIFT: Final = 4
"""Keys and headers first get 1/16 of the bytes of their batches."""
HUGE_PAGES_FROM: Final = 4 << 20
"""From this size on NumPy asks Linux for huge pages. Values of a usual step have a
little less, and a page fault for every 4 KiB takes longer than to copy them."""


class BinaryColumn(NamedTuple):
    """Byte strings: row i is ``data[offsets[i]:offsets[i + 1]]`` where `valid`."""

    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int32]
    valid: npt.NDArray[np.uint8]


class Headers(NamedTuple):
    """Headers of records: row i has those from ``offsets[i]`` to the next offset."""

    offsets: npt.NDArray[np.int32]
    key: BinaryColumn
    value: BinaryColumn


@dataclass(frozen=True, slots=True)
class DecodedColumns:
    """Records as columns; None for a column that was not requested."""

    offset: npt.NDArray[np.int64]
    timestamp: npt.NDArray[np.int64] | None = None
    key: BinaryColumn | None = None
    value: BinaryColumn | None = None
    headers: Headers | None = None

    def __len__(self) -> int:
        return len(self.offset)


class ColumnBuffers:
    """Arrays for columns: new ones each time, or the same ones if `kept`."""

    def __init__(self, *, kept: bool) -> None:
        self.kept = kept
        self._arrays: dict[str, npt.NDArray[Any]] = {}

    def take(self, name: str, length: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return an array of `length`: the kept one of that name if it is large."""
        if not self.kept:
            return _new(length, dtype)
        array = self._arrays.get(name)
        if array is None or len(array) < length:
            array = self._arrays[name] = np.empty(length + length // 4, dtype)
        return array[:length]

    def own(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a column of a workspace: itself if arrays are kept, else a copy."""
        return column if self.kept else column.copy()

    def first(self, array: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
        """Return the first `count` rows; a copy if most of `array` is unused."""
        filled = array[:count]
        if not self.kept and count < len(array) - len(array) // 4:
            return filled.copy()
        return filled


class ColumnWorkspace(DecompressionBuffer):
    """Buffers for the requested columns; decodes one set of records after another."""

    def __init__(self, names: Container[str], buffers: ColumnBuffers) -> None:
        super().__init__()
        self._names = names
        self._buffers = buffers
        self._shift = FIRST_SHIFT
        self._capacity = (-1, -1)  # records and bytes of the columns it has
        self._columns: DecodedColumns

    def find(
        self,
        data: Bytes,
        rows: BatchHeaders,
        payloads: tuple[Int64s, Int64s, Int64s],
        within: Within,
        emitted: Int64s,
        *,
        check: bool = False,
    ) -> DecodeResult:
        """Decode records into columns; see `DecodeWorkspace`."""
        records, size = _speedups.sum_counts(rows, payloads[1])
        while True:
            if records > self._capacity[0] or size > self._capacity[1]:
                self._columns = self._take(records, size)
                self._capacity = (records, size) if self._buffers.kept else (-1, -1)
            columns = self._columns
            assert columns.timestamp is not None  # as `_take` has it
            result: DecodeResult = _speedups.gather_records(
                *(data, rows, *payloads, *within, check),
                *(columns.offset, columns.timestamp),
                *(columns.key, columns.value, columns.headers),
                emitted,
            )
            if result[0] != Status.OUTPUT_FULL:
                return result
            self._shift -= 1
            self._capacity = (-1, -1)

    def first(self, count: int) -> DecodedColumns:
        """Return the first `count` of the records found last."""
        columns, first = self._columns, self._buffers.first
        headers = columns.headers
        if headers is not None:
            offsets = first(headers.offsets, count + 1)
            held = int(offsets[-1])
            headers = Headers(
                offsets, self._cut(headers.key, held), self._cut(headers.value, held)
            )
        return DecodedColumns(
            first(columns.offset, count),
            None if columns.timestamp is None else first(columns.timestamp, count),
            None if columns.key is None else self._cut(columns.key, count),
            None if columns.value is None else self._cut(columns.value, count),
            headers,
        )

    def _take(self, records: int, size: int) -> DecodedColumns:
        """Take columns for `records` records, whose payloads have `size` bytes."""
        take, small = self._buffers.take, size >> self._shift
        key = value = headers = None
        if "key" in self._names:
            key = self._strings("key", records, small)
        if "value" in self._names:
            # The other fields of the records take this much at least.
            least = records * MIN_RECORD_BYTES if self._shift else 0
            most = max(size - least, 0)
            value = self._strings("value", records, most)
        if "headers" in self._names:
            most = small // MIN_HEADER_BYTES
            headers = Headers(
                take("header offsets", records + 1, np.int32),
                self._strings("header key", most, small),
                self._strings("header value", most, small),
            )
        offset, timestamp = (
            take(name, records, np.int64) for name in ("offset", "timestamp")
        )
        return DecodedColumns(offset, timestamp, key, value, headers)

    def _strings(self, name: str, rows: int, size: int) -> BinaryColumn:
        take = self._buffers.take
        return BinaryColumn(
            take(f"{name} data", size, np.uint8),
            take(f"{name} offsets", rows + 1, np.int32),
            take(f"{name} valid", rows, np.uint8),
        )

    def _cut(self, column: BinaryColumn, count: int) -> BinaryColumn:
        first = self._buffers.first
        offsets = first(column.offsets, count + 1)
        data = first(column.data, int(offsets[-1]))
        return BinaryColumn(data, offsets, first(column.valid, count))


def _new(length: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return a new array; one that nearly has the size for huge pages gets it."""
    whole = HUGE_PAGES_FROM // np.dtype(dtype).itemsize
    capacity = whole if whole - whole // 4 <= length < whole else length
    return np.empty(capacity, dtype)[:length]
