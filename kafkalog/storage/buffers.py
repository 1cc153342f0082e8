"""Buffers for reads, which are reused once their content is not needed any more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Take = Callable[[int], Bytes]
"""Function that returns a buffer of the given number of bytes, or more."""


@dataclass(slots=True)
class BufferPool:
    """Buffers for reading; one that is held is not returned by `take`."""

    _buffers: list[Bytes] = field(default_factory=list)
    _holders: Counter[int] = field(default_factory=Counter)

    def take(self, length: int) -> Bytes:
        """Return a buffer of at least `length` bytes that is not held."""
        for buffer in self._buffers:
            if len(buffer) >= length and not self._holders[id(buffer)]:
                return buffer
        self._buffers.append(np.empty(length, np.uint8))
        return self._buffers[-1]

    def hold(self, data: Bytes) -> None:
        """Keep the buffer of `data` until `release` is called as often as this."""
        self._holders[id(data.base)] += 1

    def release(self, data: Bytes) -> None:
        """Undo one `hold`: after the last the buffer may be overwritten."""
        self._holders[id(data.base)] -= 1
