"""Zstandard frames, walked before they are unpacked, so that their end is known.

    | 28 b5 2f fd | descriptor | window, dictionary, content size | blocks | checksum |

A block begins with 3 bytes, little-endian: bit 0 last, bits 1-2 kind (0 raw, 1 one byte
repeated, 2 compressed), the rest a size: of the content of kinds 0 and 1, of the block
itself for kind 2, which unpacks to 128 KiB at most. So `measure_frame` finds a
frame's end and a bound of its content, and tells a cut frame from a whole one. Kafka
writes frames without content size, checksum or dictionary; frames may follow one
another, and anything else behind them is an error.

Knows: RFC 8878 down to the block's header. Does not know: what is in the blocks.
Source: ``ZstdCompression.java``, zstd-jni's ``ZstdInputStreamNoFinalizer.java``.
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
_PIECE_BYTES: Final = 1024 * 1024
_REASONS: Final = {
    FrameStatus.HEADER_TRUNCATED: "a zstd header is cut short",
    FrameStatus.TRUNCATED: "a zstd frame is cut short",
    FrameStatus.BLOCK_TYPE: "a zstd block of a kind there is not",
}


@functools.cache
def _library() -> ModuleType:
    import zstandard

    module: ModuleType = zstandard
    return module


class _ZstdContexts(threading.local):
    """A thread's own contexts: kept, they are much faster; shared, they break."""

    def __init__(self) -> None:
        self.decompressor = _library().ZstdDecompressor(
            max_window_size=_MAX_WINDOW_BYTES
        )
        self.compressors: dict[int, Any] = {}


@functools.cache
def _contexts() -> _ZstdContexts:
    return _ZstdContexts()


def compress(data: bytes | memoryview, level: int | None) -> bytes:
    """Pack `data` into one frame, flushed before it is closed, as zstd-jni's stream."""
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
    """Unpack the frames of `data`: pieces of `limit` bytes at most together."""
    pieces: list[bytes] = []
    position, size = 0, len(data)
    while position < size:
        if data[position : position + 4] != _MAGIC:
            position = _skipped(data, position)
            continue
        end, most = _walk(data, position, limit)
        whole = position == 0 and end == size
        source = data if whole else memoryview(data)[position:end]
        try:
            limit -= _unpack(source, most, limit, pieces)
        except _library().ZstdError as error:
            reason = f"zstd refuses a frame: {error}"
            raise CorruptRecordError(reason, position=position) from error
        position = end
    return pieces


def bounded_unpacker() -> tuple[
    Callable[[memoryview, int], bytes], tuple[type[Exception], ...]
]:
    """Return what unpacks a frame that is there, tells no size, and has a bound.

    It serves this thread alone. The errors are those it refuses a frame with.
    """
    return _contexts().decompressor.decompress, (_library().ZstdError,)


def _unpack(source: Any, most: int, limit: int, pieces: list[bytes]) -> int:
    """Unpack one whole frame into `pieces`; the bytes it held."""
    if most <= limit:
        piece = _contexts().decompressor.decompressobj().decompress(source)
        if piece:
            pieces.append(piece)
        return len(piece)
    held = 0
    with _contexts().decompressor.stream_reader(source, closefd=False) as reader:
        while piece := reader.read(min(_PIECE_BYTES, limit - held + 1)):
            held += len(piece)
            if held > limit:
                raise BatchTooLargeError("a zstd frame unpacks to more than the limit")
            pieces.append(piece)
    return held


def _skipped(data: bytes | memoryview, position: int) -> int:
    """Where the skippable frame at `position` ends."""
    head = data[position : position + 8]
    if len(head) < 8 or int.from_bytes(head[:4], "little") & ~15 != _SKIPPABLE:
        raise CorruptRecordError("no zstd frame begins here", position=position)
    end = position + 8 + int.from_bytes(head[4:], "little")
    if end > len(data):
        raise CorruptRecordError("a zstd frame is cut short", position=position)
    return end


def _walk(data: bytes | memoryview, begin: int, limit: int) -> tuple[int, int]:
    """Find where the frame at `begin` ends, and how many bytes it becomes at most."""
    framing, place, count = _speedups.measure_frame(data, begin, limit)
    if framing == FrameStatus.COMPLETE:
        return place, count
    if framing == FrameStatus.DECLARED_SIZE:
        reason = f"a zstd frame declares {count} bytes, above the limit"
        raise BatchTooLargeError(reason, position=place)
    if framing == FrameStatus.CONTENT_SIZE:
        reason = "a zstd frame unpacks to more than the limit"
        raise BatchTooLargeError(reason, position=place)
    raise CorruptRecordError(_REASONS[framing], position=place)
