"""Valid checksums for invalid bytes, so that fuzzing gets past the checksum check."""

from __future__ import annotations

import struct
import zlib

from crc32c import crc32c

BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")
"""The header of a batch of magic 2."""


def correct_checksums(data: bytes) -> bytes:
    """Return the bytes with a valid checksum in every batch that can be found by sizes.

    An invalid size is replaced by one that reaches the end of the bytes.
    """
    corrected, position = bytearray(data), 0
    while len(corrected) - position >= 17:
        remaining = len(corrected) - position - 12
        (size,) = struct.unpack_from(">i", corrected, position + 8)
        if not 14 <= size <= remaining:
            if size & 1:  # some tails are left as they are
                break
            size = remaining
            struct.pack_into(">i", corrected, position + 8, size)
        end = position + 12 + size
        if corrected[position + 16] == 2 and size >= 49:
            crc = crc32c(bytes(corrected[position + 21 : end]))
            struct.pack_into(">I", corrected, position + 17, crc)
        elif corrected[position + 16] < 2:
            crc = zlib.crc32(corrected[position + 16 : end])
            struct.pack_into(">I", corrected, position + 12, crc)
        position = end
    return bytes(corrected)


def correct_snapshot(data: bytes) -> bytes:
    """Return a producer snapshot with a valid version and checksum."""
    body = data[6:]
    return struct.pack(">hI", 1, crc32c(body)) + body


def batch_around(
    payload: bytes, codec: int = 0, count: int = 1, **fields: int
) -> bytes:
    """Return a batch of magic 2 with any payload."""
    header = {
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
    rest = tuple(header.values())
    size = BATCH_HEADER.size - 12 + len(payload)
    head = BATCH_HEADER.pack(rest[0], size, rest[1], 2, 0, *rest[2:], count)
    return correct_checksums(head + payload)


def message_around(
    value: bytes, magic: int, codec: int = 0, offset: int = 0, timestamp: int = 0
) -> bytes:
    """Return a message of magic 0 or 1 with any value; with a codec it is a wrapper."""
    time = struct.pack(">q", timestamp) if magic else b""
    body = struct.pack(">bb", magic, codec) + time + struct.pack(">ii", -1, len(value))
    head = struct.pack(">qiI", offset, 4 + len(body) + len(value), 0)
    return correct_checksums(head + body + value)
