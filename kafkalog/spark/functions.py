"""What a log directory is to a program on Spark: `read`, `map_batches`, `list_splits`.

Options are those of the source, in Python's own values: a number, a datetime, a list,
a mapping. Those with a dot in the name go in as ``**{"storage.region": "eu-west-1"}``.

Knows: the source, and how Spark runs functions. Does not know: how anything is read.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from kafkalog.errors import ConfigError
from kafkalog.export.optional_packages import require
from kafkalog.formats.timestamps import as_ms
from kafkalog.spark.offset_json import to_json
from kafkalog.spark.read_options import asked_columns
from kafkalog.spark.spark_columns import sql_schema
from kafkalog.spark.task_dataframes import arrow_form, as_struct, frame_of
from kafkalog.spark.task_planning import Stretch, Task
from kafkalog.spark.task_reader import TaskReader
from kafkalog.storage.location import Location
from kafkalog.storage.remote_source import RemotePath

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType
else:
    pa = require("pyarrow", "spark")


from collections import Counter
from typing import TYPE_CHECKING

from kafkalog.spark.offset_json import Place
from kafkalog.spark.task_dataframes import Row, frame_of_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


Paths = str | os.PathLike[str] | list[str | os.PathLike[str]]
Given = Any
"""What a user's function may give: a batch, batches, or None."""

SPLIT_SCHEMA: Final = (
    "task bigint, topic string, partition int, path string, beginPosition bigint,"
    " endPosition bigint, startOffset bigint, endOffset bigint, sizeInBytes bigint,"
    " split binary"
)


def read(
    spark: SparkSession,
    path: Paths,
    columns: Iterable[str] | None = None,
    *,
    schema: StructType | str | None = None,
    **options: Any,
) -> DataFrame:
    """Read log directories as a table, as they are now.

    The same as ``spark.read.format("kafkalog").options(...).load(path)``. Each call
    looks at the directories anew; a DataFrame that is used again need not.

    Parameters
    ----------
    path : path, or list of such
        Log directories or partitions.
    columns : iterable of str, optional
        Which columns, in which order: what is not asked for is not read.
    schema : StructType or str, optional
        The same with types, instead of `columns`.
    **options
        Options of the source: ``subscribe=["orders"]``,
        ``startingOffsets={("orders", 0): 23}``, ``startingTimestamp=datetime(...)``.
    """
    if schema is not None and columns is not None:
        raise ConfigError("expected columns or a schema, got both")
    reader = spark.read.format("kafkalog").options(**option_texts(columns, options))
    if schema is not None:
        reader = reader.schema(schema)
    return reader.load(_path_texts(path))


def map_batches(
    spark: SparkSession,
    path: Paths,
    fn: Callable[[pa.RecordBatch], Given],
    schema: StructType | str,
    columns: Iterable[str] | None = None,
    **options: Any,
) -> DataFrame:
    """Apply a function to records where they are decoded, and give what it makes.

    The same as `read` and ``mapInArrow`` behind it, but that no record goes through the
    Java machine in between: only what `fn` gives does.

    Parameters
    ----------
    path, columns, **options
        As in `read`. The bytes to be read are settled in this call.
    fn : callable
        Given a ``pyarrow.RecordBatch`` of at most 32 000 rows and about 8 MB, returns
        one, an iterator of such, or None for nothing.
    schema : StructType or str
        Names and types of what `fn` gives, in their order.

    Raises
    ------
    ConfigError
        If options, columns or `schema` are wrong.
    TypeError
        While the DataFrame is used, where `fn` gives something else than it should.
    """
    result = as_struct(schema)
    reader, tasks = plan_tasks_of(path, columns, options)
    mapping = _Mapping(reader, fn, arrow_form(result))
    return frame_of(spark, tasks, mapping.run, result)


def list_splits(
    spark: SparkSession,
    path: Paths,
    columns: Iterable[str] | None = None,
    **options: Any,
) -> DataFrame:
    """List the stretches of segments into which a reading is divided.

    One row a stretch: `task` it belongs to, ``topic``, ``partition``, ``path`` of the
    segment, bytes from ``beginPosition`` to ``endPosition``, offsets from
    ``startOffset`` to ``endOffset``, the ends exclusive, ``sizeInBytes``; and `split`,
    by which `read_split` reads it, on any executor. Rows of a task share a partition of
    Spark's, and there are as many partitions as tasks.

    Arguments are those of `read`. No option of a storage is in the rows.
    """
    from pyspark.sql.functions import broadcast

    reader, tasks = plan_tasks_of(path, columns, options)
    rows = [
        _split_row(number, one, reader)
        for number, task in enumerate(tasks)
        for one in task
    ]
    stretches = spark.createDataFrame(rows, SPLIT_SCHEMA)
    numbers = spark.range(0, len(tasks), 1, max(1, len(tasks)))
    joined = numbers.withColumnRenamed("id", "task").join(broadcast(stretches), "task")
    return joined.select(*stretches.columns)


