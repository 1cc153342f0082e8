import numpy as np
import numpy.typing as npt

def due_entries(
    sizes: npt.NDArray[np.int64],  # const int64_t[:], (n,), strided or not
    timestamps: npt.NDArray[np.int64],  # const int64_t[:], (n,), strided or not
    offsets: npt.NDArray[np.int64],  # const int64_t[:], (n,), strided or not
    position: int,
    interval: int,
    since: int,
    timestamp: int,
    timestamp_offset: int,
    out: npt.NDArray[np.int64],  # int64_t[:, ::1], (5, n or more), filled
) -> tuple[int, int, int, int]: ...  # due, since, timestamp, timestamp_offset
