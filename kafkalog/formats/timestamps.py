"""Kafka's timestamps, in milliseconds since 1970, from integers, datetimes and texts.

Source: ``RecordBatch.java`` (timestamps are epoch milliseconds).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kafkalog.integer_limits import MAX_INT64
from kafkalog.text.time_text import (
    EPOCH,
    MILLISECOND,
    in_64_bits,
    milliseconds_of,
    parse_time,
)

Time = int | str | datetime
Times = npt.ArrayLike | Time | Sequence[Time]

US_PER_MS: Final = 1000
MAX_MS_IN_US: Final = MAX_INT64 // US_PER_MS
"""The greatest timestamp that 64 bits of microseconds hold; minus it is the least."""
FIRST_DAY, LAST_DAY = (
    int(np.datetime64(date, "D").astype(np.int64))
    for date in ("0001-01-01", "9999-12-31")
)
"""The days since 1970 whose dates have years that all readers of tables parse."""


def now_ms() -> int:
    """Return the present time, by which texts such as ``-1h`` are read."""
    return time.time_ns() // 1_000_000


def as_ms(value: Any) -> int:
    """Return a time as milliseconds since 1970, rounded up.

    Parameters
    ----------
    value : int, datetime or str
        Milliseconds, an aware datetime, or a text that `parse_time` reads.

    Raises
    ------
    TypeError
        For a value of another type.
    ValueError
        For a datetime without a time zone, or a text that is not a time.

    Examples
    --------
    >>> from datetime import UTC
    >>> as_ms(datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC))
    1700000000000
    >>> as_ms("2023-11-14T22:13:20Z")
    1700000000000
    """
    if isinstance(value, str):
        return parse_time(value, now_ms())
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(
                f"datetime without a time zone: {value!r}, expected an aware one"
            )
        return milliseconds_of(value)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(
            f"time {value!r}, expected ms since 1970, a datetime or a text such as -1h"
        )
    return in_64_bits(int(value))


def as_ms_or_none(value: Any) -> int | None:
    """Return a time as `as_ms` does, and None for None."""
    return None if value is None else as_ms(value)


def as_text(time_ms: int) -> str:
    """Return a time as text, in UTC; as a number if it has no date.

    >>> as_text(1_700_000_000_000), as_text(2**63 - 1)
    ('2023-11-14T22:13:20.000Z', '9223372036854775807')
    """
    try:
        moment = EPOCH + time_ms * MILLISECOND
    except OverflowError:
        return str(time_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


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
    flat = [as_ms(value) for value in values.reshape(-1).tolist()]
    return np.array(flat, np.int64).reshape(values.shape)
