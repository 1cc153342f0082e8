"""Kafka's text form of a UUID: 22 characters of URL-safe base64, without padding.

Topic ids, directory ids and voter ids have this form everywhere in Kafka: in files, in
JSON, in logs. The only other form is the 32 hex digits in a directory's name. Inside
kafkalog the value is the text; on disk it is 16 bytes.

Source: ``Uuid.java`` in Kafka's clients module.
"""

from __future__ import annotations

import binascii
import re
from typing import Final

from kafkalog.text.decimal_text import shown

UUID_BYTES: Final = 16

ZERO_UUID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
"""No id: sixteen zero bytes."""

METADATA_TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
"""The id of ``__cluster_metadata``."""

_TEXT: Final = re.compile(r"[A-Za-z0-9_-]{22}(==)?", re.ASCII)
_TO_URL: Final = bytes.maketrans(b"+/", b"-_")
_FROM_URL: Final = bytes.maketrans(b"-_", b"+/")


def uuid_to_text(raw: bytes) -> str:
    r"""Return the 16 bytes `raw`, most significant first, in Kafka's text form.

    >>> uuid_to_text(bytes(15) + b"\x01")
    'AAAAAAAAAAAAAAAAAAAAAQ'
    """
    if len(raw) != UUID_BYTES:
        raise ValueError(f"uuid of {len(raw)} bytes, expected {UUID_BYTES}")
    padded = binascii.b2a_base64(raw, newline=False)
    return padded.translate(_TO_URL).rstrip(b"=").decode("ascii")


def uuid_from_text(text: str) -> bytes:
    """Read Kafka's text form, padded or not; return 16 bytes, most significant first.

    Raises `ValueError` where `text` is anything else.

    >>> uuid_from_text("AAAAAAAAAAAAAAAAAAAAAQ").hex()
    '00000000000000000000000000000001'
    """
    if not _TEXT.fullmatch(text):
        raise ValueError(f"{shown(text)}, expected 22 characters of URL-safe base64")
    padded = text[:22].encode("ascii") + b"=="
    return binascii.a2b_base64(padded.translate(_FROM_URL))


def canonical_uuid(text: str) -> str:
    """Return the text that Kafka writes for the UUID that it reads from `text`.

    Padding is removed, and the bits of the last character that a UUID does not use.
    Raises `ValueError` as `uuid_from_text`.

    >>> canonical_uuid("AAAAAAAAAAAAAAAAAAAAAR==")
    'AAAAAAAAAAAAAAAAAAAAAQ'
    """
    return uuid_to_text(uuid_from_text(text))
