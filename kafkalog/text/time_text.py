"""Times as people write them: dates, times with a zone, and durations before now.

Source: ISO 8601; the units of durations are those of Prometheus and of ``find``.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Final

from kafkalog.integer_limits import MAX_INT64, MIN_INT64

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND: Final = timedelta(milliseconds=1)
NOW: Final = "now"
UNITS_MS: Final = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
"""The units of durations, in milliseconds; a day has 24 hours."""

NUMBER: Final = re.compile(r"-?\d{1,19}", re.ASCII)
PART: Final = r"(\d{1,19})(ms|[smhdw])"
DURATION: Final = re.compile(rf"-(?:{PART})+", re.ASCII)
EXPECTED: Final = (
    "expected milliseconds since 1970, ISO 8601, a duration before now such as -1h, "
    "or now"
)


def parse_time(text: str, now_ms: int) -> int:
    """Return the time that a text states, in milliseconds since 1970.

    Parameters
    ----------
    text : str
        Milliseconds since 1970; a date, whose midnight in UTC is meant; a date and a
        time of day with a zone, in ISO 8601; ``now``; or a duration before it, which is
        a minus followed by numbers with a unit: ``ms``, ``s``, ``m`` (minutes), ``h``,
        ``d`` or ``w``.
    now_ms : int
        The present time.

    Raises
    ------
    ValueError
        For any other text, and for a time of day without a zone.

    Examples
    --------
    >>> parse_time("2023-11-14", 0), parse_time("2023-11-14T22:13:20Z", 0)
    (1699920000000, 1700000000000)
    >>> parse_time("-1h30m", 1_700_000_000_000)
    1699994600000
    """
    if NUMBER.fullmatch(text):
        return in_64_bits(int(text))
    if text == NOW:
        return now_ms
    if DURATION.fullmatch(text):
        parts = re.findall(PART, text)
        return in_64_bits(now_ms - sum(int(n) * UNITS_MS[unit] for n, unit in parts))
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a time, {EXPECTED}") from None
    if time.tzinfo is None:
        try:
            date.fromisoformat(text)
        except ValueError:
            raise ValueError(
                f"{text!r} has no time zone, expected one as in 2026-01-31T12:00Z or "
                "+02:00"
            ) from None
        time = time.replace(tzinfo=UTC)
    return milliseconds_of(time)


def milliseconds_of(time: datetime) -> int:
    """Return an aware datetime as milliseconds since 1970, rounded up.

    >>> milliseconds_of(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
    1000
    """
    return -((EPOCH - time) // MILLISECOND)


def in_64_bits(time_ms: int) -> int:
    """Return the nearest int64, the type of timestamps.

    >>> in_64_bits(2**70)
    9223372036854775807
    """
    return max(MIN_INT64, min(time_ms, MAX_INT64))
