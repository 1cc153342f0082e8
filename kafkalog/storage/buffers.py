"""A buffer for reads, which is reused once its content is not needed any more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from kafkalog.array_types import Bytes

Take = Callable[[int], Bytes]
"""Function that returns a buffer of the given number of bytes, or more."""


@dataclass(slots=True)
class KeptBuffer:
    """A buffer for reading; what was read before is overwritten."""

    _buffer: Bytes = field(default_factory=lambda: np.empty(0, np.uint8))

    def take(self, length: int) -> Bytes:
        """Return a buffer of at least `length` bytes, the last one if it has them."""
        if len(self._buffer) < length:
            self._buffer = np.empty(length, np.uint8)
        return self._buffer
