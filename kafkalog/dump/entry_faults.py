"""How Kafka's tool ends at an entry that cannot be.

Knows: headers, and what a kernel halted for. Does not know: what is printed.
Source: ``FileLogInputStream.java``, ``DefaultRecordBatch.java``.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kafkalog._speedups import Halt
from kafkalog.dump.dumped_file import DumpedFile
from kafkalog.dump.ending import (
    CORRUPT_RECORD,
    ILLEGAL_ARGUMENT,
    INVALID_RECORD,
    ToolEnded,
    unknown_codec,
)
from kafkalog.dump.record_faults import REMAINING, record_fault
from kafkalog.formats.headers import Bytes
from kafkalog.formats.layout import CODEC_MASK, LEAST_SIZE, LOG_OVERHEAD

_MAGIC: Final = 16
_MESSAGE_ATTRIBUTES: Final = 17
_BATCH_ATTRIBUTES: Final = 22
_COUNT: Final = slice(57, 61)


def entry_fault(halt: int, data: Bytes, place: int, file: DumpedFile) -> ToolEnded:
    """Say how the tool ends at the header at `place`: its size, codec or magic."""
    entry = data[place:]
    if halt == Halt.SIZE:
        return size_fault(entry, file)
    magic = int(entry[_MAGIC : _MAGIC + 1].view(np.int8)[0])
    if magic < 0:
        reason = f"Invalid magic used in LegacyRecord: {magic}"
        return ToolEnded(ILLEGAL_ARGUMENT, reason)
    at = _MESSAGE_ATTRIBUTES if magic < 2 else _BATCH_ATTRIBUTES
    return unknown_codec(int(entry[at]) & CODEC_MASK)


def size_fault(entry: Bytes, file: DumpedFile) -> ToolEnded:
    """Say that an entry's size is below what any has."""
    size = int.from_bytes(entry[8:LOG_OVERHEAD].tobytes(), signed=True)
    reason = (
        f"Found record size {size} smaller than minimum record overhead "
        f"({LEAST_SIZE}) in file {file.path}."
    )
    return ToolEnded(CORRUPT_RECORD, reason)


def records_fault(
    halt: int, entry: Bytes, payload: Bytes, place: int, *, unpacked: bool
) -> ToolEnded:
    """Say how the tool ends at the record at `place` of a batch's `payload`."""
    count = int.from_bytes(entry[_COUNT].tobytes(), signed=True)
    if count < 0:
        reason = f"Found invalid record count {count} in magic v{entry[_MAGIC]} batch"
        return ToolEnded(INVALID_RECORD, reason)
    if halt == Halt.LEFTOVER:
        return ToolEnded(INVALID_RECORD, REMAINING)
    return record_fault(payload.data, place, unpacked=unpacked)
