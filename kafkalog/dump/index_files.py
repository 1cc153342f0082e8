"""Offset and time indexes, as the tool prints them and checks them against the log.

Source: ``DumpLogSegments.java``, its ``dumpIndex`` and ``dumpTimeIndex``;
``AbstractIndex.java``, ``OffsetIndex.java``, ``TimeIndex.java``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from kafkalog.dump.dump_options import DumpOptions
from kafkalog.dump.dump_report import DumpReport
from kafkalog.dump.dumped_file import DumpedFile
from kafkalog.dump.java_exceptions import (
    CORRUPT_INDEX,
    ILLEGAL_ARGUMENT,
    NO_ELEMENT,
    ToolEnded,
)
from kafkalog.dump.log_slices import SlicedLog
from kafkalog.dump.streams import Streams
from kafkalog.formats.layout import NO_TIMESTAMP
from kafkalog.indexes import offset_index, time_index
from kafkalog.storage.byte_source import read_regular

WARM_BYTES: Final = 8192
"""Bytes at the end of an index that Kafka searches first."""


@dataclass(frozen=True, slots=True)
class IndexSlots:
    """All slots of an index file, including unused ones, and the size of the file."""

    file: DumpedFile
    base_offset: int
    slots: npt.NDArray[Any]
    size_in_bytes: int

    @classmethod
    def read(cls, file: DumpedFile, base_offset: int, entry: np.dtype[Any]) -> Self:
        """Read the file; Kafka would create a missing one, and end."""
        try:
            data = read_regular(file.path, links=True)
        except FileNotFoundError:
            raise ToolEnded(ILLEGAL_ARGUMENT, "Invalid max index size: -1") from None
        whole = len(data) // entry.itemsize
        slots = np.frombuffer(data, entry, whole)
        return cls(file, base_offset, slots, len(data))

    def offsets(self) -> npt.NDArray[np.int64]:
        """Return the slots' absolute offsets."""
        return self.slots["relative_offset"].astype(np.int64) + self.base_offset

    def check_size(self, kind: str) -> None:
        """Raise `ToolEnded` if the file's size is not a multiple of its slots'."""
        width = self.slots.dtype.itemsize
        if self.size_in_bytes % width:
            reason = (
                f"{kind} file {self.file.absolute} is corrupt, found "
                f"{self.size_in_bytes} bytes which is neither positive nor a multiple "
                f"of {width}"
            )
            raise ToolEnded(CORRUPT_INDEX, reason)


def dump_offset_index(
    file: DumpedFile, options: DumpOptions, streams: Streams, report: DumpReport
) -> None:
    """Print an ``.index``, and add its contradictions with the log to `report`."""
    window_bytes = options.max_message_bytes.number()
    base_offset = file.base_offset()
    with SlicedLog(file.sibling(".log")) as log:
        index = IndexSlots.read(file, base_offset, offset_index.ENTRY)
        if not len(index.slots):
            streams.print(f"{file.path} is empty.", "index", entries=0)
        elif options.sanity_only:
            _check_offset_index(index)
            streams.print(f"{file.path} passed sanity check.", "index", isSane=True)
        else:
            shown = None if options.verify_only else streams
            _dump_offset_entries(index, log, window_bytes, shown, report)


def _check_offset_index(index: IndexSlots) -> None:
    last = int(index.offsets()[-1])
    if last < index.base_offset:
        reason = (
            f"Corrupt index found, index file {index.file.absolute} has non-zero size "
            f"but the last offset is {last} which is less than the base offset "
            f"{index.base_offset}"
        )
        raise ToolEnded(CORRUPT_INDEX, reason)
    index.check_size("Index")


def _dump_offset_entries(
    index: IndexSlots,
    log: SlicedLog,
    window_bytes: int,
    shown: Streams | None,
    report: DumpReport,
) -> None:
    offsets, positions = index.offsets().tolist(), index.slots["position"].tolist()
    for i, (offset, position) in enumerate(zip(offsets, positions, strict=True)):
        if offset == index.base_offset and i:
            return  # a crash may leave unused slots after the entries
        end = log.slice_end(position, window_bytes)
        batch = log.batch_at(position, end)
        if batch is None:
            raise ToolEnded(NO_ELEMENT)
        if batch[1] != offset:
            report.index_mismatches.add(index.file.absolute, offset, batch[1])
        if shown is not None:
            shown.print(f"offset: {offset} position: {position}", "entry")


