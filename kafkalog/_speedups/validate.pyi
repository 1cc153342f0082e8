from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

_Requirements: TypeAlias = tuple[bool, bool, bool, bool, int, int]
_Rules: TypeAlias = tuple[bool, bool, int, bool, int, int, int]
# data, (rows,) Batch, (appends + 1,) bounds of rows and of bytes, (appends,) Append
_AppendArrays: TypeAlias = tuple[
    npt.NDArray[np.uint8],
    npt.NDArray[np.void],
    npt.NDArray[np.int64],
    npt.NDArray[np.int64],
    npt.NDArray[np.void],
]
_Row: TypeAlias = npt.NDArray[np.void] | np.void  # one Batch

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
    row: npt.NDArray[np.void],  # (1,) Batch, filled
) -> EntryFault: ...
def take_batches(
    buffers: list[Any],  # bytes-like
    required: _Requirements,
    rules: _Rules | None,
    now_ms: int,
    arrays: _AppendArrays,  # filled
) -> tuple[int, int, bool]: ...  # appends accepted, rows filled, any compressed
def survey_batches(
    src: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    bounds: npt.NDArray[np.int64],  # const int64_t[::1], (n + 1,)
    arrays: _AppendArrays,  # completed
    first: int,
    rules: _Rules,
    now_ms: int,
) -> int: ...  # appends accepted
def stamp_batches(
    arrays: _AppendArrays,  # completed
    rules: _Rules,
    now_ms: int,
) -> int: ...  # batches done
def place_batches(
    arrays: _AppendArrays,  # completed
    first: int,
    end: int,
    next_offset: int,
) -> int: ...  # next offset, or -1

class HeaderFault(IntEnum):
    VALID = 0
    OFFSET_RANGE = 1
    NO_RECORDS = 2
    RECORD_COUNT = 3
    CONTROL_BATCH = 4
    NO_SEQUENCE = 5

def header_fault(row: _Row) -> HeaderFault: ...

class RecordFault(IntEnum):
    NO_KEY = 1
    TIMESTAMP = 2
    TIMESTAMP_TYPE = 4
    UNEVEN_OFFSET = 8

def stays_in_format(
    row: _Row,
    rules: _Rules,
) -> bool: ...
def find_record_faults(
    row: _Row,
    key_lengths: npt.NDArray[np.int32],  # const int32_t[::1], (n,)
    timestamps: npt.NDArray[np.int64],  # const int64_t[::1], (n,)
    offsets: npt.NDArray[np.int64],  # const int64_t[::1], (n,)
    rules: _Rules,
    now_ms: int,
    faults: npt.NDArray[np.uint8],  # uint8_t[::1], (n,), filled
) -> None: ...
