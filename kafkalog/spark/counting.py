"""`count_records`: how many records a reading has, without one row for each.

Knows: how counts come back from the tasks. Does not know: how anything is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kafkalog.spark.functions import Paths, plan_tasks_of
from kafkalog.spark.offset_json import Place
from kafkalog.spark.reading import TaskReader
from kafkalog.spark.splits import Task
from kafkalog.spark.task_frames import Row, frame_of_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNTS: Final = "topic string, partition int, records bigint"


def count_records(spark: SparkSession, path: Paths, **options: Any) -> dict[Place, int]:
    """Count the records that `read` gives, where they are read; by topic and partition.

    An action, as ``count()`` of a DataFrame is, but that Spark gets a row for each
    stretch of a segment, and none for a record. Partitions without any are left out.

    Parameters as of `read`.

    Raises
    ------
    ConfigError
        If options are wrong.
    PySparkException
        Where something is damaged: with file and byte.
    """
    reader, tasks = plan_tasks_of(path, None, options)
    counted = frame_of_rows(spark, tasks, _Counter(reader).run, COUNTS)
    total: Counter[Place] = Counter()
    for topic, partition, records in counted.collect():
        total[topic, partition] += records
    return dict(total)


@dataclass(frozen=True, slots=True)
class _Counter:
    """Reads tasks for nothing but how many records they have."""

    reader: TaskReader

    def run(self, task: Task) -> Iterator[Row]:
        for stretch, count in self.reader.count(task):
            if count:
                yield stretch.topic, stretch.partition, count
