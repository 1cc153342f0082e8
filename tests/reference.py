"""A slow and simple reader of the format, for comparison with the package.

It shares no code with the package: neither layouts, nor kernels, nor codec wrappers.
Invalid bytes raise any exception.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import crc32c
import lz4.block
import snappy
import zstandard

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
NO_CODECS = ("5", "6", "7")  # unknown ids; only an empty batch of them can be read
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")

Entry = dict[str, Any]
Record = dict[str, Any]


# ------------------------------------------------------------------------- varints


def varlong(value: int) -> bytes:
    """Return the zig-zag varint of an int64 or int32."""
    raw = value * 2 if value >= 0 else -value * 2 - 1
    out = bytearray()
    while raw >= 128:
        out.append(128 + raw % 128)
        raw //= 128
    return bytes([*out, raw])


class Reader:
    """Reader of bytes from a position on."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, count: int) -> bytes:
        if count < 0 or self.position + count > len(self.data):
            raise ValueError(
                f"{count} bytes at {self.position}, expected 0 to {self.left}"
            )
        self.position += count
        return self.data[self.position - count : self.position]

    def number(self, form: str) -> int:
        value: int
        (value,) = struct.unpack(">" + form, self.take(struct.calcsize(form)))
        return value

    def varint(self, bits: int = 32) -> int:
        """Read a zig-zag varint; bits beyond `bits` are ignored, as in Java."""
        raw = shift = 0
        while True:
            byte = self.take(1)[0]
            raw += (byte % 128) << shift
            shift += 7
            if byte < 128:
                raw %= 2**bits
                return raw // 2 if raw % 2 == 0 else -(raw // 2) - 1

    def varlong(self) -> int:
        return self.varint(64)

    def varint_bytes(self) -> bytes | None:
        length = self.varint()
        return None if length < 0 else self.take(length)

    def int32_bytes(self) -> bytes | None:
        length = self.number("i")
        return None if length < 0 else self.take(length)

    @property
    def left(self) -> int:
        return len(self.data) - self.position


# -------------------------------------------------------- the values of serializers


def schema_id(value: bytes | None) -> int | None:
    """Return the id in the header of Confluent's wire format."""
    if value is None or len(value) < 5 or value[0] != 0:
        return None
    found: int
    (found,) = struct.unpack(">i", value[1:5])
    return found


def message_indexes(value: bytes | None) -> tuple[list[int] | None, bytes | None]:
    """Return Protobuf's message indexes, and the payload after them."""
    if value is None or schema_id(value) is None:
        return None, None
    reader = Reader(value[5:])
    try:
        count = short_varint(reader)
        if not 0 <= count <= reader.left:
            return None, None
        indexes = [short_varint(reader) for _ in range(count)]
    except ValueError:
        return None, None
    return indexes or [0], reader.take(reader.left)


def short_varint(reader: Reader) -> int:
    """Read a varint of at most 5 bytes."""
    start = reader.position
    value = reader.varint()
    if reader.position - start > 5:
        raise ValueError("varint of more than 5 bytes")
    return value


# -------------------------------------------------------------------------- codecs


def gunzip(data: bytes) -> bytes:
    """Decompress members, and ignore the bytes after them, as Java does."""
    out = b""
    while True:
        member = zlib.decompressobj(31)
        out += member.decompress(data)
        if not member.eof:
            raise ValueError("gzip member is truncated")
        data = member.unused_data
        if len(data) < 18 or not data.startswith(b"\x1f\x8b\x08"):
            return out


def unsnappy(data: bytes) -> bytes:
    magic = b"\x82SNAPPY\x00"
    if len(data) < 16 or not data.startswith(magic):
        return bytes(snappy.decompress(data))
    out, reader = b"", Reader(data)
    reader.take(16)
    while reader.left >= 4:
        if data.startswith(magic, reader.position):
            reader.take(16)
        else:
            out += snappy.decompress(reader.take(reader.number("i")))
    return out