def read_split(
    split: bytes, storage: Mapping[str, str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Read a stretch that `list_splits` listed, in the columns asked for there.

    `storage` are the options of its file system, without ``storage.``: rows have none.
    Unpickles `split`, so it has to be from someone trusted.
    """
    reader, stretch = pickle.loads(split)
    yield from reader.read([_with_options(stretch, storage or {})])


def option_texts(
    columns: Iterable[str] | None, options: Mapping[str, Any]
) -> dict[str, str]:
    """Spell options as Spark has them; None is left out.

    >>> option_texts(["key"], {"subscribe": ["a", "b"], "failOnDataLoss": False})
    {'subscribe': 'a,b', 'failOnDataLoss': 'false', 'columns': 'key'}
    """
    given = dict(options)
    if columns is not None:
        if isinstance(columns, str):
            raise ConfigError(f"columns is a list of names, not one: [{columns!r}]")
        given["columns"] = list(columns)
    return {name: _as_text(value) for name, value in given.items() if value is not None}


def _as_text(value: Any) -> str:
    """Spell one value.

    >>> _as_text({("orders", 0): 23}), _as_text({"orders": [0, 1]})
    ('{"orders": {"0": 23}}', '{"orders": [0, 1]}')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return str(as_ms(value))
    if isinstance(value, Mapping):
        places = value and all(isinstance(key, tuple) for key in value)
        return json.dumps(to_json(value) if places else value, default=as_ms)
    if isinstance(value, (list, tuple, set, frozenset)):
        return ",".join(map(str, value))
    return str(value)


def source_options(
    path: Paths, columns: Iterable[str] | None, options: Mapping[str, Any]
) -> dict[str, str]:
    """Spell all that the source is given, paths among it, as `load` would."""
    texts, where = option_texts(columns, options), _path_texts(path)
    if isinstance(where, list):
        return texts | {"paths": json.dumps(where)}
    return texts | {"path": where}


def _path_texts(path: Paths) -> str | list[str]:
    if isinstance(path, (str, os.PathLike)):
        return str(path)
    return [str(one) for one in path]


def plan_tasks_of(
    path: Paths, columns: Iterable[str] | None, options: Mapping[str, Any]
) -> tuple[TaskReader, list[Task]]:
    """Settle what is to be read, as the source does when Spark plans a query."""
    from kafkalog.spark.source import KafkaLogDataSource

    texts = source_options(path, columns, options)
    schema = as_struct(sql_schema(asked_columns(texts)))
    reader = KafkaLogDataSource(texts).reader(schema)
    return reader.tasks, [split.task for split in reader.partitions()]


def _split_row(number: int, stretch: Stretch, reader: TaskReader) -> tuple[Any, ...]:
    bare = _with_options(stretch, {})
    return (
        number,
        stretch.topic,
        stretch.partition,
        str(stretch.segment.path),
        stretch.begin,
        stretch.end,
        stretch.start,
        stretch.stop,
        stretch.size_in_bytes,
        bytearray(pickle.dumps((reader, bare))),
    )


def _with_options(stretch: Stretch, options: Mapping[str, str]) -> Stretch:
    """Return a stretch whose file system has these options, if it takes any."""

    def fitted(path: Location) -> Location:
        return path.with_options(options) if isinstance(path, RemotePath) else path

    segment = replace(stretch.segment, path=fitted(stretch.segment.path))
    return replace(stretch, directory=fitted(stretch.directory), segment=segment)


@dataclass(frozen=True, slots=True)
class _Mapping:
    """Reads tasks and applies a user's function, whose results must have `schema`."""

    reader: TaskReader
    fn: Callable[[pa.RecordBatch], Given]
    schema: pa.Schema

    def run(self, task: Task) -> Iterator[pa.RecordBatch]:
        """Read one task, and give what the function makes of it."""
        for batch in self.reader.read(task):
            given = self.fn(batch)
            if given is None:
                continue
            if isinstance(given, pa.RecordBatch):
                yield self._fitted(given)
            elif isinstance(given, Iterable) and not isinstance(given, pa.Table):
                yield from map(self._fitted, given)
            else:
                raise _strange(given)

    def _fitted(self, batch: Any) -> pa.RecordBatch:
        """Return `batch` in just the schema promised, or raise `TypeError`."""
        if not isinstance(batch, pa.RecordBatch):
            raise _strange(batch)
        if batch.schema.names != self.schema.names:
            raise TypeError(
                f"the function gave columns {batch.schema.names}, and its schema has"
                f" {self.schema.names}"
            )
        for column, found, wanted in zip(
            batch.columns, batch.schema, self.schema, strict=True
        ):
            if found.type != wanted.type:
                raise TypeError(
                    f"the function gave column {wanted.name!r} as {found.type}, and its"
                    f" schema makes that {wanted.type}"
                )
            if not wanted.nullable and column.null_count:
                raise TypeError(
                    f"the function gave nulls in column {wanted.name!r}, and its schema"
                    " has none there"
                )
        return pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)


def _strange(given: object) -> TypeError:
    return TypeError(
        "the function gave a"
        f" {type(given).__module__}.{type(given).__qualname__}, and should give a"
        " pyarrow.RecordBatch, an iterator of such, or None"
    )


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
