r"""snappy in the framing of Java's snappy-java (xerial): blocks behind a header.

    0                  8          12                  16       20
    | 82 "SNAPPY" 00   | version  | lowest compatible | length | raw snappy block ...

``length``  int32, big-endian: bytes of the block that follows; blocks and their lengths
            follow one another to the end. A second header among them is skipped, so
            that streams may be joined; fewer than 4 bytes at the end are ignored. The
            two version words are not looked at.

Data that does not begin so is one raw block, as older producers wrote it. A raw block
begins with the length of its content, which is what keeps the limit.

Knows: the framing. Does not know: what is in the blocks.
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
"""No element of a block gives more bytes for each of its own: 64 for a copy of 3."""


@functools.cache
def _library() -> tuple[Callable[[Any], bytes], type[Exception]]:
    import snappy

    return snappy.uncompress, snappy.UncompressError


def compress(data: bytes | memoryview) -> bytes:
    """Pack `data` into blocks of 32 KiB behind a header."""
    import snappy

    out = [_HEADER]
    source = memoryview(data)
    for start in range(0, len(source), _BLOCK_BYTES):
        block = snappy.compress(source[start : start + _BLOCK_BYTES])
        out += (_LENGTH.pack(len(block)), block)
    return b"".join(out)


def decompress(data: bytes | memoryview, limit: int) -> list[bytes]:
    """Unpack the blocks of `data`: one piece each, `limit` bytes at most together."""
    size = len(data)
    if size < _HEADER_BYTES or data[:8] != _MAGIC:
        return [_block(data, 0, size, limit)]
    pieces: list[bytes] = []
    position = _HEADER_BYTES
    while size - position >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(data, position)
        if length == _MAGIC_AS_LENGTH:
            position = _joined(data, position)
            continue
        start = position + _LENGTH.size
        if not 0 <= length <= size - start:
            reason = f"a snappy block of {length} bytes, where {size - start} remain"
            raise CorruptRecordError(reason, position=position)
        position = start + length
        piece = _block(data, start, position, limit)
        limit -= len(piece)
        pieces.append(piece)
    return pieces


def _joined(data: bytes | memoryview, position: int) -> int:
    """Where the blocks go on behind a second header at `position`."""
    header = data[position : position + _HEADER_BYTES]
    if len(header) < _HEADER_BYTES or header[:8] != _MAGIC:
        raise CorruptRecordError("a torn snappy header", position=position)
    return position + _HEADER_BYTES


def _block(data: bytes | memoryview, start: int, end: int, limit: int) -> bytes:
    """Unpack the raw block from `start` to `end`, once its length is known to fit."""
    declared = _declared_length(data, start, end)
    if declared > limit:
        reason = f"a snappy block declares {declared} bytes, above the limit"
        raise BatchTooLargeError(reason, position=start)
    if declared > (end - start) * _MAX_GROWTH:
        reason = f"a snappy block of {end - start} bytes declares {declared}"
        raise CorruptRecordError(reason, position=start)
    uncompress, refusal = _library()
    try:
        piece = uncompress(memoryview(data)[start:end])
    except refusal as error:
        reason = f"snappy refuses a block: {error.__cause__ or error}"
        raise CorruptRecordError(reason, position=start) from error
    return piece


def _declared_length(data: bytes | memoryview, start: int, end: int) -> int:
    """Read what a raw block begins with: a varint of 32 bits, not zig-zag."""
    length = 0
    for shift, byte in enumerate(bytes(data[start : min(end, start + 5)])):
        length |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return length
    raise CorruptRecordError("a snappy block without a length", position=start)
