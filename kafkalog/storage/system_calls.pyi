from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
from _typeshed import ReadableBuffer

class _OpenFile(Protocol):
    @property
    def descriptor(self) -> int: ...
    @property
    def path(self) -> Path: ...

def read_cached_headers(
    descriptor: int,
    origin: int,
    into: npt.NDArray[np.uint8],  # uint8_t[::1], (nbytes,), filled in parts
) -> bool: ...
def write_each(
    writes: Sequence[tuple[_OpenFile, ReadableBuffer, int]],  # a list
) -> None: ...
