"""gzip as Java reads and writes it: members one after another.

Behind a member another may follow; what follows and is not the beginning of one,
padding zeros for instance, Java ignores, and so do we. Every member's CRC-32 and length
are checked. Where `isal` is installed it unpacks, twice as fast as zlib.

Knows: RFC 1952 by way of zlib. Does not know: what is in the members.
Source: ``GzipCompression.java``, ``java.util.zip.GZIPInputStream``.
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
    """Pack `data` into one member, with the header that Java writes (JDK 16 and on).

    Deflated by zlib, as Java does: the same bytes where both have the same zlib.
    """
    member = zlib.compress(data, LEAST_LEVEL if level is None else level, _WINDOW_BITS)
    return _HEADER + memoryview(member)[len(_HEADER) :]


def decompress(data: bytes | memoryview, limit: int) -> list[bytes]:
    """Unpack the members of `data`: pieces of `limit` bytes at most together."""
    pieces: list[bytes] = []
    position, window = 0, len(data)
    while True:
        position, held = _member(data, position, window, pieces, limit)
        limit -= held
        rest = len(data) - position
        if rest < _LEAST_MEMBER_BYTES or data[position : position + 3] != _MEMBER:
            return pieces
        # What a member leaves is copied each time: small windows keep that linear.
        window = _FIRST_WINDOW_BYTES


def bounded_unpacker() -> tuple[
    Callable[[memoryview, int], bytes], tuple[type[Exception], ...]
]:
    """Return what unpacks one member, without flags, of so many bytes as it tells.

    The errors are those it refuses with: what is damaged, and what goes on behind.
    """
    library = _library()

    def unpack(member: memoryview, told: int) -> bytes:
        stream = library.decompressobj(_WINDOW_BITS)
        content: bytes = stream.decompress(member, told + 1)
        if not stream.eof or stream.unused_data:
            raise zlib.error("not one member of the size that it tells")
        return content

    return unpack, (library.error, zlib.error)


def _member(
    data: bytes | memoryview,
    position: int,
    window: int,
    pieces: list[bytes],
    limit: int,
) -> tuple[int, int]:
    """Unpack the member at `position`: where it ends, and the bytes it held."""
    library = _library()
    stream = library.decompressobj(_WINDOW_BITS)
    begin, held = position, 0
    while not stream.eof:
        source = data[position : position + window]
        if not source:
            raise CorruptRecordError("a gzip member is cut short", position=begin)
        if position == begin:
            source = _without_reserved(source)
        try:
            piece = stream.decompress(source, limit - held + 1)
        except (library.error, zlib.error) as error:
            reason = f"gzip refuses a member: {error}"
            raise CorruptRecordError(reason, position=begin) from error
        held += len(piece)
        if held > limit:
            reason = "a gzip stream unpacks to more than the limit"
            raise BatchTooLargeError(reason, position=begin)
        if piece:
            pieces.append(piece)
        position += len(source)
        window *= 4
    return position - len(stream.unused_data), held


def _without_reserved(head: bytes | memoryview) -> bytes | memoryview:
    """Clear flags that mean nothing: Java does not look at them, zlib refuses them."""
    if len(head) <= _FLAGS_AT or not head[_FLAGS_AT] & _RESERVED:
        return head
    plain = bytearray(head)
    plain[_FLAGS_AT] &= ~_RESERVED
    return bytes(plain)
