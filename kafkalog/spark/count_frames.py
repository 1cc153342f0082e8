"""`count_records`: how many records a reading has, without one row for each.

Knows: how counts become rows. Does not know: how anything is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kafkalog.export.missing import require
from kafkalog.spark.functions import Paths, plan_tasks_of
from kafkalog.spark.reading import TaskReader
from kafkalog.spark.splits import Task
from kafkalog.spark.task_frames import frame_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
else:
    pa = require("pyarrow", "arrow")

COUNTS: Final = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("records", pa.int64())]
)
COUNTS_SQL: Final = "topic string, partition int, records bigint"


def count_records(spark: SparkSession, path: Paths, **options: Any) -> DataFrame:
    """Count the records that `read` gives, where they are read.

    A row for each partition that has any: ``topic``, ``partition``, ``records``. The
    same as `read`, ``groupBy("topic", "partition")`` and ``count``, but that Spark gets
    a row for each stretch of a segment, and none for a record.

    Parameters as of `read`; the bytes to be read are settled in this call.
    """
    from pyspark.sql.functions import sum as total

    reader, tasks = plan_tasks_of(path, None, options)
    counted = frame_of(spark, tasks, _Counter(reader).run, COUNTS_SQL)
    by_partition = counted.groupBy("topic", "partition")
    return by_partition.agg(total("records").alias("records"))


@dataclass(frozen=True, slots=True)
class _Counter:
    """Reads tasks for nothing but how many records they have."""

    reader: TaskReader

    def run(self, task: Task) -> Iterator[pa.RecordBatch]:
        for stretch, count in self.reader.count(task):
            row = ([stretch.topic], [stretch.partition], [count])
            arrays = map(pa.array, row, COUNTS.types)
            if count:
                yield pa.RecordBatch.from_arrays(list(arrays), schema=COUNTS)
