"""`list_problems`: what a reading with ``onCorruption=skip`` leaves out.

Knows: how problems become rows. Does not know: what is damage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from kafkalog.spark.functions import Paths, plan_tasks_of
from kafkalog.spark.reading import TaskReader
from kafkalog.spark.splits import Task
from kafkalog.spark.task_frames import Row, frame_of_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PROBLEMS: Final = (
    "topic string, partition int, path string, position bigint, firstOffset bigint,"
    " lastOffset bigint, reason string"
)
DECODED: Final = ("offset", "key", "value", "headers")
"""Columns that no damage to a record escapes."""


def list_problems(spark: SparkSession, path: Paths, **options: Any) -> DataFrame:
    """List what a reading with ``onCorruption=skip`` leaves out, each with its byte.

    A row for each run of bytes of a file: ``topic``, ``partition``, ``path``,
    ``position``, the offsets from ``firstOffset`` to ``lastOffset`` that are lost with
    it, null where nothing tells them, and ``reason``. No row, no damage: then every
    checksum was found right and every record could be read. The files are read anew.

    Parameters as of `read`.
    """
    reader, tasks = plan_tasks_of(path, None, options)
    request = replace(reader.request, skip=True)
    finder = _Finder(replace(reader, request=request))
    return frame_of_rows(spark, tasks, finder.run, PROBLEMS)


@dataclass(frozen=True, slots=True)
class _Finder:
    """Reads tasks for nothing but their problems."""

    reader: TaskReader

    def run(self, task: Task) -> Iterator[Row]:
        for stretch, scan in self.reader.scans(task, DECODED):
            for _ in scan.chunks(reuse=True, views=True):
                pass
            for one in scan.problems:
                yield stretch.topic, stretch.partition, str(one.path), *one[1:]
