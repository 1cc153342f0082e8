"""The writers that Spark runs: of a batch, and of a stream.

Tasks stage their rows, and the driver commits the staged files. A batch is identified
by the option batchId, a micro-batch by the query's id, which is in the checkpoint, and
its number.

Source: ``pyspark/sql/datasource.py``, ``MicroBatchExecution.scala``.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from errno import ENOTDIR
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from kafkalog.errors import ConfigError, KafkaLogError, LogLockedError
from kafkalog.optional_packages import require
from kafkalog.sink.log_commit import abandon_late, abandon_staged, commit_staged
from kafkalog.sink.staging import (
    CommitIdentity,
    StagedFile,
    StagingWriter,
    parent_process,
)
from kafkalog.spark.sink.input_columns import ARROW_TYPES, TYPES, check_columns
from kafkalog.spark.sink.partitioner import Partitioner, partitions_of
from kafkalog.spark.sink.task_encoder import TaskEncoder
from kafkalog.spark.sink.write_options import SinkOptions
from kafkalog.spark.workers import freeze_imports
from kafkalog.storage.file_names import parse_file_name
from kafkalog.storage.location import entries
from kafkalog.storage.log_directory import existing_partitions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import datasource
else:
    pa = require("pyarrow", "spark")
    datasource = require("pyspark.sql.datasource", "spark")

LOGGER: Final = logging.getLogger("kafkalog")
QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"
"""Properties that Spark sets in each task of a micro-batch."""

PASSES_ROWS: Final = not hasattr(datasource, "DataSourceStreamArrowWriter")
"""Whether a stream's rows are passed one by one, as by Spark 4.0."""

ROWS_AT_A_TIME: Final = 10_000
WAIT_S: Final = 5.0
"""Seconds that a commit waits for the lock of a log directory."""

STREAM_WRITER: Any = (
    datasource.DataSourceStreamWriter
    if PASSES_ROWS
    else datasource.DataSourceStreamArrowWriter
)


@dataclass(frozen=True, slots=True)
class StagedTask(datasource.WriterCommitMessage):  # type: ignore[misc]
    """What a task staged: the identity of the commit, the task's number, its files.

    `assigned` has the numbers of partitions that it divided rows between, by topic.
    """

    identity: CommitIdentity
    task: int
    files: tuple[StagedFile, ...]
    assigned: tuple[tuple[str, int], ...]


def check_write(schema: Any, overwrite: bool, options: SinkOptions) -> None:
    """Check the schema, mode and path of a write; warn of ignored options.

    Raises `ConfigError`, and `NotADirectoryError` if the path is that of a file.
    """
    if overwrite:
        raise ConfigError("mode overwrite, expected append: logs are only appended to")
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    check_columns(types, options.topic)
    _check_path(options.path)
    if options.topic is not None:
        existing = existing_partitions(options.path)
        partitions_of(options.topic, existing, options.partitions)
    if options.ignored:
        LOGGER.warning("options without effect: %s", ", ".join(options.ignored))


def _check_path(path: Path) -> None:
    if path.is_dir():
        if any(parse_file_name(entry.name) for entry in entries(path)):
            raise ConfigError(
                "option path: expected a log directory, got that of a partition: "
                f"{path}"
            )
    elif path.exists():
        raise NotADirectoryError(ENOTDIR, os.strerror(ENOTDIR), str(path))


