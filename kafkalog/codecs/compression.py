"""The four codecs of Kafka's batches, each as a stream with an end and a bound.

A batch's records, or a wrapper message's value, are one stream of the codec that the
attributes name by its id. A stream may swell a thousandfold and more, so nothing here
is unpacked without a limit: `decompress` stops before it holds more than it may.

Knows: which codec is which. Does not know: what the bytes are.
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
"""Unpacks a stream, to pieces of so many bytes at most together."""
BoundedUnpacker = tuple[Callable[[memoryview, int], bytes], tuple[type[Exception], ...]]
"""Unpacks a stream that becomes so many bytes at most; and what it refuses one with."""


class Codec(IntEnum):
    """A compression type, by its id in bits 0 to 2 of the attributes."""

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
"""The range of ``compression.<codec>.level``, for the codecs that have levels."""


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
    return decompressor(codec, magic)(data, limit)


@functools.cache
def decompressor(codec: int, magic: int) -> Decompress:
    """Settle once for many streams of a kind what `decompress` is to do with them.

    What it gives is called with a stream and a limit; errors are those of `decompress`.

    >>> len(decompressor(Codec.NONE, 2)(b"to be", 5))
    1
    """
    if magic < 2:
        if codec == Codec.ZSTD:
            reason = f"zstd in a message of magic {magic}, which cannot have it"
            raise CorruptRecordError(reason)
        if codec == Codec.LZ4 and magic == 0:
            return functools.partial(lz4_frames.decompress, checked=False)
    unpack = _DECOMPRESS.get(codec)
    if unpack is None:
        raise UnsupportedFormatError(f"there is no compression type {codec}")
    return unpack


def _as_it_is(data: bytes | memoryview, limit: int) -> list[bytes]:
    if len(data) > limit:
        raise BatchTooLargeError(f"{len(data)} bytes, the limit is {limit}")
    return [bytes(data)]


_DECOMPRESS: Final[dict[int, Decompress]] = {
    Codec.NONE: _as_it_is,
    Codec.GZIP: gzip_members.decompress,
    Codec.SNAPPY: xerial_snappy.decompress,
    Codec.LZ4: lz4_frames.decompress,
    Codec.ZSTD: zstd_frames.decompress,
}


def bounded_unpacker(codec: int) -> BoundedUnpacker:
    """Return the fast path for streams of a bound from `bound_decompressed_sizes`.

    These are of gzip or zstd, in the form that Kafka's writers give. It serves the
    thread that asked. What it refuses, `decompress` judges.

    >>> unpack, refusals = bounded_unpacker(Codec.GZIP)
    >>> unpack(memoryview(compress(Codec.GZIP, b"to be")), 5)
    b'to be'
    """
    if codec == Codec.GZIP:
        return gzip_members.bounded_unpacker()
    return zstd_frames.bounded_unpacker()


def compress(
    codec: int,
    data: bytes | memoryview,
    *,
    level: int | None = None,
    magic: int = 2,
) -> bytes:
    """Pack `data` into one stream as Kafka's producer and broker write it.

    `level` is that of ``compression.<codec>.level``, None for Kafka's default; `magic`
    that of the batch or message the stream goes into.

    Raises `ConfigError` for a level the codec does not have, `InvalidRecordError` for
    zstd below magic 2, and `UnsupportedFormatError` for a codec that does not exist.

    >>> compress(Codec.LZ4, b"").hex(" ", 4)
    '04224d 18604082 00000000'
    """
    if not 0 <= codec < len(Codec):
        raise UnsupportedFormatError(f"there is no compression type {codec}")
    if magic < 2 and codec == Codec.ZSTD:
        raise InvalidRecordError(f"zstd cannot be used with magic {magic}")
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
    """Refuse a level outside its codec's range, as Kafka's configuration does.

    Raises `ConfigError`; None is any codec's.
    """
    if level is None:
        return
    key = f"compression.{codec.name.lower()}.level"
    if codec not in LEVELS:
        raise ConfigError(f"{key} is not a setting: {codec.name.lower()} has no levels")
    least, most = LEVELS[codec]
    if not least <= level <= most or (codec == Codec.GZIP and level == 0):
        raise ConfigError(f"{key} is {level}, not in {least} to {most}")
