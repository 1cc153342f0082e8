import numpy as np
import numpy.typing as npt

def plan_run(
    rows: npt.NDArray[np.uint8],  # const Batch[::1] as bytes
    row_bounds: npt.NDArray[np.int64],  # const int64_t[::1], (n + 1,)
    byte_bounds: npt.NDArray[np.int64],  # const int64_t[::1], (n + 1,)
    info: npt.NDArray[np.uint8],  # const Append[::1] as bytes
    limits: tuple[int, int, int, int, int, bool, int, int, int, int, int],
    state: tuple[int, int, int, int, int, int, int],
    index_out: npt.NDArray[np.uint8],  # uint8_t[::1], 8 an entry, filled
    time_out: npt.NDArray[np.uint8],  # uint8_t[::1], 12 an entry, filled
    first: int,
) -> tuple[int, int, int, int, int, int, int]: ...
