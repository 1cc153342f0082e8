"""How Kafka's tool ends at an entry that cannot be.

Knows: headers, and what a kernel halted for. Does not know: what is printed.
Source: ``FileLogInputStream.java``, ``DefaultRecordBatch.java``.
"""

from __future__ import annotations

from kafkalog._speedups import Halt
from kafkalog.codecs.java_exceptions import (
    CORRUPT_RECORD,
    END_OF_FILE,
    ILLEGAL_ARGUMENT,
    INVALID_RECORD,
    KAFKA_EXCEPTION,
    ToolEnded,
    unknown_codec,
)
from kafkalog.dump.dumped_file import DumpedFile
from kafkalog.dump.record_faults import REMAINING, record_fault
from kafkalog.formats.entry_fields import (
    attributes_field,
    count_field,
    magic_field,
    size_field,
)
from kafkalog.formats.entry_headers import Bytes
from kafkalog.formats.layout import (
    BATCH_HEADER_BYTES,
    CODEC_MASK,
    HEADER_SIZE_UP_TO_MAGIC,
    LEAST_SIZE,
    LOG_OVERHEAD,
)


def entry_fault(halt: int, data: Bytes, place: int, file: DumpedFile) -> ToolEnded:
    """Say how the tool ends at the header at `place`: its size, codec or magic."""
    entry = data[place:]
    if halt == Halt.SIZE:
        return size_fault(entry, file)
    magic = magic_field(entry)
    if magic < 0:
        reason = f"Invalid magic used in LegacyRecord: {magic}"
        return ToolEnded(ILLEGAL_ARGUMENT, reason)
    return unknown_codec(attributes_field(entry) & CODEC_MASK)


def size_fault(entry: Bytes, file: DumpedFile) -> ToolEnded:
    """Say that an entry's size is below what any has."""
    size = size_field(entry)
    reason = (
        f"Found record size {size} smaller than minimum record overhead "
        f"({LEAST_SIZE}) in file {file.path}."
    )
    return ToolEnded(CORRUPT_RECORD, reason)


def is_cut_header(header: Bytes, room: int) -> bool:
    """Whether a batch lies whole in `room` by its size, but its header is cut short.

    `header` is what the file still has of that.
    """
    if not HEADER_SIZE_UP_TO_MAGIC < len(header) < BATCH_HEADER_BYTES:
        return False
    size = size_field(header)
    is_batch = magic_field(header) >= 2
    return is_batch and LEAST_SIZE <= size <= room - LOG_OVERHEAD


def load_fault(
    position: int, found: int, file: DumpedFile, bounds: tuple[int, int]
) -> ToolEnded:
    """Say that of a batch's header only `found` bytes were there to read.

    `bounds` are those of the slice of the file that Kafka's tool walks over.
    """
    start, end = bounds
    reason = (
        f"Failed to load record batch at position {position} from "
        f"FileRecords(size={end - start}, file={file.path}, start={start}, end={end})"
    )
    cause = _end_of_file("record batch header", BATCH_HEADER_BYTES, found, position)
    return ToolEnded(KAFKA_EXCEPTION, reason, cause)


def next_fault(position: int, found: int) -> ToolEnded:
    """Say that a file ended, as it was read, before a header's first bytes did."""
    reason = "Unexpected EOF while attempting to read the next batch"
    cause = _end_of_file("log header", HEADER_SIZE_UP_TO_MAGIC, found, position)
    return ToolEnded(CORRUPT_RECORD, reason, cause)


def _end_of_file(what: str, expected: int, found: int, position: int) -> ToolEnded:
    # Where the channel lies in Java's memory is 0 here.
    reason = (
        f"Failed to read `{what}` from file channel `sun.nio.ch.FileChannelImpl@0`. "
        f"Expected to read {expected} bytes, but reached end of file after reading "
        f"{found} bytes. Started read from position {position}."
    )
    return ToolEnded(END_OF_FILE, reason)


def records_fault(
    halt: int, entry: Bytes, payload: Bytes, place: int, *, unpacked: bool
) -> ToolEnded:
    """Say how the tool ends at the record at `place` of a batch's `payload`."""
    count = count_field(entry)
    if count < 0:
        reason = (
            f"Found invalid record count {count} in magic v{magic_field(entry)} batch"
        )
        return ToolEnded(INVALID_RECORD, reason)
    if halt == Halt.LEFTOVER:
        return ToolEnded(INVALID_RECORD, REMAINING)
    return record_fault(payload.data, place, unpacked=unpacked)
