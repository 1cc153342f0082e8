"""Decimal numbers in text, as strictly as Java's ``Integer.parseInt`` takes them.

A sign or none, then digits, of which leading zeros do not count; no blanks, no
underscores. ASCII digits alone, although Java takes those of other scripts, too.

Knows: numbers. Does not know: where the text stood.
Source: ``java.lang.Integer.parseInt``, ``java.lang.Long.parseLong``.
"""

from __future__ import annotations

import re
from typing import Final

_NUMBER: Final = re.compile(r"([+-]?)0*(\d{1,19})", re.ASCII)
_SHOWN: Final = 64


def shown(text: str) -> str:
    """Quote `text` for a message, and cut it where it is long.

    >>> shown("12x")
    "'12x'"
    """
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "...")


def int_from_text(text: str, bits: int) -> int:
    """Read a signed integer of `bits`; `ValueError` where `text` is none.

    >>> int_from_text("-007", 32)
    -7
    """
    if match := _NUMBER.fullmatch(text):
        value = int(match[1] + match[2])
        if -(1 << bits - 1) <= value < 1 << bits - 1:
            return value
    raise ValueError(f"{shown(text)} is not an int{bits}")
