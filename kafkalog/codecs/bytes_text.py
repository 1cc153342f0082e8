"""A byte string as data that text formats have: text if it is UTF-8, else base64.

Knows: which it is. Does not know: how strings and objects are written.
"""

from __future__ import annotations

import re
from base64 import b64encode
from typing import Final

AsData = str | dict[str, str]


def bytes_as_data(value: bytes) -> AsData:
    r"""Give a byte string as the text it is, or else as an object with its base64.

    >>> bytes_as_data(b"text"), bytes_as_data(b"\xff")
    ('text', {'base64': '/w=='})
    """
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode()}


_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT: Final = "�".encode()


def repair_utf8(data: bytes) -> str:
    r"""Decode UTF-8, one U+FFFD in place of each fault, as Java counts them.

    >>> repair_utf8(b"caf\xc3\xa9 \xff \xed\xa0\x80")
    'café � �'
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _SURROGATE.sub(_REPLACEMENT, data).decode("utf-8", "replace")
