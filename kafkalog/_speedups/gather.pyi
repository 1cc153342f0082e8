from typing import Any

import numpy as np
import numpy.typing as npt

# `place` is int32 or int64, the same for all arrays of a call.

def lengths_to_offsets(
    lengths: npt.NDArray[Any],  # const place[::1], (n,), -1 null
    offsets: npt.NDArray[Any],  # place[::1], (n + 1,), filled
    valid: npt.NDArray[np.uint8],  # uint8_t[::1], (n,), filled
) -> tuple[int, int]: ...  # bytes, nulls
def gather_bytes(
    src: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    starts: npt.NDArray[Any],  # const place[::1], (n,)
    lengths: npt.NDArray[Any],  # const place[::1], (n,)
    out: npt.NDArray[np.uint8],  # uint8_t[::1], (sum of lengths,), filled
) -> int: ...  # rows copied
def join_buffers(
    buffers: list[Any],  # bytes-like
    out: npt.NDArray[np.uint8],  # uint8_t[::1], (sum of sizes or more,), filled
) -> int: ...  # bytes copied, or -1
