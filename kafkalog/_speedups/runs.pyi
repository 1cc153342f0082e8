from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

_Limits: TypeAlias = tuple[int, int, int, int, int, bool, int, int, int, int, int]
_State: TypeAlias = tuple[int, int, int, int, int, int, int]
_Made: TypeAlias = tuple[int, int, tuple[int, int], bytes, bytes]

def plan_run(
    appends: list[Any],  # four buffers: Batch, int64_t, int64_t, Append
    limits: _Limits,
    state: _State,
    first: int,
) -> tuple[int, _Made]: ...
def lead_run(
    pieces: list[bytes],
    wanted: tuple[int, bool],
    rules: tuple[bool, bool, int, int, int],
    stamp: tuple[bool, int, int],
    limits: _Limits,
    state: _State,
    data: npt.NDArray[np.uint8],  # uint8_t[::1], filled
    log_start: int,
) -> tuple[list[tuple[Any, ...]], int, _Made]: ...
def follow_run(
    piece: Any,  # const uint8_t[::1]
    leader_epoch: int,
    limits: _Limits,
    state: _State,
    rows: npt.NDArray[np.uint8],  # uint8_t[::1], room for Batch, filled
) -> tuple[tuple[int, int, int, int, int, int, int] | None, _Made]: ...
