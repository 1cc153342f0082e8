from typing import Any

import numpy as np
import numpy.typing as npt

def hash_rows(
    data: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    starts: npt.NDArray[np.int32],  # const int32_t[::1], (n,)
    lengths: npt.NDArray[np.int32],  # const int32_t[::1], (n,), -1 null
    codes: npt.NDArray[np.int64],  # const int64_t[:, ::1], (n, numbers)
    seed: int,
    hashes: npt.NDArray[np.uint64],  # uint64_t[::1], (n,), filled
) -> int: ...  # rows hashed
def find_groups(
    data: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    starts: npt.NDArray[np.int32],  # const int32_t[::1], (n,)
    lengths: npt.NDArray[np.int32],  # const int32_t[::1], (n,), -1 null
    codes: npt.NDArray[np.int64],  # const int64_t[:, ::1], (n, numbers)
    hashes: npt.NDArray[np.uint64],  # const uint64_t[::1], (n,)
    table: tuple[npt.NDArray[Any], ...],  # slots, entries, codes, keys
    groups: int,
    out: npt.NDArray[np.int32],  # int32_t[::1], (n,), filled
) -> tuple[int, int]: ...  # rows done, groups
def fill_slots(
    entries: npt.NDArray[np.int64],  # const int64_t[:, ::1], (groups, 3)
    slots: npt.NDArray[np.int32],  # int32_t[::1], a power of two, filled with -1
) -> None: ...
def add_measures(
    groups: npt.NDArray[np.int32],  # const int32_t[::1], (n,)
    measures: npt.NDArray[np.int64],  # const int64_t[:, ::1], (measures, n)
    sums: int,
    leasts: int,
    totals: npt.NDArray[np.int64],  # int64_t[:, ::1], (groups, measures), changed
) -> None: ...
def divide_totals(
    totals: npt.NDArray[np.int64],  # const int64_t[::1], (totals,)
    weights: npt.NDArray[np.int64],  # const int64_t[::1], (n,)
    counts: npt.NDArray[np.int64],  # const int64_t[::1], (totals,)
    out: npt.NDArray[np.int64],  # int64_t[::1], (n,), filled
) -> int: ...  # rows done
