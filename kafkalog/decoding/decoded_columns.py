"""Decode records straight into columns, in Arrow's layout of variable-size binary.

A column of byte strings has `data`, the bytes of all rows; n + 1 `offsets` into it; and
`valid`, which is 0 for null rows.

The size of a column is known only after decoding. Values are nearly all of a batch's
bytes, so a buffer of that size is taken for them. Keys and headers are usually small: a
small buffer is tried first, and a larger one if it does not suffice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from weakref import ref

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog._speedups import Status
from kafkalog.array_types import Bytes, Int64s
from kafkalog.decoding.batch_decoder import DecodedRecords, RecordViews, find_headers
from kafkalog.decoding.workspace import DecodeResult, DecompressionBuffer, Within
from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.formats.layout import MIN_RECORD_BYTES

MIN_HEADER_BYTES: Final = 2
FIRST_BYTES: Final = 32 << 10
"""Bytes that keys and headers get at first, and twice as many each time that does not
suffice."""
HUGE_PAGES_FROM: Final = 4 << 20
"""From this size on NumPy asks Linux for huge pages. Values of a usual step have a
little less, and a page fault for every 4 KiB takes longer than to copy them."""
RECYCLED_FROM: Final = 1 << 16
"""Bytes of the smallest array whose memory is kept."""


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


class RecycledMemory:
    """Memory of arrays, which is used again once nothing refers to the arrays.

    The memory of large arrays is kept by name: the system takes about as long to
    provide new pages as a kernel takes to fill them. Arrays may be taken and dropped
    in any thread.

    >>> memory = RecycledMemory()
    >>> array = memory.take("value", 1 << 20, np.uint8)
    >>> place, view = array.ctypes.data, array[5:]
    >>> del array
    >>> memory.take("value", 1 << 20, np.uint8).ctypes.data == place
    False
    >>> del view
    >>> memory.take("value", 1 << 20, np.uint8).ctypes.data == place
    True
    """

    def __init__(self) -> None:
        self._unused: defaultdict[str, list[Bytes]] = defaultdict(list)
        self._used: dict[int, tuple[ref[npt.NDArray[Any]], str, Bytes]] = {}
        itself = ref(self)  # so that the memory lasts no longer than this object

        def release(array: ref[npt.NDArray[Any]]) -> None:
            if (owner := itself()) is not None:
                _, name, memory = owner._used.pop(id(array))
                owner._unused[name].append(memory)

        self._release = release

    def take(self, name: str, length: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return an array of `length`, whose content is arbitrary."""
        size = length * np.dtype(dtype).itemsize
        if size < RECYCLED_FROM:
            return np.empty(length, dtype)
        memory = self._memory_for(name, size)
        # Views have this array as their base, not the memory, which is a buffer to it.
        array: npt.NDArray[Any] = np.frombuffer(memory.data, dtype, length)
        used = ref(array, self._release)
        self._used[id(used)] = used, name, memory
        return array

    def take_bytes(self, length: int) -> Bytes:
        """Return an array of `length` bytes, to read a file into."""
        return self.take("bytes", length, np.uint8)

    def _memory_for(self, name: str, size: int) -> Bytes:
        """Return unused memory that is at most a third larger, or new memory."""
        unused = self._unused[name]
        with suppress(IndexError):  # none is left
            while True:
                memory = unused.pop()
                if size <= len(memory) <= size + size // 3:
                    return memory
        capacity = size + size // 8
        if HUGE_PAGES_FROM // 4 * 3 <= size < HUGE_PAGES_FROM:
            capacity = HUGE_PAGES_FROM
        return np.empty(capacity, np.uint8)


class ColumnBuffers:
    """Arrays for columns: others each time, or the same ones if `kept`.

    The buffers of several threads may share the `memory` of the others.
    """

    def __init__(self, *, kept: bool, memory: RecycledMemory | None = None) -> None:
        self.kept = kept
        self._arrays: dict[str, npt.NDArray[Any]] = {}
        self._memory = RecycledMemory() if memory is None else memory

    def take(self, name: str, length: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return an array of `length`: the kept one of that name if it is large."""
        if not self.kept:
            return self._memory.take(name, length, dtype)
        array = self._arrays.get(name)
        if array is None or len(array) < length:
            array = self._arrays[name] = np.empty(length + length // 4, dtype)
        return array[:length]

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
        self._small = FIRST_BYTES  # for keys and headers
        self._capacity = (-1, -1)  # records and bytes of the columns it has
        self._columns: DecodedColumns | None = None

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
                self._columns = None  # what nothing else refers to is taken again
                self._columns = self._take(records, size)
                self._capacity = (records, size) if self._buffers.kept else (-1, -1)
            columns = self._columns
            assert columns is not None
            assert columns.timestamp is not None  # as `_take` has it
            fields = columns.key, columns.value, columns.headers
            result: DecodeResult = _speedups.gather_records(
                *(data, rows, payloads, within, check),
                (columns.offset, columns.timestamp, *fields),
                emitted,
            )
            if result[0] != Status.OUTPUT_FULL:
                return result
            del columns, fields
            self._small *= 2
            self._capacity = (-1, -1)

    def first(self, count: int) -> DecodedColumns:
        """Return the first `count` of the records found last."""
        columns, first = self._columns, self._buffers.first
        assert columns is not None  # as `find` was called
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
        take, small = self._buffers.take, min(self._small, size)
        key = value = headers = None
        if "key" in self._names:
            key = self._strings("key", records, small)
        if "value" in self._names:
            # The other fields of the records take this much at least.
            least = records * MIN_RECORD_BYTES if small < size else 0
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


def gather_columns(
    views: RecordViews, names: Container[str], buffers: ColumnBuffers
) -> DecodedRecords[DecodedColumns]:
    """Return records that were found in place as columns, into which they are copied.

    `names` are those of the columns; the others are None, but ``offset`` and
    ``timestamp``.
    """
    spans = views.records
    key, value = (
        _gathered(
            name,
            views.data,
            spans[f"{name}_start"],
            spans[f"{name}_length"],
            buffers,
        )
        if name in names
        else None
        for name in ("key", "value")
    )
    headers = None
    if "headers" in names:
        offsets, places = find_headers(views)
        headers = Headers(
            offsets,
            _gathered("header key", views.data, places[0], places[1], buffers),
            _gathered("header value", views.data, places[2], places[3], buffers),
        )
    offset, timestamp = (spans[name].copy() for name in ("offset", "timestamp"))
    columns = DecodedColumns(offset, timestamp, key, value, headers)
    return DecodedRecords(views.data, views.rows, columns, views.counts)


def _gathered(
    name: str,
    data: Bytes,
    starts: npt.NDArray[np.int32],
    lengths: npt.NDArray[np.int32],
    buffers: ColumnBuffers,
) -> BinaryColumn:
    rows = len(lengths)
    offsets = buffers.take(f"{name} offsets", rows + 1, np.int32)
    valid = buffers.take(f"{name} valid", rows, np.uint8)
    size, _ = _speedups.lengths_to_offsets(lengths, offsets, valid)
    copied = buffers.take(f"{name} data", size, np.uint8)
    done = _speedups.gather_bytes(data, starts, lengths, copied)
    assert done == rows  # as the decoder found them in the data
    return BinaryColumn(copied, offsets, valid)
