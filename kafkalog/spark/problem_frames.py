"""`list_problems`: what a reading with ``onCorruption=skip`` leaves out.

Knows: how problems become rows. Does not know: what is damage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
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

PROBLEMS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("path", pa.string()),
        ("position", pa.int64()),
        ("firstOffset", pa.int64()),
        ("lastOffset", pa.int64()),
        ("reason", pa.string()),
    ]
)
PROBLEMS_SQL: Final = (
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
    return frame_of(
        spark, tasks, _Finder(replace(reader, request=request)).run, PROBLEMS_SQL
    )


@dataclass(frozen=True, slots=True)
class _Finder:
    """Reads tasks for nothing but their problems."""

    reader: TaskReader

    def run(self, task: Task) -> Iterator[pa.RecordBatch]:
        for stretch, scan in self.reader.scans(task, DECODED):
            for _ in scan.chunks(reuse=True, views=True):
                pass
            place = (stretch.topic, stretch.partition)
            rows = [(*place, str(one[0]), *one[1:]) for one in scan.problems]
            columns = zip(*rows, strict=True)
            arrays = map(pa.array, columns, PROBLEMS.types)
            if rows:
                yield pa.RecordBatch.from_arrays(list(arrays), schema=PROBLEMS)
