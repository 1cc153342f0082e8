from enum import IntEnum

import numpy as np
import numpy.typing as npt

class Framing(IntEnum):
    WHOLE = 0
    HEADER_CUT = 1
    CUT = 2
    DECLARED = 3
    SWOLLEN = 4
    BLOCK_KIND = 5

def walk_frame(
    src: bytes | memoryview,  # const uint8_t[::1], (nbytes,)
    begin: int,
    limit: int,  # bytes
) -> tuple[Framing, int, int]: ...  # where it ends or the fault is; bytes
def bound_streams(
    src: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    rows: npt.NDArray[np.void],  # BATCH, (n,)
    starts: npt.NDArray[np.int64],  # const int64_t[::1], (n,)
    lengths: npt.NDArray[np.int64],  # const int64_t[::1], (n,)
    limit: int,  # bytes
    bounds: npt.NDArray[np.int64],  # int64_t[::1], (n,), filled
) -> None: ...
