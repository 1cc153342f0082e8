"""Conversion of bytes to text: for text formats, and as Java decodes UTF-8."""

from __future__ import annotations

import re
from base64 import b64encode
from typing import Final

AsData = str | dict[str, str]


def bytes_as_data(value: bytes) -> AsData:
    r"""Return bytes as a string if they are valid UTF-8, else as an object with base64.

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
    r"""Decode UTF-8, with U+FFFD for each invalid sequence, counted as in Java.

    >>> repair_utf8(b"caf\xc3\xa9 \xff \xed\xa0\x80")
    'café � �'
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _SURROGATE.sub(_REPLACEMENT, data).decode("utf-8", "replace")
