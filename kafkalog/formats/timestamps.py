"""Points in time as Kafka has them: milliseconds since 1970.

Knows: integers, datetimes. Does not know: what is bounded by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Time = int | datetime
Times = npt.ArrayLike | Time | Sequence[Time]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND: Final = timedelta(milliseconds=1)
LEAST: Final = -(2**63)
MOST: Final = 2**63 - 1


def as_ms(time: Any) -> int:
    """Return the milliseconds since 1970 of a bound; of one between two, the later.

    Raises `TypeError` for what is neither an int nor a datetime, `ValueError` for a
    datetime without a zone.

    >>> as_ms(datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC))
    1700000000000
    """
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise ValueError(f"a time needs a zone to be one: {time!r} has none")
        return -((EPOCH - time) // MILLISECOND)
    if isinstance(time, bool) or not hasattr(time, "__index__"):
        raise TypeError(f"a time is ms since 1970 or a datetime, not {time!r}")
    return max(LEAST, min(int(time), MOST))


def all_as_ms(times: Times) -> npt.NDArray[np.int64]:
    """Return the milliseconds since 1970 of many, in their shape.

    They are what `as_ms` takes, or ``datetime64``, which is UTC.

    >>> all_as_ms(np.array(["2023-11-14T22:13:20.0001"], "datetime64[us]"))
    array([1700000000001])
    """
    asked: npt.NDArray[Any] = np.asarray(times)
    if asked.dtype.kind == "M":
        if np.isnat(asked).any():
            raise ValueError("NaT is no time")
        ms = asked.astype("datetime64[ms]")
        return ms.astype(np.int64) + (ms < asked)
    if asked.dtype.kind == "i" or not asked.size:
        return asked.astype(np.int64)
    each = [as_ms(one) for one in asked.reshape(-1).tolist()]
    return np.array(each, np.int64).reshape(asked.shape)
