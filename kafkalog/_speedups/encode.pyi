from typing import TypeAlias

import numpy as np
import numpy.typing as npt

_Int64s: TypeAlias = npt.NDArray[np.int64]
_Bytes: TypeAlias = tuple[npt.NDArray[np.uint8], _Int64s, npt.NDArray[np.int32]]
_Headers: TypeAlias = tuple[_Int64s, _Bytes, _Bytes] | None  # bounds, keys, values
_Columns: TypeAlias = tuple[_Int64s, _Int64s, _Bytes, _Bytes, _Headers]

def split_records(
    columns: _Columns,
    most_bytes: int,
    most_rows: int,
    bounds: _Int64s,  # int64_t[::1], (n + 1,), filled
    payloads: _Int64s,  # int64_t[::1], (n,), filled
) -> tuple[int, int]: ...  # batches, rows split
def measure_records(
    columns: _Columns,
    bounds: _Int64s,  # const int64_t[::1], (batches + 1,)
    batches: npt.NDArray[np.void],  # (batches,) Batch
    payloads: _Int64s,  # int64_t[::1], (batches,), filled
) -> int: ...  # rows measured
def write_records(
    columns: _Columns,
    bounds: _Int64s,
    batches: npt.NDArray[np.void],  # (batches,) Batch
    starts: _Int64s,  # const int64_t[::1], (batches,)
    out: npt.NDArray[np.uint8],  # uint8_t[::1], filled
) -> int: ...  # rows written
def write_headers(
    rows: npt.NDArray[np.void],  # (n,) Batch
    out: npt.NDArray[np.uint8],  # uint8_t[::1], filled
) -> int: ...  # rows written
