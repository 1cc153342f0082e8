"""Parsers for the text of one option, with the rules of Scala and Spark.

Source: Scala's ``toInt``, ``toLong`` and ``toBoolean``; ``timeStringAsMs`` and
``byteStringAsBytes`` of ``JavaUtils.java``.
"""

from __future__ import annotations

import json
import re
from typing import Final

from kafkalog.errors import ConfigError
from kafkalog.integer_limits import MAX_INT32, MAX_INT64
from kafkalog.spark.offset_json import NUMBER

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


def parse_integer(
    text: str, *, minimum: int = -MAX_INT64 - 1, maximum: int = MAX_INT64
) -> int:
    """Parse an integer; blanks are not allowed.

    >>> parse_integer("+12")
    12
    >>> parse_integer("0", minimum=1)
    Traceback (most recent call last):
    kafkalog.errors.ConfigError: expected an integer of at least 1, got 0
    """
    number = int(text) if len(text) < 30 and NUMBER.fullmatch(text) else None
    if number is not None and minimum <= number <= maximum:
        return number
    bounds = "" if minimum < 0 else f" of at least {minimum}"
    bounds += f" and at most {maximum}" if number and number > maximum else ""
    raise ConfigError(f"expected an integer{bounds}, got {text}")


def parse_positive_int(text: str) -> int:
    """Parse an integer of Java's type int that is at least 1."""
    return parse_integer(text, minimum=1, maximum=MAX_INT32)


def parse_boolean(text: str) -> bool:
    """Parse true or false in any case.

    >>> parse_boolean("TRUE"), parse_boolean("false")
    (True, False)
    """
    match text.lower():
        case "true":
            return True
        case "false":
            return False
    raise ConfigError(f"expected true or false, got {text}")


def parse_duration_ms(text: str) -> int:
    """Parse a duration; a number without a unit is in milliseconds.

    >>> parse_duration_ms("15m"), parse_duration_ms("250"), parse_duration_ms("1500us")
    (900000, 250, 1)
    """
    match = AMOUNT.fullmatch(text.strip().lower())
    unit = MICROSECONDS.get((match and match[2]) or "ms")
    if not match or unit is None or len(match[1]) > 20:
        raise ConfigError(f"expected a duration like 15m, 50s or 100ms, got {text}")
    amount = int(match[1]) * unit
    return min(abs(amount) // 1000, MAX_INT64) * (-1 if amount < 0 else 1)


def parse_size(text: str) -> int:
    """Parse a size; a number without a unit is in bytes, and 1k is 1024 bytes.

    >>> parse_size("64m"), parse_size("1kb"), parse_size("134217728")
    (67108864, 1024, 134217728)
    """
    match = AMOUNT.fullmatch(text.strip().lower())
    unit = BYTES.get((match and match[2]) or "b")
    size = int(match[1]) * unit if match and unit and len(match[1]) < 20 else 0
    if not 1 <= size <= MAX_INT64:
        raise ConfigError(f"expected a size like 128m or 65536, got {text}")
    return size


def parse_timestamp_ms(text: str) -> int:
    """Parse milliseconds since 1970; blanks around the number are allowed.

    >>> parse_timestamp_ms(" 1763750000000 ")
    1763750000000
    """
    try:
        return parse_integer(text.strip(), minimum=0)
    except ConfigError:
        raise ConfigError(f"expected milliseconds since 1970, got {text}") from None


def parse_names(text: str) -> tuple[str, ...]:
    """Parse one or more names separated by commas.

    >>> parse_names("orders, audit,")
    ('orders', 'audit')
    """
    names = tuple(name for part in text.split(",") if (name := part.strip()))
    if not names:
        raise ConfigError(f"expected names separated by commas, got {text}")
    return names


def parse_paths(text: str) -> tuple[str, ...]:
    """Parse the JSON list that ``load([a, b])`` passes as an option.

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
        raise ConfigError("expected log directories, got none")
    raise ConfigError(f"expected a JSON list of paths, got {text}")
