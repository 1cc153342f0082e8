from typing import TypeAlias

import numpy as np
import numpy.typing as npt

_Limits: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int]
_End: TypeAlias = tuple[int, ...]  # 7 fields
_Bytes: TypeAlias = npt.NDArray[np.uint8]
_Int64s: TypeAlias = npt.NDArray[np.int64]

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
    rows: _Bytes,  # Batch
    row_bounds: _Int64s,  # (appends + 1,)
    byte_bounds: _Int64s,  # (appends + 1,)
    info: _Bytes,  # Append
    first: int,
    limits: _Limits,
    end: _End,
    sequences: _Bytes | None,  # Sequence, advanced
    now_ms: int,
) -> tuple[int, _End, bytes, bytes]: ...
