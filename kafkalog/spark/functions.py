"""Functions that read log directories with Spark, and count or list their content.

Options are those of the source, as Python values: numbers, datetimes, lists, mappings.
Options with a dot in the name are passed as ``**{"storage.region": "eu-west-1"}``.
"""

from __future__ import annotations

import json
import os
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from kafkalog.errors import ConfigError
from kafkalog.formats.timestamps import as_ms
from kafkalog.optional_packages import require
from kafkalog.query.task_planning import ReadTask, SegmentRange
from kafkalog.spark.offset_json import TopicPartition, offsets_to_json
from kafkalog.spark.read_options import requested_columns
from kafkalog.spark.spark_columns import sql_schema
from kafkalog.spark.task_dataframes import (
    Row,
    dataframe_of_batches,
    dataframe_of_rows,
    to_spark_arrow_schema,
    to_struct_type,
)
from kafkalog.spark.task_reader import TaskReader
from kafkalog.storage.location import Location
from kafkalog.storage.remote_source import RemotePath

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType
else:
    pa = require("pyarrow", "spark")

Paths = str | os.PathLike[str] | list[str | os.PathLike[str]]
Batches = Any
"""A batch, an iterable of batches, or None: the result of a user's function."""

SPLIT_SCHEMA: Final = (
    "task bigint, topic string, partition int, path string, beginPosition bigint,"
    " endPosition bigint, startOffset bigint, endOffset bigint, sizeInBytes bigint,"
    " split binary"
)
COUNT_SCHEMA: Final = "topic string, partition int, records bigint"
PROBLEM_SCHEMA: Final = (
    "topic string, partition int, path string, position bigint, firstOffset bigint,"
    " lastOffset bigint, reason string"
)
ALL_DECODED: Final = ("offset", "key", "value", "headers")
"""Columns that make the decoder read every field of a record."""


def read(
    spark: SparkSession,
    path: Paths,
    columns: Iterable[str] | None = None,
    *,
    schema: StructType | str | None = None,
    **options: Any,
) -> DataFrame:
    """Return the records of log directories, as they are now, as a DataFrame.

    The same as ``spark.read.format("kafkalog").options(...).load(path)``. Each call
    lists the directories; using a DataFrame again does not.

    Parameters
    ----------
    spark : SparkSession
        The session to use.
    path : path or list of paths
        Log directories or partition directories.
    columns : iterable of str, optional
        Columns to read, in this order.
    schema : StructType or str, optional
        Columns with their types, instead of `columns`.
    **options
        Options of the source: ``subscribe=["orders"]``,
        ``startingOffsets={("orders", 0): 23}``, ``startingTimestamp=datetime(...)``.

    Returns
    -------
    DataFrame
        A row for each record.

    Raises
    ------
    ConfigError
        If `columns` and `schema` are both given, or `columns` is a string.
    AnalysisException
        If an option is invalid.

    Examples
    --------
    >>> read(spark, "/mnt/kafka", ["key", "value"]).count()  # doctest: +SKIP
    3200
    """
    if schema is not None and columns is not None:
        raise ConfigError("expected columns or a schema, got both")
    reader = spark.read.format("kafkalog").options(**format_options(columns, options))
    if schema is not None:
        reader = reader.schema(schema)
    return reader.load(_format_paths(path))


def map_batches(
    spark: SparkSession,
    path: Paths,
    fn: Callable[[pa.RecordBatch], Batches],
    schema: StructType | str,
    columns: Iterable[str] | None = None,
    **options: Any,
) -> DataFrame:
    """Return the result of a function applied to records where they are decoded.

    The same as `read` followed by ``mapInArrow``, except that records do not pass
    through the JVM in between: only the function's result does.

    Parameters
    ----------
    spark, path, columns, **options
        As in `read`. Which bytes to read is decided in this call.
    fn : callable
        Takes a ``pyarrow.RecordBatch`` of at most 32 000 rows and about 8 MB; returns a
        batch, an iterable of batches, or None.
    schema : StructType or str
        Names and types of the result's columns, in order.

    Returns
    -------
    DataFrame
        The batches that `fn` returns. It raises `TypeError` when used if they do not
        have `schema`.

    Raises
    ------
    ConfigError
        If an option or column is invalid.

    Examples
    --------
    >>> def sizes(batch):
    ...     return pa.record_batch({"rows": [batch.num_rows]})
    >>> map_batches(spark, "/mnt/kafka", sizes, "rows bigint")  # doctest: +SKIP
    DataFrame[rows: bigint]
    """
    result = to_struct_type(schema)
    reader, tasks = plan_read(path, columns, options)
    mapped = _MappedBatches(reader, fn, to_spark_arrow_schema(result))
    return dataframe_of_batches(spark, tasks, mapped.run, result)


