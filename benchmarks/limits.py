"""The least work that reading a segment's bytes takes.

Uncompressed batches must be checked and copied once; compressed ones must be
decompressed, here by the fastest call of each codec's package, without checks.
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
from kafkalog.formats.batch_headers import BatchHeaders, scan_headers
from kafkalog.formats.layout import RECORD_BATCH_OVERHEAD

try:
    from isal.isal_zlib import decompress as gzip_decompress
except ImportError:
    from zlib import decompress as gzip_decompress

Decompress = Callable[[bytes], object]
COPY_BYTES = 4 << 20
XERIAL_HEADER_BYTES = 16
GZIP_WINDOW_BITS = 31


def rows_of(data: npt.NDArray[np.uint8]) -> BatchHeaders:
    """Read all headers."""
    rows, _, _ = scan_headers(data, 0, 0, 1 << 20)
    return rows


def limit_of(data: npt.NDArray[np.uint8]) -> Callable[[], object]:
    """Return the least work for the batches of `data`, as a function."""
    codec = int(rows_of(data)["attributes"][0]) & 7
    return decompress_alone(data, Codec(codec)) if codec else check_and_copy(data)


def check_and_copy(data: npt.NDArray[np.uint8]) -> Callable[[], object]:
    """Check every checksum, and copy every byte once, into a reused buffer."""
    rows = rows_of(data)
    results, buffer = np.empty(len(rows), np.uint8), np.ones(COPY_BYTES, np.uint8)

    def work() -> None:
        assert _speedups.check_batches(data, 0, rows, results) == 0
        for start in range(0, len(data), COPY_BYTES):
            part = data[start : start + COPY_BYTES]
            buffer[: len(part)] = part

    return work


def decompress_alone(data: npt.NDArray[np.uint8], codec: Codec) -> Callable[[], object]:
    """Decompress every batch, and nothing else."""
    whole, decompress = data.tobytes(), decompressor_of(codec)
    parts = [
        whole[start + RECORD_BATCH_OVERHEAD : start + size]
        for row in rows_of(data)
        for start, size in [(int(row["position"]), int(row["size_in_bytes"]))]
    ]

    def work() -> None:
        for part in parts:
            decompress(part)

    return work


def decompressor_of(codec: Codec) -> Decompress:
    """Return the fastest call of a codec's package."""
    match codec:
        case Codec.GZIP:
            return decompress_member
        case Codec.SNAPPY:
            return decompress_xerial
        case Codec.LZ4:
            return lz4_decompress
    decompressor = zstandard.ZstdDecompressor()
    return lambda stream: decompressor.decompressobj().decompress(stream)


def decompress_member(stream: bytes) -> bytes:
    """Decompress a gzip member into a buffer of the size in its trailer."""
    size = int.from_bytes(stream[-4:], "little")
    content: bytes = gzip_decompress(stream, GZIP_WINDOW_BITS, size)
    return content


def decompress_xerial(stream: bytes) -> list[bytes]:
    """Decompress the blocks after the header that snappy-java writes."""
    blocks, at = [], XERIAL_HEADER_BYTES
    while at < len(stream):
        end = at + 4 + int.from_bytes(stream[at : at + 4], "big")
        blocks.append(snappy_decompress(stream[at + 4 : end]))
        at = end
    return blocks
