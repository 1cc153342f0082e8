"""The exceptions with which Kafka's tool ends at a corrupt batch.

A kernel finds that a batch or record is corrupt. It is then read again here, slowly, in
the steps of Kafka's reader, up to the field where Kafka throws, because the exception
depends on that field. If a compressed stream is corrupt, records in the part that was
decompressed before the fault are read first, as Kafka reads records while it
decompresses them.

Source: ``FileLogInputStream.java``, ``DefaultRecordBatch.java`` (with its
``StreamRecordIterator``), ``DefaultRecord.java``, ``ByteUtils.java``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog._speedups import DumpFlag, Halt
from kafkalog.array_types import Bytes
from kafkalog.codecs.java_streams import (
    END_OF_FILE,
    OUT_OF_MEMORY,
    SNAPPY_ERROR,
    JavaError,
    JavaStream,
)
from kafkalog.dump.dumped_file import DumpedFile
from kafkalog.dump.java_exceptions import (
    CORRUPT_RECORD,
    ILLEGAL_ARGUMENT,
    INVALID_RECORD,
    KAFKA_EXCEPTION,
    UNDERFLOW,
    ToolEnded,
    unknown_codec,
)
from kafkalog.formats.batch_headers import (
    attributes_field,
    count_field,
    magic_field,
    size_field,
)
from kafkalog.formats.layout import (
    CODEC_MASK,
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_OVERHEAD,
    MIN_SIZE,
    RECORD_BATCH_OVERHEAD,
)


def entry_fault(halt: int, data: Bytes, place: int, file: DumpedFile) -> ToolEnded:
    """Return the exception for a batch header: its size, codec or magic."""
    entry = data[place:]
    if halt == Halt.SIZE:
        return size_fault(entry, file)
    magic = magic_field(entry)
    if magic < 0:
        reason = f"Invalid magic used in LegacyRecord: {magic}"
        return ToolEnded(ILLEGAL_ARGUMENT, reason)
    return unknown_codec(attributes_field(entry) & CODEC_MASK)


def size_fault(entry: Bytes, file: DumpedFile) -> ToolEnded:
    """Return the exception for a batch size below the minimum."""
    size = size_field(entry)
    reason = (
        f"Found record size {size} smaller than minimum record overhead "
        f"({MIN_SIZE}) in file {file.path}."
    )
    return ToolEnded(CORRUPT_RECORD, reason)


def is_cut_header(header: Bytes, available: int) -> bool:
    """Return whether a batch fits by its size, but its header is cut.

    `header` is the part of the header that the file has.
    """
    if not HEADER_SIZE_UP_TO_MAGIC < len(header) < RECORD_BATCH_OVERHEAD:
        return False
    size = size_field(header)
    is_batch = magic_field(header) >= 2
    return is_batch and MIN_SIZE <= size <= available - LOG_OVERHEAD


def load_fault(
    position: int, found: int, file: DumpedFile, bounds: tuple[int, int]
) -> ToolEnded:
    """Return the exception for a batch header of which only `found` bytes were read.

    `bounds` are those of the slice of the file that Kafka's tool iterates over.
    """
    start, end = bounds
    reason = (
        f"Failed to load record batch at position {position} from "
        f"FileRecords(size={end - start}, file={file.path}, start={start}, end={end})"
    )
    cause = _end_of_file("record batch header", RECORD_BATCH_OVERHEAD, found, position)
    return ToolEnded(KAFKA_EXCEPTION, reason, cause)


def next_fault(position: int, found: int) -> ToolEnded:
    """Return the exception for a file that ended inside the first bytes of a header."""
    reason = "Unexpected EOF while attempting to read the next batch"
    cause = _end_of_file("log header", HEADER_SIZE_UP_TO_MAGIC, found, position)
    return ToolEnded(CORRUPT_RECORD, reason, cause)


def _end_of_file(part: str, expected: int, found: int, position: int) -> ToolEnded:
    # The channel's address in Java's memory is printed as 0.
    reason = (
        f"Failed to read `{part}` from file channel `sun.nio.ch.FileChannelImpl@0`. "
        f"Expected to read {expected} bytes, but reached end of file after reading "
        f"{found} bytes. Started read from position {position}."
    )
    return ToolEnded(END_OF_FILE, reason)


def records_fault(
    halt: int, entry: Bytes, payload: Bytes, place: int, *, decompressed: bool
) -> ToolEnded:
    """Return the exception for the record at `place` of a batch's `payload`."""
    count = count_field(entry)
    if count < 0:
        reason = (
            f"Found invalid record count {count} in magic v{magic_field(entry)} batch"
        )
        return ToolEnded(INVALID_RECORD, reason)
    if halt == Halt.LEFTOVER:
        return ToolEnded(INVALID_RECORD, REMAINING)
    return record_fault(payload.data, place, decompressed=decompressed)


