"""LZ4 frames, in the part of the format that Kafka reads and writes.

    0             4     5    6                            6 or 14   then blocks
    | 04 22 4d 18 | FLG | BD | content size, if FLG bit 3 | HC      | length, data ...

``FLG``  bits 6-7 version 1; 5 independent blocks (always set); 4 block checksums;
         3 content size; 2 content checksum; 1 and 0 (a dictionary) never set.
``BD``   bits 4-6 maximum block: 4 64 KiB, 5 256 KiB, 6 1 MiB, 7 4 MiB; rest never set.
``HC``   second-lowest byte of xxHash32 over FLG to here. In a message of magic 0 Kafka
         includes the frame's first four bytes, and reads any value (KAFKA-3160).
``length``  uint32, little-endian; bit 31 set: stored uncompressed. 0 ends the frame;
            anything after it is ignored, further frames included.

Kafka checks neither the content size nor the content checksum.

Source: ``Lz4BlockInputStream.java``, ``Lz4BlockOutputStream.java``.
"""

from __future__ import annotations

import functools
import threading
from types import ModuleType
from typing import Any, Final

from kafkalog.errors import BatchTooLargeError, CorruptRecordError

_MAGIC: Final = b"\x04\x22\x4d\x18"
_USUAL: Final = _MAGIC + b"\x60\x40\x82"
"""Header of independent blocks of 64 KiB; its last byte is the checksum."""
_USUAL_OF_MAGIC_0: Final = _MAGIC + b"\x60\x40\x1a"
"""The same header, with a checksum that wrongly includes the first four bytes."""
_CONTENT_CHECKSUM: Final = 0x04
_CONTENT_SIZE: Final = 0x08
_BLOCK_CHECKSUMS: Final = 0x10
_RESERVED_OR_DICTIONARY: Final = 0x03
_VERSION_1_INDEPENDENT: Final = 0b011
_FIRST_CHUNK_BYTES: Final = 64 * 1024
_GROWTH: Final = 4


LEAST_LEVEL: Final = 1
MOST_LEVEL: Final = 17

_BLOCK_BYTES: Final = 64 * 1024
_FAST_LEVEL: Final = 9
"""Kafka's default, and the only level that is not high compression."""
_HIGHEST_EFFORT: Final = 12  # the library's highest level: those above are equal to it
_STORED: Final = 0x80000000
_END_MARK: Final = bytes(4)


@functools.cache
def _frame() -> ModuleType:
    import lz4.frame

    module: ModuleType = lz4.frame
    return module


class _Lz4Contexts(threading.local):
    """A thread's own decompression context: creating one costs as much as 16 KiB."""

    idle: Any = None


_contexts: Final = _Lz4Contexts()


def compress(
    data: bytes | memoryview, level: int | None, *, checked: bool = True
) -> bytes:
    """Compress `data` into one frame of independent blocks of 64 KiB.

    With `checked` the header's checksum is correct, otherwise that of magic 0.
    """
    import lz4.block

    if level is None or level == _FAST_LEVEL:
        mode: dict[str, Any] = {"mode": "default"}
    else:
        effort = min(level, _HIGHEST_EFFORT)
        mode = {"mode": "high_compression", "compression": effort}
    out = [_USUAL if checked else _USUAL_OF_MAGIC_0]
    source = memoryview(data)
    for start in range(0, len(source), _BLOCK_BYTES):
        content = source[start : start + _BLOCK_BYTES]
        block = lz4.block.compress(content, store_size=False, **mode)
        size = len(block)
        if size >= len(content):
            block, size = content, len(content) | _STORED
        out += (size.to_bytes(4, "little"), block)
    out.append(_END_MARK)
    return b"".join(out)


def decompress(
    data: bytes | memoryview, limit: int, *, checked: bool = True
) -> list[bytes]:
    """Decompress the first frame of `data` to chunks of `limit` bytes in total.

    With `checked` the header's checksum must be correct.
    """
    library = _frame()
    # Removed while in use: a context that failed inside a frame cannot be reused.
    context = _contexts.idle or library.create_decompression_context()
    _contexts.idle = None
    trailer = 0
    try:
        if data[:7] != _USUAL:
            header, start, trailer = _minimal_header(data, limit, checked)
            library.decompress_chunk(context, header)
        else:
            start = 0
        chunks, end = _blocks(context, data, start, limit)
    except RuntimeError as error:
        reason = f"lz4 frame is corrupt: {error}"
        raise CorruptRecordError(reason, position=0) from error
    _contexts.idle = context
    if len(data) - end < trailer:
        reason = f"lz4 checksum of {len(data) - end} bytes, expected {trailer}"
        raise CorruptRecordError(reason, position=end)
    return chunks


