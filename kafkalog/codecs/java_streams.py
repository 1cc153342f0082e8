"""Corrupt compressed streams, decompressed as far as Java's classes decompress them.

The content that is returned before a stream fails, and the exception, depend on the
libraries that Kafka uses. If ours reject a stream, it is decompressed again here,
slowly, in Java's steps. Messages about corrupt lz4 blocks are those of our library.

Kafka's tool holds a decompressed batch in memory, 256 MiB by default. Nothing is
decompressed beyond that: the result is Java's out of memory error.

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
from kafkalog.errors import LocatedError

IO: Final = "java.io.IOException"
END_OF_FILE: Final = "java.io.EOFException"
RUNTIME: Final = "java.lang.RuntimeException"
ZIP: Final = "java.util.zip.ZipException"
ZSTD: Final = "com.github.luben.zstd.ZstdIOException"
SNAPPY_ERROR: Final = "org.xerial.snappy.SnappyError"
OUT_OF_MEMORY: Final = "java.lang.OutOfMemoryError"
LZ4_EXCEPTION: Final = "net.jpountz.lz4.LZ4Exception"

CUT: Final = "Unexpected end of ZLIB input stream"
PREMATURE: Final = "Stream ended prematurely"
INPUT_BYTES: Final = 8192
OUTPUT_BYTES: Final = 16384
"""Sizes of the steps in which gzip reads input and returns output."""

SNAPPY_OUTPUT_BYTES: Final = 2048
"""Size of snappy's output steps. A chunk that fails discards the part of the chunk
before it that is in the same step."""

MAX_DECOMPRESSED_BYTES: Final = 256 << 20
"""Maximum decompressed size of a batch: the memory that Kafka's script sets."""

_LITTLE: Final = struct.Struct("<I")
_BIG: Final = struct.Struct(">i")
_GZIP_HEADER: Final = 10
_CHECKSUM, _EXTRA, _NAME, _COMMENT = 2, 4, 8, 16
_SNAPPY_HEADER: Final = 16
_SNAPPY_MAGIC: Final = b"\x82SNAPPY\x00"
_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"


class JavaError(Exception):
    """An exception of Java's, with its name there.

    `because` is the exception that caused it, if any.
    """

    def __init__(
        self,
        java_name: str,
        reason: str | None = None,
        because: JavaError | None = None,
    ) -> None:
        super().__init__(java_name, reason)
        self.java_name = java_name
        self.reason = reason
        self.because = because

    def __str__(self) -> str:
        """Return it as Java prints it: the name, and the message if there is one.

        >>> str(JavaError("java.lang.RuntimeException", "no such decoder"))
        'java.lang.RuntimeException: no such decoder'
        """
        if self.reason is None:
            return self.java_name
        return f"{self.java_name}: {self.reason}"


@dataclass(slots=True)
class JavaStream:
    """The content of a stream, and the exception that ends it, if any.

    `opens` is false if it fails before it returns any content.
    """

    content: bytes | bytearray = field(default_factory=bytearray)
    fault: JavaError | None = None
    opens: bool = True

    def add(self, chunk: bytes) -> None:
        """Add content. Raise `JavaError` if it exceeds what Kafka's tool can hold."""
        self.content += chunk
        if len(self.content) > MAX_DECOMPRESSED_BYTES:
            reason = f"Java heap space: a batch of over {MAX_DECOMPRESSED_BYTES} bytes"
            raise JavaError(OUT_OF_MEMORY, reason)

    def reject(self, name: str, reason: str | None = None) -> JavaStream:
        """End it with an exception before it returns any content."""
        self.fault, self.opens = JavaError(name, reason), False
        return self

    def fail(self, name: str, reason: str | None = None) -> JavaStream:
        """End it with an exception after the content so far."""
        self.fault = JavaError(name, reason)
        return self


def java_stream(codec: int, data: bytes | memoryview, magic: int) -> JavaStream:
    """Decompress a stream as far as Java does."""
    chunks = _decompressed(codec, data, magic)
    if chunks is not None:
        return JavaStream(b"".join(chunks))
    stream, copied = JavaStream(), bytes(data)
    try:
        if codec == Codec.LZ4:
            return _lz4(stream, copied, checked=magic > 0)
        return _READERS[codec](stream, copied)
    except JavaError as full:
        stream.fault = full
        return stream


def _decompressed(
    codec: int, data: bytes | memoryview, magic: int
) -> list[bytes] | None:
    """Decompress a valid stream; return None if it is corrupt or too large.

    This is a separate function so that its memory is released before the second
    reading.
    """
    try:
        return decompress(codec, data, limit=MAX_DECOMPRESSED_BYTES, magic=magic)
    except LocatedError:
        return None


