"""One run of the job: what came since the last one, from log directories into files.

Offsets are settled first, by the manifest of the last run and what the directories hold
now; then tasks, by bytes; then executors write, and the driver commits. So a run reads
up to where the logs ended when it began, and the next one goes on from there.

Knows: the order of things. Does not know: the command line, how files are committed.
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
from kafkalog.errors import ConfigError, KafkaLogError, LocatedError
from kafkalog.export.file_export import check_target
from kafkalog.export.optional_packages import require
from kafkalog.spark.job_output import FOLDER, Manifest, Output, locked
from kafkalog.spark.job_parquet import (
    FINAL,
    TaskWriter,
    Written,
    file_columns,
    read_schema,
)
from kafkalog.spark.log_partitions import Partitions
from kafkalog.spark.offset_json import Place, from_json, to_json
from kafkalog.spark.offset_limits import EARLIEST, SpecificOffsets
from kafkalog.spark.offset_ranges import (
    OffsetRange,
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
    """What is to be written where: `columns` of what `options` choose, below `out`."""

    options: SourceOptions
    columns: tuple[str, ...]
    out: Path
    compression: str = "zstd"

    def __post_init__(self) -> None:
        if not file_columns(self.columns):
            raise ConfigError("the topic is in the path: expected another column")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run did: its manifest and the path of it, None if nothing was new.

    `finished` is the number of an earlier run that had been cut off, and is whole now.
    """

    manifest: Manifest | None = None
    path: Path | None = None
    finished: int | None = None


def run_job(job: Job, session: Callable[[], Any]) -> Outcome:
    """Write what is new; `session` starts Spark, and is called only if something is.

    Where nothing is, but some of what was to be read is gone, that alone is written.
    Raises `BlockingIOError` while another job writes there, `ConfigError` where earlier
    runs wrote other columns, and what reading raises; then nothing has been written.
    """
    from kafkalog.spark.batch_query import open_partitions, warn_of_ignored

    warn_of_ignored(job.options)
    held = open_partitions(job.options)
    left_out: list[str] = []
    with locked(job.out) as output:
        finished = output.recover()
        last = output.last()
        if last is not None and last["columns"] != list(job.columns):
            raise ConfigError(
                f"{job.out} has the columns {', '.join(last['columns'])}; expected no"
                f" others, got {', '.join(job.columns)}"
            )
        news = find_new(job.options, held, last, left_out.append)
        if not news.ranges and not left_out:
            return Outcome(finished=finished)
        run = _Run(job, held, news, output, last)
        path, manifest = run.make(session, left_out)
        return Outcome(manifest=manifest, path=path, finished=finished)


def check_out(out: Path) -> None:
    """Refuse to write where other files are than those of earlier runs.

    Raises `FileExistsError`, or `PermissionError` among Kafka's own files.
    """
    check_target(out, overwrite=(out / FOLDER).is_dir())


class News(NamedTuple):
    """What a run reads, and by partition the offsets from which the next one goes on.

    `lasting` are those of earlier runs that this one does not move.
    """

    ranges: list[OffsetRange]
    ends: dict[Place, int]
    lasting: dict[Place, int]


def find_new(
    options: SourceOptions,
    held: Partitions,
    last: Manifest | None,
    warn: Callable[[str], None],
) -> News:
    """Say where the next run ends in each partition chosen, and what it reads.

    Where a first run starts the options say; later ones go on from `last`, and read
    partitions that it does not know from their earliest offset. One that is known and
    chosen and not there any more may be lost data; it is forgotten where that may be.
    """
    if last is None:
        starts = starting_offsets(options, held)
        ends = ending_offsets(options, held)
        settled = replace(
            options, starting=SpecificOffsets(starts), ending=SpecificOffsets(ends)
        )
        return News(batch_ranges(settled, held, warn), ends, {})
    known = from_json(last["offsets"])
    chosen = options.topics.choose(held.places())
    begin = SpecificOffsets({place: known.get(place, EARLIEST) for place in chosen})
    starts = starting_offsets(replace(options, starting=begin), held)
    ends = _not_before(starts, ending_offsets(options, held), held)
    wanted = options.topics.choose({*held.places(), *known})
    gone = {place: known[place] for place in wanted if place not in starts}
    ranges = stream_ranges(options, held, {**gone, **starts}, ends, warn)
    lasting = {place: at for place, at in known.items() if place not in gone}
    return News(ranges, ends, lasting)


