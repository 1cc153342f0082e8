from typing import Any

import numpy as np
import numpy.typing as npt

def take_batches(
    buffers: list[Any],  # bytes-like
    byte_bounds: npt.NDArray[np.int64],  # const int64_t[::1], (appends + 1,)
    from_zero: bool,
    ascending: bool,
    least_epoch: int,
    greatest_epoch: int,
    most_bytes: int,
    rules: tuple[bool, bool, int, int, int] | None,
    data: npt.NDArray[np.uint8],  # uint8_t[::1], (nbytes,), filled
    rows: npt.NDArray[np.uint8],  # uint8_t[::1], capacity Batch, filled
    info: npt.NDArray[np.uint8],  # uint8_t[::1], appends Append, filled
    row_bounds: npt.NDArray[np.int64],  # int64_t[::1], (appends + 1,), filled
) -> tuple[int, int]: ...  # appends accepted, rows filled
def survey_batches(
    src: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    starts: npt.NDArray[np.int64] | None,  # const int64_t[::1], (n,)
    lengths: npt.NDArray[np.int64] | None,  # const int64_t[::1], (n,)
    rows: npt.NDArray[np.uint8],  # const uint8_t[::1], n Batch
    row_bounds: npt.NDArray[np.int64],  # const int64_t[::1], (appends + 1,)
    info: npt.NDArray[np.uint8],  # uint8_t[::1], appends Append, completed
    rules: tuple[bool, bool, int, int, int],
) -> int: ...  # appends accepted
def stamp_batches(
    rows: npt.NDArray[np.uint8],  # uint8_t[::1], n Batch, completed
    info: npt.NDArray[np.uint8],  # uint8_t[::1], n Append, completed
    at_append: bool,
    now_ms: int,
    leader_epoch: int,
    data: npt.NDArray[np.uint8],  # uint8_t[::1], (nbytes,), filled
) -> int: ...  # rows done
def place_batches(
    rows: npt.NDArray[np.uint8],  # uint8_t[::1], n Batch, completed
    row_bounds: npt.NDArray[np.int64],  # const int64_t[::1], (appends + 1,)
    info: npt.NDArray[np.uint8],  # uint8_t[::1], appends Append, completed
    next_offset: int,
    data: npt.NDArray[np.uint8],  # uint8_t[::1], (nbytes,), filled
) -> int: ...  # next offset, or -1
def header_fault(row: npt.NDArray[np.uint8]) -> int: ...  # one Batch
