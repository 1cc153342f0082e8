from typing import TypeAlias

import numpy as np
import numpy.typing as npt

_Limits: TypeAlias = tuple[int, int, int, int, int, int, int, int]
_IndexEnd: TypeAlias = tuple[int, bytes]
_End: TypeAlias = tuple[int, int, int, int, int, int, _IndexEnd, _IndexEnd]
_Filling: TypeAlias = tuple[int, int, int]
# data, (rows,) Batch, (appends + 1,) bounds of rows and of bytes, (appends,) Append
_AppendArrays: TypeAlias = tuple[
    npt.NDArray[np.uint8],
    npt.NDArray[np.void],
    npt.NDArray[np.int64],
    npt.NDArray[np.int64],
    npt.NDArray[np.void],
]

def must_roll(
    limits: _Limits,
    end: _End,
    size: int,
    max_timestamp: int,
    last_offset: int,
    now_ms: int,
) -> bool: ...
def is_next_sequence(sequence: int, last: int) -> bool: ...
def plan_run(
    arrays: _AppendArrays,
    first: int,
    assigns_offsets: bool,
    limits: _Limits,
    end: _End,
    sequences: npt.NDArray[np.void] | None,  # (producers,) Sequence, advanced
    now_ms: int,
) -> tuple[int, int, bytes, bytes, _Filling]: ...
