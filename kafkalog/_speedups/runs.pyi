from typing import Any

def plan_run(
    appends: list[Any],  # four buffers: Batch, int64_t, int64_t, Append
    limits: tuple[int, int, int, int, int, bool, int, int, int, int, int],
    state: tuple[int, int, int, int, int, int, int],
    first: int,
) -> tuple[int, int, int, int, int, bytes, bytes]: ...
