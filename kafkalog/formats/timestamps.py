"""Kafka's timestamps, in milliseconds since 1970, from integers and datetimes.

Source: ``RecordBatch.java`` (timestamps are epoch milliseconds).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kafkalog.integer_limits import MAX_INT64, MIN_INT64

Time = int | datetime
Times = npt.ArrayLike | Time | Sequence[Time]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND: Final = timedelta(milliseconds=1)
US_PER_MS: Final = 1000
MAX_MS_IN_US: Final = MAX_INT64 // US_PER_MS
"""The greatest timestamp that 64 bits of microseconds hold; minus it is the least."""
FIRST_DAY, LAST_DAY = (
    int(np.datetime64(date, "D").astype(np.int64))
    for date in ("0001-01-01", "9999-12-31")
)
"""The days since 1970 whose dates have years that all readers of tables parse."""


def as_ms(time: Any) -> int:
    """Return `time` as milliseconds since 1970, rounded up.

    Parameters
    ----------
    time : int or datetime
        Milliseconds, or an aware datetime.

    Raises
    ------
    TypeError
        For a value that is neither an int nor a datetime.
    ValueError
        For a datetime without a time zone.

    Examples
    --------
    >>> as_ms(datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC))
    1700000000000
    """
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise ValueError(
                f"datetime without a time zone: {time!r}, expected an aware one"
            )
        return -((EPOCH - time) // MILLISECOND)
    if isinstance(time, bool) or not hasattr(time, "__index__"):
        raise TypeError(f"time {time!r}, expected ms since 1970 or a datetime")
    return max(MIN_INT64, min(int(time), MAX_INT64))


def as_text(time_ms: int) -> str:
    """Return a time as text, in UTC; as a number if it has no date.

    >>> as_text(1_700_000_000_000), as_text(2**63 - 1)
    ('2023-11-14T22:13:20.000Z', '9223372036854775807')
    """
    try:
        time = EPOCH + time_ms * MILLISECOND
    except OverflowError:
        return str(time_ms)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def all_as_ms(times: Times) -> npt.NDArray[np.int64]:
    """Return `times` as milliseconds since 1970, in their shape.

    They are values that `as_ms` takes, or ``datetime64`` in UTC.

    >>> all_as_ms(np.array(["2023-11-14T22:13:20.0001"], "datetime64[us]"))
    array([1700000000001])
    """
    values: npt.NDArray[Any] = np.asarray(times)
    if values.dtype.kind == "M":
        if np.isnat(values).any():
            raise ValueError("NaT, expected a time")
        ms = values.astype("datetime64[ms]")
        return ms.astype(np.int64) + (ms < values)
    if values.dtype.kind == "i" or not values.size:
        return values.astype(np.int64)
    flat = [as_ms(time) for time in values.reshape(-1).tolist()]
    return np.array(flat, np.int64).reshape(values.shape)
