"""A batch query: the log directories as they are when it is planned.

Spark calls `partitions` on the driver and `read` on the executors. It sends them the
reader and one input partition, both pickled. So the reader is small, and an input
partition has all that its task needs.

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
from kafkalog.optional_packages import require
from kafkalog.query.task_planning import OffsetRange, ReadTask, plan_tasks
from kafkalog.spark.log_partitions import LogPartitions
from kafkalog.spark.offset_ranges import batch_ranges, split_ranges
from kafkalog.spark.read_options import SourceOptions
from kafkalog.spark.spark_columns import arrow_schema
from kafkalog.spark.task_reader import TaskReader
from kafkalog.storage.remote_source import as_path

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import datasource
else:
    datasource = require("pyspark.sql.datasource", "spark")


ATTEMPTS: Final = 3
Result = TypeVar("Result")


class KafkaLogInputPartition(datasource.InputPartition):  # type: ignore[misc]
    """The input of one Spark task."""

    def __init__(self, task: ReadTask) -> None:
        self.task = task


class KafkaLogBatchReader(datasource.DataSourceReader):  # type: ignore[misc]
    """The planner and reader of a batch query."""

    def __init__(self, options: SourceOptions, schema: Any) -> None:
        warn_of_ignored_options(options)
        self.options = options
        self.tasks = TaskReader.from_options(options, arrow_schema(schema))

    def partitions(self) -> list[KafkaLogInputPartition]:
        """Return the input partitions: the bytes that each task reads."""
        return with_partitions(self.options, self._plan)

    def _plan(self, partitions: LogPartitions) -> list[KafkaLogInputPartition]:
        ranges = batch_ranges(self.options, partitions)
        return plan_input_partitions(self.options, partitions, ranges)

    def read(
        self, partition: KafkaLogInputPartition | None
    ) -> Iterator[pa.RecordBatch]:
        """Read one input partition.

        Without input partitions Spark reads one of its own; before 4.2 that is None.
        """
        if not isinstance(partition, KafkaLogInputPartition):
            return iter(())
        return self.tasks.read(partition.task)


def warn_of_ignored_options(options: SourceOptions) -> None:
    """Warn of options that have no effect without a broker."""
    if options.ignored:
        names = ", ".join(options.ignored)
        warnings.warn(f"options without effect: {names}", stacklevel=2)


def open_partitions(options: SourceOptions) -> LogPartitions:
    """List the partitions of the log directories; relative paths are the driver's."""
    try:
        sources = [as_path(path, options.storage).absolute() for path in options.paths]
    except ConfigError as error:
        raise error.with_traceback(None) from None  # frames have the URLs' credentials
    return LogPartitions(sources, read_committed=options.read_committed)


def with_partitions(
    options: SourceOptions, function: Callable[[LogPartitions], Result]
) -> Result:
    """Call a function with the partitions of the log directories.

    It is called again, as Spark's source does, if a topic is deleted meanwhile.
    """
    for _ in range(ATTEMPTS - 1):
        with suppress(FileNotFoundError):
            return function(open_partitions(options))
    return function(open_partitions(options))


def plan_input_partitions(
    options: SourceOptions,
    partitions: LogPartitions,
    ranges: Iterable[OffsetRange],
    cores: int | None = None,
) -> list[KafkaLogInputPartition]:
    """Divide ranges into input partitions.

    Tasks are planned by bytes, and small ranges share one. With
    ``maxRecordsPerPartition``, or if that makes fewer tasks than ``minPartitions``,
    ranges are divided as Spark's source does it.

    A source does not receive the number of Spark's cores. Without `cores`, that of this
    machine is used; it matters only for few tasks.
    """
    minimum, max_records = (
        options.min_partitions or 0,
        options.max_records_per_partition,
    )
    ranges, tasks = list(ranges), list[ReadTask]()
    plan = partial(
        plan_tasks,
        directory_of=partitions.directory,
        target_bytes=options.target_partition_bytes,
        cores=cores or os.cpu_count() or 1,
    )
    if max_records is None:
        tasks = plan(split_ranges(ranges), share=True)
    if max_records is not None or len(tasks) < minimum:
        tasks = plan(split_ranges(ranges, minimum, max_records), share=False)
    return [KafkaLogInputPartition(task) for task in tasks]
