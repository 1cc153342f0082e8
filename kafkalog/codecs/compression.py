"""The four compression types of Kafka's batches.

The records of a batch, or the value of a wrapper message, are one compressed stream.
The attributes have the id of its compression type. A stream may decompress to a
thousand times its size and more, so nothing is decompressed without a limit.

Source: ``CompressionType.java``, ``GzipCompression.java``, ``SnappyCompression.java``,
``Lz4Compression.java``, ``ZstdCompression.java``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from enum import IntEnum
from typing import Final

from kafkalog.codecs import gzip_members, lz4_frames, xerial_snappy, zstd_frames
from kafkalog.errors import (
    BatchTooLargeError,
    ConfigError,
    CorruptRecordError,
    InvalidRecordError,
    UnsupportedFormatError,
)

Decompress = Callable[[bytes | memoryview, int], list[bytes]]
"""Function that decompresses a stream to chunks, up to a total number of bytes."""
BoundedDecompress = tuple[
    Callable[[memoryview, int], bytes], tuple[type[Exception], ...]
]
"""Function that decompresses a stream of known maximum size, and its exceptions."""


class Codec(IntEnum):
    """A compression type, with its id in bits 0 to 2 of the attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


LEVELS: Final = {
    Codec.GZIP: (gzip_members.LEAST_LEVEL, gzip_members.MOST_LEVEL),
    Codec.LZ4: (lz4_frames.LEAST_LEVEL, lz4_frames.MOST_LEVEL),
    Codec.ZSTD: (zstd_frames.LEAST_LEVEL, zstd_frames.MOST_LEVEL),
}
"""The range of ``compression.<codec>.level``, for codecs that have levels."""


def decompress(
    codec: int, data: bytes | memoryview, *, limit: int, magic: int = 2
) -> list[bytes]:
    """Decompress one stream: return its content as chunks of `limit` bytes in total.

    `data` is the whole stream, contiguous; `magic` is that of its batch or message. The
    `position` of an error counts from the start of `data`.

    Raises `BatchTooLargeError` before more than `limit` bytes are held,
    `CorruptRecordError` where Kafka's reader rejects the stream, or where it is
    truncated, and `UnsupportedFormatError` for an unknown compression type.

    >>> stream = compress(Codec.SNAPPY, b"to be or not to be")
    >>> b"".join(decompress(Codec.SNAPPY, stream, limit=1 << 20))
    b'to be or not to be'
    """
    return decompressor(codec, magic)(data, limit)


@functools.cache
def decompressor(codec: int, magic: int) -> Decompress:
    """Return the function that decompresses streams of this type and magic.

    It takes a stream and a limit; its errors are those of `decompress`.

    >>> len(decompressor(Codec.NONE, 2)(b"to be", 5))
    1
    """
    if magic < 2:
        if codec == Codec.ZSTD:
            reason = f"compression type zstd in magic {magic}, expected magic 2"
            raise CorruptRecordError(reason)
        if codec == Codec.LZ4 and magic == 0:
            return functools.partial(lz4_frames.decompress, checked=False)
    decompress_stream = _DECOMPRESS.get(codec)
    if decompress_stream is None:
        raise UnsupportedFormatError(f"compression type {codec}, expected 0 to 4")
    return decompress_stream


def _uncompressed(data: bytes | memoryview, limit: int) -> list[bytes]:
    if len(data) > limit:
        raise BatchTooLargeError(f"{len(data)} bytes, expected at most {limit}")
    return [bytes(data)]


_DECOMPRESS: Final[dict[int, Decompress]] = {
    Codec.NONE: _uncompressed,
    Codec.GZIP: gzip_members.decompress,
    Codec.SNAPPY: xerial_snappy.decompress,
    Codec.LZ4: lz4_frames.decompress,
    Codec.ZSTD: zstd_frames.decompress,
}


def bounded_decompressor(codec: int) -> BoundedDecompress:
    """Return the fast decompressor for streams whose maximum size is known.

    `bound_decompressed_sizes` determines that size, for gzip and zstd streams in the
    form that Kafka's writers use. The function may be used by the calling thread only.
    A stream that it rejects is left to `decompress`, which raises the error.

    >>> inflate, errors = bounded_decompressor(Codec.GZIP)
    >>> inflate(memoryview(compress(Codec.GZIP, b"to be")), 5)
    b'to be'
    """
    if codec == Codec.GZIP:
        return gzip_members.bounded_decompressor()
    return zstd_frames.bounded_decompressor()


def compress(
    codec: int,
    data: bytes | memoryview,
    *,
    level: int | None = None,
    magic: int = 2,
) -> bytes:
    """Compress `data` into one stream as Kafka's producer and broker write it.

    `level` is the value of ``compression.<codec>.level``, None for Kafka's default;
    `magic` is that of the batch or message that the stream goes into.

    Raises `ConfigError` for a level the codec does not have, `InvalidRecordError` for
    zstd below magic 2, and `UnsupportedFormatError` for an unknown compression type.

    >>> compress(Codec.LZ4, b"").hex(" ", 4)
    '04224d 18604082 00000000'
    """
    if not 0 <= codec < len(Codec):
        raise UnsupportedFormatError(f"compression type {codec}, expected 0 to 4")
    if magic < 2 and codec == Codec.ZSTD:
        raise InvalidRecordError(
            f"compression type zstd in magic {magic}, expected magic 2"
        )
    check_level(Codec(codec), level)
    match codec:
        case Codec.GZIP:
            return gzip_members.compress(data, level)
        case Codec.SNAPPY:
            return xerial_snappy.compress(data)
        case Codec.LZ4:
            return lz4_frames.compress(data, level, checked=magic != 0)
        case Codec.ZSTD:
            return zstd_frames.compress(data, level)
    return bytes(data)


def check_level(codec: Codec, level: int | None) -> None:
    """Raise `ConfigError` for a level outside of its codec's range; None is valid."""
    if level is None:
        return
    key = f"compression.{codec.name.lower()}.level"
    if codec not in LEVELS:
        raise ConfigError(f"unknown setting {key}: {codec.name.lower()} has no levels")
    least, most = LEVELS[codec]
    if not least <= level <= most or (codec == Codec.GZIP and level == 0):
        raise ConfigError(f"{key} is {level}, expected {least} to {most}")
