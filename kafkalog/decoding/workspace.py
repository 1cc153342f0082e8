"""Memory that is kept from step to step: taking fresh memory costs more than decoding.

Knows: buffers, and which kernel fills them. Does not know: entries, columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups

Int64s = npt.NDArray[np.int64]
Found = TypeVar("Found", covariant=True)
Within = tuple[Int64s, bool]
"""First and last offset, first and last timestamp; whether the latter two count."""
Answer = tuple[int, int, int, int]
"""A status, the row where it came to be, the place there, the records kept."""

LONGS: Final = ("offset", "timestamp")
INTS: Final = (
    "key_start",
    "key_length",
    "value_start",
    "value_length",
    "headers_start",
    "header_count",
)
"""What is found of a record: offset, timestamp (ms), and where its parts lie."""


@dataclass(frozen=True, slots=True)
class RecordSpans:
    """Records found, column by column: ``places["offset"]``; a length of -1 is null."""

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
        """See the first `count` of them."""
        return RecordSpans(self.longs[:, :count], self.ints[:, :count])


class DecodeWorkspace(Protocol[Found]):
    """Where records go that are found, run by run."""

    def bytes_for(self, size: int) -> npt.NDArray[np.uint8]:
        """Return room for `size` unpacked bytes."""

    def find(
        self,
        data: npt.NDArray[np.uint8],
        rows: npt.NDArray[np.void],
        payloads: tuple[Int64s, Int64s, Int64s],
        within: Within,
        emitted: Int64s,
        *,
        check: bool = False,
    ) -> Answer:
        """Find the records of `rows`; of each, `emitted` says how many were kept.

        `payloads` is where they start in `data`, their lengths, and what is to be added
        to the offsets in them. With `check`, stop where a batch's checksum is wrong.
        """

    def first(self, count: int) -> Found:
        """Return the first `count` of the records found last."""


@dataclass(slots=True)
class DecompressionBuffer:
    """Room for unpacked bytes: the same again, unless they must stay."""

    keeps_bytes: bool = True
    _bytes: npt.NDArray[np.uint8] | None = None

    def bytes_for(self, size: int) -> npt.NDArray[np.uint8]:
        """Return room for `size` bytes, the same as before where it may be."""
        if not self.keeps_bytes:
            return np.empty(size, np.uint8)
        if self._bytes is None or len(self._bytes) < size:
            self._bytes = np.empty(size + size // 4, np.uint8)
        return self._bytes[:size]


@dataclass(slots=True)
class Workspace(DecompressionBuffer):
    """Room for the places of a run's records, and for unpacked bytes."""

    _places: RecordSpans | None = None

    def spans_for(self, count: int) -> RecordSpans:
        """Return room for `count` records, the same as before where it suffices."""
        if self._places is None or len(self._places) < count:
            room = count if self._places is None else max(count, 2 * len(self._places))
            self._places = RecordSpans(
                np.empty((len(LONGS), room), np.int64),
                np.empty((len(INTS), room), np.int32),
            )
        return self._places

    def find(
        self,
        data: npt.NDArray[np.uint8],
        rows: npt.NDArray[np.void],
        payloads: tuple[Int64s, Int64s, Int64s],
        within: Within,
        emitted: Int64s,
        *,
        check: bool = False,
    ) -> Answer:
        """Find the places of records, as `DecodeWorkspace` says."""
        records, _ = _speedups.sum_counts(rows, payloads[1])
        room = self.spans_for(records)
        answer: Answer = _speedups.decode_records(
            *(data, rows, *payloads, *within, check),
            *(room.longs, room.ints, emitted),
        )
        return answer

    def first(self, count: int) -> RecordSpans:
        """See the first `count` of the records found last."""
        return self.spans_for(count).first(count)
