"""What is wrong with records of magic 2 that cannot be, in the words of Kafka's reader.

A kernel finds that a record cannot be read; only then is it read here, slowly, as
Kafka reads it, up to where Kafka gives up.

Knows: one record's bytes. Does not know: batches' headers, files.
Source: ``DefaultRecord.java``, ``DefaultRecordBatch.java``, ``ByteUtils.java``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kafkalog.codecs.java_exceptions import (
    ILLEGAL_ARGUMENT,
    INVALID_RECORD,
    UNDERFLOW,
    ToolEnded,
)

PREMATURE: Final = "Incorrect declared batch size, premature EOF reached"
REMAINING: Final = "Incorrect declared batch size, records still remaining in file"
STRUCTURE: Final = "Found invalid record structure"


class _Underflow(Exception):
    """The bytes end inside a field."""


class _Illegal(Exception):
    """A varint continues behind its last byte, or a length exceeds what there is."""


@dataclass(slots=True)
class _Reader:
    data: memoryview
    at: int = 0
    is_stream: bool = False  # behind whose end Java reads bytes of -1

    @property
    def remaining(self) -> int:
        return len(self.data) - self.at

    def varint(self, most_bytes: int = 5) -> int:
        raw, bits = 0, 32 if most_bytes == 5 else 64
        for i in range(most_bytes):
            byte = self.byte()
            raw |= (byte & 0x7F) << (7 * i)
            if byte < 0x80:
                raw &= (1 << bits) - 1
                return (raw >> 1) ^ -(raw & 1)
        raw &= (1 << bits) - 1
        if bits == 32:
            reason = "Varint is too long, the most significant bit in the 5th byte"
        else:
            reason = "Varlong is too long, most significant bit in the 10th byte"
        raise _Illegal(f"{reason} is set, converted value: {raw:x}")

    def byte(self) -> int:
        if not self.remaining:
            if self.is_stream:
                return 0xFF
            raise _Underflow
        self.at += 1
        return self.data[self.at - 1]

    def skip(self) -> int:
        """Pass over bytes whose length stands before them, and return that."""
        count = self.varint()
        if count > self.remaining:
            raise _Illegal(f"newLimit > capacity: ({count} > {self.remaining})")
        self.at += max(count, 0)
        return count


def record_fault(payload: memoryview, place: int, *, unpacked: bool) -> ToolEnded:
    """Say how Kafka ends at the record at `place` of `payload`, which cannot be."""
    reader = _Reader(payload, place, is_stream=unpacked)
    try:
        size = reader.varint()
    except _Underflow:
        return ToolEnded(INVALID_RECORD, PREMATURE)
    except _Illegal as error:
        wrong = ToolEnded(ILLEGAL_ARGUMENT, str(error))
        return ToolEnded(INVALID_RECORD, PREMATURE, wrong) if unpacked else wrong
    if unpacked and size < 0:
        wrong = ToolEnded(ILLEGAL_ARGUMENT, f"capacity < 0: ({size} < 0)")
        return ToolEnded(INVALID_RECORD, PREMATURE, wrong)
    if reader.remaining < size:
        found = (
            "but the record payload reached EOF."
            if unpacked
            else f"but instead the buffer has only {reader.remaining} remaining bytes."
        )
        reason = f"Invalid record size: expected {size} bytes in record payload, "
        return ToolEnded(INVALID_RECORD, reason + found)
    if unpacked:
        reader = _Reader(payload[reader.at : reader.at + size])
    try:
        return ToolEnded(INVALID_RECORD, _body_fault(reader, size))
    except _Underflow:
        return ToolEnded(INVALID_RECORD, STRUCTURE, ToolEnded(UNDERFLOW))
    except _Illegal as error:
        wrong = ToolEnded(ILLEGAL_ARGUMENT, str(error))
        return ToolEnded(INVALID_RECORD, STRUCTURE, wrong)


def _body_fault(reader: _Reader, size: int) -> str:
    start = reader.at
    reader.byte()
    reader.varint(10)
    reader.varint()
    reader.skip()
    reader.skip()
    headers = reader.varint()
    if headers < 0:
        return f"Found invalid number of record headers {headers}"
    if headers > reader.remaining:
        return (
            f"Found invalid number of record headers. {headers} is larger than the "
            "remaining size of the buffer"
        )
    for _ in range(headers):
        key_size = reader.skip()
        if key_size < 0:
            return f"Invalid negative header key size {key_size}"
        reader.skip()
    return (
        f"Invalid record size: expected to read {size} bytes in record payload, "
        f"but instead read {reader.at - start}"
    )


def ends_early(payload: memoryview, place: int) -> bool:
    """Whether the bytes end in the record at `place`, or in its length."""
    reader = _Reader(payload, place)
    try:
        return reader.varint() > reader.remaining
    except _Underflow:
        return True
    except _Illegal:
        return False
