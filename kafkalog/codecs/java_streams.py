"""Compressed streams that cannot be unpacked, read as far as Java's classes read them.

Which part of a stream is given before it fails, and by which exception, is the affair
of the library that Kafka uses. Where ours refuses a stream, it is read here again,
slowly, in Java's steps. What lz4 says of a damaged block is left in our words.

Kafka's tool keeps what a batch unpacks to, in 256 MiB of memory if it is given no more.
So nothing is unpacked beyond that: it ends as Java does when it runs out of memory.

Knows: streams, and how Java gives up. Does not know: records.
Source: ``java.util.zip.GZIPInputStream``; ``SnappyInputStream`` of snappy-java;
``Lz4BlockInputStream.java``; ``ZstdInputStreamNoFinalizer`` of zstd-jni.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from kafkalog.codecs import lz4_frames
from kafkalog.codecs.compression import Codec, decompress
from kafkalog.codecs.java_exceptions import END_OF_FILE, RUNTIME, ToolEnded
from kafkalog.errors import LocatedError

IO: Final = "java.io.IOException"
ZIP: Final = "java.util.zip.ZipException"
ZSTD: Final = "com.github.luben.zstd.ZstdIOException"
SNAPPY_ERROR: Final = "org.xerial.snappy.SnappyError"
OUT_OF_MEMORY: Final = "java.lang.OutOfMemoryError"
LZ4_EXCEPTION: Final = "net.jpountz.lz4.LZ4Exception"

CUT: Final = "Unexpected end of ZLIB input stream"
PREMATURE: Final = "Stream ended prematurely"
INPUT_BYTES: Final = 8192
OUTPUT_BYTES: Final = 16384
"""How much gzip is given, and how much is asked of a stream, at a time."""

SNAPPY_OUTPUT_BYTES: Final = 2048
"""As much of snappy, which gives all or nothing: a chunk that fails takes along what
the one before it has given to that."""

MAX_UNPACKED_BYTES: Final = 256 << 20
"""How much of a batch is unpacked: all the memory that Kafka's script has."""

_LITTLE: Final = struct.Struct("<I")
_BIG: Final = struct.Struct(">i")
_GZIP_HEADER: Final = 10
_CHECKSUM, _EXTRA, _NAME, _COMMENT = 2, 4, 8, 16
_SNAPPY_HEADER: Final = 16
_SNAPPY_MAGIC: Final = b"\x82SNAPPY\x00"
_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"


@dataclass(slots=True)
class JavaStream:
    """What a stream gives, and then the exception by which it ends, if any.

    `opens` is whether it comes as far as giving anything.
    """

    content: bytes | bytearray = field(default_factory=bytearray)
    fault: ToolEnded | None = None
    opens: bool = True

    def give(self, piece: bytes) -> None:
        """Give more; raises `ToolEnded` where that is more than Kafka's tool can."""
        self.content += piece
        if len(self.content) > MAX_UNPACKED_BYTES:
            reason = f"Java heap space: a batch of over {MAX_UNPACKED_BYTES} bytes"
            raise ToolEnded(OUT_OF_MEMORY, reason)

    def refused(self, name: str, reason: str | None = None) -> JavaStream:
        """End it before it gives anything."""
        self.fault, self.opens = ToolEnded(name, reason), False
        return self

    def failed(self, name: str, reason: str | None = None) -> JavaStream:
        """End it here."""
        self.fault = ToolEnded(name, reason)
        return self


def java_stream(codec: int, data: bytes | memoryview, magic: int) -> JavaStream:
    """Read a stream as far as Java does."""
    pieces = _sound(codec, data, magic)
    if pieces is not None:
        return JavaStream(b"".join(pieces))
    stream, given = JavaStream(), bytes(data)
    try:
        if codec == Codec.LZ4:
            return _lz4(stream, given, checked=magic > 0)
        return _READERS[codec](stream, given)
    except ToolEnded as full:
        stream.fault = full
        return stream


def _sound(codec: int, data: bytes | memoryview, magic: int) -> list[bytes] | None:
    """Unpack a stream that has no fault, and is not too long; None for another.

    What was unpacked of that one is let go of before it is read again.
    """
    try:
        return decompress(codec, data, limit=MAX_UNPACKED_BYTES, magic=magic)
    except LocatedError:
        return None


def _gzip(stream: JavaStream, data: bytes) -> JavaStream:
    if len(data) < _GZIP_HEADER:
        return stream.refused(END_OF_FILE)
    if data[:2] != b"\x1f\x8b":
        return stream.refused(ZIP, "Not in GZIP format")
    if data[2] != zlib.DEFLATED:
        return stream.refused(ZIP, "Unsupported compression method")
    header = _gzip_header(stream, data)
    if stream.fault is not None:
        return stream
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    for at in range(header, len(data), INPUT_BYTES):
        given = data[at : at + INPUT_BYTES]
        try:
            while given and not inflater.eof:
                stream.give(inflater.decompress(given, OUTPUT_BYTES))
                given = inflater.unconsumed_tail
        except zlib.error as error:
            return stream.failed(ZIP, str(error).partition(": ")[2])
        if inflater.eof:
            trailer = inflater.unused_data + data[at + INPUT_BYTES :]
            return _gzip_trailer(stream, trailer)
    return stream.failed(END_OF_FILE, CUT)


