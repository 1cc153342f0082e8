"""A task's records -> Parquet files, on an executor, one for each topic and UTC date.

Rows go from the decoder into files without passing through Spark, which is told only
which files there are. So no shuffle is needed to keep files few: a task has stretches
of neighbouring segments, and these have few dates. A record without a timestamp has
Kafka's -1 in its place, as everywhere on Spark, and so the date 1969-12-31; a date
outside of the years 1 to 9999, which readers could not parse, is null.

Knows: dates, row groups, files. Does not know: where files go when they are whole.
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
from kafkalog.export.optional_packages import require
from kafkalog.spark.job_output import Staged
from kafkalog.spark.spark_columns import COLUMNS
from kafkalog.spark.task_planning import Task
from kafkalog.spark.task_reader import TaskReader

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
else:
    pa = require("pyarrow", "spark")
    pq = require("pyarrow.parquet", "spark")

HELD_BYTES: Final = 64 << 20
"""How many bytes of rows wait for row groups; the largest is written when more do."""
MOST_OPEN: Final = 256
DAY_US: Final = 86_400_000_000
FIRST_DAY, LAST_DAY = (
    int(np.datetime64(date, "D").astype(np.int64))
    for date in ("0001-01-01", "9999-12-31")
)
NO_DATE: Final = "__HIVE_DEFAULT_PARTITION__"
"""What Hive and Spark write for null in a path."""
IN_THE_PATH: Final = "topic"


STOP: Final = "stop"
"""The name of a file which says that the run has failed."""
FINAL: Final = (LocatedError, DataLossError, InvalidRecordError)
"""Errors that no second attempt would cure."""


class Written(NamedTuple):
    """What a task wrote: files, rows of each partition, and what was left out.

    Or what ended it: an error that is raised is one that Spark should try again, and
    tells of with a page of Java.
    """

    files: list[Staged]
    rows: dict[tuple[str, int], int]
    left_out: list[str]
    error: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWriter:
    """Writes tasks' records into `staging`, with the columns of `columns`."""

    reader: TaskReader
    columns: tuple[str, ...]
    staging: Path
    compression: str

    def __call__(self, task: Task) -> Written:
        """Read a task, and write its files to disk, for good."""
        self._check_visible()
        stop = self.staging / STOP
        if stop.exists():
            return Written([], {}, [], KafkaLogError("another task has failed"))
        try:
            return self._write(task)
        except FINAL as error:
            stop.touch()
            return Written([], {}, [], error)

    def _write(self, task: Task) -> Written:
        files = _Files(self.staging, self.compression)
        rows: Counter[tuple[str, int]] = Counter()
        left_out: list[str] = []
        reader = replace(self.reader, warn=left_out.append)
        for stretch in task:
            place = stretch.topic, stretch.partition
            for batch in reader.read([stretch]):
                rows[place] += batch.num_rows
                for date, part in by_date(batch):
                    folder = f"topic={stretch.topic}/date={date}"
                    files.add(folder, part.select(self.columns))
        return Written(files.finish(), dict(rows), left_out)

    def _check_visible(self) -> None:
        if not self.staging.is_dir():
            raise FileNotFoundError(
                f"{self.staging} was made by the driver, and is not there on the"
                f" executor {socket.gethostname()}: every executor needs the output"
                " directory under the same path"
            )


def file_columns(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out the columns that the path has.

    >>> file_columns(("topic", "offset"))
    ('offset',)
    """
    return tuple(name for name in columns if name != IN_THE_PATH)


def read_schema(columns: tuple[str, ...]) -> pa.Schema:
    """Say what is read to write `columns`: the timestamp as well, for the date.

    >>> read_schema(("offset",)).names
    ['offset', 'timestamp']
    """
    read = dict.fromkeys((*columns, "timestamp"))
    return pa.schema([(name, COLUMNS[name].arrow_type) for name in read])


def by_date(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Part a batch by the UTC date of its timestamps, rows in the order they have."""
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
    """Spell a day since 1970 as in a path.

    >>> date_text(-1), date_text(20_778), date_text(3_000_000)
    ('1969-12-31', '2026-11-21', '__HIVE_DEFAULT_PARTITION__')
    """
    return str(np.datetime64(day, "D")) if FIRST_DAY <= day <= LAST_DAY else NO_DATE


@dataclass(slots=True)
class _Growing:
    """Rows for one folder: those that wait, and the file that has the others."""

    held: list[pa.RecordBatch] = field(default_factory=list)
    held_bytes: int = 0
    name: str = ""
    rows: int = 0
    file: Any = None
    writer: Any = None


class _Files:
    """The files of one task, as many open as have rows enough for a row group."""

    def __init__(self, staging: Path, compression: str) -> None:
        self._staging, self._compression = staging, compression
        self._growing: dict[str, _Growing] = {}
        self._held_bytes = 0
        self._done: list[Staged] = []

    def add(self, folder: str, batch: pa.RecordBatch) -> None:
        one = self._growing.setdefault(folder, _Growing())
        one.held.append(batch)
        one.held_bytes += batch.nbytes
        self._held_bytes += batch.nbytes
        if self._held_bytes >= HELD_BYTES:
            largest = max(
                self._growing, key=lambda name: self._growing[name].held_bytes
            )
            self._write_group(self._growing[largest])
            opened = [f for f, one in self._growing.items() if one.writer is not None]
            if len(opened) > MOST_OPEN:
                self._close(opened[0])

    def finish(self) -> list[Staged]:
        """Write what is held, and force all files to disk."""
        for folder in list(self._growing):
            self._close(folder)
        return self._done

    def _write_group(self, one: _Growing) -> None:
        table = pa.Table.from_batches(one.held)
        if one.writer is None:
            one.name = f"{uuid.uuid4().hex}.staged"
            one.file = (self._staging / one.name).open("xb")
            one.writer = pq.ParquetWriter(
                one.file, table.schema, compression=self._compression
            )
        one.writer.write_table(table, row_group_size=table.num_rows)
        one.rows += table.num_rows
        self._held_bytes -= one.held_bytes
        one.held, one.held_bytes = [], 0

    def _close(self, folder: str) -> None:
        one = self._growing.pop(folder)
        if one.held:
            self._write_group(one)
        with one.file:
            one.writer.close()
            one.file.flush()
            os.fsync(one.file.fileno())
            size_in_bytes = one.file.tell()
        self._done.append(Staged(one.name, folder, one.rows, size_in_bytes))
