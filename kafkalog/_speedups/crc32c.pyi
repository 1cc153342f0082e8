import numpy as np
import numpy.typing as npt

def check_batches(
    src: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    origin: int,
    rows: npt.NDArray[np.void],  # const Batch[::1], (n,)
    valid: npt.NDArray[np.uint8],  # uint8_t[::1], (n,), filled
) -> int: ...  # entries whose CRC does not match