def _blocks(
    context: Any, data: bytes | memoryview, start: int, limit: int
) -> tuple[list[bytes], int]:
    """Decompress the blocks at `start`; return chunks, and where the frame ends."""
    decompress_chunk = _frame().decompress_chunk
    chunks: list[bytes] = []
    source = memoryview(data)[start:] if start else data
    # A chunk is allocated before it is filled: its size is bounded by the input's.
    chunk_bytes = max(_FIRST_CHUNK_BYTES, _GROWTH * len(data))
    while True:
        size = min(chunk_bytes, limit + 1)
        chunk, consumed, ended = decompress_chunk(context, source, max_length=size)
        start += consumed
        limit -= len(chunk)
        if limit < 0:
            reason = "lz4 frame decompresses to more than max_batch_bytes allows"
            raise BatchTooLargeError(reason, position=0)
        if chunk:
            chunks.append(chunk)
        if ended:
            return chunks, start
        if len(chunk) < size:
            raise CorruptRecordError("lz4 frame truncated", position=len(data))
        source = memoryview(data)[start:]
        chunk_bytes *= 2


def _minimal_header(
    data: bytes | memoryview, limit: int, checked: bool
) -> tuple[bytes, int, int]:
    """Validate a header as Kafka does, and return it without what Kafka ignores.

    Returns that header, where the blocks of `data` begin, and the bytes that must
    follow the end mark.
    """
    flags, block, declared, end = _descriptor(data)
    computed = header_checksum(bytes(data[4:end]))
    if checked and data[end] != computed:
        reason = f"lz4 header checksum {data[end]:02x}, expected {computed:02x}"
        raise CorruptRecordError(reason, position=end)
    if declared > limit:
        reason = f"lz4 content size {declared}, expected at most {limit}"
        raise BatchTooLargeError(reason, position=6)
    minimal = bytes((flags & ~(_CONTENT_SIZE | _CONTENT_CHECKSUM), block))
    header = _MAGIC + minimal + bytes((header_checksum(minimal),))
    return header, end + 1, 4 if flags & _CONTENT_CHECKSUM else 0


def _descriptor(data: bytes | memoryview) -> tuple[int, int, int, int]:
    """Return FLG, BD, the declared size (0 if none) and the position of HC."""
    if len(data) < 7:
        reason = f"lz4 header of {len(data)} bytes, expected at least 7"
        raise CorruptRecordError(reason, position=len(data))
    if data[:4] != _MAGIC:
        reason = f"lz4 magic {bytes(data[:4]).hex()}, expected {_MAGIC.hex()}"
        raise CorruptRecordError(reason, position=0)
    flags, block = data[4], data[5]
    if flags >> 5 != _VERSION_1_INDEPENDENT or flags & _RESERVED_OR_DICTIONARY:
        reason = f"lz4 flags {flags:#04x}, expected version 1 with independent blocks"
        raise CorruptRecordError(reason, position=4)
    if block & 0x8F or block < 0x40:
        reason = f"lz4 block descriptor {block:#04x}, expected 0x40 to 0x70"
        raise CorruptRecordError(reason, position=5)
    if not flags & _CONTENT_SIZE:
        return flags, block, 0, 6
    if len(data) < 15:
        reason = f"lz4 header of {len(data)} bytes, expected 15"
        raise CorruptRecordError(reason, position=len(data))
    return flags, block, int.from_bytes(data[6:14], "little"), 14


def header_checksum(descriptor: bytes) -> int:
    r"""Return the second-lowest byte of xxHash32, seed 0, of fewer than 16 bytes.

    >>> header_checksum(b"\x60\x40").to_bytes(1, "little").hex()
    '82'
    """
    prime1, prime2, prime3 = 2654435761, 2246822519, 3266489917
    prime4, prime5, mask = 668265263, 374761393, 0xFFFFFFFF
    state = prime5 + len(descriptor)
    whole = len(descriptor) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(descriptor[at : at + 4], "little")
        state = _rotated(state + word * prime3, 17) * prime4 & mask
    for byte in descriptor[whole:]:
        state = _rotated(state + byte * prime5, 11) * prime1 & mask
    state = (state ^ state >> 15) * prime2 & mask
    state = (state ^ state >> 13) * prime3 & mask
    return (state ^ state >> 16) >> 8 & 0xFF


def _rotated(word: int, bits: int) -> int:
    """Rotate the low 32 bits of `word` left."""
    word &= 0xFFFFFFFF
    return (word << bits | word >> 32 - bits) & 0xFFFFFFFF
