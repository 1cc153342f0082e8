from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

_Requirements: TypeAlias = tuple[bool, bool, bool, bool, int, int]
_Rules: TypeAlias = tuple[bool, bool, int, bool, int, int, int]

class EntryFault(IntEnum):
    NO_FAULT = 0
    NO_ENTRY = 1
    LEADER_EPOCH = 2
    BASE_OFFSET = 3
    NEWER_EPOCH = 4
    TOO_LARGE = 5
    TOO_SMALL = 6
    WRONG_CRC = 7
    UNKNOWN_CODEC = 8
    NOT_ASCENDING = 9

def read_required_entry(
    src: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    start: int,
    required: _Requirements,
    last_offset: int,
    row: npt.NDArray[np.uint8],  # uint8_t[::1], one Batch, filled
) -> EntryFault: ...
def take_batches(
    buffers: list[Any],  # bytes-like
    required: _Requirements,
    rules: _Rules | None,
    data: npt.NDArray[np.uint8],  # uint8_t[::1], (nbytes,), filled
    rows: npt.NDArray[np.uint8],  # uint8_t[::1], capacity Batch, filled
    info: npt.NDArray[np.uint8],  # uint8_t[::1], appends Append, filled
    row_bounds: npt.NDArray[np.int64],  # int64_t[::1], (appends + 1,), filled
    byte_bounds: npt.NDArray[np.int64],  # int64_t[::1], (appends + 1,), filled
) -> tuple[int, int, bool]: ...  # appends accepted, rows filled, any compressed
def survey_batches(
    src: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    bounds: npt.NDArray[np.int64],  # const int64_t[::1], (n + 1,)
    rows: npt.NDArray[np.uint8],  # const uint8_t[::1], n Batch
    info: npt.NDArray[np.uint8],  # uint8_t[::1], n Append, completed
    rules: _Rules,
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
    first: int,
    end: int,
    next_offset: int,
    data: npt.NDArray[np.uint8],  # uint8_t[::1], (nbytes,), filled
) -> int: ...  # next offset, or -1
def header_fault(row: npt.NDArray[np.uint8]) -> int: ...  # one Batch

class RecordFault(IntEnum):
    NO_KEY = 1
    TIMESTAMP = 2
    TIMESTAMP_TYPE = 4
    UNEVEN_OFFSET = 8

def stays_in_format(
    row: npt.NDArray[np.uint8],  # one Batch
    rules: _Rules,
) -> bool: ...
def find_record_faults(
    row: npt.NDArray[np.uint8],  # one Batch
    key_lengths: npt.NDArray[np.int32],  # const int32_t[::1], (n,)
    timestamps: npt.NDArray[np.int64],  # const int64_t[::1], (n,)
    offsets: npt.NDArray[np.int64],  # const int64_t[::1], (n,)
    rules: _Rules,
    faults: npt.NDArray[np.uint8],  # uint8_t[::1], (n,), filled
) -> None: ...
