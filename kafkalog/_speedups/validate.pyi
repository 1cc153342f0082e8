import numpy as np
import numpy.typing as npt

def take_batches(
    data: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    byte_bounds: npt.NDArray[np.int64],  # const int64_t[::1], (appends + 1,)
    from_zero: bool,
    rising: bool,
    least_epoch: int,
    greatest_epoch: int,
    most_bytes: int,
    rows: npt.NDArray[np.void],  # Batch[::1], (capacity,), filled
    info: npt.NDArray[np.void],  # Append[::1], (appends,), filled
    row_bounds: npt.NDArray[np.int64],  # int64_t[::1], (appends + 1,), filled
) -> tuple[int, int]: ...  # plain appends, rows filled
def survey_batches(
    src: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    starts: npt.NDArray[np.int64] | None,  # const int64_t[::1], (n,)
    lengths: npt.NDArray[np.int64] | None,  # const int64_t[::1], (n,)
    rows: npt.NDArray[np.void],  # const Batch[::1], (n,)
    row_bounds: npt.NDArray[np.int64],  # const int64_t[::1], (appends + 1,)
    info: npt.NDArray[np.void],  # Append[::1], (appends,), completed
    from_client: bool,
    keyed: bool,
    codec: int,
    least_timestamp: int,
    greatest_timestamp: int,
) -> int: ...  # plain appends
def stamp_batches(
    rows: npt.NDArray[np.void],  # Batch[::1], (n,), completed
    info: npt.NDArray[np.void],  # Append[::1], (n,), completed
    at_append: bool,
    now_ms: int,
    leader_epoch: int,
    data: npt.NDArray[np.uint8],  # uint8_t[::1], (nbytes,), filled
) -> int: ...  # rows done
def place_batches(
    rows: npt.NDArray[np.void],  # Batch[::1], (n,), completed
    row_bounds: npt.NDArray[np.int64],  # const int64_t[::1], (appends + 1,)
    info: npt.NDArray[np.void],  # Append[::1], (appends,), completed
    next_offset: int,
    data: npt.NDArray[np.uint8],  # uint8_t[::1], (nbytes,), filled
) -> int: ...  # next offset, or -1
