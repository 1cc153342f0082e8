import numpy as np
import numpy.typing as npt

def decode_varints(
    src: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    out: npt.NDArray[np.int32] | npt.NDArray[np.int64],  # (count,), filled
) -> tuple[int, int, int]: ...  # Status, values decoded, bytes consumed
def encode_varints(
    values: npt.NDArray[np.int32] | npt.NDArray[np.int64],  # (count,)
    out: npt.NDArray[np.uint8],  # uint8_t[::1], (5 or 10 * count,), filled
) -> int: ...  # bytes written
