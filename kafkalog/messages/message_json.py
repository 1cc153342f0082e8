r"""Messages as JSON text, equal to what Kafka's tools print.

There are no spaces between members. Bytes are base64. Text is escaped only where JSON
requires it. Unknown tagged fields are not printed.

Source: ``JsonConverterGenerator.java``; Jackson's ``WriterBasedJsonGenerator``,
``Double.toString``.
"""

from __future__ import annotations

import re
from base64 import b64encode
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, Final

from kafkalog.messages.schema import UNKNOWN_TAGS

_ESCAPE: Final = re.compile(r"\\(?:u(00..)|.)")


def message_to_json(value: Any) -> str:
    r"""Return a decoded message, or a value in one, as JSON text.

    >>> print(message_to_json({"name": "t\x1f", "ids": [1, None], "raw": b"\1"}))
    {"name":"t\u001F","ids":[1,null],"raw":"AQ=="}
    """
    if isinstance(value, str):
        return _quoted(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, dict):
        members = (
            f'"{name}":{message_to_json(inner)}'
            for name, inner in value.items()
            if name != UNKNOWN_TAGS
        )
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(message_to_json, value)) + "]"
    if isinstance(value, bytes):
        return f'"{b64encode(value).decode("ascii")}"'
    return java_double(value)


def _quoted(text: str) -> str:
    quoted = encode_basestring(text)
    if "\\u00" in quoted:
        return _ESCAPE.sub(_upper_digits, quoted)
    return quoted


def _upper_digits(escape: re.Match[str]) -> str:
    return "\\u" + escape[1].upper() if escape[1] else escape[0]


def java_double(value: float) -> str:
    """Return a double as Java prints it, and in quotes if it is not finite.

    >>> [java_double(x) for x in (1.0, 0.001, 1e7, 1.5e-5, -0.0, float("inf"))]
    ['1.0', '0.001', '1.0E7', '1.5E-5', '-0.0', '"Infinity"']
    """
    shortest = repr(value)
    if shortest in ("nan", "inf", "-inf"):
        return {"nan": '"NaN"', "inf": '"Infinity"'}.get(shortest, '"-Infinity"')
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = f"{Decimal(shortest):f}"
        return text if "." in text else text + ".0"
    sign, digits, _ = Decimal(shortest).normalize().as_tuple()
    text = "".join(map(str, digits))
    exponent = Decimal(shortest).adjusted()
    return f"{'-' * sign}{text[0]}.{text[1:] or '0'}E{exponent}"
