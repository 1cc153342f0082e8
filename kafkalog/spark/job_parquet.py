"""Writing of a task's records as Parquet files, one for each topic and UTC date.

Rows are written where they are decoded, and Spark receives only the names of the files.
No shuffle is needed for few files, since a task reads adjacent segments, which have few
dates. A record without a timestamp has -1, as everywhere on Spark, and so the date
1969-12-31. A date outside of the years 1 to 9999, which readers cannot parse, is null.
"""

from __future__ import annotations

import os
import socket
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from kafkalog.errors import (
    DataLossError,
    InvalidRecordError,
    KafkaLogError,
    LocatedError,
)
from kafkalog.formats.timestamps import FIRST_DAY, LAST_DAY
from kafkalog.optional_packages import require
from kafkalog.query.task_planning import ReadTask
from kafkalog.spark.job_output import StagedParquet
from kafkalog.spark.spark_columns import COLUMNS
from kafkalog.spark.task_reader import TaskReader

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
else:
    pa = require("pyarrow", "spark")
    pq = require("pyarrow.parquet", "spark")

MAX_BUFFERED_BYTES: Final = 64 << 20
"""The bytes of rows that are buffered; beyond it, the largest row group is written."""
MAX_OPEN_FILES: Final = 256
DAY_US: Final = 86_400_000_000
NO_DATE: Final = "__HIVE_DEFAULT_PARTITION__"
"""The name of null in a path, as in Hive and Spark."""
IN_THE_PATH: Final = "topic"


STOP: Final = "stop"
"""The file that an executor makes in the staging directory when a run has failed."""
FATAL_ERRORS: Final = (LocatedError, DataLossError, InvalidRecordError)
"""Errors that are the same at every attempt."""


class TaskResult(NamedTuple):
    """The files of a task, the rows of each partition, and the ranges skipped.

    Or the error that ended the task. An error that is raised instead makes Spark run
    the task again, and its message has a page of Java stack.
    """

    files: list[StagedParquet]
    rows: Counter[tuple[str, int]]
    skipped: list[str]
    error: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWriter:
    """A writer of the records of tasks into `staging`."""

    reader: TaskReader
    columns: tuple[str, ...]
    staging: Path
    compression: str

    def __call__(self, task: ReadTask) -> TaskResult:
        """Read a task and write its files; they are on disk when this returns."""
        self._check_visible()
        stop = self.staging / STOP
        if stop.exists():
            return TaskResult(
                [], Counter(), [], KafkaLogError("another task has failed")
            )
        try:
            return self._write(task)
        except FATAL_ERRORS as error:
            stop.touch()
            return TaskResult([], Counter(), [], error)

    def _write(self, task: ReadTask) -> TaskResult:
        files = _TaskFiles(self.staging, self.compression)
        rows: Counter[tuple[str, int]] = Counter()
        skipped: list[str] = []
        reader = replace(self.reader, warn=skipped.append)
        for segment_range in task:
            topic_partition = segment_range.topic, segment_range.partition
            for batch in reader.read([segment_range]):
                rows[topic_partition] += batch.num_rows
                for date, part in by_date(batch):
                    folder = f"topic={segment_range.topic}/date={date}"
                    files.add(folder, part.select(self.columns))
        return TaskResult(files.finish(), rows, skipped)

    def _check_visible(self) -> None:
        if not self.staging.is_dir():
            raise FileNotFoundError(
                f"{self.staging} was made by the driver but is not visible to the"
                f" executor {socket.gethostname()}: every executor needs the output"
                " directory under the same path"
            )


def file_columns(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns without those in the path.

    >>> file_columns(("topic", "offset"))
    ('offset',)
    """
    return tuple(name for name in columns if name != IN_THE_PATH)


def read_schema(columns: tuple[str, ...]) -> pa.Schema:
    """Return the schema to read for `columns`: they and the timestamp, for the date.

    >>> read_schema(("offset",)).names
    ['offset', 'timestamp']
    """
    read = dict.fromkeys((*columns, "timestamp"))
    return pa.schema([(name, COLUMNS[name].arrow_type) for name in read])


def by_date(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the UTC dates of a batch's timestamps, with their rows in order."""
    days = batch.column("timestamp").view(pa.int64()).to_numpy() // DAY_US
    if not len(days):
        return
    first = int(days[0])
    if (days == first).all():
        yield date_text(first), batch
        return
    for day in np.unique(days):
        yield date_text(int(day)), batch.take(np.flatnonzero(days == day))


def date_text(day: int) -> str:
    """Return the date of a day since 1970 as in a path.

    >>> date_text(-1), date_text(20_778), date_text(3_000_000)
    ('1969-12-31', '2026-11-21', '__HIVE_DEFAULT_PARTITION__')
    """
    return str(np.datetime64(day, "D")) if FIRST_DAY <= day <= LAST_DAY else NO_DATE


@dataclass(slots=True)
class _FolderFile:
    """The file of one folder: its buffered rows, and its writer once there is one."""

    buffered: list[pa.RecordBatch] = field(default_factory=list)
    buffered_bytes: int = 0
    name: str = ""
    rows: int = 0
    file: Any = None
    writer: Any = None


class _TaskFiles:
    """The files of one task, at most `MAX_OPEN_FILES` open."""

    def __init__(self, staging: Path, compression: str) -> None:
        self._staging, self._compression = staging, compression
        self._files: dict[str, _FolderFile] = {}
        self._buffered_bytes = 0
        self._done: list[StagedParquet] = []

    def add(self, folder: str, batch: pa.RecordBatch) -> None:
        """Buffer rows for the file of a folder; write the largest row group if full."""
        here = self._files.setdefault(folder, _FolderFile())
        here.buffered.append(batch)
        here.buffered_bytes += batch.nbytes
        self._buffered_bytes += batch.nbytes
        if self._buffered_bytes < MAX_BUFFERED_BYTES:
            return
        largest = max(self._files.values(), key=lambda file: file.buffered_bytes)
        self._write_group(largest)
        opened = [name for name in self._files if self._files[name].writer is not None]
        if len(opened) > MAX_OPEN_FILES:
            self._close(opened[0])

    def finish(self) -> list[StagedParquet]:
        """Write the buffered rows and force all files to disk; return the files."""
        for folder in list(self._files):
            self._close(folder)
        return self._done

    def _write_group(self, open_file: _FolderFile) -> None:
        table = pa.Table.from_batches(open_file.buffered)
        if open_file.writer is None:
            open_file.name = f"{uuid.uuid4().hex}.staged"
            open_file.file = (self._staging / open_file.name).open("xb")
            open_file.writer = pq.ParquetWriter(
                open_file.file, table.schema, compression=self._compression
            )
        open_file.writer.write_table(table, row_group_size=table.num_rows)
        open_file.rows += table.num_rows
        self._buffered_bytes -= open_file.buffered_bytes
        open_file.buffered, open_file.buffered_bytes = [], 0

    def _close(self, folder: str) -> None:
        open_file = self._files.pop(folder)
        if open_file.buffered:
            self._write_group(open_file)
        with open_file.file:
            open_file.writer.close()
            open_file.file.flush()
            os.fsync(open_file.file.fileno())
            size_in_bytes = open_file.file.tell()
        self._done.append(
            StagedParquet(open_file.name, folder, open_file.rows, size_in_bytes)
        )
