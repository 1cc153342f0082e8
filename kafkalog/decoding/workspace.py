"""Buffers that are used again from one step of decoding to the next.

Allocating memory for each step takes longer than decoding it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog.array_types import Int64s

DecodedForm = TypeVar("DecodedForm", covariant=True)
Within = tuple[Int64s, bool]
"""First and last offset and timestamp; whether timestamps are bounded."""
DecodeResult = tuple[int, int, int, int]
"""Status, index of the row it belongs to, index in the data, number of records."""

LONGS: Final = ("offset", "timestamp")
INTS: Final = (
    "key_start",
    "key_length",
    "value_start",
    "value_length",
    "headers_start",
    "header_count",
)
"""Fields of a record: offset, timestamp (ms), and where its other parts are."""


@dataclass(frozen=True, slots=True)
class RecordSpans:
    """The positions of the parts of records, by column; a length of -1 is null."""

    longs: npt.NDArray[np.int64]
    ints: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.longs[0])

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        column: npt.NDArray[Any]
        if name in LONGS:
            column = self.longs[LONGS.index(name)]
        else:
            column = self.ints[INTS.index(name)]
        return column

    def first(self, count: int) -> RecordSpans:
        """Return a view of the first `count` records."""
        return RecordSpans(self.longs[:, :count], self.ints[:, :count])

    def copy(self) -> RecordSpans:
        """Return spans in memory of their own."""
        return RecordSpans(self.longs.copy(), self.ints.copy())


class DecodeWorkspace(Protocol[DecodedForm]):
    """Buffers for decompressed bytes, and for the records of some batches."""

    def bytes_for(self, size: int) -> npt.NDArray[np.uint8]:
        """Return a buffer for `size` decompressed bytes."""

    def find(
        self,
        data: npt.NDArray[np.uint8],
        rows: npt.NDArray[np.void],
        payloads: tuple[Int64s, Int64s, Int64s],
        within: Within,
        emitted: Int64s,
        *,
        check: bool = False,
    ) -> DecodeResult:
        """Decode the records of `rows` within bounds; set `emitted` to the counts.

        `payloads` has where the records of each row start in `data`, their length, and
        a number to add to offsets. With `check`, stop at a batch that does not match
        its CRC.
        """

    def first(self, count: int) -> DecodedForm:
        """Return the first `count` of the records decoded last."""


@dataclass(slots=True)
class DecompressionBuffer:
    """A buffer for decompressed bytes: the same one each time if `keeps_bytes`."""

    keeps_bytes: bool = True
    _bytes: npt.NDArray[np.uint8] | None = None

    def bytes_for(self, size: int) -> npt.NDArray[np.uint8]:
        """Return a buffer for `size` bytes, the same as before if that is allowed."""
        if not self.keeps_bytes:
            return np.empty(size, np.uint8)
        if self._bytes is None or len(self._bytes) < size:
            self._bytes = np.empty(size + size // 4, np.uint8)
        return self._bytes[:size]


@dataclass(slots=True)
class Workspace(DecompressionBuffer):
    """Buffers for spans of records, and for decompressed bytes."""

    _spans: RecordSpans | None = None

    def spans_for(self, count: int) -> RecordSpans:
        """Return spans for `count` records, the same as before if there are enough."""
        if self._spans is None or len(self._spans) < count:
            capacity = count
            if self._spans is not None:
                capacity = max(count, 2 * len(self._spans))
            self._spans = RecordSpans(
                np.empty((len(LONGS), capacity), np.int64),
                np.empty((len(INTS), capacity), np.int32),
            )
        return self._spans

    def find(
        self,
        data: npt.NDArray[np.uint8],
        rows: npt.NDArray[np.void],
        payloads: tuple[Int64s, Int64s, Int64s],
        within: Within,
        emitted: Int64s,
        *,
        check: bool = False,
    ) -> DecodeResult:
        """Decode records into spans; see `DecodeWorkspace`."""
        records, _ = _speedups.sum_counts(rows, payloads[1])
        spans = self.spans_for(records)
        result: DecodeResult = _speedups.decode_records(
            data, rows, payloads, within, check, (spans.longs, spans.ints), emitted
        )
        return result

    def first(self, count: int) -> RecordSpans:
        """Return a view of the first `count` of the records decoded last."""
        return self.spans_for(count).first(count)