def list_splits(
    spark: SparkSession,
    path: Paths,
    columns: Iterable[str] | None = None,
    **options: Any,
) -> DataFrame:
    """List the ranges of segments into which a read is divided.

    Parameters
    ----------
    spark, path, columns, **options
        As in `read`. Options of a storage are not in the result.

    Returns
    -------
    DataFrame
        A row for each range: number of its ``task``, ``topic``, ``partition``, ``path``
        of the segment, ``beginPosition`` and ``endPosition``, ``startOffset`` and
        ``endOffset`` (ends are exclusive), ``sizeInBytes``, and ``split``, which
        `read_split` reads on any executor. Each task is one partition of the DataFrame.

    Raises
    ------
    ConfigError
        If an option or column is invalid.

    Examples
    --------
    >>> list_splits(spark, "/mnt/kafka", ["value"]).count()  # doctest: +SKIP
    73
    """
    from pyspark.sql.functions import broadcast

    reader, tasks = plan_read(path, columns, options)
    rows = [
        _split_row(number, segment_range, reader)
        for number, task in enumerate(tasks)
        for segment_range in task
    ]
    splits = spark.createDataFrame(rows, SPLIT_SCHEMA)
    numbers = spark.range(0, len(tasks), 1, max(1, len(tasks)))
    joined = numbers.withColumnRenamed("id", "task").join(broadcast(splits), "task")
    return joined.select(*splits.columns)


