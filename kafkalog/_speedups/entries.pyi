from enum import IntEnum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

_IndexEnd: TypeAlias = tuple[int, bytes]
_Filling: TypeAlias = tuple[int, int, int]

class IndexFault(IntEnum):
    FITS = 0
    OFFSETS_FULL = 1
    OFFSET_ORDER = 2
    OFFSET_FAR = 3
    TIMES_FULL = 4
    TIME_ORDER = 5
    TIME_FAR = 6

def offset_entry(
    base: int, end: _IndexEnd, offset: int, position: int
) -> tuple[bytes, IndexFault]: ...
def time_entry(
    base: int, end: _IndexEnd, timestamp: int, offset: int
) -> tuple[bytes, IndexFault]: ...
def make_entries(
    rows: npt.NDArray[np.void],  # (n,) Batch
    first: int,
    position: int,
    base: int,
    interval: int,
    filling: _Filling,
    offset_end: _IndexEnd,
    time_end: _IndexEnd,
    skip_full: bool,
) -> tuple[int, int, IndexFault, bytes, bytes, _Filling]: ...
