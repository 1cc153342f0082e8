"""One run of the job: the records since the last run, from log directories to files.

The manifest of the last run and the log directories determine the offsets to read. The
tasks are then planned, executors write files, and the driver commits them. A run reads
up to the offsets that were available when it began; the next one continues there.
"""

from __future__ import annotations

import builtins
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import kafkalog
from kafkalog import errors
from kafkalog.errors import ConfigError, KafkaLogError, LocatedError, LogLockedError
from kafkalog.export.file_export import check_target
from kafkalog.optional_packages import require
from kafkalog.query.task_planning import OffsetRange
from kafkalog.spark.job_output import FOLDER, JobOutput, Manifest, locked
from kafkalog.spark.job_parquet import (
    FATAL_ERRORS,
    TaskResult,
    TaskWriter,
    file_columns,
    read_schema,
)
from kafkalog.spark.log_partitions import LogPartitions
from kafkalog.spark.offset_json import (
    TopicPartition,
    offsets_from_json,
    offsets_to_json,
)
from kafkalog.spark.offset_limits import EARLIEST, SpecificOffsets
from kafkalog.spark.offset_ranges import (
    batch_ranges,
    ending_offsets,
    starting_offsets,
    stream_ranges,
)
from kafkalog.spark.read_options import SourceOptions
from kafkalog.spark.task_reader import TaskReader

