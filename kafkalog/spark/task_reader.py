"""Reading of a task's segment ranges as Arrow batches, on an executor.

A segment range is read from the file that the driver saw. If compaction or retention
has replaced or removed it, its offsets are read from the partition's directory as it is
now. Offsets that are missing there are lost, and so is the content of a file that was
replaced by another of the same size, which no broker does; ``failOnDataLoss`` decides
whether that is an error. It is always an error if this machine does not see a
directory, or if one is empty because its file system is not mounted.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from kafkalog.decoding.read_policy import Bounds, ReadPolicy
from kafkalog.errors import DataLossError
from kafkalog.log.reading.log_segments import list_segments
from kafkalog.log.reading.offset_lookup import find_end
from kafkalog.optional_packages import require
from kafkalog.query.scan import Scan
from kafkalog.query.sources import ByteRange, PartitionSource
from kafkalog.query.task_planning import ReadTask, SegmentRange
from kafkalog.segment.log_segment import LogSegment
from kafkalog.spark.offset_json import format_partition
from kafkalog.spark.read_options import SourceOptions
from kafkalog.spark.row_converter import RowConverter
from kafkalog.spark.workers import freeze_imports
from kafkalog.storage.location import Location, entries
from kafkalog.storage.log_directory import is_log_directory

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = require("pyarrow", "spark")

LOGGER: Final = logging.getLogger("kafkalog")

CHEAPEST: Final = ("offset",)
"""The columns that cost the least to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReader:
    """A reader of the tasks of one query.

    `warn` is called with a line for each corrupt interval that is skipped and for each
    interval of offsets that is lost; by default it writes to the task's log.
    """

    schema: pa.Schema
    policy: ReadPolicy
    fail_on_data_loss: bool = True
    warn: Callable[[str], None] = LOGGER.warning

    @classmethod
    def from_options(cls, options: SourceOptions, schema: pa.Schema) -> Self:
        """Return the reader for a query's options."""
        policy = ReadPolicy(
            needs="headers",
            check_crcs="while_decoding" if options.check_crcs else "never",
            on_corruption="skip" if options.on_corruption == "skip" else "raise",
            isolation="read_committed"
            if options.read_committed
            else "read_uncommitted",
            control_records=options.control_records,
        )
        return cls(
            schema=schema,
            policy=policy,
            fail_on_data_loss=options.fail_on_data_loss,
        )

    def read(self, task: ReadTask) -> Iterator[pa.RecordBatch]:
        """Yield a task's records, in offset order within each partition."""
        converter = RowConverter(self.schema)
        for _, scan in self.scans(task, converter.scan_columns):
            for records in scan.chunks():
                yield from converter.batches(records)
            self._warn_of_problems(scan)

    def count(self, task: ReadTask) -> Iterator[tuple[SegmentRange, int]]:
        """Yield the number of records of each segment range.

        Checksums are verified as in `read`; `Scan.count` does not verify them.
        """
        for segment_range, scan in self.scans(task, CHEAPEST):
            yield segment_range, sum(map(len, scan.chunks(reuse=True)))
            self._warn_of_problems(scan)

    def scans(
        self, task: ReadTask, columns: tuple[str, ...]
    ) -> Iterator[tuple[SegmentRange, Scan]]:
        """Yield a scan of each segment range that is not lost."""
        for segment_range in task:
            with ExitStack() as opened:
                source = self._find(segment_range, opened)
                if source is None:
                    continue
                bounds = Bounds(
                    start_offset=segment_range.start, end_offset=segment_range.stop
                )
                yield (
                    segment_range,
                    Scan(
                        sources=((source, bounds),), columns=columns, policy=self.policy
                    ),
                )
        freeze_imports()

    def _find(self, part: SegmentRange, opened: ExitStack) -> PartitionSource | None:
        """Return where the records of a segment range are; None if lost."""
        partition = (part.topic, part.partition, part.directory)
        with suppress(FileNotFoundError):
            source = part.segment.open()
            opened.callback(source.close)
            if part.was_replaced(source):
                self._report_loss(
                    f"{source.path} was replaced by another file of the same size after"
                    " the driver planned the query"
                )
            elif part.is_unchanged(source):
                byte_range = ByteRange(part.segment, part.begin, part.end, source)
                return PartitionSource(*partition, byte_range=byte_range)
        segments = self._segments(part)
        if not segments:
            return None
        first = segments[0].base_offset
        end = find_end(part.directory, segments, past_damage=True)
        if first > part.start or end < part.stop:
            name = format_partition((part.topic, part.partition))
            self._report_loss(
                f"requested offsets [{part.start}, {part.stop}) of {name}, found"
                f" [{first}, {end}): {part.directory}"
            )
        return PartitionSource(*partition)

    def _segments(self, part: SegmentRange) -> list[LogSegment]:
        """Return the partition's segments now, if this machine sees the directory."""
        text = (
            f"{part.segment.path} was seen by the driver but not by the executor"
            f" {socket.gethostname()}: it was deleted since, or the executor does not"
            " have the log directories under the same path"
        )
        if not _is_visible(part.directory):
            raise FileNotFoundError(text)
        segments = []
        with suppress(FileNotFoundError):
            segments = list_segments(part.directory)
        if not segments:
            self._report_loss(text)
        return segments

    def _report_loss(self, text: str) -> None:
        if self.fail_on_data_loss:
            raise DataLossError(text)
        self.warn(text)

    def _warn_of_problems(self, scan: Scan) -> None:
        for problem in scan.problems:
            self.warn(f"skipped: {problem}")


def _is_visible(partition: Location) -> bool:
    """Return whether a partition's directory is visible here, or was deleted."""
    try:
        return bool(entries(partition))
    except FileNotFoundError:
        directory = partition.parent
        return directory.is_dir() and is_log_directory(directory)
