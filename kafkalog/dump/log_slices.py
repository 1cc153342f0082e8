"""The batches of a log from a position on, as the dump of its indexes reads them.

Source: ``FileRecords.java``, ``FileLogInputStream.java``.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

import numpy as np

from kafkalog.array_types import Int64s
from kafkalog.dump.batch_faults import (
    is_cut_header,
    load_fault,
    next_fault,
    size_fault,
)
from kafkalog.dump.dump_options import DumpOptions
from kafkalog.dump.dump_report import PairFindings
from kafkalog.dump.dumped_file import DumpedFile
from kafkalog.dump.java_exceptions import (
    ILLEGAL_ARGUMENT,
    KAFKA_EXCEPTION,
    NO_FILE,
    OUT_OF_BOUNDS,
    ToolEnded,
)
from kafkalog.dump.log_file import LogDump
from kafkalog.dump.printing import printer
from kafkalog.dump.streams import Streams
from kafkalog.formats.batch_headers import (
    delta_field,
    magic_field,
    offset_field,
    scan_headers,
    size_field,
)
from kafkalog.formats.layout import (
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_OVERHEAD,
    MAX_FILE_BYTES,
    MIN_SIZE,
    RECORD_BATCH_OVERHEAD,
)
from kafkalog.segment.file_records import STEP_BYTES
from kafkalog.storage.byte_source import FileSource, MemorySource

NEAR: Final = 1 << 10


class SlicedLog(AbstractContextManager["SlicedLog"]):
    """A ``.log`` file that is open. Raises `ToolEnded` where Kafka's tool ends."""

    def __init__(self, file: DumpedFile) -> None:
        self.file = file
        try:
            self.source = FileSource(file.path)
        except FileNotFoundError:
            raise ToolEnded(NO_FILE, file.path) from None
        if self.source.size > MAX_FILE_BYTES:
            reason = (
                f"The size of segment {file.path} ({self.source.size}) is larger than "
                f"the maximum allowed segment size of {MAX_FILE_BYTES}"
            )
            raise ToolEnded(KAFKA_EXCEPTION, reason)
        self._found: BatchTable | None = None

    def __exit__(self, *_: object) -> None:
        self.source.close()

    def slice_end(self, position: int, size: int) -> int:
        """Return the end of a slice of `size` bytes from `position`."""
        in_all = self.source.size
        if position < 0:
            reason = f"Invalid position: {position} in read from {self}"
        elif position > in_all:
            reason = f"Slice from position {position} exceeds end position of {self}"
        elif size < 0:
            reason = f"Invalid size: {size} in read from {self}"
        else:
            return min(position + size, in_all)
        raise ToolEnded(ILLEGAL_ARGUMENT, reason)

    def batch_at(
        self, position: int, end: int, start: int | None = None
    ) -> tuple[int, int] | None:
        """Return size and last offset of the batch at `position`, None if truncated.

        `start` is the start of the slice that ends at `end`, if it is not `position`.
        """
        if position >= end - HEADER_SIZE_UP_TO_MAGIC:
            return None
        header = self.source.read(position, RECORD_BATCH_OVERHEAD)
        if len(header) < HEADER_SIZE_UP_TO_MAGIC:
            raise next_fault(position, len(header))
        size = size_field(header)
        if size < MIN_SIZE:
            raise size_fault(header, self.file)
        if position > end - LOG_OVERHEAD - size:
            return None
        if is_cut_header(header, end - position):
            bounds = position if start is None else start, end
            raise load_fault(position, len(header), self.file, bounds)
        last = offset_field(header)
        if magic_field(header) >= 2:
            last = _wrapped(last + delta_field(header))
        return LOG_OVERHEAD + size, last

    def find(self, position: int, offset: int) -> tuple[int, int] | None:
        """Return position and last offset of the first batch that reaches `offset`.

        The search starts at `position`. As in Kafka, all batches up to the end of the
        file are read.
        """
        self.slice_end(position, MAX_FILE_BYTES)
        batches = self._found
        if batches is None or not batches.has(position):
            batches = self._found = self._read(position)
        batch = batches.find(position, offset)
        if batch is None and batches.cut_at is not None:
            self.batch_at(batches.cut_at, self.source.size, position)
        return batch

    def max_timestamp(self, position: int) -> int:
        """Return the greatest timestamp of the records of the batch at `position`."""
        batch = self.batch_at(position, self.source.size)
        data = self.source.read(position, batch[0] if batch else 0)
        if is_cut_header(data, len(data)):
            # A part of its header belongs to the next batch.
            raise ToolEnded(OUT_OF_BOUNDS)
        discarded = Streams(lambda _: None, lambda _: None)
        records = LogDump(
            self.file, printer(DumpOptions(deep=True), None, discarded), PairFindings()
        )
        records.dump(MemorySource(data), len(data))
        return records.max_timestamp

    def _read(self, position: int) -> BatchTable:
        """Read the batches to the end of the file: many at a time, or one by one."""
        positions, offsets, end = [], [], self.source.size
        cut_at = None
        while True:
            data = self.source.read(position, STEP_BYTES)
            rows, _, place = scan_headers(data, 0, position)
            positions.append(rows["position"])
            offsets.append(rows["last_offset"])
            position += place
            if not place:
                if is_cut_header(data, end - position):
                    cut_at = position  # raised when an offset is searched in it
                    break
                batch = self.batch_at(position, end)
                if batch is None:
                    break
                positions.append(np.array([position], np.int64))
                offsets.append(np.array([batch[1]], np.int64))
                position += batch[0]
        return BatchTable(np.concatenate(positions), np.concatenate(offsets), cut_at)

    def __str__(self) -> str:
        """Return it as Kafka prints it."""
        return (
            f"FileRecords(size={self.source.size}, file={self.file.path}, start=0, "
            f"end={MAX_FILE_BYTES})"
        )


@dataclass(frozen=True, slots=True)
class BatchTable:
    """The positions and last offsets of the batches that were read.

    `cut_at` is the position of the last one if its header is truncated.
    """

    positions: Int64s
    last_offsets: Int64s
    cut_at: int | None

    def has(self, position: int) -> bool:
        """Return whether these are also the batches that follow from `position`."""
        slot = int(self.positions.searchsorted(position))
        return slot < len(self.positions) and bool(self.positions[slot] == position)

    def find(self, position: int, offset: int) -> tuple[int, int] | None:
        """Return the first batch from `position` on that ends at or after `offset`."""
        start = int(self.positions.searchsorted(position))
        for first, last in (
            (start, start + NEAR),
            (start + NEAR, len(self.positions)),
        ):
            reached = self.last_offsets[first:last] >= offset
            if reached.any():
                slot = first + int(reached.argmax())
                return int(self.positions[slot]), int(self.last_offsets[slot])
        return None


def _wrapped(number: int) -> int:
    """Return a sum in the range of a ``long``, with Java's overflow."""
    return (number + 2**63) % 2**64 - 2**63
