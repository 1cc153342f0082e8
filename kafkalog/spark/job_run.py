"""One run of the job: the records since the last run, from log directories to files.

The output and the log directories determine the offsets to read. The tasks are then
planned, executors write files, and the driver commits them. A run reads up to the
offsets that were available when it began; the next one continues there.
"""

from __future__ import annotations

import builtins
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import kafkalog
from kafkalog import errors
from kafkalog.errors import ConfigError, KafkaLogError, LocatedError, LogLockedError
from kafkalog.export.file_export import check_target
from kafkalog.optional_packages import require
from kafkalog.query.task_planning import OffsetRange
from kafkalog.spark.job_output import (
    FOLDER,
    Manifest,
    ParquetOutput,
    StagedRun,
    locked,
)
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


@dataclass(slots=True)
class JobOutcome:
    """The ranges that a run read, none if there was nothing new, and what it left out.

    Of Parquet files also the manifest and its path. `finished` is the number of an
    earlier, interrupted run that this one completed.
    """

    ranges: list[OffsetRange] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    manifest: Manifest | None = None
    path: Path | None = None
    finished: int | None = None


def run_parquet_job(job: Job, session: Callable[[], Any]) -> JobOutcome:
    """Write the new records as one run; call `session` to start Spark if needed.

    A run that reads nothing, but found data lost, writes a manifest only.

    Raises `BlockingIOError` while another job writes to the directory, `ConfigError` if
    earlier runs wrote other columns, and the errors of reading. Nothing has been
    written then.
    """
    partitions = open_checked(job)
    with locked(job.out) as folder:
        output = ParquetOutput(folder)
        outcome = JobOutcome(finished=output.finished)
        known: dict[TopicPartition, int] = {}
        options = job.options
        if output.last is not None:
            _check_columns(job, output.last["columns"])
            known = offsets_from_json(output.last["offsets"])
            options = replace(options, starting=EARLIEST)
        new = find_new_offsets(options, partitions, known, outcome.left_out.append)
        if not new.ranges and not outcome.left_out:
            return outcome
        outcome.ranges = new.ranges
        started = datetime.now(UTC)
        with folder.staged(output.next_run) as staged:
            written = write_files(job, staged, partitions, new.ranges, session)
            outcome.left_out = [*dict.fromkeys(outcome.left_out + written.skipped)]
            about = {
                "kafkalog": kafkalog.__version__,
                "started": started.isoformat(timespec="seconds"),
                "ended": datetime.now(UTC).isoformat(timespec="seconds"),
                "columns": list(job.columns),
                "rows": written.rows.total(),
                "offsets": offsets_to_json(new.ends),
                "partitions": [
                    _partition_entry(read, written.rows, partitions)
                    for read in new.ranges
                ],
                "left_out": outcome.left_out,
            }
            outcome.path, outcome.manifest = output.commit(staged, written.files, about)
    return outcome


def check_out(out: Path) -> None:
    """Raise `FileExistsError` if a directory has files that no run wrote.

    Raises `PermissionError` if it is a log directory or within one.
    """
    check_target(out, overwrite=(out / FOLDER).is_dir())


def open_checked(job: Job) -> LogPartitions:
    """List the partitions that a job reads from; warn of options without effect."""
    from kafkalog.spark.batch_query import open_partitions, warn_of_ignored_options

    warn_of_ignored_options(job.options)
    return open_partitions(job.options)


def _check_columns(job: Job, earlier: list[str]) -> None:
    if earlier != list(job.columns):
        raise ConfigError(
            f"expected the columns of earlier runs, {', '.join(earlier)},"
            f" got {', '.join(job.columns)}: {job.out}"
        )


class NewOffsets(NamedTuple):
    """The ranges that a run reads, and the offsets at which the next run starts."""

    ranges: list[OffsetRange]
    ends: dict[TopicPartition, int]


def find_new_offsets(
    options: SourceOptions,
    partitions: LogPartitions,
    known: Mapping[TopicPartition, int],
    warn: Callable[[str], None],
) -> NewOffsets:
    """Return the ranges of the next run, and its end in each selected partition.

    `known` are the offsets at which earlier runs ended; other partitions start as
    `options` say. A known partition that is missing is reported as lost data, and has
    no end.
    """
    selected = options.topics.select(partitions.topic_partitions())
    starts = {tp: known[tp] for tp in selected if tp in known}
    if len(starts) < len(selected):
        starts = starting_offsets(options, partitions) | starts
    ends = ending_offsets(options, partitions)
    if not known:
        resolved = replace(
            options, starting=SpecificOffsets(starts), ending=SpecificOffsets(ends)
        )
        return NewOffsets(batch_ranges(resolved, partitions, warn), ends)
    ends = not_before(starts, ends, partitions)
    expected = options.topics.select({*partitions.topic_partitions(), *known})
    missing = {tp: known[tp] for tp in expected if tp not in starts}
    ranges = stream_ranges(options, partitions, {**missing, **starts}, ends, warn)
    kept = {tp: offset for tp, offset in known.items() if tp not in missing}
    return NewOffsets(ranges, {**kept, **ends})


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


def write_files(
    job: Job,
    staged: StagedRun,
    partitions: LogPartitions,
    ranges: list[OffsetRange],
    session: Callable[[], Any],
) -> TaskResult:
    """Write the records of ranges on the executors; return all results as one."""
    whole = TaskResult([], Counter(), [])
    if not ranges:
        return whole
    from kafkalog.spark.batch_query import plan_input_partitions

    context, columns = session().sparkContext, file_columns(job.columns)
    inputs = plan_input_partitions(
        job.options, partitions, ranges, cores=context.defaultParallelism
    )
    tasks = [input_partition.task for input_partition in inputs]
    if not tasks:
        return whole
    writer = TaskWriter(
        reader=TaskReader.from_options(job.options, read_schema(columns)),
        columns=columns,
        staging=staged.path,
        compression=job.compression,
    )
    results: list[TaskResult]
    with errors_of_spark():
        results = context.parallelize(tasks, len(tasks)).map(writer).collect()
    failed = [result.error for result in results if result.error is not None]
    if failed:  # a fatal error ended the others
        raise min(failed, key=lambda error: not isinstance(error, FATAL_ERRORS))
    for result in results:
        whole.files.extend(result.files)
        whole.rows.update(result.rows)
        whole.skipped.extend(result.skipped)
    return whole


def _partition_entry(
    read: OffsetRange, rows: Counter[TopicPartition], partitions: LogPartitions
) -> dict[str, Any]:
    return {
        "topic": read.topic,
        "partition": read.partition,
        "start": read.start,
        "end": read.end,
        "rows": rows[read.topic_partition],
        "directory": str(partitions.directory(read.topic_partition)),
    }


@contextmanager
def errors_of_spark() -> Iterator[None]:
    """Raise the error of a task, or a `KafkaLogError`, for an error of Spark."""
    java_error = require("py4j.protocol", "spark").Py4JError
    python_error = require("pyspark.errors", "spark").PySparkException
    try:
        yield
    except (java_error, python_error) as error:
        raise error_from_spark(str(error)) from error


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
