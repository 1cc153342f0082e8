"""The records of a message of magic 0 or 1: itself, or those in its wrapper.

Source: ``AbstractLegacyRecordBatch.java``, ``LegacyRecord.java``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from kafkalog.array_types import Bytes
from kafkalog.codecs.checksum import crc32
from kafkalog.codecs.compression import Codec
from kafkalog.codecs.java_streams import JavaStream, java_stream
from kafkalog.dump.batch_faults import opening_fault
from kafkalog.dump.java_exceptions import (
    CORRUPT_RECORD,
    ILLEGAL_ARGUMENT,
    INVALID_RECORD,
    OUT_OF_BOUNDS,
    ToolEnded,
    unknown_codec,
)
from kafkalog.formats.batch_headers import attributes_field, magic_field
from kafkalog.formats.layout import (
    CODEC_MASK,
    CODECS,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MIN_SIZE,
    NO_TIMESTAMP,
)

_ENTRY: Final = struct.Struct(">qi")
_CRC: Final = struct.Struct(">Ibb")
_LONG: Final = struct.Struct(">q")
_INT: Final = struct.Struct(">i")
_CRC_FROM: Final = 4


@dataclass(frozen=True, slots=True)
class Message:
    """A message: its offset, and its bytes from the checksum on.

    `clock` is the wrapper's timestamp if that is log append time.
    """

    offset: int
    body: memoryview
    clock: int | None = None

    @property
    def crc(self) -> int:
        """The stored checksum."""
        return int(_CRC.unpack_from(self.body)[0])

    @property
    def magic(self) -> int:
        """The magic byte."""
        return int(_CRC.unpack_from(self.body)[1])

    @property
    def attributes(self) -> int:
        """The attributes byte."""
        return int(_CRC.unpack_from(self.body)[2])

    @property
    def is_valid(self) -> bool:
        """Whether the stored checksum matches the bytes."""
        return self.crc == crc32(self.body[_CRC_FROM:])

    @property
    def timestamp(self) -> int:
        """Timestamp in ms; -1 for none."""
        if self.magic == 0:
            return NO_TIMESTAMP
        return self._long(6) if self.clock is None else self.clock

    @property
    def key_size(self) -> int:
        """Size of the key; -1 for null."""
        return self._int(self._key_at)

    @property
    def value_size(self) -> int:
        """Size of the value; -1 for null."""
        return self._int(self._value_at)

    def read_key(self) -> bytes | None:
        """Return the key, None for null. Raise `ToolEnded` if it is truncated."""
        return self._sized(self._key_at)

    def read_value(self) -> bytes | None:
        """Return the value, None for null. Raise `ToolEnded` if it is truncated."""
        return self._sized(self._value_at)

    @property
    def _key_at(self) -> int:
        return 6 if self.magic == 0 else 14

    @property
    def _value_at(self) -> int:
        return self._key_at + 4 + max(0, self.key_size)

    def _int(self, place: int) -> int:
        if not 0 <= place <= len(self.body) - 4:
            raise ToolEnded(OUT_OF_BOUNDS)
        return int(_INT.unpack_from(self.body, place)[0])

    def _long(self, place: int) -> int:
        if place > len(self.body) - 8:
            raise ToolEnded(OUT_OF_BOUNDS)
        return int(_LONG.unpack_from(self.body, place)[0])

    def _sized(self, place: int) -> bytes | None:
        size, start = self._int(place), place + 4
        if size < 0:
            return None
        if size > len(self.body) - start:
            limit = len(self.body) - start
            reason = f"newLimit > capacity: ({size} > {limit})"
            raise ToolEnded(ILLEGAL_ARGUMENT, reason)
        return bytes(self.body[start : start + size])


def records_of(entry: memoryview) -> Iterator[Message]:
    """Return the records of an entry, all of which are read first.

    Raises `ToolEnded` where Kafka's reader throws.
    """
    offset, _ = _ENTRY.unpack_from(entry)
    message = Message(offset, entry[LOG_OVERHEAD:])
    if not message.attributes & CODEC_MASK:
        yield message
        return
    inner = _inner(message)
    if not inner:
        reason = "Found invalid compressed record set with no inner records"
        raise ToolEnded(INVALID_RECORD, reason)
    base = _base_offset(message, inner[-1].offset) if message.magic else 0
    for nested in inner:
        if codec := nested.attributes & CODEC_MASK:
            raise _inner_codec_fault(codec)
        yield replace(nested, offset=base + nested.offset)


def _inner_codec_fault(codec: int) -> ToolEnded:
    if codec >= len(CODECS):
        return unknown_codec(codec)
    return ToolEnded(INVALID_RECORD, "Inner messages must not be compressed")


def _base_offset(wrapper: Message, last: int) -> int:
    """Return the base of a wrapper's relative offsets; `last` is the last one."""
    if not wrapper.offset:
        return 0  # as some producers wrote wrappers
    if wrapper.offset < last:
        raise ToolEnded(
            INVALID_RECORD,
            "Found invalid wrapper offset in compressed v1 message set, "
            f"wrapper offset '{wrapper.offset}' is less than the last inner message "
            f"offset '{last}' and it is not zero.",
        )
    return wrapper.offset - last


def _inner(wrapper: Message) -> list[Message]:
    """Decompress a wrapper; return its messages up to one that is truncated."""
    stream = _decompressed(wrapper)
    content = memoryview(stream.content)
    clock = None
    if wrapper.magic == 1 and wrapper.attributes & LOG_APPEND_TIME_FLAG:
        clock = wrapper.timestamp
    messages: list[Message] = []
    at = 0
    while len(content) - at >= LOG_OVERHEAD:
        offset, size = _ENTRY.unpack_from(content, at)
        if size < MIN_SIZE:
            reason = "Record size is less than the minimum record overhead (14)"
            raise ToolEnded(CORRUPT_RECORD, reason)
        at += LOG_OVERHEAD
        if size > len(content) - at:
            break
        body = content[at : at + size]
        message = Message(offset, body)
        timed = message.magic == 1
        messages.append(replace(message, clock=clock) if timed else message)
        at += size
    if stream.fault is not None:
        raise opening_fault(stream)
    return messages


def _decompressed(wrapper: Message) -> JavaStream:
    codec, value = wrapper.attributes & CODEC_MASK, wrapper.read_value()
    if codec == Codec.ZSTD:
        raise ToolEnded(
            INVALID_RECORD,
            "Invalid wrapper compressionType found in legacy deep record iterator "
            f"{wrapper.magic}",
        )
    if value is None:
        raise ToolEnded(
            INVALID_RECORD,
            "Found invalid compressed record set with null value (magic = "
            f"{wrapper.magic})",
        )
    return java_stream(codec, value, wrapper.magic)


def message_clock(entry: Bytes) -> str:
    """Return the name of an entry's timestamp type, as Kafka prints it."""
    if magic_field(entry) == 0:
        return "NoTimestampType"
    by_log = attributes_field(entry) & LOG_APPEND_TIME_FLAG
    return "LogAppendTime" if by_log else "CreateTime"


def message_metadata(message: Message, clock: str) -> str:
    """Return the part of a message's line before its key and value."""
    valid = "true" if message.is_valid else "false"
    return (
        f"| offset: {message.offset} {clock}: {message.timestamp} "
        f"keySize: {message.key_size} valueSize: {message.value_size} "
        f"isValid: {valid} crc: {message.crc}"
    )
