"""Text as Java reads it: UTF-8 with what is no UTF-8 replaced by U+FFFD.

Python replaces as Unicode recommends, and so does Java but for a surrogate, which Java
takes for one fault, of as many of its three bytes as are there, and Python for a fault
each.

Source: ``String.decodeUTF8`` of the JDK; Kafka reads header keys with it.
"""

from __future__ import annotations

import re
from typing import Final

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
