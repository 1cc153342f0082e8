from typing import Any

import numpy as np
import numpy.typing as npt

# `place` is int32 or int64, the same for all arrays of a call.

def find_single_documents(
    data: npt.NDArray[np.uint8],  # const uint8_t[::1], (nbytes,)
    begins: npt.NDArray[Any],  # const place[::1], (n,)
    ends: npt.NDArray[Any],  # const place[::1], (n,)
    single: npt.NDArray[np.uint8],  # uint8_t[::1], (n,), filled
) -> int: ...  # rows done
