"""The text of one option, taken as Scala and Spark take it.

Knows: whole numbers, truth values, durations, sizes, times and lists in text. Does not
know: options.
Source: Scala's toInt, toLong and toBoolean; timeStringAsMs and byteStringAsBytes of
Spark's JavaUtils.
"""

from __future__ import annotations

import json
import re
from typing import Final

from kafkalog.errors import ConfigError
from kafkalog.spark.offset_json import LONG_MAX, NUMBER

MICROSECONDS: Final = {
    "us": 1,
    "ms": 10**3,
    "s": 10**6,
    "m": 60 * 10**6,
    "min": 60 * 10**6,
    "h": 3600 * 10**6,
    "d": 86400 * 10**6,
}
BYTES: Final = {"b": 1} | {
    letter + ending: 1024**power
    for power, letter in enumerate("kmgtp", start=1)
    for ending in ("", "b", "ib")
}
AMOUNT: Final = re.compile(r"(-?[0-9]+)([a-z]*)")


def parse_whole(
    text: str, *, least: int = -LONG_MAX - 1, greatest: int = LONG_MAX
) -> int:
    """Read a whole number, blanks not allowed.

    >>> parse_whole("+12")
    12
    >>> parse_whole("0", least=1)
    Traceback (most recent call last):
    kafkalog.errors.ConfigError: expected a whole number of at least 1, got 0
    """
    number = int(text) if len(text) < 30 and NUMBER.fullmatch(text) else None
    if number is not None and least <= number <= greatest:
        return number
    bounds = "" if least < 0 else f" of at least {least}"
    bounds += f" and at most {greatest}" if number and number > greatest else ""
    raise ConfigError(f"expected a whole number{bounds}, got {text}")


def parse_truth(text: str) -> bool:
    """Read true or false, in capitals or not.

    >>> parse_truth("TRUE"), parse_truth("false")
    (True, False)
    """
    match text.lower():
        case "true":
            return True
        case "false":
            return False
    raise ConfigError(f"expected true or false, got {text}")


def parse_duration_ms(text: str) -> int:
    """Read a duration, in milliseconds where no unit is named.

    >>> parse_duration_ms("15m"), parse_duration_ms("250"), parse_duration_ms("1500us")
    (900000, 250, 1)
    """
    found = AMOUNT.fullmatch(text.strip().lower())
    unit = MICROSECONDS.get((found and found[2]) or "ms")
    if not found or unit is None or len(found[1]) > 20:
        raise ConfigError(f"expected a duration like 15m, 50s or 100ms, got {text}")
    amount = int(found[1]) * unit
    return min(abs(amount) // 1000, LONG_MAX) * (-1 if amount < 0 else 1)


def parse_size(text: str) -> int:
    """Read a size, in bytes where no unit is named; a kilobyte has 1024.

    >>> parse_size("64m"), parse_size("1kb"), parse_size("134217728")
    (67108864, 1024, 134217728)
    """
    found = AMOUNT.fullmatch(text.strip().lower())
    unit = BYTES.get((found and found[2]) or "b")
    size = int(found[1]) * unit if found and unit and len(found[1]) < 20 else 0
    if not 1 <= size <= LONG_MAX:
        raise ConfigError(f"expected a size like 128m or 65536, got {text}")
    return size


def parse_time_ms(text: str) -> int:
    """Read milliseconds since 1970, blanks around them allowed.

    >>> parse_time_ms(" 1763750000000 ")
    1763750000000
    """
    try:
        return parse_whole(text.strip(), least=0)
    except ConfigError:
        raise ConfigError(f"expected milliseconds since 1970, got {text}") from None


def parse_names(text: str) -> tuple[str, ...]:
    """Read names between commas, at least one.

    >>> parse_names("orders, audit,")
    ('orders', 'audit')
    """
    names = tuple(name for part in text.split(",") if (name := part.strip()))
    if not names:
        raise ConfigError(f"expected names with commas between them, got {text}")
    return names


def parse_paths(text: str) -> tuple[str, ...]:
    """Read the list that ``load([a, b])`` makes an option of.

    >>> parse_paths('["/a", "/b,c"]')
    ('/a', '/b,c')
    """
    try:
        paths = json.loads(text)
    except ValueError:
        paths = None
    if isinstance(paths, list) and all(isinstance(path, str) for path in paths):
        if paths and all(paths):
            return tuple(paths)
        raise ConfigError("expected log directories, found none")
    raise ConfigError(f"expected a JSON list of paths, got {text}")