def unlz4(data: bytes) -> bytes:
    magic, flags, descriptor = struct.unpack_from("<IBB", data)
    if magic != 0x184D2204 or flags >> 6 != 1 or not flags & 0x20:
        raise ValueError("not an lz4 frame of independent blocks")
    max_block = 1 << (8 + 2 * (descriptor >> 4))
    position = 7 + (8 if flags & 8 else 0)
    out = b""
    while True:
        (size,) = struct.unpack_from("<I", data, position)
        position += 4
        if size == 0:
            return out
        stored, size = size >> 31, size % 2**31
        block = data[position : position + size]
        if len(block) < size:
            raise ValueError("lz4 block is truncated")
        out += (
            block
            if stored
            else lz4.block.decompress(block, uncompressed_size=max_block)
        )
        position += size + (4 if flags & 16 else 0)


def unpack(codec: str, data: bytes) -> bytes:
    match codec:
        case "gzip":
            return gunzip(data)
        case "snappy":
            return unsnappy(data)
        case "lz4":
            return unlz4(data)
        case "zstd":
            reader = zstandard.ZstdDecompressor().stream_reader(
                io.BytesIO(data), read_across_frames=True
            )
            return bytes(reader.read())
    return data


# ------------------------------------------------------------------------- entries


def entries(data: bytes) -> list[Entry]:
    """Read headers and records of all entries of a segment, up to a partial one."""
    found = []
    position = 0
    while len(data) - position >= 17:
        (size,) = struct.unpack_from(">i", data, position + 8)
        if size < 14 or len(data) - position < 12 + size:
            break
        raw = data[position : position + 12 + size]
        read = batch if raw[16] == 2 else message
        found.append({"position": position, "size_in_bytes": len(raw), **read(raw)})
        position += len(raw)
    return found


def codec_of(attributes: int) -> str:
    return (CODECS + NO_CODECS)[attributes & 7]


def batch(data: bytes) -> Entry:
    """Read one batch of magic 2."""
    reader = Reader(data)
    entry: Entry = {"base_offset": reader.number("q")}
    reader.take(4)
    entry["leader_epoch"] = reader.number("i")
    entry["magic"] = reader.number("b")
    entry["crc"] = reader.number("I")
    entry["is_valid"] = entry["crc"] == crc32c.crc32c(data[21:])
    attributes = reader.number("h")
    entry["attributes"] = attributes
    entry["codec"] = codec_of(attributes)
    entry["timestamp_type"] = TIMESTAMP_TYPES[attributes >> 3 & 1]
    entry["is_transactional"] = bool(attributes & 16)
    entry["is_control"] = bool(attributes & 32)
    last_delta = reader.number("i")
    entry["last_offset"] = int64(entry["base_offset"] + last_delta)
    entry["base_timestamp"] = reader.number("q")
    entry["max_timestamp"] = reader.number("q")
    horizon = bool(attributes & 64)
    entry["delete_horizon_ms"] = entry["base_timestamp"] if horizon else None
    entry["producer_id"] = reader.number("q")
    entry["producer_epoch"] = reader.number("h")
    entry["base_sequence"] = reader.number("i")
    base = entry["base_sequence"]
    entry["last_sequence"] = -1 if base == -1 else later_sequence(base, last_delta)
    entry["count"] = reader.number("i")
    payload = reader.take(reader.left)
    content = unpack(entry["codec"], payload) if entry["count"] else b""
    entry["records"] = list(batch_records(entry, content))
    return entry


def int64(value: int) -> int:
    """Wrap a sum as Java's long does."""
    return (value + 2**63) % 2**64 - 2**63


