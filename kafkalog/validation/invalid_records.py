"""Reading of an invalid compressed batch one record at a time, as a Kafka leader does.

A Kafka leader decompresses a batch while it reads the records. It finds an invalid
record before corruption of the stream after it. If it writes the batch without
rebuilding it, it skips keys, values and headers, and does not check that a record has
the length it states. This module finds the same first error, or accepts the same
records. Valid batches never come here: a kernel reads them.

Source: ``DefaultRecordBatch.java`` (``StreamRecordIterator``), ``DefaultRecord.java``
(``readPartiallyFrom``, ``readFrom``), ``ByteUtils.java``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kafkalog.array_types import Bytes
from kafkalog.codecs.java_streams import JavaStream, java_stream
from kafkalog.decoding.workspace import RecordSpans, Workspace
from kafkalog.errors import CompressionError, InvalidRecordError
from kafkalog.formats.layout import (
    CODEC_MASK,
    LOG_APPEND_TIME_FLAG,
    RECORD_BATCH_OVERHEAD,
)

_VARINT_BYTES: Final = 5
_VARLONG_BYTES: Final = 10
_PAST_THE_END: Final = 0xFF
_INT64: Final = 1 << 64


@dataclass(slots=True)
class _Reader:
    """Reader of a decompressed stream; past its end all bytes are -1, as in Java."""

    stream: JavaStream
    end: int
    at: int = 0

    def byte(self) -> int:
        """Read one byte."""
        if self.at < self.end:
            self.at += 1
            return self.stream.content[self.at - 1]
        self.fail_if_corrupt()
        return _PAST_THE_END

    def fail_if_corrupt(self) -> None:
        """Raise the error of the stream, if it ended with one."""
        if self.end == len(self.stream.content) and self.stream.fault is not None:
            raise CompressionError(f"corrupt stream: {self.stream.fault}")

    def varint(self, max_bytes: int = _VARINT_BYTES) -> int:
        """Read a zig-zag varint."""
        raw = 0
        for number in range(max_bytes):
            byte = self.byte()
            raw |= (byte & 0x7F) << (7 * number)
            if byte < 0x80:
                bits = 32 if max_bytes == _VARINT_BYTES else 64
                raw &= (1 << bits) - 1
                return (raw >> 1) ^ -(raw & 1)
        raise InvalidRecordError(f"varint continues after byte {max_bytes}")

    def skip(self) -> int:
        """Skip a length and so many bytes, and return the length."""
        count = self.varint()
        if count > self.end - self.at:
            self.fail_if_corrupt()
            reason = f"field of {count} bytes, expected at most {self.end - self.at}"
            raise InvalidRecordError(reason)
        self.at += max(count, 0)
        return count

    def body(self) -> tuple[int, int, int]:
        """Read a record after its length; return both deltas and the key length."""
        self.byte()
        timestamp, offset = self.varint(_VARLONG_BYTES), self.varint()
        key_length = self.skip()
        self.skip()
        headers = self.varint()
        if headers < 0:
            raise InvalidRecordError(f"header count {headers}, expected at least 0")
        for _ in range(headers):
            if (length := self.skip()) < 0:
                reason = f"header key length {length}, expected at least 0"
                raise InvalidRecordError(reason)
            self.skip()
        return timestamp, offset, key_length

    def whole_body(self) -> tuple[int, int, int]:
        """Read a record, and check that it has the length it states."""
        size = self.varint()
        if not 0 <= size <= self.end - self.at:
            if size > 0:
                self.fail_if_corrupt()
            left = self.end - self.at
            raise InvalidRecordError(f"record length {size}, expected 0 to {left}")
        inside = _Reader(JavaStream(self.stream.content), self.at + size, self.at)
        fields = inside.body()
        if inside.at != inside.end:
            used = inside.at - self.at
            raise InvalidRecordError(f"record length {size}, its fields use {used}")
        self.at = inside.end
        return fields


def read_one_by_one(data: Bytes, row: np.void, *, in_place: bool) -> RecordSpans:
    """Return ``timestamp``, ``offset`` and ``key_length`` of a batch's records.

    The batch is compressed, of magic 2, and may have invalid records. `in_place` states
    that it is not rebuilt: the lengths of its records are then not checked.

    Raises `InvalidRecordError` or `CompressionError`, whichever Kafka finds first.
    """
    position, codec = int(row["position"]), int(row["attributes"]) & CODEC_MASK
    compressed = data[
        position + RECORD_BATCH_OVERHEAD : position + int(row["size_in_bytes"])
    ]
    stream = java_stream(codec, compressed.data, 2)
    if not stream.opens:
        raise CompressionError(f"corrupt start of a stream: {stream.fault}")
    count = int(row["count"])
    if count < 0:
        raise InvalidRecordError(f"record count {count}, expected at least 0")
    reader = _Reader(stream, len(stream.content))
    fields: list[tuple[int, int, int]] = []
    while len(fields) < count:
        if in_place:
            reader.varint()
        fields.append(reader.body() if in_place else reader.whole_body())
    if reader.at < reader.end:
        reason = f"{reader.end - reader.at} bytes after the last record, expected 0"
        raise InvalidRecordError(reason)
    reader.fail_if_corrupt()
    return _spans(fields, row)


def _spans(fields: list[tuple[int, int, int]], row: np.void) -> RecordSpans:
    spans = Workspace().spans_for(len(fields))
    stamped = bool(row["attributes"] & LOG_APPEND_TIME_FLAG)
    base_timestamp, base_offset = int(row["base_timestamp"]), int(row["base_offset"])
    for i, (timestamp, offset, key_length) in enumerate(fields):
        time = int(row["max_timestamp"]) if stamped else base_timestamp + timestamp
        spans["timestamp"][i] = (time + _INT64 // 2) % _INT64 - _INT64 // 2
        spans["offset"][i] = base_offset + offset
        spans["key_length"][i] = key_length
    return spans