PREMATURE: Final = "Incorrect declared batch size, premature EOF reached"
REMAINING: Final = "Incorrect declared batch size, records still remaining in file"
STRUCTURE: Final = "Found invalid record structure"


class _Underflow(Exception):
    """The bytes end inside a field."""


class _Illegal(Exception):
    """A varint is longer than its type, or a length exceeds the remaining bytes."""


@dataclass(slots=True)
class _RecordReader:
    data: memoryview
    at: int = 0
    is_stream: bool = False  # after its end Java reads bytes of -1

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
        """Skip bytes that follow their length, and return the length."""
        count = self.varint()
        if count > self.remaining:
            raise _Illegal(f"newLimit > capacity: ({count} > {self.remaining})")
        self.at += max(count, 0)
        return count


def record_fault(payload: memoryview, place: int, *, decompressed: bool) -> ToolEnded:
    """Return Kafka's exception for the corrupt record at `place` of `payload`."""
    reader = _RecordReader(payload, place, is_stream=decompressed)
    try:
        size = reader.varint()
    except _Underflow:
        return ToolEnded(INVALID_RECORD, PREMATURE)
    except _Illegal as error:
        wrong = ToolEnded(ILLEGAL_ARGUMENT, str(error))
        return ToolEnded(INVALID_RECORD, PREMATURE, wrong) if decompressed else wrong
    if decompressed and size < 0:
        wrong = ToolEnded(ILLEGAL_ARGUMENT, f"capacity < 0: ({size} < 0)")
        return ToolEnded(INVALID_RECORD, PREMATURE, wrong)
    if reader.remaining < size:
        found = (
            "but the record payload reached EOF."
            if decompressed
            else f"but instead the buffer has only {reader.remaining} remaining bytes."
        )
        reason = f"Invalid record size: expected {size} bytes in record payload, "
        return ToolEnded(INVALID_RECORD, reason + found)
    if decompressed:
        reader = _RecordReader(payload[reader.at : reader.at + size])
    try:
        return ToolEnded(INVALID_RECORD, _body_fault(reader, size))
    except _Underflow:
        return ToolEnded(INVALID_RECORD, STRUCTURE, ToolEnded(UNDERFLOW))
    except _Illegal as error:
        wrong = ToolEnded(ILLEGAL_ARGUMENT, str(error))
        return ToolEnded(INVALID_RECORD, STRUCTURE, wrong)


def _body_fault(reader: _RecordReader, size: int) -> str:
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
    """Return whether the bytes end in the record at `place`, or in its length."""
    reader = _RecordReader(payload, place)
    try:
        return reader.varint() > reader.remaining
    except _Underflow:
        return True
    except _Illegal:
        return False


READING: Final = "Failed to decompress record stream"
TRAILING: Final = "Error checking for remaining bytes after reading batch"


def batch_stream_fault(
    entry: Bytes, stream: JavaStream, run: npt.NDArray[np.void]
) -> ToolEnded:
    """Return the exception for a batch of magic 2 whose stream is corrupt.

    `run` is not changed.
    """
    assert stream.fault is not None
    if not stream.opens:
        return opening_fault(stream)
    content = np.frombuffer(stream.content, np.uint8)
    halt, place = _tried(entry, content, run)
    if halt in (
        Halt.DONE,
        Halt.FULL,
    ):  # all records were read before the remaining bytes are checked
        return _wrapped(stream.fault, TRAILING)
    if halt == Halt.FAULT and ends_early(content.data, place):
        return _wrapped(stream.fault, READING)
    return records_fault(halt, entry, content, place, decompressed=True)


def opening_fault(stream: JavaStream) -> ToolEnded:
    """Return the exception for a stream that fails when it is opened."""
    assert stream.fault is not None
    return _wrapped(stream.fault, str(stream.fault))


def _wrapped(fault: JavaError, reason: str) -> ToolEnded:
    if fault.java_name in (SNAPPY_ERROR, OUT_OF_MEMORY):
        # Kafka does not catch these.
        return ToolEnded(fault.java_name, fault.reason, fault.because)
    return ToolEnded(KAFKA_EXCEPTION, reason, fault)


def _tried(entry: Bytes, content: Bytes, run: npt.NDArray[np.void]) -> tuple[int, int]:
    """Read the records in `content`; return the halt, and where the last one begins."""
    run = np.zeros_like(run)
    out = np.empty(1 << 10, np.uint8)
    pairs = np.empty((1, 2), np.int64)
    halt = _speedups.dump_records(entry, content, run, out, pairs, int(DumpFlag.BARE))
    return halt, int(run["next"][0])
