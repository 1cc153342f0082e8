import numpy as np
import numpy.typing as npt

def decompress_streams(
    src: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    rows: npt.NDArray[np.void],  # BATCH, (n,)
    starts: npt.NDArray[np.int64],  # const int64_t[::1], (n,)
    lengths: npt.NDArray[np.int64],  # const int64_t[::1], (n,)
    first: int,
    limit: int,  # bytes
    out: npt.NDArray[np.uint8],  # uint8_t[::1], filled
    filled: int,  # bytes
    sizes: npt.NDArray[np.int64],  # int64_t[::1], (n,), filled
) -> tuple[int, int]: ...  # row it stopped at, bytes of `out` in use
