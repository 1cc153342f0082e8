"""Memory that is kept from step to step: taking fresh memory costs more than decoding.

Knows: buffers, and what they are for. Does not know: what is put into them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

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
class RecordPlaces:
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

    def first(self, count: int) -> RecordPlaces:
        """See the first `count` of them."""
        return RecordPlaces(self.longs[:, :count], self.ints[:, :count])


@dataclass(slots=True)
class Workspace:
    """Room for the records of a step, and, unless they must stay, unpacked bytes."""

    keeps_bytes: bool = True
    _places: RecordPlaces | None = None
    _bytes: npt.NDArray[np.uint8] | None = None

    def room_for(self, count: int) -> RecordPlaces:
        """Return room for `count` records, the same as before where it suffices."""
        if self._places is None or len(self._places) < count:
            room = count if self._places is None else max(count, 2 * len(self._places))
            self._places = RecordPlaces(
                np.empty((len(LONGS), room), np.int64),
                np.empty((len(INTS), room), np.int32),
            )
        return self._places

    def bytes_for(self, size: int) -> npt.NDArray[np.uint8]:
        """Return room for `size` bytes, the same as before where it may be."""
        if not self.keeps_bytes:
            return np.empty(size, np.uint8)
        if self._bytes is None or len(self._bytes) < size:
            self._bytes = np.empty(size + size // 4, np.uint8)
        return self._bytes[:size]
