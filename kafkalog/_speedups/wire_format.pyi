from typing import Any

import numpy as np
import numpy.typing as npt

# `place` is int32 or int64, the same for all arrays of a call.

def read_schema_ids(
    data: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    begins: npt.NDArray[Any],  # const place[::1], (n,)
    ends: npt.NDArray[Any],  # const place[::1], (n,)
    valid: npt.NDArray[np.uint8] | None,  # const uint8_t[::1], (n,)
    missing: int,  # int32_t
    ids: npt.NDArray[np.int32],  # int32_t[::1], (n,), filled
    found: npt.NDArray[np.uint8],  # uint8_t[::1], (n,), filled
) -> int: ...  # rows done
def skip_schema_headers(
    data: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    begins: npt.NDArray[Any],  # const place[::1], (n,)
    ends: npt.NDArray[Any],  # const place[::1], (n,)
    valid: npt.NDArray[np.uint8] | None,  # const uint8_t[::1], (n,)
    protobuf: bool,
    starts: npt.NDArray[Any],  # place[::1], (n,), filled
    lengths: npt.NDArray[Any],  # place[::1], (n,), filled
) -> int: ...  # rows done
def count_message_indexes(
    data: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    begins: npt.NDArray[Any],  # const place[::1], (n,)
    ends: npt.NDArray[Any],  # const place[::1], (n,)
    valid: npt.NDArray[np.uint8] | None,  # const uint8_t[::1], (n,)
    counts: npt.NDArray[np.int32],  # int32_t[::1], (n,), filled
) -> int: ...  # rows done
def read_message_indexes(
    data: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    begins: npt.NDArray[Any],  # const place[::1], (n,)
    ends: npt.NDArray[Any],  # const place[::1], (n,)
    offsets: npt.NDArray[np.int32],  # const int32_t[::1], (n + 1,)
    indexes: npt.NDArray[np.int32],  # int32_t[::1], (offsets[n],), filled
) -> int: ...  # rows done
