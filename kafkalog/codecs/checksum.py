"""The two checksums of a log directory, of one buffer at a time.

CRC-32C (Castagnoli) guards batches of magic 2 and producer snapshots; CRC-32 (zlib's)
guards messages of magic 0 and 1. Checksums of many batches at once are a kernel's work.

Knows: polynomials. Does not know: which bytes of a structure are covered.
Source: ``Crc32C.java``, and ``java.util.zip.CRC32`` as ``LegacyRecord.java`` uses it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


def crc32c(data: ReadableBuffer) -> int:
    """CRC-32C of `data`, unsigned.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    return _castagnoli()(data)


def crc32(data: ReadableBuffer) -> int:
    """CRC-32 of `data`, unsigned.

    >>> hex(crc32(b"123456789"))
    '0xcbf43926'
    """
    return zlib.crc32(data)


def crc_mismatch(stored: int, computed: int) -> str:
    """Return the reason of an error for a checksum that does not match.

    >>> crc_mismatch(0x00F4D10B, 0x5AB31C07)
    'CRC mismatch: stored 00f4d10b, computed 5ab31c07'
    """
    return f"CRC mismatch: stored {stored:08x}, computed {computed:08x}"


@cache
def _castagnoli() -> Callable[[ReadableBuffer], int]:
    # Importing the package reads its own metadata from disk: 60 ms, so not before use.
    from crc32c import crc32c as castagnoli

    return castagnoli
