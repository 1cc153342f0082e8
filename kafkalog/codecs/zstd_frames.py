"""Zstandard frames, whose end and size are found before they are decompressed.

    | 28 b5 2f fd | descriptor | window, dictionary, content size | blocks | checksum |

A block begins with 3 bytes, little-endian: bit 0 last, bits 1-2 kind (0 raw, 1 one byte
repeated, 2 compressed), the rest a size: of the content for kinds 0 and 1, of the block
itself for kind 2, which decompresses to at most 128 KiB. From these headers
`measure_frame` finds the end of a frame and a bound of its content, and detects a
truncated frame. Kafka writes frames without content size, checksum or dictionary;
frames may follow one another, and anything else after them is an error.

Source: RFC 8878, ``ZstdCompression.java``, zstd-jni's
``ZstdInputStreamNoFinalizer.java``.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from kafkalog import _speedups
from kafkalog._speedups import FrameStatus
from kafkalog.errors import BatchTooLargeError, CorruptRecordError

LEAST_LEVEL: Final = -131072
MOST_LEVEL: Final = 22

_DEFAULT_LEVEL: Final = 3
_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_SKIPPABLE: Final = 0x184D2A50  # to 0x184D2A5F
_MAX_WINDOW_BYTES: Final = 128 * 1024 * 1024
_CHUNK_BYTES: Final = 1024 * 1024
_REASONS: Final = {
    FrameStatus.HEADER_TRUNCATED: "zstd frame header truncated",
    FrameStatus.TRUNCATED: "zstd frame truncated",
    FrameStatus.BLOCK_TYPE: "zstd block type 3, expected 0, 1 or 2",
}


@functools.cache
def _library() -> ModuleType:
    import zstandard

    module: ModuleType = zstandard
    return module


class _ZstdContexts(threading.local):
    """A thread's own contexts: much faster when reused, and not to be shared."""

    def __init__(self) -> None:
        self.decompressor = _library().ZstdDecompressor(
            max_window_size=_MAX_WINDOW_BYTES
        )
        self.compressors: dict[int, Any] = {}


@functools.cache
def _contexts() -> _ZstdContexts:
    return _ZstdContexts()


def compress(data: bytes | memoryview, level: int | None) -> bytes:
    """Compress `data` into one frame, flushed before its end as zstd-jni does."""
    library, compressors = _library(), _contexts().compressors
    level = _DEFAULT_LEVEL if level is None else level
    if level not in compressors:
        compressors[level] = library.ZstdCompressor(
            level=level, write_checksum=False, write_content_size=False
        )
    frame = compressors[level].compressobj()
    body = frame.compress(data) + frame.flush(library.COMPRESSOBJ_FLUSH_BLOCK)
    return bytes(body + frame.flush())


def decompress(data: bytes | memoryview, limit: int) -> list[bytes]:
    """Decompress the frames of `data` to chunks of `limit` bytes in total."""
    chunks: list[bytes] = []
    position, size = 0, len(data)
    while position < size:
        if data[position : position + 4] != _MAGIC:
            position = _skipped(data, position)
            continue
        end, most = _frame_bounds(data, position, limit)
        whole = position == 0 and end == size
        source = data if whole else memoryview(data)[position:end]
        try:
            limit -= _decompress_frame(source, most, limit, chunks)
        except _library().ZstdError as error:
            reason = f"zstd frame is corrupt: {error}"
            raise CorruptRecordError(reason, position=position) from error
        position = end
    return chunks


def bounded_decompressor() -> tuple[
    Callable[[memoryview, int], bytes], tuple[type[Exception], ...]
]:
    """Return a function that decompresses one frame of a known bound, and its errors.

    The frame has no content size. Only the calling thread may use the function.
    """
    return _contexts().decompressor.decompress, (_library().ZstdError,)


def _decompress_frame(source: Any, most: int, limit: int, chunks: list[bytes]) -> int:
    """Decompress one whole frame into `chunks`; return its size, uncompressed."""
    if most <= limit:
        chunk = _contexts().decompressor.decompressobj().decompress(source)
        if chunk:
            chunks.append(chunk)
        return len(chunk)
    held = 0
    with _contexts().decompressor.stream_reader(source, closefd=False) as reader:
        while chunk := reader.read(min(_CHUNK_BYTES, limit - held + 1)):
            held += len(chunk)
            if held > limit:
                reason = "zstd frame decompresses to more than max_batch_bytes allows"
                raise BatchTooLargeError(reason)
            chunks.append(chunk)
    return held


def _skipped(data: bytes | memoryview, position: int) -> int:
    """Return where the skippable frame at `position` ends."""
    head = data[position : position + 8]
    if len(head) < 8 or int.from_bytes(head[:4], "little") & ~15 != _SKIPPABLE:
        reason = f"zstd magic {bytes(head[:4]).hex()}, expected {_MAGIC.hex()}"
        raise CorruptRecordError(reason, position=position)
    end = position + 8 + int.from_bytes(head[4:], "little")
    if end > len(data):
        reason = (
            f"zstd skippable frame ends at byte {end}, expected {len(data)} at most"
        )
        raise CorruptRecordError(reason, position=position)
    return end


def _frame_bounds(data: bytes | memoryview, begin: int, limit: int) -> tuple[int, int]:
    """Return where the frame at `begin` ends, and a bound of its uncompressed size."""
    framing, place, count = _speedups.measure_frame(data, begin, limit)
    if framing == FrameStatus.COMPLETE:
        return place, count
    if framing == FrameStatus.DECLARED_SIZE:
        reason = f"zstd content size {count}, expected at most {limit}"
        raise BatchTooLargeError(reason, position=place)
    if framing == FrameStatus.CONTENT_SIZE:
        reason = "zstd frame decompresses to more than max_batch_bytes allows"
        raise BatchTooLargeError(reason, position=place)
    raise CorruptRecordError(_REASONS[framing], position=place)
