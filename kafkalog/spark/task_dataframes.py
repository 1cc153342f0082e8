"""DataFrames computed by kafkalog's tasks, without shuffles or files.

``spark.range`` has one partition with one number for each task, and ``mapInArrow``
replaces the number by the rows of the task. Each task is pickled separately, so that a
worker, which receives all, unpickles only its own.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from kafkalog.optional_packages import require

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
else:
    pa = require("pyarrow", "spark")

T = TypeVar("T")
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Work:
    """The pickled tasks and the function to call; sent to all workers."""

    tasks: tuple[bytes, ...]
    run: Callable[[Any], Iterable[pa.RecordBatch]]

    def batches(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches of the tasks with these numbers."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from self.run(pickle.loads(self.tasks[number]))


def dataframe_of_batches(
    spark: SparkSession,
    tasks: Sequence[T],
    run: Callable[[T], Iterable[pa.RecordBatch]],
    schema: Any,
) -> DataFrame:
    """Return a DataFrame of the batches that `run` yields for each task.

    Each task is one partition. Batches must have `schema`, a ``StructType`` or DDL.
    Nothing runs before the DataFrame is used, and everything runs again at each use.
    """
    work = _Work(tuple(map(pickle.dumps, tasks)), run)
    numbers = spark.range(0, len(tasks), 1, max(1, len(tasks)))
    return numbers.mapInArrow(work.batches, schema)


def dataframe_of_rows(
    spark: SparkSession,
    tasks: Sequence[T],
    run: Callable[[T], Iterable[Row]],
    schema: str,
) -> DataFrame:
    """Return a DataFrame of the rows that `run` yields for each task.

    The rows of a task are one batch. `schema` is DDL; timestamps are microseconds.
    """
    result = to_struct_type(schema)
    return dataframe_of_batches(
        spark, tasks, _Rows(run, to_spark_arrow_schema(result)).batches, result
    )


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a task, converted to one batch of `schema`."""

    run: Callable[[Any], Iterable[Row]]
    schema: pa.Schema

    def batches(self, task: Any) -> Iterator[pa.RecordBatch]:
        """Yield the batch of one task; none without rows."""
        if columns := list(zip(*self.run(task), strict=True)):
            arrays = list(map(pa.array, columns, self.schema.types))
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def to_struct_type(schema: Any) -> Any:
    """Return a ``StructType``, parsed if `schema` is DDL."""
    from pyspark.sql.types import StructType

    return StructType.fromDDL(schema) if isinstance(schema, str) else schema


def to_spark_arrow_schema(schema: Any) -> pa.Schema:
    """Return the Arrow schema that Spark expects for a ``StructType``."""
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:  # before Spark 4.2 the timezone is always UTC
        return to_arrow_schema(schema)
