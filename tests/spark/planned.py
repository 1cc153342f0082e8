"""Plan and read tasks as the source does, without Spark."""

from __future__ import annotations

import pyarrow as pa

from kafkalog.query.task_planning import OffsetRange, plan_tasks
from kafkalog.spark.log_partitions import LogPartitions
from kafkalog.spark.read_options import parse_options
from kafkalog.spark.spark_columns import COLUMNS
from kafkalog.spark.task_reader import TaskReader


def whole(directory, **settings):
    """Return the start and end offset of a partition's log."""
    partitions = LogPartitions([directory], **settings)
    [tp] = partitions.topic_partitions()
    return partitions.earliest_offsets([tp])[tp], partitions.latest_offsets([tp])[tp]


def plan(directory, start, end, target_bytes=1 << 27, **settings):
    """Divide a range of a partition's offsets into tasks."""
    partitions = LogPartitions([directory])
    [tp] = partitions.topic_partitions()
    ranges = [OffsetRange(*tp, start, end)]
    return plan_tasks(
        ranges, partitions.directory, target_bytes=target_bytes, **settings
    )


def reader_of(*columns, **options):
    """Return a reader of some columns for the options of the source."""
    schema = pa.schema([pa.field(name, COLUMNS[name].arrow_type) for name in columns])
    parsed = parse_options(options | {"path": "/"}, streaming=False)
    return TaskReader.from_options(parsed, schema)


def offsets_of(tasks, **options):
    """Return the offsets of all records of the tasks, in order."""
    reader = reader_of("offset", **options)
    return [
        offset
        for task in tasks
        for batch in reader.read(task)
        for offset in batch["offset"].to_pylist()
    ]