class KafkaLogBatchWriter(datasource.DataSourceArrowWriter):  # type: ignore[misc]
    """Writer of ``df.write``."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options
        name = uuid4().hex if options.batch_id is None else options.batch_id
        self.identity = CommitIdentity(f"batch:{name}")
        self.driver = parent_process()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedTask:
        """Stage the rows of a task, on an executor."""
        return stage_rows(iterator, self.options, self.identity, self.driver)

    def commit(self, messages: Sequence[StagedTask | None]) -> None:
        """Append what the tasks staged, on the driver."""
        commit_tasks(messages, self.options, self.identity)

    def abort(self, messages: Sequence[StagedTask | None]) -> None:
        """Remove what the tasks staged."""
        abandon_staged(self.options.path, self.identity)


class KafkaLogStreamWriter(STREAM_WRITER):  # type: ignore[misc]
    """Writer of ``df.writeStream``."""

    def __init__(self, options: SinkOptions, schema: Any) -> None:
        self.options = options
        self.schema = schema
        self.driver = parent_process()

    def write(self, iterator: Iterator[Any]) -> StagedTask:
        """Stage the rows of a task, on an executor."""
        batches = batches_of_rows(iterator, self.schema) if PASSES_ROWS else iterator
        return stage_rows(batches, self.options, identity_of_stream(), self.driver)

    def commit(self, messages: Sequence[StagedTask | None], batchId: int) -> None:
        """Append what the tasks of a micro-batch staged, on the driver."""
        staged = [message for message in messages if message is not None]
        if staged:
            identity = staged[0].identity
            if identity.epoch != batchId:
                raise KafkaLogError(
                    f"tasks of micro-batch {identity.epoch}, expected {batchId}"
                )
            commit_tasks(staged, self.options, identity)

    def abort(self, messages: Sequence[StagedTask | None], batchId: int) -> None:
        """Remove what the tasks staged; of failed tasks alone nothing is known."""
        for message in messages:
            if message is not None:
                abandon_staged(self.options.path, message.identity)
                return


def batches_of_rows(rows: Iterator[Any], schema: Any) -> Iterator[pa.RecordBatch]:
    """Yield rows as Arrow batches. Spark passes times as local ones, without a zone."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    arrow_schema = pa.schema(
        [(name, ARROW_TYPES[types[name]]) for name in types.keys() & TYPES.keys()]
    )
    collected: list[dict[str, Any]] = []
    for row in rows:
        cells = dict(zip(types, row, strict=True))
        if isinstance(cells.get("timestamp"), datetime):
            cells["timestamp"] = cells["timestamp"].astimezone(UTC)
        collected.append(cells)
        if len(collected) == ROWS_AT_A_TIME:
            yield pa.RecordBatch.from_pylist(collected, arrow_schema)
            collected = []
    yield pa.RecordBatch.from_pylist(collected, arrow_schema)


def identity_of_stream() -> CommitIdentity:
    """Return the identity of the micro-batch of the running task.

    Raises `KafkaLogError` if Spark does not pass it.
    """
    context = require("pyspark", "spark").TaskContext.get()
    query = context.getLocalProperty(QUERY_ID)
    epoch = context.getLocalProperty(BATCH_ID)
    if query is None or epoch is None:
        raise KafkaLogError(
            f"task properties {QUERY_ID} {query} and {BATCH_ID} {epoch}, expected "
            "those of a micro-batch"
        )
    return CommitIdentity(f"query:{query}", int(epoch))


def stage_rows(
    batches: Iterator[pa.RecordBatch],
    options: SinkOptions,
    identity: CommitIdentity,
    driver: str,
) -> StagedTask:
    """Encode and stage the rows of the running task.

    `driver` is Spark's Python daemon on the driver, which ends with Spark.
    """
    context = require("pyspark", "spark").TaskContext.get()
    task, attempt = context.partitionId(), context.taskAttemptId()
    existing = existing_partitions(options.path)
    partitioner = Partitioner(existing, options.partitions, options.batch_bytes, task)
    writer = StagingWriter(options.path, identity, task, attempt, driver=driver)
    with writer as staging:
        encoder = TaskEncoder(options, partitioner, staging)
        for batch in batches:
            encoder.add(batch)
        encoder.flush()
        files = staging.finish()
    abandon_late(options.path, identity, files)
    freeze_imports()
    return StagedTask(identity, task, files, tuple(partitioner.assigned))


def commit_tasks(
    messages: Sequence[StagedTask | None],
    options: SinkOptions,
    identity: CommitIdentity,
) -> None:
    """Commit what tasks staged, in the order of the tasks.

    While another commit has the log directory locked, this one waits, for `WAIT_S` at
    most: the lock may be that of a broker.
    """
    staged = sorted(
        (message for message in messages if message is not None),
        key=lambda message: message.task,
    )
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            result = commit_staged(
                options.path,
                identity,
                [file for message in staged for file in message.files],
                partitions=options.partitions,
                topic_settings=options.topic_settings,
                visibility=options.visibility,
                assigned=[one for message in staged for one in message.assigned],
            )
            break
        except LogLockedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(WAIT_S / 50)
    if result.is_replay:
        LOGGER.info("%s was committed before: nothing is written", identity)
