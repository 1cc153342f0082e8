"""A byte string as data that text formats have: text if it is UTF-8, else base64.

Knows: which it is. Does not know: how strings and objects are written.
"""

from __future__ import annotations

from base64 import b64encode

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
