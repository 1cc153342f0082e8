"""Work for the executors as a DataFrame: tasks go out, Arrow batches come back.

A range of numbers stands for the tasks, one number a partition of Spark's. A task goes
pickled for itself, so that a worker, which gets them all, unpickles only its own.

Knows: how Spark runs a function. Does not know: what a task is, or does.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from kafkalog.spark.workers import make_ready

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")


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
        make_ready()


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
