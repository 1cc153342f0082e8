from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

_Int64s: TypeAlias = npt.NDArray[np.int64]
_Within: TypeAlias = tuple[_Int64s, bool]  # (4,) bounds, whether the last two apply

def measure_wrappers(
    src: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    rows: npt.NDArray[np.void],  # (n,) Batch, completed
    starts: npt.NDArray[np.int64],  # const int64_t[::1], (n,)
    lengths: npt.NDArray[np.int64],  # const int64_t[::1], (n,)
    base_offsets: npt.NDArray[np.int64],  # int64_t[::1], (n,), filled
) -> tuple[int, int]: ...  # Status, row it stopped at
def decode_records(
    src: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    rows: npt.NDArray[np.void],  # (n,) Batch
    places: tuple[_Int64s, _Int64s, _Int64s],  # starts, lengths, base offsets, (n,)
    within: _Within,
    check: bool,
    spans: tuple[_Int64s, npt.NDArray[np.int32]],  # (2, n) and (6, n), filled
    emitted: npt.NDArray[np.int64],  # int64_t[::1], (n,), filled
) -> tuple[int, int, int, int]: ...  # Status, row, position in src, records
def gather_records(
    src: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    rows: npt.NDArray[np.void],  # (n,) Batch
    places: tuple[_Int64s, _Int64s, _Int64s],  # starts, lengths, base offsets, (n,)
    within: _Within,
    check: bool,
    columns: tuple[_Int64s, _Int64s, Any, Any, Any],  # filled
    emitted: npt.NDArray[np.int64],  # int64_t[::1], (n,), filled
) -> tuple[int, int, int, int]: ...  # Status, row, position in src, records
def skip_records(
    src: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    rows: npt.NDArray[np.void],  # (1,) Batch
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
