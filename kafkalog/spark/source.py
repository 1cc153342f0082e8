"""``format("kafkalog")``: log directories as a source of Spark, batch and stream.

Spark makes these objects in processes of its own: the source and its ranges on the
driver, `read` on the executors, to which the reader goes pickled. So a reader is small,
and all that a task must know is in its `Split`.

There is no ``pushFilters``: up to Spark 4.3 a reader that has it gives wrong rows when
its DataFrame is used twice. Options and the schema say what to read.

Knows: what Spark calls, and when. Does not know: how anything is read.
Source: ``KafkaSourceProvider.scala``, ``KafkaBatch.scala``.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from kafkalog.export.missing import require
from kafkalog.files.remote import as_path
from kafkalog.query.reading import Request
from kafkalog.spark.columns import arrow_schema, sql_schema
from kafkalog.spark.offsets import batch_ranges
from kafkalog.spark.options import SourceOptions, asked_columns, parse_options
from kafkalog.spark.partitions import Partitions
from kafkalog.spark.ranges import OffsetRange, split_ranges
from kafkalog.spark.reading import TaskReader
from kafkalog.spark.splits import Task, plan_tasks

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import datasource
else:
    datasource = require("pyspark.sql.datasource", "spark")


class Split(datasource.InputPartition):  # type: ignore[misc]
    """What one task reads."""

    def __init__(self, task: Task) -> None:
        self.task = task


class KafkaLogDataSource(datasource.DataSource):  # type: ignore[misc]
    """Kafka's log directories, with the columns and options of Spark's Kafka source."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "kafkalog"

    def schema(self) -> str:
        """Spell as DDL the columns of Spark's Kafka source, or those asked for."""
        return sql_schema(asked_columns(self.options))

    def reader(self, schema: Any) -> BatchReader:
        """Make the reader of a batch query."""
        return BatchReader(parse_options(self.options, streaming=False), schema)

    def streamReader(self, schema: Any) -> Any:
        """Make the reader of a streaming query."""
        from kafkalog.spark.stream import StreamReader

        return StreamReader(parse_options(self.options, streaming=True), schema)


class BatchReader(datasource.DataSourceReader):  # type: ignore[misc]
    """Reads what the directories hold when Spark plans the query."""

    def __init__(self, options: SourceOptions, schema: Any) -> None:
        warn_of_ignored(options)
        self.options = options
        self.tasks = task_reader(options, schema)

    def partitions(self) -> list[Split]:
        """Settle which bytes each task reads."""
        held = open_partitions(self.options)
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
    sources = [as_path(path, options.storage).absolute() for path in options.paths]
    return Partitions(sources, read_committed=options.read_committed)


def task_reader(options: SourceOptions, schema: Any) -> TaskReader:
    """Make what reads the tasks of a query."""
    request = Request(
        read_committed=options.read_committed,
        control_records=options.control_records,
        skip=options.on_corruption == "skip",
    )
    return TaskReader(
        schema=arrow_schema(schema),
        request=request,
        fail_on_data_loss=options.fail_on_data_loss,
    )


def make_splits(
    options: SourceOptions,
    held: Partitions,
    ranges: Iterable[OffsetRange],
    cores: int | None = None,
) -> list[Split]:
    """Divide ranges among tasks, as the options say.

    Small ranges share a task, but where a number of tasks or records was asked for.
    How many cores there are a source is not told: unless `cores` says, those of the
    driver's machine stand for them, which matters only where there are few tasks.
    """
    least, most = options.min_partitions, options.max_records_per_partition
    tasks = plan_tasks(
        split_ranges(list(ranges), least, most),
        held.directory,
        most_bytes=options.target_partition_bytes,
        cores=cores or os.cpu_count() or 1,
        pack=least is None and most is None,
    )
    return [Split(task) for task in tasks]
