"""What no reader does faster: the least work that a segment's bytes make.

Batches as they are must be checked and moved once; packed ones must be unpacked, here
by the fastest call of each codec's package, which trusts what it is given.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import zstandard
from lz4.frame import decompress as lz4_decompress
from snappy import uncompress as snappy_decompress

from kafkalog import _speedups
from kafkalog.codecs.compression import Codec
from kafkalog.formats.entry_headers import Rows, scan_headers
from kafkalog.formats.layout import BATCH_HEADER_BYTES

try:
    from isal.isal_zlib import decompress as gzip_decompress
except ImportError:
    from zlib import decompress as gzip_decompress

Unpack = Callable[[bytes], object]
PIECE_BYTES = 4 << 20
XERIAL_HEADER_BYTES = 16
GZIP_WINDOW_BITS = 31


def rows_of(data: npt.NDArray[np.uint8]) -> Rows:
    """Read all headers."""
    rows, _, _ = scan_headers(data, 0, 0, 1 << 20)
    return rows


def limit_of(data: npt.NDArray[np.uint8]) -> Callable[[], object]:
    """Prepare the least work that the batches of `data` make."""
    codec = int(rows_of(data)["attributes"][0]) & 7
    return unpack_alone(data, Codec(codec)) if codec else check_and_copy(data)


def check_and_copy(data: npt.NDArray[np.uint8]) -> Callable[[], object]:
    """Check every checksum, and move every byte once, into memory that is kept."""
    rows = rows_of(data)
    sound, room = np.empty(len(rows), np.uint8), np.ones(PIECE_BYTES, np.uint8)

    def work() -> None:
        assert _speedups.check_batches(data, 0, rows, sound) == 0
        for start in range(0, len(data), PIECE_BYTES):
            part = data[start : start + PIECE_BYTES]
            room[: len(part)] = part

    return work


def unpack_alone(data: npt.NDArray[np.uint8], codec: Codec) -> Callable[[], object]:
    """Unpack every batch, and nothing else."""
    whole, unpack = data.tobytes(), unpacker(codec)
    parts = [
        whole[start + BATCH_HEADER_BYTES : start + size]
        for row in rows_of(data)
        for start, size in [(int(row["position"]), int(row["size_in_bytes"]))]
    ]

    def work() -> None:
        for part in parts:
            unpack(part)

    return work


def unpacker(codec: Codec) -> Unpack:
    """Choose the fastest call of a codec's package."""
    match codec:
        case Codec.GZIP:
            return unpack_member
        case Codec.SNAPPY:
            return unpack_xerial
        case Codec.LZ4:
            return lz4_decompress
    decompressor = zstandard.ZstdDecompressor()
    return lambda stream: decompressor.decompressobj().decompress(stream)


def unpack_member(stream: bytes) -> bytes:
    """Unpack a gzip member into room of the size that its end tells."""
    size = int.from_bytes(stream[-4:], "little")
    unpacked: bytes = gzip_decompress(stream, GZIP_WINDOW_BITS, size)
    return unpacked


def unpack_xerial(stream: bytes) -> list[bytes]:
    """Unpack the blocks behind the header that Java's snappy writes."""
    blocks, at = [], XERIAL_HEADER_BYTES
    while at < len(stream):
        end = at + 4 + int.from_bytes(stream[at : at + 4], "big")
        blocks.append(snappy_decompress(stream[at + 4 : end]))
        at = end
    return blocks
