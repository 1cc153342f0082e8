"""How Kafka's tool ends at records whose compression cannot be undone.

Kafka reads records while it unpacks them. So one that cannot be, in what is unpacked
before the fault, ends the tool first.

Knows: records, as they come out of a stream. Does not know: codecs.
Source: ``DefaultRecordBatch.java``, its ``StreamRecordIterator``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog._speedups import Halt, Want
from kafkalog.codecs.java_exceptions import KAFKA_EXCEPTION, ToolEnded
from kafkalog.codecs.java_streams import OUT_OF_MEMORY, SNAPPY_ERROR, JavaStream
from kafkalog.dump.entry_faults import records_fault
from kafkalog.dump.record_faults import ends_early
from kafkalog.formats.entry_headers import Bytes

READING: Final = "Failed to decompress record stream"
BEHIND: Final = "Error checking for remaining bytes after reading batch"


def batch_stream_fault(
    entry: Bytes, stream: JavaStream, run: npt.NDArray[np.void]
) -> ToolEnded:
    """Say how the tool ends at a batch of magic 2; `run` is only looked at."""
    assert stream.fault is not None
    if not stream.opens:
        return opening_fault(stream)
    content = np.frombuffer(stream.content, np.uint8)
    halt, place = _tried(entry, content, run)
    if halt in (Halt.DONE, Halt.FULL):  # all were read before room was looked for
        return _wrapped(stream.fault, BEHIND)
    if halt == Halt.FAULT and ends_early(content.data, place):
        return _wrapped(stream.fault, READING)
    return records_fault(halt, entry, content, place, unpacked=True)


def opening_fault(stream: JavaStream) -> ToolEnded:
    """Say how the tool ends where a stream, or one read at once, cannot be read."""
    assert stream.fault is not None
    return _wrapped(stream.fault, str(stream.fault))


def _wrapped(fault: ToolEnded, reason: str) -> ToolEnded:
    if fault.java_name in (SNAPPY_ERROR, OUT_OF_MEMORY):
        return fault  # errors that nothing in Kafka catches
    return ToolEnded(KAFKA_EXCEPTION, reason, fault)


def _tried(entry: Bytes, content: Bytes, run: npt.NDArray[np.void]) -> tuple[int, int]:
    """Read the records in `content`: how that ended, and where the last one begins."""
    run = np.zeros_like(run)
    room = np.empty(1 << 10, np.uint8)
    pairs = np.empty((1, 2), np.int64)
    halt = _speedups.dump_records(entry, content, run, room, pairs, int(Want.BARE))
    return halt, int(run["next"][0])
