"""Tasks planned and read as the source does it, without Spark."""

from __future__ import annotations

import pyarrow as pa

from kafkalog.spark.log_partitions import Partitions
from kafkalog.spark.offset_ranges import OffsetRange
from kafkalog.spark.read_options import parse_options
from kafkalog.spark.spark_columns import COLUMNS
from kafkalog.spark.task_planning import plan_tasks
from kafkalog.spark.task_reader import TaskReader


def whole(directory, **settings):
    """Return where a partition's log starts and ends."""
    held = Partitions([directory], **settings)
    [place] = held.places()
    return held.earliest([place])[place], held.latest([place])[place]


def plan(directory, start, end, most_bytes=1 << 27, **settings):
    """Divide a range of a partition's offsets into tasks."""
    held = Partitions([directory])
    [place] = held.places()
    ranges = [OffsetRange(*place, start, end)]
    return plan_tasks(ranges, held.directory, most_bytes=most_bytes, **settings)


def reader_of(*columns, **options):
    """Return a reader of some columns, as the source makes it of its options."""
    schema = pa.schema([pa.field(name, COLUMNS[name].arrow_type) for name in columns])
    parsed = parse_options(options | {"path": "/"}, streaming=False)
    return TaskReader.of(parsed, schema)


def offsets_of(tasks, **options):
    """Read the offsets of all tasks' records, in order."""
    reader = reader_of("offset", **options)
    return [
        offset
        for task in tasks
        for batch in reader.read(task)
        for offset in batch["offset"].to_pylist()
    ]
