import numpy as np
import numpy.typing as npt

def fetch_headers(
    descriptor: int,
    origin: int,
    into: npt.NDArray[np.uint8],  # uint8_t[::1], (nbytes,), filled in parts
) -> bool: ...
