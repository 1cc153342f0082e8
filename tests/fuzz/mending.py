"""Checksums put right in hostile bytes, so that what lies behind them is reached."""

from __future__ import annotations

import struct
import zlib

from crc32c import crc32c

BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")
"""A batch of magic 2 up to its records, field by field."""


def mend_entries(data: bytes) -> bytes:
    """Give every entry that its size allows to be found the checksum of its bytes.

    A size that cannot be is made to reach the end of the bytes.
    """
    mended, position = bytearray(data), 0
    while len(mended) - position >= 17:
        left = len(mended) - position - 12
        (size,) = struct.unpack_from(">i", mended, position + 8)
        if not 14 <= size <= left:
            if size & 1:  # some tails are left as they are
                break
            size = left
            struct.pack_into(">i", mended, position + 8, size)
        end = position + 12 + size
        if mended[position + 16] == 2 and size >= 49:
            crc = crc32c(bytes(mended[position + 21 : end]))
            struct.pack_into(">I", mended, position + 17, crc)
        elif mended[position + 16] < 2:
            crc = zlib.crc32(mended[position + 16 : end])
            struct.pack_into(">I", mended, position + 12, crc)
        position = end
    return bytes(mended)


def mend_snapshot(data: bytes) -> bytes:
    """Give a producer snapshot its version and its checksum."""
    body = data[6:]
    return struct.pack(">hI", 1, crc32c(body)) + body


def batch_around(
    payload: bytes, codec: int = 0, count: int = 1, **fields: int
) -> bytes:
    """Make a batch of magic 2 around a payload, whatever that holds."""
    told = {
        "base_offset": 0,
        "leader_epoch": 0,
        "attributes": codec,
        "last_offset_delta": max(count - 1, 0),
        "base_timestamp": 0,
        "max_timestamp": 0,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        **fields,
    }
    rest = tuple(told.values())
    size = BATCH_HEADER.size - 12 + len(payload)
    head = BATCH_HEADER.pack(rest[0], size, rest[1], 2, 0, *rest[2:], count)
    return mend_entries(head + payload)


def message_around(
    value: bytes, magic: int, codec: int = 0, offset: int = 0, timestamp: int = 0
) -> bytes:
    """Make a message of magic 0 or 1 around a value: a wrapper where it has a codec."""
    time = struct.pack(">q", timestamp) if magic else b""
    body = struct.pack(">bb", magic, codec) + time + struct.pack(">ii", -1, len(value))
    head = struct.pack(">qiI", offset, 4 + len(body) + len(value), 0)
    return mend_entries(head + body + value)
