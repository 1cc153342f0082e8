from enum import IntEnum

import numpy as np
import numpy.typing as npt

class FrameStatus(IntEnum):
    COMPLETE = 0
    HEADER_TRUNCATED = 1
    TRUNCATED = 2
    DECLARED_SIZE = 3
    CONTENT_SIZE = 4
    BLOCK_TYPE = 5

def measure_frame(
    src: bytes | memoryview,  # const uint8_t[::1], (nbytes,)
    begin: int,
    limit: int,  # bytes
) -> tuple[FrameStatus, int, int]: ...  # end or fault, bytes
def bound_decompressed_sizes(
    src: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    rows: npt.NDArray[np.void],  # BATCH, (n,)
    starts: npt.NDArray[np.int64],  # const int64_t[::1], (n,)
    lengths: npt.NDArray[np.int64],  # const int64_t[::1], (n,)
    limit: int,  # bytes
    bounds: npt.NDArray[np.int64],  # int64_t[::1], (n,), filled
) -> None: ...