def _not_before(
    starts: dict[Place, int], ends: dict[Place, int], held: Partitions
) -> dict[Place, int]:
    """Move ends that earlier runs have passed to where those ended.

    But not beyond a log's end: a log that has become shorter is to be told of.
    """
    passed = [place for place, end in ends.items() if end < starts[place]]
    latest = held.latest(passed)
    return ends | {
        place: max(ends[place], min(starts[place], latest[place])) for place in passed
    }


@dataclass(frozen=True, slots=True)
class _Run:
    """A run that has something to read, or to tell."""

    job: Job
    held: Partitions
    news: News
    output: Output
    last: Manifest | None

    def make(
        self, session: Callable[[], Any], left_out: list[str]
    ) -> tuple[Path, Manifest]:
        """Write and commit; returns the manifest and where it is."""
        started = datetime.now(UTC)
        number = 1 if self.last is None else self.last["run"] + 1
        with self.output.staged(number) as staging:
            written = self._write(session(), staging) if self.news.ranges else []
            if failed := [one.error for one in written if one.error is not None]:
                raise min(failed, key=lambda error: not isinstance(error, FINAL))
            rows: Counter[Place] = Counter()
            for one in written:
                rows.update(one.rows)
                left_out += one.left_out
            about = {
                "kafkalog": kafkalog.__version__,
                "started": started.isoformat(timespec="seconds"),
                "ended": datetime.now(UTC).isoformat(timespec="seconds"),
                "columns": list(self.job.columns),
                "rows": rows.total(),
                "offsets": to_json({**self.news.lasting, **self.news.ends}),
                "partitions": [self._told(one, rows) for one in self.news.ranges],
                "left_out": list(dict.fromkeys(left_out)),
            }
            files = [file for one in written for file in one.files]
            return self.output.commit(number, staging, files, about)

    def _told(self, one: OffsetRange, rows: Counter[Place]) -> dict[str, Any]:
        return {
            "topic": one.topic,
            "partition": one.partition,
            "start": one.start,
            "end": one.end,
            "rows": rows[one.place],
            "directory": str(self.held.directory(one.place)),
        }

    def _write(self, spark: Any, staging: Path) -> list[Written]:
        """Have executors write the records of all ranges."""
        from kafkalog.spark.batch_query import make_splits

        context, writer = spark.sparkContext, self._writer(staging)
        cores = context.defaultParallelism
        splits = make_splits(self.job.options, self.held, self.news.ranges, cores)
        tasks = [split.task for split in splits]
        if not tasks:
            return []
        told = require("py4j.protocol", "spark").Py4JError
        told_in_python = require("pyspark.errors", "spark").PySparkException
        try:
            done: list[Written] = (
                context.parallelize(tasks, len(tasks)).map(writer).collect()
            )
        except (told, told_in_python) as error:
            raise told_by_spark(str(error)) from error
        return done

    def _writer(self, staging: Path) -> TaskWriter:
        options, columns = self.job.options, file_columns(self.job.columns)
        reader = TaskReader.of(options, read_schema(columns))
        return TaskWriter(
            reader=reader,
            columns=columns,
            staging=staging,
            compression=self.job.compression,
        )


def told_by_spark(text: str) -> Exception:
    r"""Make of Spark's text of a failed task the error that the task had raised.

    >>> told_by_spark("Traceback:\nkafkalog.errors.CorruptRecordError: crc: a.log")
    CorruptRecordError('crc: a.log')
    """
    found = RAISED.findall(text.partition(JAVA_STACK)[0])
    if not found:
        return KafkaLogError(f"Spark failed: {' '.join(text.split())}")
    name, message = found[-1]
    name = name.rpartition(".")[2]
    kind: Any = getattr(errors, name, None) or getattr(builtins, name, RuntimeError)
    if not issubclass(kind, (KafkaLogError, OSError)):
        return RuntimeError(f"{name}: {message}")
    one_line = issubclass(kind, (LocatedError, ConfigError, OSError))
    raised: Exception = kind(message) if one_line else KafkaLogError(message)
    return raised
