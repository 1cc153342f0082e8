import numpy as np
import numpy.typing as npt

def scan_batches(
    src: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    start: int,
    origin: int,
    out: npt.NDArray[np.void],  # Batch[::1], (capacity,), filled
    any_magic: bool = False,
) -> tuple[int, int, int]: ...  # Status, rows filled, next position
def offsets_in_order(
    rows: npt.NDArray[np.void],  # const Batch[::1], (n,)
    least: int,
    most: int,
    before: int,
    ordered: bool,
) -> bool: ...
def all_uncompressed(
    rows: npt.NDArray[np.void],  # const Batch[::1], (n,)
    most: int,
) -> bool: ...
def fill_begin_times(
    rows: npt.NDArray[np.void],  # const Batch[::1], (n,)
    out: npt.NDArray[np.int64],  # int64_t[::1], (n,), filled
) -> None: ...
def find_batch(
    src: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    start: int,
    stop: int,
    budget: int,
    newest: bool,
) -> tuple[int, int]: ...  # position or -1, rest of budget
def locate_payloads(
    src: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    origin: int,
    rows: npt.NDArray[np.void],  # const Batch[::1], (n,)
    starts: npt.NDArray[np.int64],  # int64_t[::1], (n,), filled
    lengths: npt.NDArray[np.int64],  # int64_t[::1], (n,), filled
) -> tuple[int, int]: ...  # Status, row it stopped at
def check_counts(
    rows: npt.NDArray[np.void],  # const Batch[::1], (n,)
    lengths: npt.NDArray[np.int64],  # const int64_t[::1], (n,)
) -> tuple[int, bool]: ...  # entries, whether there are wrappers
def sum_counts(
    rows: npt.NDArray[np.void],  # const Batch[::1], (n,)
    lengths: npt.NDArray[np.int64],  # const int64_t[::1], (n,)
) -> tuple[int, int]: ...  # sum of counts, sum of lengths
