"""Work for the executors as a DataFrame: tasks go out, batches or rows come back.

A range of numbers stands for the tasks, one number a partition of Spark's. A task goes
pickled for itself, so that a worker, which gets them all, unpickles only its own.

Knows: how Spark runs a function. Does not know: what a task is, or does.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from kafkalog.export.optional_packages import require

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
else:
    pa = require("pyarrow", "spark")

T = TypeVar("T")
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Work:
    """What all workers get."""

    tasks: tuple[bytes, ...]
    run: Callable[[Any], Iterable[pa.RecordBatch]]

    def batches(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Do the tasks of these numbers."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from self.run(pickle.loads(self.tasks[number]))


def frame_of(
    spark: SparkSession,
    tasks: Sequence[T],
    run: Callable[[T], Iterable[pa.RecordBatch]],
    schema: Any,
) -> DataFrame:
    """Return what `run` makes of the tasks, each in a partition of its own.

    It makes batches of just `schema`, a ``StructType`` or DDL. Nothing runs before the
    DataFrame is used; then all of it does, each time.
    """
    work = _Work(tuple(map(pickle.dumps, tasks)), run)
    numbers = spark.range(0, len(tasks), 1, max(1, len(tasks)))
    return numbers.mapInArrow(work.batches, schema)


def frame_of_rows(
    spark: SparkSession,
    tasks: Sequence[T],
    run: Callable[[T], Iterable[Row]],
    schema: str,
) -> DataFrame:
    """Return the rows that `run` makes of the tasks, as `frame_of` does batches.

    All rows of a task are one batch. `schema` is DDL; times are microseconds.
    """
    result = as_struct(schema)
    return frame_of(spark, tasks, _Rows(run, arrow_form(result)).batches, result)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Makes a batch of `schema` of what `run` gives."""

    run: Callable[[Any], Iterable[Row]]
    schema: pa.Schema

    def batches(self, task: Any) -> Iterator[pa.RecordBatch]:
        """Do one task; without rows there is no batch."""
        if columns := list(zip(*self.run(task), strict=True)):
            arrays = list(map(pa.array, columns, self.schema.types))
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def as_struct(schema: Any) -> Any:
    """Take a ``StructType`` as it is, and read one from DDL."""
    from pyspark.sql.types import StructType

    return StructType.fromDDL(schema) if isinstance(schema, str) else schema


def arrow_form(schema: Any) -> pa.Schema:
    """Return the Arrow schema in which Spark takes a ``StructType``."""
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:  # before Spark 4.2, where it is always UTC
        return to_arrow_schema(schema)