def int32(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def later_sequence(base: int, delta: int) -> int:
    """Add as Java's `DefaultRecordBatch.incrementSequence` does, in ints that wrap."""
    if base > int32(2**31 - 1 - delta):
        return int32(delta - int32(2**31 - 1 - base) - 1)
    return int32(base + delta)


def batch_records(entry: Entry, content: bytes) -> Iterator[Record]:
    """Yield the records of a batch, from its decompressed bytes."""
    records = Reader(content)
    for number in range(entry["count"]):
        body = Reader(records.take(records.varint()))
        body.take(1)
        timestamp = int64(entry["base_timestamp"] + body.varlong())
        delta, base = body.varint(), entry["base_sequence"]
        if entry["timestamp_type"] == "LogAppendTime":
            timestamp = entry["max_timestamp"]
        record = {
            "offset": int64(entry["base_offset"] + delta),
            "timestamp": timestamp,
            "timestamp_type": entry["timestamp_type"],
            "sequence": -1 if base < 0 else later_sequence(base, delta),
            "key": body.varint_bytes(),
            "value": body.varint_bytes(),
            "headers": list(headers(body)),
        }
        if body.left:
            raise ValueError("record is longer than its fields")
        if number == entry["count"] - 1 and records.left:
            raise ValueError("bytes after the last record")
        yield record


def headers(body: Reader) -> Iterator[tuple[bytes, bytes | None]]:
    count = body.varint()
    if count < 0:
        raise ValueError("negative number of headers")
    for _ in range(count):
        yield body.take(body.varint()), body.varint_bytes()


def one_message(data: bytes) -> Entry:
    """Read one message of magic 0 or 1, without the messages inside a wrapper."""
    reader = Reader(data)
    entry: Entry = {"offset": reader.number("q")}
    reader.take(4)
    entry["crc"] = reader.number("I")
    entry["is_valid"] = entry["crc"] == zlib.crc32(data[16:])
    entry["magic"] = reader.number("b")
    attributes = reader.number("b")
    entry["attributes"] = attributes
    entry["codec"] = codec_of(attributes)
    entry["timestamp"], entry["timestamp_type"] = -1, "NoTimestampType"
    if entry["magic"] == 1:
        entry["timestamp"] = reader.number("q")
        entry["timestamp_type"] = TIMESTAMP_TYPES[attributes >> 3 & 1]
    # Kafka ignores bytes after the value.
    entry["key"], entry["value"] = reader.int32_bytes(), reader.int32_bytes()
    return entry


def messages(data: bytes) -> Iterator[Entry]:
    """Yield the messages inside a wrapper, up to a partial one."""
    position = 0
    while len(data) - position >= 12:
        (size,) = struct.unpack_from(">i", data, position + 8)
        if size < 14:
            raise ValueError("message is too small")
        if len(data) - position < 12 + size:
            return
        yield one_message(data[position : position + 12 + size])
        position += 12 + size


def message(data: bytes) -> Entry:
    """Read one entry of magic 0 or 1, with its records."""
    outer = one_message(data)
    inner = [outer]
    if outer["codec"] != "none":
        inner = list(messages(unpack(outer["codec"], outer["value"])))
        if any(wrapped["codec"] != "none" for wrapped in inner) or not inner:
            raise ValueError("wrapper without messages, or with a wrapper inside")
    base = 0
    if outer["codec"] != "none" and outer["magic"] == 1:
        # Some versions of librdkafka write offset 0.
        if outer["offset"] != 0:
            base = outer["offset"] - inner[-1]["offset"]
        if base < 0:
            raise ValueError("offset of a wrapper is below that of its last message")
    entry = {
        **outer,
        "base_offset": int64(base + inner[0]["offset"]),
        "last_offset": outer["offset"],
        "max_timestamp": outer["timestamp"],
        "records": [message_record(outer, base, wrapped) for wrapped in inner],
    }
    entry["count"] = len(entry["records"])
    return entry


def message_record(outer: Entry, base: int, message: Entry) -> Record:
    """Return the record of a message in a wrapper, or of the message itself."""
    # Only a message of magic 1 has a timestamp, which the wrapper may replace.
    replaced = outer["timestamp_type"] == "LogAppendTime" and message["magic"] == 1
    return {
        "offset": int64(base + message["offset"]),
        "timestamp": outer["timestamp"] if replaced else message["timestamp"],
        "timestamp_type": outer["timestamp_type"],
        "sequence": -1,
        "key": message["key"],
        "value": message["value"],
        "headers": [],
    }