RAISED: Final = re.compile(r"^([\w.]+(?:Error|Exception)): (.*)$", re.MULTILINE)
JAVA_STACK: Final = "\n\tat "


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job: it writes `columns` of the records that `options` select to `out`."""

    options: SourceOptions
    columns: tuple[str, ...]
    out: Path
    compression: str = "zstd"

    def __post_init__(self) -> None:
        if not file_columns(self.columns):
            raise ConfigError("expected columns besides topic, which is in the path")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """The manifest of a run and its path, None if there was nothing new.

    `finished` is the number of an earlier, interrupted run that this one completed.
    """

    manifest: Manifest | None = None
    path: Path | None = None
    finished: int | None = None


def run_job(job: Job, session: Callable[[], Any]) -> JobOutcome:
    """Write the new records as one run; call `session` to start Spark if needed.

    A run that reads nothing, but found data lost, writes a manifest only.

    Raises `BlockingIOError` while another job writes to the directory, `ConfigError` if
    earlier runs wrote other columns, and the errors of reading. Nothing has been
    written then.
    """
    from kafkalog.spark.batch_query import open_partitions, warn_of_ignored_options

    warn_of_ignored_options(job.options)
    partitions = open_partitions(job.options)
    losses: list[str] = []
    with locked(job.out) as output:
        finished = output.recover()
        last = output.last()
        if last is not None and last["columns"] != list(job.columns):
            raise ConfigError(
                f"expected the columns of earlier runs, {', '.join(last['columns'])},"
                f" got {', '.join(job.columns)}: {job.out}"
            )
        new = find_new_offsets(job.options, partitions, last, losses.append)
        if not new.ranges and not losses:
            return JobOutcome(finished=finished)
        run = _JobRun(job, partitions, new, output, last)
        path, manifest = run.make(session, losses)
        return JobOutcome(manifest=manifest, path=path, finished=finished)


def check_out(out: Path) -> None:
    """Raise `FileExistsError` if a directory has files that no run wrote.

    Raises `PermissionError` if it is a log directory or within one.
    """
    check_target(out, overwrite=(out / FOLDER).is_dir())


class NewOffsets(NamedTuple):
    """The ranges that a run reads, and the offsets at which the next run starts.

    `unchanged` are the offsets of partitions that this run does not read.
    """

    ranges: list[OffsetRange]
    ends: dict[TopicPartition, int]
    unchanged: dict[TopicPartition, int]


def find_new_offsets(
    options: SourceOptions,
    partitions: LogPartitions,
    last: Manifest | None,
    warn: Callable[[str], None],
) -> NewOffsets:
    """Return the ranges of the next run, and its end in each selected partition.

    The first run starts at the options' starting offsets. Later ones start where `last`
    ended, and at the earliest offset of new partitions. A known partition that is
    missing is reported as lost data, and is not in the next manifest.
    """
    if last is None:
        starts = starting_offsets(options, partitions)
        ends = ending_offsets(options, partitions)
        resolved = replace(
            options, starting=SpecificOffsets(starts), ending=SpecificOffsets(ends)
        )
        return NewOffsets(batch_ranges(resolved, partitions, warn), ends, {})
    known = offsets_from_json(last["offsets"])
    selected = options.topics.select(partitions.topic_partitions())
    begin = SpecificOffsets({tp: known.get(tp, EARLIEST) for tp in selected})
    starts = starting_offsets(replace(options, starting=begin), partitions)
    ends = not_before(starts, ending_offsets(options, partitions), partitions)
    expected = options.topics.select({*partitions.topic_partitions(), *known})
    missing = {tp: known[tp] for tp in expected if tp not in starts}
    ranges = stream_ranges(options, partitions, {**missing, **starts}, ends, warn)
    unchanged = {tp: offset for tp, offset in known.items() if tp not in missing}
    return NewOffsets(ranges, ends, unchanged)


def not_before(
    starts: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
    partitions: LogPartitions,
) -> dict[TopicPartition, int]:
    """Return `ends`, where earlier runs read further, moved to the end of those runs.

    An end is not moved past the log's end, so a log that has become shorter is
    reported.
    """
    read_further = [tp for tp, end in ends.items() if end < starts[tp]]
    latest = partitions.latest_offsets(read_further)
    return ends | {
        tp: max(ends[tp], min(starts[tp], latest[tp])) for tp in read_further
    }


@dataclass(frozen=True, slots=True)
class _JobRun:
    """A run that has ranges to read or losses to report."""

    job: Job
    partitions: LogPartitions
    new: NewOffsets
    output: JobOutput
    last: Manifest | None

    def make(
        self, session: Callable[[], Any], losses: list[str]
    ) -> tuple[Path, Manifest]:
        """Write and commit the run; return the manifest and its path."""
        started = datetime.now(UTC)
        number = 1 if self.last is None else self.last["run"] + 1
        with self.output.staged(number) as staging:
            results = self._write(session(), staging) if self.new.ranges else []
            failed = [result.error for result in results if result.error is not None]
            if failed:  # a fatal error ended the others
                raise min(failed, key=lambda error: not isinstance(error, FATAL_ERRORS))
            rows: Counter[TopicPartition] = Counter()
            for result in results:
                rows.update(result.rows)
                losses += result.skipped
            about = {
                "kafkalog": kafkalog.__version__,
                "started": started.isoformat(timespec="seconds"),
                "ended": datetime.now(UTC).isoformat(timespec="seconds"),
                "columns": list(self.job.columns),
                "rows": rows.total(),
                "offsets": offsets_to_json({**self.new.unchanged, **self.new.ends}),
                "partitions": [
                    self._partition_entry(read, rows) for read in self.new.ranges
                ],
                "left_out": list(dict.fromkeys(losses)),
            }
            files = [file for result in results for file in result.files]
            return self.output.commit(number, staging, files, about)

    def _partition_entry(
        self, read: OffsetRange, rows: Counter[TopicPartition]
    ) -> dict[str, Any]:
        return {
            "topic": read.topic,
            "partition": read.partition,
            "start": read.start,
            "end": read.end,
            "rows": rows[read.topic_partition],
            "directory": str(self.partitions.directory(read.topic_partition)),
        }

    def _write(self, spark: Any, staging: Path) -> list[TaskResult]:
        """Write the records of all ranges on the executors."""
        from kafkalog.spark.batch_query import plan_input_partitions

        context, writer = spark.sparkContext, self._writer(staging)
        inputs = plan_input_partitions(
            self.job.options,
            self.partitions,
            self.new.ranges,
            cores=context.defaultParallelism,
        )
        tasks = [input_partition.task for input_partition in inputs]
        if not tasks:
            return []
        java_error = require("py4j.protocol", "spark").Py4JError
        python_error = require("pyspark.errors", "spark").PySparkException
        try:
            results: list[TaskResult] = (
                context.parallelize(tasks, len(tasks)).map(writer).collect()
            )
        except (java_error, python_error) as error:
            raise error_from_spark(str(error)) from error
        return results

    def _writer(self, staging: Path) -> TaskWriter:
        options, columns = self.job.options, file_columns(self.job.columns)
        reader = TaskReader.from_options(options, read_schema(columns))
        return TaskWriter(
            reader=reader,
            columns=columns,
            staging=staging,
            compression=self.job.compression,
        )


def error_from_spark(text: str) -> Exception:
    r"""Return the error that a task raised, from the text of Spark's own error.

    >>> error_from_spark("Traceback:\nkafkalog.errors.CorruptRecordError: crc: a.log")
    CorruptRecordError('crc: a.log')
    """
    matches = RAISED.findall(text.partition(JAVA_STACK)[0])
    if not matches:
        return KafkaLogError(f"Spark failed: {' '.join(text.split())}")
    name, message = matches[-1]
    name = name.rpartition(".")[2]
    kind: Any = getattr(errors, name, None) or getattr(builtins, name, RuntimeError)
    if not issubclass(kind, (KafkaLogError, OSError)):
        return RuntimeError(f"{name}: {message}")
    one_line = issubclass(kind, (LocatedError, ConfigError, LogLockedError, OSError))
    raised: Exception = kind(message) if one_line else KafkaLogError(message)
    return raised
