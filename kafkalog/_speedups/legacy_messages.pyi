from typing import TypeAlias

import numpy as np
import numpy.typing as npt

_Int64s: TypeAlias = npt.NDArray[np.int64]
_Bytes: TypeAlias = tuple[npt.NDArray[np.uint8], _Int64s, npt.NDArray[np.int32]]

def write_messages(
    offset: _Int64s,  # const int64_t[::1], (n,)
    timestamp: _Int64s,  # const int64_t[::1], (n,)
    key: _Bytes,
    value: _Bytes,
    magic: int,
    attributes: int,
    out: npt.NDArray[np.uint8],  # uint8_t[::1], filled
) -> tuple[int, int]: ...  # messages and bytes written
