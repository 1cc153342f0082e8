"""Columns gathered of the records that are found: one pass, each byte copied once.

A column of byte strings is in Arrow's form: `data` with the bytes of all rows behind
one another, n + 1 `offsets` into it, and which rows are `valid`.

How much room they take is known when they are found, not before. Of values it is
nearly all of the bytes there are, and that much is taken; keys and headers are small
mostly, so a small part is tried first, and more where that is not enough.

Knows: what is gathered, and the room for it. Does not know: how a record lies, files.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog._speedups import Status
from kafkalog.decoding.workspace import Answer, DecompressionBuffer, Int64s, Within
from kafkalog.formats.batch_headers import BatchHeaders, Bytes
from kafkalog.formats.layout import MIN_RECORD_BYTES

LEAST_HEADER_BYTES: Final = 2
FIRST_THINNESS: Final = 4


class BinaryColumn(NamedTuple):
    """n byte strings: row i is ``data[offsets[i]:offsets[i + 1]]``, where `valid`."""

    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int32]
    valid: npt.NDArray[np.uint8]


class Headers(NamedTuple):
    """The headers of n records: those of row i are rows ``offsets[i]`` to the next."""

    offsets: npt.NDArray[np.int32]
    key: BinaryColumn
    value: BinaryColumn


@dataclass(frozen=True, slots=True)
class DecodedColumns:
    """Records as columns; None where one was not asked for."""

    offset: npt.NDArray[np.int64]
    timestamp: npt.NDArray[np.int64] | None = None
    key: BinaryColumn | None = None
    value: BinaryColumn | None = None
    headers: Headers | None = None

    def __len__(self) -> int:
        return len(self.offset)


class ColumnBuffers:
    """Memory for columns: fresh each time, or kept from chunk to chunk."""

    def __init__(self, *, kept: bool) -> None:
        self.kept = kept
        self._rooms: dict[str, npt.NDArray[Any]] = {}

    def take(self, name: str, length: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return an array of `length`; the kept one of that name where it suffices."""
        if not self.kept:
            return np.empty(length, dtype)
        room = self._rooms.get(name)
        if room is None or len(room) < length:
            room = self._rooms[name] = np.empty(length + length // 4, dtype)
        return room[:length]

    def own(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a column of a workspace: itself where all is kept, else a copy."""
        return column if self.kept else column.copy()

    def first(self, room: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
        """Return what is filled of `room`, without much that is not."""
        filled = room[:count]
        if not self.kept and count < len(room) - len(room) // 4:
            return filled.copy()
        return filled


class ColumnWorkspace(DecompressionBuffer):
    """Room for the columns asked for, of one run of records after another."""

    def __init__(self, names: Container[str], buffers: ColumnBuffers) -> None:
        super().__init__()
        self._names = names
        self._buffers = buffers
        self._thinness = FIRST_THINNESS
        self._most = (-1, -1)  # records, and bytes, that there is room for already
        self._room: DecodedColumns

    def find(
        self,
        data: Bytes,
        rows: BatchHeaders,
        payloads: tuple[Int64s, Int64s, Int64s],
        within: Within,
        emitted: Int64s,
        *,
        check: bool = False,
    ) -> Answer:
        """Find records and gather their columns, as `Room` says."""
        records, size = _speedups.sum_counts(rows, payloads[1])
        while True:
            if records > self._most[0] or size > self._most[1]:
                self._room = self._take(records, size)
                self._most = (records, size) if self._buffers.kept else (-1, -1)
            room = self._room
            assert room.timestamp is not None  # as `_take` has it
            answer: Answer = _speedups.gather_records(
                *(data, rows, *payloads, *within, check),
                *(room.offset, room.timestamp),
                *(room.key, room.value, room.headers),
                emitted,
            )
            if answer[0] != Status.OUTPUT_FULL:
                return answer
            self._thinness -= 1
            self._most = (-1, -1)

    def first(self, count: int) -> DecodedColumns:
        """Return the first `count` of the records found last."""
        room, first = self._room, self._buffers.first
        headers = room.headers
        if headers is not None:
            offsets = first(headers.offsets, count + 1)
            held = int(offsets[-1])
            headers = Headers(
                offsets, self._cut(headers.key, held), self._cut(headers.value, held)
            )
        return DecodedColumns(
            first(room.offset, count),
            None if room.timestamp is None else first(room.timestamp, count),
            None if room.key is None else self._cut(room.key, count),
            None if room.value is None else self._cut(room.value, count),
            headers,
        )

    def _take(self, records: int, size: int) -> DecodedColumns:
        """Take room for so many records, whose payloads are of `size` bytes."""
        take, small = self._buffers.take, size >> self._thinness
        key = value = headers = None
        if "key" in self._names:
            key = self._strings("key", records, small)
        if "value" in self._names:
            # Of fewer records than the count says a value may take the place.
            least = records * MIN_RECORD_BYTES if self._thinness else 0
            most = max(size - least, 0)
            value = self._strings("value", records, most)
        if "headers" in self._names:
            most = small // LEAST_HEADER_BYTES
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

    def _cut(self, room: BinaryColumn, count: int) -> BinaryColumn:
        first = self._buffers.first
        offsets = first(room.offsets, count + 1)
        data = first(room.data, int(offsets[-1]))
        return BinaryColumn(data, offsets, first(room.valid, count))
