"""Zstandard frames, walked before they are unpacked, so that their end is known.

    | 28 b5 2f fd | descriptor | window, dictionary, content size | blocks | checksum |

A block begins with 3 bytes, little-endian: bit 0 last, bits 1-2 kind (0 raw, 1 one byte
repeated, 2 compressed), the rest a size: of the content of kinds 0 and 1, of the block
itself for kind 2, which unpacks to 128 KiB at most. So a walk over the blocks finds a
frame's end and a bound of its content, and tells a cut frame from a whole one. Kafka
writes frames without content size, checksum or dictionary; frames may follow one
another, and anything else behind them is an error.

Knows: RFC 8878 down to the block's header. Does not know: what is in the blocks.
Source: ``ZstdCompression.java``, zstd-jni's ``ZstdInputStreamNoFinalizer.java``.
"""

from __future__ import annotations

import functools
import threading
from types import ModuleType
from typing import Any, Final, NamedTuple

from kafkalog.errors import BatchTooLargeError, CorruptRecordError

LEAST_LEVEL: Final = -131072
MOST_LEVEL: Final = 22

_DEFAULT_LEVEL: Final = 3
_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_SKIPPABLE: Final = 0x184D2A50  # to 0x184D2A5F
_MAX_BLOCK_BYTES: Final = 128 * 1024
_MAX_WINDOW_BYTES: Final = 128 * 1024 * 1024
_PIECE_BYTES: Final = 1024 * 1024
_RAW, _REPEATED, _COMPRESSED = range(3)


class _Frame(NamedTuple):
    """A frame's extent: where it ends; bytes it holds at least and at most."""

    end: int
    least: int
    most: int


@functools.cache
def _library() -> ModuleType:
    import zstandard

    module: ModuleType = zstandard
    return module


class _Contexts(threading.local):
    """A thread's own contexts: kept, they are much faster; shared, they break."""

    def __init__(self) -> None:
        self.decompressor = _library().ZstdDecompressor(
            max_window_size=_MAX_WINDOW_BYTES
        )
        self.compressors: dict[int, Any] = {}


@functools.cache
def _contexts() -> _Contexts:
    return _Contexts()


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
        frame = _walk(data, position, limit)
        whole = position == 0 and frame.end == size
        source = data if whole else memoryview(data)[position : frame.end]
        try:
            limit -= _unpack(source, frame, limit, pieces)
        except _library().ZstdError as error:
            reason = f"zstd refuses a frame: {error}"
            raise CorruptRecordError(reason, position=position) from error
        position = frame.end
    return pieces


def _unpack(source: Any, frame: _Frame, limit: int, pieces: list[bytes]) -> int:
    """Unpack one whole frame into `pieces`; the bytes it held."""
    if frame.most <= limit:
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


def _walk(data: bytes | memoryview, begin: int, limit: int) -> _Frame:
    """Walk the blocks of the frame at `begin`; all of its bytes are there."""
    position, declared, trailer = _header(data, begin)
    size, least, most, last = len(data), 0, 0, 0
    if declared is not None and declared > limit:
        reason = f"a zstd frame declares {declared} bytes, above the limit"
        raise BatchTooLargeError(reason, position=begin)
    while not last:
        if position + 3 > size:
            raise CorruptRecordError("a zstd frame is cut short", position=begin)
        head = int.from_bytes(data[position : position + 3], "little")
        last, kind, length = head & 1, head >> 1 & 3, head >> 3
        position += 3
        if kind == _COMPRESSED:
            position += length
            most += _MAX_BLOCK_BYTES
        elif kind in (_RAW, _REPEATED):
            position += length if kind == _RAW else 1
            least += length
            if least > limit:
                reason = "a zstd frame unpacks to more than the limit"
                raise BatchTooLargeError(reason, position=begin)
        else:
            reason = "a zstd block of a kind there is not"
            raise CorruptRecordError(reason, position=position - 3)
    if position + trailer > size:
        raise CorruptRecordError("a zstd frame is cut short", position=begin)
    return _Frame(position + trailer, least, most + least)


def _header(data: bytes | memoryview, begin: int) -> tuple[int, int | None, int]:
    """Where the blocks begin, the declared size, and the bytes of the checksum."""
    if begin + 5 > len(data):
        raise CorruptRecordError("a zstd header is cut short", position=begin)
    descriptor = data[begin + 4]
    if not descriptor and begin + 6 <= len(data):  # as Kafka writes it: a window alone
        return begin + 6, None, 0
    single = descriptor >> 5 & 1
    size_bytes = (single, 2, 4, 8)[descriptor >> 6]
    size_at = begin + 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3]
    end = size_at + size_bytes
    if end > len(data):
        raise CorruptRecordError("a zstd header is cut short", position=begin)
    declared = None
    if size_bytes:
        declared = int.from_bytes(data[size_at:end], "little")
        declared += 256 if size_bytes == 2 else 0
    return end, declared, 4 if descriptor & 4 else 0
