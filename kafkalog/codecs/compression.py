"""The four codecs of Kafka's batches, each as a stream with an end and a bound.

A batch's records, or a wrapper message's value, are one stream of the codec that the
attributes name by its id. A stream may swell a thousandfold and more, so nothing here
is unpacked without a limit: `decompress` stops before it holds more than it may.

Knows: which codec is which. Does not know: what the bytes are.
Source: ``CompressionType.java``, ``GzipCompression.java``, ``SnappyCompression.java``,
``Lz4Compression.java``, ``ZstdCompression.java``.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final

from kafkalog.codecs import gzip_members, lz4_frames, xerial_snappy, zstd_frames
from kafkalog.errors import (
    BatchTooLargeError,
    CorruptRecordError,
    UnsupportedFormatError,
)


class Codec(IntEnum):
    """A compression type, by its id in bits 0 to 2 of the attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_DECOMPRESS: Final[dict[int, Callable[[bytes | memoryview, int], list[bytes]]]] = {
    Codec.GZIP: gzip_members.decompress,
    Codec.SNAPPY: xerial_snappy.decompress,
    Codec.LZ4: lz4_frames.decompress,
    Codec.ZSTD: zstd_frames.decompress,
}


def decompress(
    codec: int, data: bytes | memoryview, *, limit: int, magic: int = 2
) -> list[bytes]:
    """Unpack one stream: its content in pieces, in order, `limit` bytes at most.

    `data` is the whole stream, contiguous; `magic` that of its batch or message. An
    error's `position` counts from the start of `data`.

    Raises `BatchTooLargeError` before more than `limit` bytes are held,
    `CorruptRecordError` where Kafka's reader would refuse the stream, or where it ends
    early, and `UnsupportedFormatError` for a codec that does not exist.

    >>> stream = compress(Codec.SNAPPY, b"to be or not to be")
    >>> b"".join(decompress(Codec.SNAPPY, stream, limit=1 << 20))
    b'to be or not to be'
    """
    if magic < 2:
        if codec == Codec.ZSTD:
            reason = f"zstd in a message of magic {magic}, which cannot have it"
            raise CorruptRecordError(reason)
        if codec == Codec.LZ4 and magic == 0:
            return lz4_frames.decompress(data, limit, checked=False)
    unpack = _DECOMPRESS.get(codec)
    if unpack is not None:
        return unpack(data, limit)
    if codec != Codec.NONE:
        raise UnsupportedFormatError(f"there is no compression type {codec}")
    if len(data) > limit:
        raise BatchTooLargeError(f"{len(data)} bytes, the limit is {limit}")
    return [bytes(data)]
