import numpy as np
import numpy.typing as npt

def retain_records(
    decisions: npt.NDArray[np.int8],  # const int8_t[::1], (128,)
    batches: npt.NDArray[np.uint8],  # const uint8_t[::1], (b,)
    counts: npt.NDArray[np.int64],  # const int64_t[::1], (b,)
    offsets: npt.NDArray[np.int64],  # const int64_t[:], (n,), strided or not
    key_lengths: npt.NDArray[np.int32],  # const int32_t[:], (n,), strided or not
    value_lengths: npt.NDArray[np.int32],  # const int32_t[:], (n,), strided or not
    latest: npt.NDArray[np.uint8],  # const uint8_t[::1], (n,)
    end: int,
    out: npt.NDArray[np.int8],  # int8_t[::1], (n or more,), filled
    kept: npt.NDArray[np.int64],  # int64_t[::1], (b or more,), filled
    tombstones: npt.NDArray[np.int64],  # int64_t[::1], (b or more,), filled
) -> int: ...  # records decided
