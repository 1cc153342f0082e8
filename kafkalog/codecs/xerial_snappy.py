r"""snappy in the framing of snappy-java (xerial): blocks after a header.

    0                  8          12                  16       20
    | 82 "SNAPPY" 00   | version  | lowest compatible | length | raw snappy block ...

``length``  int32, big-endian: bytes of the block that follows; blocks and their lengths
            repeat to the end. A second header among them is skipped, so that streams
            may be concatenated; fewer than 4 bytes at the end are ignored. The two
            version words are not checked.

Data without this header is one raw block, as older producers wrote it. A raw block
begins with the length of its content, which is checked against the limit.

Source: snappy-java's ``SnappyInputStream.java``, ``SnappyOutputStream.java``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from kafkalog.errors import BatchTooLargeError, CorruptRecordError

_MAGIC: Final = b"\x82SNAPPY\x00"
_HEADER_BYTES: Final = 16
_LENGTH: Final = Struct(">i")
_MAGIC_AS_LENGTH: Final[int] = _LENGTH.unpack(_MAGIC[:4])[0]

_HEADER: Final = _MAGIC + bytes((0, 0, 0, 1, 0, 0, 0, 1))
_BLOCK_BYTES: Final = 32 * 1024

_MAX_GROWTH: Final = 22
"""Maximum growth of a block's element: a copy of 3 bytes decompresses to 64."""


@functools.cache
def _library() -> tuple[Callable[[Any], bytes], type[Exception]]:
    import snappy

    return snappy.uncompress, snappy.UncompressError


def compress(data: bytes | memoryview) -> bytes:
    """Compress `data` into blocks of 32 KiB after a header."""
    import snappy

    out = [_HEADER]
    source = memoryview(data)
    for start in range(0, len(source), _BLOCK_BYTES):
        block = snappy.compress(source[start : start + _BLOCK_BYTES])
        out += (_LENGTH.pack(len(block)), block)
    return b"".join(out)


def decompress(data: bytes | memoryview, limit: int) -> list[bytes]:
    """Decompress the blocks of `data`, one chunk each, `limit` bytes in total."""
    size = len(data)
    if size < _HEADER_BYTES or data[:8] != _MAGIC:
        return [_block(data, 0, size, limit)]
    chunks: list[bytes] = []
    position = _HEADER_BYTES
    while size - position >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(data, position)
        if length == _MAGIC_AS_LENGTH:
            position = _joined(data, position)
            continue
        start = position + _LENGTH.size
        if not 0 <= length <= size - start:
            reason = f"snappy block of {length} bytes, expected at most {size - start}"
            raise CorruptRecordError(reason, position=position)
        position = start + length
        chunk = _block(data, start, position, limit)
        limit -= len(chunk)
        chunks.append(chunk)
    return chunks


def _joined(data: bytes | memoryview, position: int) -> int:
    """Return where the blocks continue after a second header at `position`."""
    header = data[position : position + _HEADER_BYTES]
    if len(header) < _HEADER_BYTES or header[:8] != _MAGIC:
        header_hex = bytes(header).hex()
        reason = f"snappy header {header_hex}, expected {_HEADER_BYTES} bytes of one"
        raise CorruptRecordError(reason, position=position)
    return position + _HEADER_BYTES


def _block(data: bytes | memoryview, start: int, end: int, limit: int) -> bytes:
    """Decompress the raw block from `start` to `end`, after checking its length."""
    declared = _declared_length(data, start, end)
    if declared > limit:
        reason = f"snappy content of {declared} bytes, expected at most {limit}"
        raise BatchTooLargeError(reason, position=start)
    if declared > (end - start) * _MAX_GROWTH:
        most = (end - start) * _MAX_GROWTH
        reason = f"snappy content of {declared} bytes, expected at most {most}"
        raise CorruptRecordError(reason, position=start)
    uncompress, failure = _library()
    try:
        chunk = uncompress(memoryview(data)[start:end])
    except failure as error:
        reason = f"snappy block is corrupt: {error.__cause__ or error}"
        raise CorruptRecordError(reason, position=start) from error
    return chunk


def _declared_length(data: bytes | memoryview, start: int, end: int) -> int:
    """Read the length at the start of a raw block: a 32-bit varint, not zig-zag."""
    length = 0
    for shift, byte in enumerate(bytes(data[start : min(end, start + 5)])):
        length |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return length
    reason = "snappy length has no end in 5 bytes"
    raise CorruptRecordError(reason, position=start)