def dump_time_index(
    file: DumpedFile, options: DumpOptions, streams: Streams, report: DumpReport
) -> None:
    """Print a ``.timeindex``, and add its contradictions with the log to `report`."""
    base_offset = file.base_offset()
    with SlicedLog(file.sibling(".log")) as log:
        sibling = file.sibling(".index")
        offset_slots = IndexSlots.read(sibling, base_offset, offset_index.ENTRY)
        index = IndexSlots.read(file, base_offset, time_index.ENTRY)
        if options.sanity_only:
            _check_time_index(index)
            streams.print(f"{file.path} passed sanity check.", "index", isSane=True)
        else:
            TimeEntries(index, offset_slots, log, options, streams, report).dump()


def _check_time_index(index: IndexSlots) -> None:
    if len(index.slots):
        times, last = index.slots["timestamp"], int(index.offsets()[-1])
        found = (
            f"Corrupt time index found, time index file ({index.file.absolute}) has "
            "non-zero size but the last"
        )
        if times[-1] < times[0]:
            reason = f"{found} timestamp is {times[-1]} which is less than the first "
            raise ToolEnded(CORRUPT_INDEX, f"{reason}timestamp {times[0]}")
        if last < index.base_offset:
            reason = f"{found} offset is {last} which is less than the first offset "
            raise ToolEnded(CORRUPT_INDEX, f"{reason}{index.base_offset}")
    index.check_size("Time index")


@dataclass(frozen=True, slots=True)
class TimeEntries:
    """The entries of a time index, with the log and offset index they must match."""

    index: IndexSlots
    offset_slots: IndexSlots
    log: SlicedLog
    options: DumpOptions
    streams: Streams
    report: DumpReport

    def dump(self) -> None:
        """Print and check entry by entry."""
        before = NO_TIMESTAMP
        offsets = self.index.offsets().tolist()
        times = self.index.slots["timestamp"].tolist()
        by_offset = self.offset_slots.offsets().tolist()
        for i, (time, offset) in enumerate(zip(times, offsets, strict=True)):
            if offset == self.index.base_offset and i:
                return  # as in an offset index
            slot = lower_slot(by_offset, offset, WARM_BYTES // 8)
            position = 0 if slot < 0 else int(self.offset_slots.slots["position"][slot])
            self._check(time, offset, position, before)
            if not self.options.verify_only:
                self.streams.print(f"timestamp: {time} offset: {offset}", "entry")
            before = time

    def _check(self, time: int, offset: int, position: int, before: int) -> None:
        path = self.index.file.absolute
        batch = self.log.find(position, offset)
        if batch is None or batch[1] != offset:
            last = -1 if batch is None else batch[1]
            self.report.not_found.add(path, offset, last)
            return
        greatest = self.log.max_timestamp(batch[0])
        if greatest != time:
            self.report.timestamp_mismatches.add(path, time, greatest)
        if before >= time:
            self.report.out_of_order.add(path, time, before)


def lower_slot(keys: list[int], key: int, warm: int) -> int:
    """Return the slot at which Kafka's search in an index ends; -1 for none.

    If keys are sorted, it is that of the greatest one not above `key`. If they are not,
    as with unused slots at the end, it is still the slot that Kafka finds: the last
    `warm` slots are searched first.

    >>> lower_slot([3, 5, 9], 8, 1024), lower_slot([3, 5, 9], 2, 1024)
    (1, -1)
    """
    if not keys:
        return -1
    first_hot = max(0, len(keys) - 1 - warm)
    low, high = first_hot, len(keys) - 1
    if not keys[first_hot] < key:
        if keys[0] > key:
            return -1
        low, high = 0, first_hot
    while low < high:
        middle = (low + high + 1) >> 1
        if keys[middle] > key:
            high = middle - 1
        elif keys[middle] < key:
            low = middle
        else:
            return middle
    return low
