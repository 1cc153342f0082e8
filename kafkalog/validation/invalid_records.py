"""Records of a packed batch that cannot be, read one by one as a leader's stream is.

A leader unpacks a batch while it looks at its records. So a record that cannot be is
met before what is wrong in the stream behind it. And where it writes the batch as it
came it passes over keys, values and headers: whether a record is as long as it says it
is not held to. A kernel reads all other batches, and those that are packed anew.

Knows: streams and records, in Kafka's order. Does not know: what a topic asks of them.
Source: ``DefaultRecordBatch.java`` (``StreamRecordIterator``), ``DefaultRecord.java``
(``readPartiallyFrom``, ``readFrom``), ``ByteUtils.java``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kafkalog.codecs.java_streams import JavaStream, java_stream
from kafkalog.decoding.workspace import RecordSpans, Workspace
from kafkalog.errors import CompressionError, InvalidRecordError
from kafkalog.formats.batch_headers import Bytes
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
    """Reads what a stream gives; behind its end there are bytes of -1, as in Java."""

    stream: JavaStream
    end: int
    at: int = 0

    def byte(self) -> int:
        if self.at < self.end:
            self.at += 1
            return self.stream.content[self.at - 1]
        self.fail_if_broken()
        return _PAST_THE_END

    def fail_if_broken(self) -> None:
        if self.end == len(self.stream.content) and self.stream.fault is not None:
            raise CompressionError(f"a stream breaks: {self.stream.fault}")

    def varint(self, most_bytes: int = _VARINT_BYTES) -> int:
        raw = 0
        for number in range(most_bytes):
            byte = self.byte()
            raw |= (byte & 0x7F) << (7 * number)
            if byte < 0x80:
                bits = 32 if most_bytes == _VARINT_BYTES else 64
                raw &= (1 << bits) - 1
                return (raw >> 1) ^ -(raw & 1)
        raise InvalidRecordError("a varint is too long")

    def skip(self) -> int:
        """Pass over bytes whose length stands before them, and return that."""
        count = self.varint()
        if count > self.end - self.at:
            self.fail_if_broken()
            raise InvalidRecordError(f"{count} bytes, where the records end")
        self.at += max(count, 0)
        return count

    def body(self) -> tuple[int, int, int]:
        """Read a record behind its length: deltas of time and offset, key length."""
        self.byte()
        timestamp, offset = self.varint(_VARLONG_BYTES), self.varint()
        key_length = self.skip()
        self.skip()
        headers = self.varint()
        if headers < 0:
            raise InvalidRecordError(f"{headers} headers")
        for _ in range(headers):
            if (length := self.skip()) < 0:
                raise InvalidRecordError(f"a header's key of {length} bytes")
            self.skip()
        return timestamp, offset, key_length

    def whole_body(self) -> tuple[int, int, int]:
        """Read a record by its length, to which it is held."""
        size = self.varint()
        if not 0 <= size <= self.end - self.at:
            if size > 0:
                self.fail_if_broken()
            raise InvalidRecordError(f"a record of {size} bytes")
        inside = _Reader(JavaStream(self.stream.content), self.at + size, self.at)
        fields = inside.body()
        if inside.at != inside.end:
            raise InvalidRecordError(f"a record of {size} bytes says it ends elsewhere")
        self.at = inside.end
        return fields


def pass_over(data: Bytes, row: np.void, *, as_it_came: bool) -> RecordSpans:
    """Read the records of a packed batch of magic 2, one of which may not be.

    Of each there are ``timestamp``, ``offset`` (its delta) and ``key_length``. With
    `as_it_came` they are passed over, as where the batch is written as it is.

    Raises `InvalidRecordError` or `CompressionError`, whichever comes first.
    """
    position, codec = int(row["position"]), int(row["attributes"]) & CODEC_MASK
    packed = data[
        position + RECORD_BATCH_OVERHEAD : position + int(row["size_in_bytes"])
    ]
    stream = java_stream(codec, packed.data, 2)
    if not stream.opens:
        raise CompressionError(f"a stream does not begin: {stream.fault}")
    count = int(row["count"])
    if count < 0:
        raise InvalidRecordError(f"a batch of {count} records")
    reader = _Reader(stream, len(stream.content))
    fields: list[tuple[int, int, int]] = []
    while len(fields) < count:
        if as_it_came:
            reader.varint()
        fields.append(reader.body() if as_it_came else reader.whole_body())
    if reader.at < reader.end:
        raise InvalidRecordError("bytes behind the last record")
    reader.fail_if_broken()
    return _places(fields, row)


def _places(fields: list[tuple[int, int, int]], row: np.void) -> RecordSpans:
    places = Workspace().spans_for(len(fields))
    stamped = bool(row["attributes"] & LOG_APPEND_TIME_FLAG)
    base_timestamp, base_offset = int(row["base_timestamp"]), int(row["base_offset"])
    for place, (timestamp, offset, key_length) in enumerate(fields):
        time = int(row["max_timestamp"]) if stamped else base_timestamp + timestamp
        places["timestamp"][place] = (time + _INT64 // 2) % _INT64 - _INT64 // 2
        places["offset"][place] = base_offset + offset
        places["key_length"][place] = key_length
    return places
