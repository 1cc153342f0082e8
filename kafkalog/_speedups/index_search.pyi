from typing import TypeAlias

import numpy as np
import numpy.typing as npt

_Field: TypeAlias = tuple[int, int, int]  # byte of the slot, width, base

def search_value(
    data: npt.NDArray[np.uint8],  # const uint8_t[::1], slots
    stride: int,
    key: _Field,
    value: _Field,
    missing: int,
    target: int,
) -> int: ...  # the value, or `missing`
def find_slot(
    data: npt.NDArray[np.uint8] | bytes | memoryview,  # const uint8_t[::1], slots
    stride: int,
    field: _Field,
    target: int,
    above: bool,
) -> int: ...  # slot
def search_slots(
    data: npt.NDArray[np.uint8],  # const uint8_t[::1], slots
    stride: int,
    field: _Field,
    targets: npt.NDArray[np.int64],  # const int64_t[::1], (n,)
    out: npt.NDArray[np.int64],  # int64_t[::1], (n,), filled
) -> None: ...
def take_field(
    data: npt.NDArray[np.uint8],  # const uint8_t[::1], slots
    stride: int,
    field: _Field,
    missing: int,
    slots: npt.NDArray[np.int64],  # int64_t[::1], (n,), replaced
) -> None: ...
def count_rising(
    data: npt.NDArray[np.uint8],  # const uint8_t[::1], slots
    stride: int,
    first: _Field,
    second: _Field,
    second_may_repeat: bool,
) -> int: ...  # slots
def first_nonzero(
    data: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    start: int,
) -> int: ...  # position
def widen_slots(
    data: npt.NDArray[np.uint8],  # const uint8_t[::1], slots
    stride: int,
    first: _Field,
    second: _Field,
    tag: int,
    base_offset: int,
    out: npt.NDArray[np.int64],  # int64_t[:, ::1], (n, 4), filled
) -> int: ...  # rows filled
def search_ranges(
    column: npt.NDArray[np.int64],  # const int64_t[:], (rows,), strided or not
    starts: npt.NDArray[np.int64],  # const int64_t[:], (ranges,), strided or not
    stops: npt.NDArray[np.int64],  # const int64_t[:], (ranges,), strided or not
    which: npt.NDArray[np.int64],  # const int64_t[::1], (n,), ranges
    targets: npt.NDArray[np.int64],  # const int64_t[::1], (n,)
    out: npt.NDArray[np.int64],  # int64_t[::1], (n,), filled
) -> None: ...
