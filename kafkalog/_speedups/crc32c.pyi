import numpy as np
import numpy.typing as npt

def best_path() -> int: ...
def crc_many(
    src: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    starts: npt.NDArray[np.int64],  # const int64_t[::1], (n,)
    lengths: npt.NDArray[np.int64],  # const int64_t[::1], (n,)
    out: npt.NDArray[np.uint32],  # uint32_t[::1], (n,), filled
    crc32c: bool,
    path: int,
) -> int: ...  # ranges done
def check_batches(
    src: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    origin: int,
    rows: npt.NDArray[np.void],  # const Batch[::1], (n,)
    valid: npt.NDArray[np.uint8],  # uint8_t[::1], (n,), filled
) -> int: ...  # entries whose CRC does not match
