from enum import IntEnum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

class Mark(IntEnum):
    MARK_NEW = 0
    MARK_LATEST = 1
    MARK_SUPERSEDED = 2
    MARK_UNKNOWN = 3

_Int64s: TypeAlias = npt.NDArray[np.int64]
_Bytes: TypeAlias = tuple[npt.NDArray[np.uint8], _Int64s, npt.NDArray[np.int32]]

def put_offsets(
    slots: npt.NDArray[np.uint8],  # uint8_t[::1], (24 * slots,), changed
    entries: int,
    most: int,
    keys: _Bytes,
    offsets: _Int64s,  # const int64_t[:], (n,), strided or not
    states: npt.NDArray[np.uint8],  # uint8_t[::1], changed
    start: int,
) -> tuple[int, int]: ...  # rows done, entries
def find_offsets(
    slots: npt.NDArray[np.uint8],  # uint8_t[::1], (24 * slots,)
    keys: _Bytes,
    out: _Int64s,  # int64_t[::1], (n or more,), filled
) -> int: ...  # rows done
def find_superseded(
    states: npt.NDArray[np.uint8],  # uint8_t[::1]
    start: int,
    first: _Int64s,  # const int64_t[:], (n,), strided or not
    last: _Int64s,  # const int64_t[:], (n,), strided or not
    out: npt.NDArray[np.uint8],  # uint8_t[::1], (n or more,), filled
) -> None: ...
def read_marks(
    states: npt.NDArray[np.uint8],  # uint8_t[::1]
    start: int,
    offsets: _Int64s,  # const int64_t[:], (n,), strided or not
    out: npt.NDArray[np.uint8],  # uint8_t[::1], (n or more,), filled
) -> None: ...
