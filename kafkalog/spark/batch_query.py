"""A batch query: what the directories hold when it is planned, divided into tasks.

Spark has a reader make its `Split`s on the driver and read them on the executors, to
which it goes pickled. So a reader is small, and all that a task must know is in its
`Split`.

Knows: what Spark calls, and when. Does not know: how anything is read.
Source: ``KafkaBatch.scala``.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafkalog.errors import ConfigError
from kafkalog.export.optional_packages import require
from kafkalog.spark.log_partitions import Partitions
from kafkalog.spark.offset_ranges import OffsetRange, batch_ranges, split_ranges
from kafkalog.spark.read_options import SourceOptions
from kafkalog.spark.spark_columns import arrow_schema
from kafkalog.spark.task_planning import Task, plan_tasks
from kafkalog.spark.task_reader import TaskReader
from kafkalog.storage.remote_source import as_path

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import datasource
else:
    datasource = require("pyspark.sql.datasource", "spark")


ATTEMPTS: Final = 3
Answer = TypeVar("Answer")


class Split(datasource.InputPartition):  # type: ignore[misc]
    """What one task reads."""

    def __init__(self, task: Task) -> None:
        self.task = task


class BatchReader(datasource.DataSourceReader):  # type: ignore[misc]
    """Reads what the directories hold when Spark plans the query."""

    def __init__(self, options: SourceOptions, schema: Any) -> None:
        warn_of_ignored(options)
        self.options = options
        self.tasks = TaskReader.of(options, arrow_schema(schema))

    def partitions(self) -> list[Split]:
        """Settle which bytes each task reads."""
        return ask(self.options, self._splits)

    def _splits(self, held: Partitions) -> list[Split]:
        return make_splits(self.options, held, batch_ranges(self.options, held))

    def read(self, partition: Split | None) -> Iterator[pa.RecordBatch]:
        """Read one task.

        Of no tasks at all Spark makes one of its own, and before 4.2 one of None.
        """
        if not isinstance(partition, Split):
            return iter(())
        return self.tasks.read(partition.task)


def warn_of_ignored(options: SourceOptions) -> None:
    """Name, once a query, the options that mean nothing without a broker."""
    if options.ignored:
        names = ", ".join(options.ignored)
        warnings.warn(f"options that mean nothing here: {names}", stacklevel=2)


def open_partitions(options: SourceOptions) -> Partitions:
    """Look at what the directories hold now; relative paths are the driver's."""
    try:
        sources = [as_path(path, options.storage).absolute() for path in options.paths]
    except ConfigError as error:
        raise error.with_traceback(None) from None  # frames hold what URLs hold
    return Partitions(sources, read_committed=options.read_committed)


def ask(options: SourceOptions, question: Callable[[Partitions], Answer]) -> Answer:
    """Ask something of what the directories hold now.

    Where a topic is deleted meanwhile, they are looked at anew, as by Spark's source.
    """
    for _ in range(ATTEMPTS - 1):
        with suppress(FileNotFoundError):
            return question(open_partitions(options))
    return question(open_partitions(options))


def make_splits(
    options: SourceOptions,
    held: Partitions,
    ranges: Iterable[OffsetRange],
    cores: int | None = None,
) -> list[Split]:
    """Divide ranges among tasks, as the options say.

    Small ranges share a task, unless a number of records was asked for, or more tasks
    than they come to then: these are made as Spark's source makes them.
    How many cores there are a source is not told: unless `cores` says, those of the
    driver's machine stand for them, which matters only where there are few tasks.
    """
    least, most = options.min_partitions or 0, options.max_records_per_partition
    wholes, tasks = list(ranges), list[Task]()
    plan = partial(
        plan_tasks,
        directory_of=held.directory,
        most_bytes=options.target_partition_bytes,
        cores=cores or os.cpu_count() or 1,
    )
    if most is None:
        tasks = plan(split_ranges(wholes), pack=True)
    if most is not None or len(tasks) < least:
        tasks = plan(split_ranges(wholes, least, most), pack=False)
    return [Split(task) for task in tasks]
