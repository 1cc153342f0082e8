from enum import IntEnum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

_Schemas: TypeAlias = tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]

class Halt(IntEnum):
    DONE = 0
    FULL = 1
    MORE = 2
    SIZE = 3
    HEADER = 4
    RECORDS = 5
    CONTENTS = 6
    FAULT = 7
    LEFTOVER = 8

class DumpFlag(IntEnum):
    DEEP = 1
    PRINT = 2
    BARE = 4
    STOP = 8

def dump_batches(
    src: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    run: npt.NDArray[np.void],  # Run[::1], (1,), updated
    out: npt.NDArray[np.uint8],  # uint8_t[::1], (capacity,), filled
    pairs: npt.NDArray[np.int64],  # int64_t[:, ::1], (capacity, 2), filled
    flags: int,
    schemas: _Schemas | None = None,
) -> int: ...  # Halt
def dump_records(
    header: npt.NDArray[np.uint8],  # const uint8_t[::1], (61 or more,)
    payload: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    run: npt.NDArray[np.void],  # Run[::1], (1,), updated
    out: npt.NDArray[np.uint8],  # uint8_t[::1], (capacity,), filled
    pairs: npt.NDArray[np.int64],  # int64_t[:, ::1], (capacity, 2), filled
    flags: int,
    schemas: _Schemas | None = None,
) -> int: ...  # Halt