def _gzip_header(stream: JavaStream, data: bytes) -> int:
    """Pass over what a header may have beside its ten bytes; return where it ends."""
    flags, at = data[3], _GZIP_HEADER
    if flags & _EXTRA:
        at += 2 + int.from_bytes(data[at : at + 2], "little")
    for flag in (_NAME, _COMMENT):
        if flags & flag:
            at = data.find(b"\0", at) + 1 or len(data) + 1
    checksum = zlib.crc32(data[:at]) & 0xFFFF
    if flags & _CHECKSUM:
        at += 2
        if at <= len(data) and int.from_bytes(data[at - 2 : at], "little") != checksum:
            stream.refused(ZIP, "Corrupt GZIP header")
            return at
    if at > len(data):
        stream.refused(END_OF_FILE)
    return at


def _gzip_trailer(stream: JavaStream, trailer: bytes) -> JavaStream:
    """Hold what was unpacked to its checksum, and then to its length."""
    content = stream.content
    for at, expected in ((0, zlib.crc32(content)), (4, len(content) & 0xFFFF_FFFF)):
        if len(trailer) < at + _LITTLE.size:
            return stream.failed(END_OF_FILE)
        if _LITTLE.unpack_from(trailer, at) != (expected,):
            return stream.failed(ZIP, "Corrupt GZIP trailer")
    return stream


def _snappy(stream: JavaStream, data: bytes) -> JavaStream:
    if not data:
        reason = "[EMPTY_INPUT] Cannot decompress empty stream"
        return stream.refused("org.xerial.snappy.SnappyIOException", reason)
    if len(data) < _SNAPPY_HEADER or data[:8] != _SNAPPY_MAGIC:
        _snappy_block(stream, data)
        stream.opens = stream.fault is None
        return stream
    at = _SNAPPY_HEADER
    while stream.fault is None and len(data) - at >= _BIG.size:
        (size,) = _BIG.unpack_from(data, at)
        at += _BIG.size
        if size < 0:
            reason = "[INVALID_CHUNK_SIZE] chunkSize is too big or negative : "
            stream.failed(SNAPPY_ERROR, f"{reason}{size}")
        elif size > len(data) - at:
            stream.failed(IO, "failed to read chunk")
        else:
            _snappy_block(stream, data[at : at + size])
            at += size
    if stream.fault is not None:
        given = len(stream.content)
        stream.content = stream.content[: given - given % SNAPPY_OUTPUT_BYTES]
    return stream


def _snappy_block(stream: JavaStream, block: bytes) -> None:
    try:
        pieces = decompress(Codec.SNAPPY, block, limit=MAX_UNPACKED_BYTES)
    except LocatedError:
        # Whether the block says at all how long it is.
        says = any(byte < 0x80 for byte in block[:5])
        stream.failed(IO, "FAILED_TO_UNCOMPRESS(5)" if says else "PARSING_ERROR(2)")
    else:
        for piece in pieces:
            stream.give(piece)


def _lz4(stream: JavaStream, data: bytes, *, checked: bool) -> JavaStream:
    header = _lz4_header(stream, data, checked=checked)
    if stream.fault is not None:
        return stream
    most = 1 << (2 * (data[5] >> 4) + 8)
    checksum = 4 if data[4] & 0x10 else 0
    at = header
    while True:
        if len(data) - at < _LITTLE.size:
            return stream.failed(IO, PREMATURE)
        (word,) = _LITTLE.unpack_from(data, at)
        size = word & 0x7FFF_FFFF
        if size == 0:
            return stream
        if size > most:
            return stream.failed(IO, f"Block size {size} exceeded max: {most}")
        if size > len(data) - at - _LITTLE.size:
            return stream.failed(IO, PREMATURE)
        end = at + _LITTLE.size + size + checksum
        frame = data[:header] + data[at:end] + bytes(4)
        try:
            unpacked = decompress(
                Codec.LZ4, frame, limit=MAX_UNPACKED_BYTES, magic=2 if checked else 0
            )
        except LocatedError as error:
            cause = ToolEnded(LZ4_EXCEPTION, f"cannot unpack lz4: {error.reason}")
            stream.fault = ToolEnded(IO, str(cause), cause)
            return stream
        for piece in unpacked:
            stream.give(piece)
        at = end


def _lz4_header(stream: JavaStream, data: bytes, *, checked: bool) -> int:
    """Judge a header, and return where the blocks begin."""
    if len(data) < 7:
        stream.refused(IO, PREMATURE)
        return 0
    if data[:4] != _LZ4_MAGIC:
        stream.refused(IO, "Stream unsupported (invalid magic bytes)")
        return 0
    flags, block = data[4], data[5]
    for is_wrong, reason in (
        (flags & 3, "Reserved bits must be 0"),
        (not flags & 0x20, "Dependent block stream is unsupported"),
        (flags >> 6 != 1, f"Version {flags >> 6} is unsupported"),
        (block & 0x0F, "Reserved2 field must be 0"),
        (not 4 <= block >> 4 & 7 <= 7, "Block size value must be between 4 and 7"),
        (block >> 7, "Reserved3 field must be 0"),
    ):
        if is_wrong:
            stream.refused(RUNTIME, reason)
            return 0
    end = 15 if flags & 8 else 7
    if len(data) < end:
        stream.refused(IO, PREMATURE)
        return 0
    if checked and data[end - 1] != lz4_frames.header_checksum(data[4 : end - 1]):
        stream.refused(IO, "Stream frame descriptor corrupted")
    return end


def _zstd(stream: JavaStream, data: bytes) -> JavaStream:
    import zstandard

    reader = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
    try:
        while piece := reader.read1(OUTPUT_BYTES):
            stream.give(piece)
    except zstandard.ZstdError as error:
        return stream.failed(ZSTD, str(error).rpartition("error: ")[2])
    return stream.failed(ZSTD, "Truncated source")


_READERS: Final[dict[int, Callable[[JavaStream, bytes], JavaStream]]] = {
    Codec.GZIP: _gzip,
    Codec.SNAPPY: _snappy,
    Codec.ZSTD: _zstd,
}
