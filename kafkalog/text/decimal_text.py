"""Decimal integers in text, as strict as Java's ``Integer.parseInt``.

An optional sign, then digits with any leading zeros; no blanks, no underscores. Only
ASCII digits, although Java accepts those of other scripts as well.

Source: ``java.lang.Integer.parseInt``, ``java.lang.Long.parseLong``.
"""

from __future__ import annotations

import re
from typing import Final

_NUMBER: Final = re.compile(r"([+-]?)0*(\d{1,19})", re.ASCII)
_SHOWN: Final = 64


def shown(text: str) -> str:
    """Return `text` quoted for a message, shortened if it is long.

    >>> shown("12x")
    "'12x'"
    """
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "...")


def int_from_text(text: str, bits: int) -> int:
    """Read a signed integer of `bits`. Raise `ValueError` if `text` is not one.

    >>> int_from_text("-007", 32)
    -7
    """
    if match := _NUMBER.fullmatch(text):
        value = int(match[1] + match[2])
        if -(1 << bits - 1) <= value < 1 << bits - 1:
            return value
    raise ValueError(f"{shown(text)}, expected an int{bits}")
