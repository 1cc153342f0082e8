"""The two checksums in a log directory, for one buffer at a time.

CRC-32C (Castagnoli) protects batches of magic 2 and producer snapshots; CRC-32
(zlib's) protects messages of magic 0 and 1. A kernel computes the checksums of many
batches at once.

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
    """Return the CRC-32C of `data`, unsigned.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    return _castagnoli()(data)


def crc32(data: ReadableBuffer) -> int:
    """Return the CRC-32 of `data`, unsigned.

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
    # The import takes 60 ms: the package reads its own metadata from disk.
    from crc32c import crc32c as castagnoli

    return castagnoli