def read_split(
    split: bytes, storage: Mapping[str, str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range that `list_splits` listed, with its columns.

    `split` is unpickled, so it must be from a trusted source.

    Parameters
    ----------
    split : bytes
        A value of the column ``split``.
    storage : mapping of str to str, optional
        Options of the storage, named without ``storage.``.

    Yields
    ------
    pyarrow.RecordBatch
        The records, as the source returns them.

    Raises
    ------
    CorruptRecordError
        If a record is corrupt and ``onCorruption`` is ``raise``.
    DataLossError
        If offsets are missing and ``failOnDataLoss`` is true.

    Examples
    --------
    >>> row = list_splits(spark, "/mnt/kafka").first()  # doctest: +SKIP
    >>> batches = list(read_split(row["split"]))  # doctest: +SKIP
    """
    reader, segment_range = pickle.loads(split)
    yield from reader.read([_with_storage(segment_range, storage or {})])


def count_records(
    spark: SparkSession, path: Paths, **options: Any
) -> dict[TopicPartition, int]:
    """Count the records that `read` returns, where they are read.

    This is an action, as ``DataFrame.count`` is. Spark receives one row for each range
    of a segment instead of one for each record.

    Parameters
    ----------
    spark, path, **options
        As in `read`.

    Returns
    -------
    dict
        The number of records by topic and partition; partitions without any are
        missing.

    Raises
    ------
    ConfigError
        If an option is invalid.
    PySparkException
        If a record is corrupt and ``onCorruption`` is ``raise``; the message has file
        and byte.

    Examples
    --------
    >>> count_records(spark, "/mnt/kafka", subscribe="ledger")  # doctest: +SKIP
    {('ledger', 0): 102, ('ledger', 1): 91}
    """
    reader, tasks = plan_read(path, None, options)
    counts = dataframe_of_rows(spark, tasks, _RecordCounts(reader).run, COUNT_SCHEMA)
    total: Counter[TopicPartition] = Counter()
    for topic, partition, records in counts.collect():
        total[topic, partition] += records
    return dict(total)


def list_problems(spark: SparkSession, path: Paths, **options: Any) -> DataFrame:
    """List the ranges that a read with ``onCorruption=skip`` skips.

    All records are read and decoded for this. An empty result means that every checksum
    matches and every record is valid.

    Parameters
    ----------
    spark, path, **options
        As in `read`.

    Returns
    -------
    DataFrame
        A row for each corrupt interval of a file: ``topic``, ``partition``, ``path``,
        ``position``, ``firstOffset`` and ``lastOffset`` (null if unknown), ``reason``.

    Raises
    ------
    ConfigError
        If an option is invalid.

    Examples
    --------
    >>> list_problems(spark, "/mnt/kafka").count()  # doctest: +SKIP
    0
    """
    reader, tasks = plan_read(path, None, options)
    policy = replace(reader.policy, on_corruption="skip")
    problems = _Problems(replace(reader, policy=policy))
    return dataframe_of_rows(spark, tasks, problems.run, PROBLEM_SCHEMA)


def format_options(
    columns: Iterable[str] | None, options: Mapping[str, Any]
) -> dict[str, str]:
    """Return the text of options as Spark takes them; those that are None are removed.

    >>> format_options(["key"], {"subscribe": ["a", "b"], "failOnDataLoss": False})
    {'subscribe': 'a,b', 'failOnDataLoss': 'false', 'columns': 'key'}
    """
    values = dict(options)
    if columns is not None:
        if isinstance(columns, str):
            raise ConfigError(f"columns: expected a list of names, got {columns!r}")
        values["columns"] = list(columns)
    return {
        name: _format_value(value)
        for name, value in values.items()
        if value is not None
    }


def _format_value(value: Any) -> str:
    """Return the text of one option's value.

    >>> _format_value({("orders", 0): 23}), _format_value({"orders": [0, 1]})
    ('{"orders": {"0": 23}}', '{"orders": [0, 1]}')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return str(as_ms(value))
    if isinstance(value, Mapping):
        by_partition = value and all(isinstance(key, tuple) for key in value)
        form = offsets_to_json(value) if by_partition else value
        return json.dumps(form, default=as_ms)
    if isinstance(value, (list, tuple, set, frozenset)):
        return ",".join(map(str, value))
    return str(value)


def format_source_options(
    path: Paths, columns: Iterable[str] | None, options: Mapping[str, Any]
) -> dict[str, str]:
    """Return all options of the source, paths included, as ``load`` passes them."""
    texts, paths = format_options(columns, options), _format_paths(path)
    if isinstance(paths, list):
        return texts | {"paths": json.dumps(paths)}
    return texts | {"path": paths}


def _format_paths(path: Paths) -> str | list[str]:
    if isinstance(path, (str, os.PathLike)):
        return str(path)
    return [str(single_path) for single_path in path]


def plan_read(
    path: Paths, columns: Iterable[str] | None, options: Mapping[str, Any]
) -> tuple[TaskReader, list[ReadTask]]:
    """Return a reader and its tasks, planned as the source plans a batch query."""
    from kafkalog.spark.source import KafkaLogDataSource

    texts = format_source_options(path, columns, options)
    schema = to_struct_type(sql_schema(requested_columns(texts)))
    reader = KafkaLogDataSource(texts).reader(schema)
    return reader.tasks, [partition.task for partition in reader.partitions()]


def _split_row(number: int, part: SegmentRange, reader: TaskReader) -> tuple[Any, ...]:
    without_credentials = _with_storage(part, {})
    return (
        number,
        part.topic,
        part.partition,
        str(part.segment.path),
        part.begin,
        part.end,
        part.start,
        part.stop,
        part.size_in_bytes,
        bytearray(pickle.dumps((reader, without_credentials))),
    )


def _with_storage(part: SegmentRange, storage: Mapping[str, str]) -> SegmentRange:
    """Return a segment range whose remote paths have these options."""

    def with_options(path: Location) -> Location:
        return path.with_options(storage) if isinstance(path, RemotePath) else path

    segment = replace(part.segment, path=with_options(part.segment.path))
    return replace(part, directory=with_options(part.directory), segment=segment)


@dataclass(frozen=True, slots=True)
class _MappedBatches:
    """A user's function, applied to the records of tasks."""

    reader: TaskReader
    fn: Callable[[pa.RecordBatch], Batches]
    schema: pa.Schema

    def run(self, task: ReadTask) -> Iterator[pa.RecordBatch]:
        """Yield the results for one task."""
        for batch in self.reader.read(task):
            result = self.fn(batch)
            if result is None:
                continue
            if isinstance(result, pa.RecordBatch):
                yield self._check(result)
            elif isinstance(result, Iterable) and not isinstance(result, pa.Table):
                yield from map(self._check, result)
            else:
                raise _wrong_type(result)

    def _check(self, batch: Any) -> pa.RecordBatch:
        """Return `batch` with the schema's nullability; raise `TypeError` otherwise."""
        if not isinstance(batch, pa.RecordBatch):
            raise _wrong_type(batch)
        if batch.schema.names != self.schema.names:
            raise TypeError(
                f"the function returned columns {batch.schema.names}, expected"
                f" {self.schema.names}"
            )
        for column, actual, expected in zip(
            batch.columns, batch.schema, self.schema, strict=True
        ):
            if actual.type != expected.type:
                raise TypeError(
                    f"the function returned column {expected.name!r} as {actual.type},"
                    f" expected {expected.type}"
                )
            if not expected.nullable and column.null_count:
                raise TypeError(
                    f"the function returned nulls in column {expected.name!r}, expected"
                    " none"
                )
        return pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)


def _wrong_type(result: object) -> TypeError:
    kind = type(result)
    return TypeError(
        f"the function returned {kind.__module__}.{kind.__qualname__}, expected a"
        " pyarrow.RecordBatch, an iterable of them, or None"
    )


@dataclass(frozen=True, slots=True)
class _RecordCounts:
    """The number of records in each segment range of a task."""

    reader: TaskReader

    def run(self, task: ReadTask) -> Iterator[Row]:
        for part, count in self.reader.count(task):
            if count:
                yield part.topic, part.partition, count


@dataclass(frozen=True, slots=True)
class _Problems:
    """The problems in each segment range of a task."""

    reader: TaskReader

    def run(self, task: ReadTask) -> Iterator[Row]:
        for part, scan in self.reader.scans(task, ALL_DECODED):
            for _ in scan.chunks(reuse=True, views=True):
                pass
            for problem in scan.problems:
                yield part.topic, part.partition, str(problem.path), *problem[1:]
