import numpy as np
import numpy.typing as npt

def murmur2_keys(
    data: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    start: npt.NDArray[np.int64],  # const int64_t[::1], (n,)
    length: npt.NDArray[np.int32],  # const int32_t[::1], (n,), -1 null
    out: npt.NDArray[np.int32],  # int32_t[::1], (n,), filled
) -> int: ...  # keys hashed
