"""gzip as Java reads and writes it: one member after another.

Bytes after a member that do not begin another one, such as zero padding, are ignored,
as in Java. The CRC-32 and length of every member are checked. Decompression uses
`isal` if it is installed, which is twice as fast as zlib.

Source: RFC 1952, ``GzipCompression.java``, ``java.util.zip.GZIPInputStream``.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable
from types import ModuleType
from typing import Final

from kafkalog.errors import BatchTooLargeError, CorruptRecordError

LEAST_LEVEL: Final = -1
MOST_LEVEL: Final = 9

_HEADER: Final = bytes.fromhex("1f8b08000000000000ff")
_MEMBER: Final = b"\x1f\x8b\x08"
_LEAST_MEMBER_BYTES: Final = 18
_FLAGS_AT: Final = 3
_RESERVED: Final = 0xE0
_WINDOW_BITS: Final = 31  # deflate's greatest window, in a gzip member
_FIRST_WINDOW_BYTES: Final = 4096


@functools.cache
def _library() -> ModuleType:
    try:
        from isal import isal_zlib
    except ImportError:
        return zlib
    module: ModuleType = isal_zlib
    return module


def compress(data: bytes | memoryview, level: int | None) -> bytes:
    """Compress `data` into one member, with the header that Java (16 and later) writes.

    zlib compresses, as in Java: the bytes are the same if both have the same zlib.
    """
    member = zlib.compress(data, LEAST_LEVEL if level is None else level, _WINDOW_BITS)
    return _HEADER + memoryview(member)[len(_HEADER) :]


def decompress(data: bytes | memoryview, limit: int) -> list[bytes]:
    """Decompress the members of `data` to chunks of `limit` bytes in total."""
    chunks: list[bytes] = []
    position, window = 0, len(data)
    while True:
        position, held = _member(data, position, window, chunks, limit)
        limit -= held
        rest = len(data) - position
        if rest < _LEAST_MEMBER_BYTES or data[position : position + 3] != _MEMBER:
            return chunks
        # The bytes after a member are copied each time: small windows keep that linear.
        window = _FIRST_WINDOW_BYTES


def bounded_decompressor() -> tuple[
    Callable[[memoryview, int], bytes], tuple[type[Exception], ...]
]:
    """Return a function that decompresses one member of a known size, and its errors.

    The member has no flags and nothing after it; otherwise one of the errors is raised.
    """
    library = _library()

    def inflate(member: memoryview, size: int) -> bytes:
        stream = library.decompressobj(_WINDOW_BITS)
        content: bytes = stream.decompress(member, size + 1)
        if not stream.eof or stream.unused_data:
            raise zlib.error(f"expected one member of {size} bytes")
        return content

    return inflate, (library.error, zlib.error)


def _member(
    data: bytes | memoryview,
    position: int,
    window: int,
    chunks: list[bytes],
    limit: int,
) -> tuple[int, int]:
    """Decompress the member at `position`; return its end and its uncompressed size."""
    library = _library()
    stream = library.decompressobj(_WINDOW_BITS)
    begin, held = position, 0
    while not stream.eof:
        source = data[position : position + window]
        if not source:
            raise CorruptRecordError("gzip member truncated", position=begin)
        if position == begin:
            source = _without_reserved(source)
        try:
            chunk = stream.decompress(source, limit - held + 1)
        except (library.error, zlib.error) as error:
            reason = f"gzip member is corrupt: {error}"
            raise CorruptRecordError(reason, position=begin) from error
        held += len(chunk)
        if held > limit:
            reason = "gzip stream decompresses to more than max_batch_bytes allows"
            raise BatchTooLargeError(reason, position=begin)
        if chunk:
            chunks.append(chunk)
        position += len(source)
        window *= 4
    return position - len(stream.unused_data), held


def _without_reserved(head: bytes | memoryview) -> bytes | memoryview:
    """Clear the reserved flags: Java ignores them, zlib rejects them."""
    if len(head) <= _FLAGS_AT or not head[_FLAGS_AT] & _RESERVED:
        return head
    cleared = bytearray(head)
    cleared[_FLAGS_AT] &= ~_RESERVED
    return bytes(cleared)
