from collections.abc import Callable
from typing import Any, Self, TypeAlias, final

import numpy as np
import numpy.typing as npt

_Limits: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int]
_State: TypeAlias = tuple[int, int, int, int, int, int, int]
_Told: TypeAlias = tuple[int, int, int, int, int, int | None, str, int, bool]
_Made: TypeAlias = tuple[tuple[int, int, int], int, tuple[int, int], bytes, bytes]
_Room: TypeAlias = bytearray | memoryview | npt.NDArray[np.uint8]  # uint8_t[::1]

@final
class Tail:
    def __new__(
        cls,
        data: _Room,
        rows: _Room,
        codecs: tuple[str, ...],
        unpack: Callable[[int, memoryview, int], bytes | None],
    ) -> Self: ...
    def settle(self, limits: _Limits, state: _State) -> None: ...
    def lead_by(
        self,
        wanted: tuple[int, bool],
        rules: tuple[bool, bool, int, int, int],
        most_unpacked: int,
        stamp: tuple[bool, int, int],
    ) -> None: ...
    def plan(
        self,
        appends: list[Any],  # four buffers: Batch, int64_t, int64_t, Append
        first: int,
        plain_rows: int,
        log_start: int,
        now_ms: int,
    ) -> tuple[list[_Told], _Made]: ...
    def lead(
        self, pieces: list[Any], log_start: int, owned: bool
    ) -> tuple[list[_Told], int, _Made]: ...
    def follow(
        self, piece: bytes, leader_epoch: int | None, log_start: int, now_ms: int
    ) -> tuple[_Told, _Made] | None: ...