def _gzip(stream: JavaStream, data: bytes) -> JavaStream:
    if len(data) < _GZIP_HEADER:
        return stream.reject(END_OF_FILE)
    if data[:2] != b"\x1f\x8b":
        return stream.reject(ZIP, "Not in GZIP format")
    if data[2] != zlib.DEFLATED:
        return stream.reject(ZIP, "Unsupported compression method")
    header = _gzip_header(stream, data)
    if stream.fault is not None:
        return stream
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    for at in range(header, len(data), INPUT_BYTES):
        part = data[at : at + INPUT_BYTES]
        try:
            while part and not inflater.eof:
                stream.add(inflater.decompress(part, OUTPUT_BYTES))
                part = inflater.unconsumed_tail
        except zlib.error as error:
            return stream.fail(ZIP, str(error).partition(": ")[2])
        if inflater.eof:
            trailer = inflater.unused_data + data[at + INPUT_BYTES :]
            return _gzip_trailer(stream, trailer)
    return stream.fail(END_OF_FILE, CUT)


def _gzip_header(stream: JavaStream, data: bytes) -> int:
    """Return where the header ends, after its optional fields."""
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
            stream.reject(ZIP, "Corrupt GZIP header")
            return at
    if at > len(data):
        stream.reject(END_OF_FILE)
    return at


def _gzip_trailer(stream: JavaStream, trailer: bytes) -> JavaStream:
    """Check the content against the CRC, and then the length, of the trailer."""
    content = stream.content
    for at, expected in ((0, zlib.crc32(content)), (4, len(content) & 0xFFFF_FFFF)):
        if len(trailer) < at + _LITTLE.size:
            return stream.fail(END_OF_FILE)
        if _LITTLE.unpack_from(trailer, at) != (expected,):
            return stream.fail(ZIP, "Corrupt GZIP trailer")
    return stream


def _snappy(stream: JavaStream, data: bytes) -> JavaStream:
    if not data:
        reason = "[EMPTY_INPUT] Cannot decompress empty stream"
        return stream.reject("org.xerial.snappy.SnappyIOException", reason)
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
            stream.fail(SNAPPY_ERROR, f"{reason}{size}")
        elif size > len(data) - at:
            stream.fail(IO, "failed to read chunk")
        else:
            _snappy_block(stream, data[at : at + size])
            at += size
    if stream.fault is not None:
        size = len(stream.content)
        stream.content = stream.content[: size - size % SNAPPY_OUTPUT_BYTES]
    return stream


def _snappy_block(stream: JavaStream, block: bytes) -> None:
    try:
        chunks = decompress(Codec.SNAPPY, block, limit=MAX_DECOMPRESSED_BYTES)
    except LocatedError:
        has_length = any(byte < 0x80 for byte in block[:5])
        reason = "FAILED_TO_UNCOMPRESS(5)" if has_length else "PARSING_ERROR(2)"
        stream.fail(IO, reason)
    else:
        for chunk in chunks:
            stream.add(chunk)


def _lz4(stream: JavaStream, data: bytes, *, checked: bool) -> JavaStream:
    header = _lz4_header(stream, data, checked=checked)
    if stream.fault is not None:
        return stream
    most = 1 << (2 * (data[5] >> 4) + 8)
    checksum = 4 if data[4] & 0x10 else 0
    at = header
    while True:
        if len(data) - at < _LITTLE.size:
            return stream.fail(IO, PREMATURE)
        (word,) = _LITTLE.unpack_from(data, at)
        size = word & 0x7FFF_FFFF
        if size == 0:
            return stream
        if size > most:
            return stream.fail(IO, f"Block size {size} exceeded max: {most}")
        if size > len(data) - at - _LITTLE.size:
            return stream.fail(IO, PREMATURE)
        end = at + _LITTLE.size + size + checksum
        frame = data[:header] + data[at:end] + bytes(4)
        try:
            content = decompress(
                Codec.LZ4,
                frame,
                limit=MAX_DECOMPRESSED_BYTES,
                magic=2 if checked else 0,
            )
        except LocatedError as error:
            cause = JavaError(LZ4_EXCEPTION, f"cannot unpack lz4: {error.reason}")
            stream.fault = JavaError(IO, str(cause), cause)
            return stream
        for chunk in content:
            stream.add(chunk)
        at = end


def _lz4_header(stream: JavaStream, data: bytes, *, checked: bool) -> int:
    """Validate a header, and return where the blocks begin."""
    if len(data) < 7:
        stream.reject(IO, PREMATURE)
        return 0
    if data[:4] != _LZ4_MAGIC:
        stream.reject(IO, "Stream unsupported (invalid magic bytes)")
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
            stream.reject(RUNTIME, reason)
            return 0
    end = 15 if flags & 8 else 7
    if len(data) < end:
        stream.reject(IO, PREMATURE)
        return 0
    if checked and data[end - 1] != lz4_frames.header_checksum(data[4 : end - 1]):
        stream.reject(IO, "Stream frame descriptor corrupted")
    return end


def _zstd(stream: JavaStream, data: bytes) -> JavaStream:
    import zstandard

    reader = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
    try:
        while chunk := reader.read1(OUTPUT_BYTES):
            stream.add(chunk)
    except zstandard.ZstdError as error:
        return stream.fail(ZSTD, str(error).rpartition("error: ")[2])
    return stream.fail(ZSTD, "Truncated source")


_READERS: Final[dict[int, Callable[[JavaStream, bytes], JavaStream]]] = {
    Codec.GZIP: _gzip,
    Codec.SNAPPY: _snappy,
    Codec.ZSTD: _zstd,
}
