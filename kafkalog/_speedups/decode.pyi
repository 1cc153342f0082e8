from typing import Any

import numpy as np
import numpy.typing as npt

def measure_wrappers(
    src: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    rows: npt.NDArray[np.void],  # Batch[::1], (n,), completed
    starts: npt.NDArray[np.int64],  # const int64_t[::1], (n,)
    lengths: npt.NDArray[np.int64],  # const int64_t[::1], (n,)
    base_offsets: npt.NDArray[np.int64],  # int64_t[::1], (n,), filled
) -> tuple[int, int]: ...  # Status, row it stopped at
def decode_records(
    src: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    rows: npt.NDArray[np.void],  # const Batch[::1], (n,)
    starts: npt.NDArray[np.int64],  # const int64_t[::1], (n,)
    lengths: npt.NDArray[np.int64],  # const int64_t[::1], (n,)
    base_offsets: npt.NDArray[np.int64],  # const int64_t[::1], (n,)
    bounds: npt.NDArray[np.int64],  # const int64_t[::1], (4,)
    timed: bool,
    check: bool,
    longs: npt.NDArray[np.int64],  # int64_t[:, ::1], (2, capacity), filled
    ints: npt.NDArray[np.int32],  # int32_t[:, ::1], (6, capacity), filled
    emitted: npt.NDArray[np.int64],  # int64_t[::1], (n,), filled
) -> tuple[int, int, int, int]: ...  # Status, row, position in src, records
def gather_records(
    src: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    rows: npt.NDArray[np.void],  # const Batch[::1], (n,)
    starts: npt.NDArray[np.int64],  # const int64_t[::1], (n,)
    lengths: npt.NDArray[np.int64],  # const int64_t[::1], (n,)
    base_offsets: npt.NDArray[np.int64],  # const int64_t[::1], (n,)
    bounds: npt.NDArray[np.int64],  # const int64_t[::1], (4,)
    timed: bool,
    check: bool,
    offset: npt.NDArray[np.int64],  # int64_t[::1], (capacity,), filled
    timestamp: npt.NDArray[np.int64],  # int64_t[::1], (capacity,), filled
    key: Any,  # None, or arrays of bytes, int32 and bytes, filled
    value: Any,  # the same
    headers: Any,  # None, or an array of int32, and two such columns
    emitted: npt.NDArray[np.int64],  # int64_t[::1], (n,), filled
) -> tuple[int, int, int, int]: ...  # Status, row, position in src, records
def skip_records(
    src: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    rows: npt.NDArray[np.void],  # const Batch[::1], (1,)
    start: int,
    end: int,
    most_records: int,
    most_bytes: int,
) -> tuple[int, int, int]: ...  # Status, position, records skipped
def decode_headers(
    src: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    headers_start: npt.NDArray[np.int32],  # const int32_t[::1], (n,)
    offsets: npt.NDArray[np.int32],  # const int32_t[::1], (n + 1,)
    out: npt.NDArray[np.int32],  # int32_t[:, ::1], (4, headers), filled
) -> int: ...  # Status
