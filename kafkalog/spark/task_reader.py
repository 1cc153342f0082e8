"""A task's stretches -> Arrow batches, on an executor.

A stretch is read where it was planned, in the very file that was found to be the one.
Where that was rewritten since, or removed, as compaction and retention do, its offsets
are looked for in the partition's directory; what is nowhere any more is lost, and the
query's option says what that means. Another file of the same size is no work of a
broker's: what the first held is lost, too. Not so where this machine does not see the
logs: an empty directory, that of a mount without its file system, is no log that was
deleted.

Knows: how a stretch becomes batches. Does not know: Spark, how stretches are chosen.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from kafkalog.decoding.batch_decoder import Bounds
from kafkalog.errors import DataLossError
from kafkalog.export.optional_packages import require
from kafkalog.log.log import find_end
from kafkalog.log.log_segments import list_segments
from kafkalog.query.part_reading import Request
from kafkalog.query.scan import Scan
from kafkalog.query.sources import Part, Span
from kafkalog.segment.log_segment import LogSegment
from kafkalog.spark.read_options import SourceOptions
from kafkalog.spark.row_converter import RowMaker
from kafkalog.spark.task_planning import Stretch, Task
from kafkalog.spark.workers import freeze_imports
from kafkalog.storage.location import Location, entries
from kafkalog.storage.log_directory import holds_logs

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = require("pyarrow", "spark")

LOGGER: Final = logging.getLogger("kafkalog")

LEAST: Final = ("offset",)
"""Columns of which reading costs least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReader:
    """Reads tasks for one query: into which schema, and what to do about faults.

    `warn` is called with a line for each damaged interval that is skipped and for each
    interval of offsets that is gone; by default the line goes to the task's log.
    """

    schema: pa.Schema
    request: Request
    fail_on_data_loss: bool = True
    warn: Callable[[str], None] = LOGGER.warning

    @classmethod
    def of(cls, options: SourceOptions, schema: pa.Schema) -> Self:
        """Make the reader that a query's options ask for."""
        request = Request(
            read_committed=options.read_committed,
            control_records=options.control_records,
            check_crcs=options.check_crcs,
            by_headers=True,
            skip=options.on_corruption == "skip",
        )
        return cls(
            schema=schema,
            request=request,
            fail_on_data_loss=options.fail_on_data_loss,
        )

    def read(self, task: Task) -> Iterator[pa.RecordBatch]:
        """Read a task's records, in order of each partition's offsets."""
        maker = RowMaker(self.schema)
        for _, scan in self.scans(task, maker.scanned):
            for records in scan.chunks():
                yield from maker.batches(records)
            self._warn_of_problems(scan)

    def count(self, task: Task) -> Iterator[tuple[Stretch, int]]:
        """Count each stretch's records.

        Checksums are looked at as `read` does, where `Scan.count` passes them over.
        """
        for stretch, scan in self.scans(task, LEAST):
            yield stretch, sum(map(len, scan.chunks(reuse=True)))
            self._warn_of_problems(scan)

    def scans(
        self, task: Task, columns: tuple[str, ...]
    ) -> Iterator[tuple[Stretch, Scan]]:
        """Find each stretch's records; those that are nowhere have no scan."""
        for stretch in task:
            with ExitStack() as opened:
                part = self._find(stretch, opened)
                if part is None:
                    continue
                bounds = Bounds(start_offset=stretch.start, end_offset=stretch.stop)
                parts = ((part, bounds),)
                yield stretch, Scan(parts=parts, columns=columns, request=self.request)
        freeze_imports()

    def _find(self, stretch: Stretch, opened: ExitStack) -> Part | None:
        """Say where a stretch's records are now; None if they are nowhere."""
        place = (stretch.topic, stretch.partition, stretch.directory)
        with suppress(FileNotFoundError):
            source = stretch.segment.open()
            opened.callback(source.close)
            if stretch.was_replaced(source):
                self._lost(
                    f"{source.path} was replaced, since the driver looked at it, by"
                    " another file of the same size"
                )
            elif stretch.fits(source):
                span = Span(stretch.segment, stretch.begin, stretch.end, source)
                return Part(*place, span=span)
        segments = self._segments(stretch)
        if not segments:
            return None
        first, end = (
            segments[0].base_offset,
            find_end(stretch.directory, past_damage=True),
        )
        if first > stretch.start or end < stretch.stop:
            self._lost(
                f"offsets {stretch.start} to {stretch.stop} of {stretch.topic}-"
                f"{stretch.partition} were to be read, and the log now begins with"
                f" {first} and ends at {end}: {stretch.directory}"
            )
        return Part(*place)

    def _segments(self, stretch: Stretch) -> list[LogSegment]:
        """List the segments there are now, if this machine sees the directory."""
        text = (
            f"{stretch.segment.path} was seen by the driver and is not there on the"
            f" executor {socket.gethostname()}: it was deleted since, or this executor"
            " does not see the log directories under the same path"
        )
        if not _is_seen(stretch.directory):
            raise FileNotFoundError(text)
        segments = []
        with suppress(FileNotFoundError):
            segments = list_segments(stretch.directory)
        if not segments:
            self._lost(text)
        return segments

    def _lost(self, text: str) -> None:
        if self.fail_on_data_loss:
            raise DataLossError(text)
        self.warn(text)

    def _warn_of_problems(self, scan: Scan) -> None:
        for problem in scan.problems:
            self.warn(f"left out: {problem}")


def _is_seen(partition: Location) -> bool:
    """Whether a partition's directory is seen from here, or that it was deleted."""
    try:
        return bool(entries(partition))
    except FileNotFoundError:
        directory = partition.parent
        return directory.is_dir() and holds_logs(directory)
