"""The job's Delta table, to which each run appends what is new, exactly once.

Each partition's records are one write of Spark's Delta source, with the options
``txnAppId`` and ``txnVersion``: the application id of `kafkalog.export.delta_table`,
and the offset to continue from. Delta commits both together, so that a run that ends at
any point has appended each record once or not at all. The next run reads the versions
from the table.

The rows are those of the source ``kafkalog``, and the table is partitioned by topic and
UTC date. Runs exclude each other by the lock of `kafkalog.spark.job_output`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kafkalog.errors import ConfigError, KafkaLogError
from kafkalog.export.delta_table import application_id, is_delta_table
from kafkalog.export.file_export import check_target
from kafkalog.optional_packages import require
from kafkalog.query.task_planning import OffsetRange
from kafkalog.spark.batch_query import open_partitions, warn_of_ignored_options
from kafkalog.spark.job_output import FOLDER, locked
from kafkalog.spark.job_run import error_from_spark, not_before
from kafkalog.spark.log_partitions import LogPartitions
from kafkalog.spark.offset_json import TopicPartition, offsets_to_json
from kafkalog.spark.offset_ranges import (
    ending_offsets,
    starting_offsets,
    stream_ranges,
)
from kafkalog.spark.read_options import SourceOptions

PACKAGE: Final = "io.delta:delta-spark_2.13"
SETTINGS: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": (
        "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    ),
}
"""The settings of Spark that Delta needs."""
DATE: Final = (
    "date_add(date'1970-01-01', "
    "cast(floor(unix_micros(timestamp) / 86400000000) as int)) as date"
)
"""The UTC date, whatever the time zone of the session."""
REPLACED: Final = frozenset(
    (
        *("subscribe", "subscribepattern", "assign"),
        *("startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp"),
        *("endingoffsets", "endingtimestamp", "endingoffsetsbytimestamp"),
    )
)
"""Options of the source, in lower case, that each write sets for its partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaJob:
    """A job: it appends the records that `given`, parsed as `options`, select."""

    given: Mapping[str, str]
    options: SourceOptions
    columns: tuple[str, ...]
    out: Path
    compression: str = "zstd"

    def __post_init__(self) -> None:
        if missing := {"topic", "timestamp"} - set(self.columns):
            raise ConfigError(
                "expected the columns topic and timestamp, by which the table is "
                f"partitioned, without {', '.join(sorted(missing))}"
            )
        if self.options.on_corruption == "skip":
            raise ConfigError(
                "--to delta, expected without --on-corruption skip: a table does not "
                "report what was skipped"
            )


@dataclass(slots=True)
class DeltaOutcome:
    """The offsets appended of each partition, and the data found missing."""

    written: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    losses: list[str] = field(default_factory=list)


def check_table(out: Path) -> None:
    """Raise `FileExistsError` if a directory has files that are not of a Delta table.

    Raises `PermissionError` if it is a log directory or within one.
    """
    check_target(out, overwrite=is_delta_table(out) or (out / FOLDER).is_dir())


def run_delta_job(job: DeltaJob, session: Callable[[], Any]) -> DeltaOutcome:
    """Append the new records of each partition; call `session` to start Spark.

    Raises `BlockingIOError` while another job writes to the directory, `KafkaLogError`
    if Spark has no Delta, and the errors of reading. The partitions before the one that
    failed have been appended then.
    """
    warn_of_ignored_options(job.options)
    partitions = open_partitions(job.options)
    outcome = DeltaOutcome()
    java_error = require("py4j.protocol", "spark").Py4JError
    python_error = require("pyspark.errors", "spark").PySparkException
    with locked(job.out):
        spark = session()
        try:
            known = committed_offsets(spark, job.out, partitions)
            for new in find_ranges(
                job.options, partitions, known, outcome.losses.append
            ):
                _append(spark, job, new)
                outcome.written[new.topic_partition] = (new.start, new.end)
        except (java_error, python_error) as error:
            raise error_from_spark(str(error)) from error
    return outcome


def committed_offsets(
    spark: Any, out: Path, partitions: LogPartitions
) -> dict[TopicPartition, int]:
    """Return the offset to continue from of each partition that the table has.

    Raises `KafkaLogError` if Spark has no Delta.
    """
    delta_log = spark._jvm.org.apache.spark.sql.delta.DeltaLog
    if isinstance(delta_log, require("py4j.java_gateway", "spark").JavaPackage):
        error = KafkaLogError(
            f"Delta is missing in Spark: --conf spark.jars.packages={PACKAGE}:VERSION"
        )
        error.add_note("The version has to be one for this version of Spark.")
        raise error
    delta_log.clearCache()
    table = delta_log.forTable(spark._jsparkSession, str(out.absolute()))
    versions = table.unsafeVolatileSnapshot().transactions()
    return {
        topic_partition: int(versions.apply(name))
        for topic_partition in partitions.topic_partitions()
        if versions.contains(name := application_id(*topic_partition))
    }


def find_ranges(
    options: SourceOptions,
    partitions: LogPartitions,
    known: Mapping[TopicPartition, int],
    warn: Callable[[str], None],
) -> list[OffsetRange]:
    """Return the ranges to append: from the known offsets on, or the options' start."""
    selected = options.topics.select(partitions.topic_partitions())
    starts = {tp: known[tp] for tp in selected if tp in known}
    if len(starts) < len(selected):
        starts = starting_offsets(options, partitions) | starts
    ends = not_before(starts, ending_offsets(options, partitions), partitions)
    return stream_ranges(options, partitions, starts, ends, warn)


def _append(spark: Any, job: DeltaJob, new: OffsetRange) -> None:
    """Append the records of one partition as one commit."""
    topic_partition = new.topic_partition
    options = {
        name: text for name, text in job.given.items() if name.lower() not in REPLACED
    }
    options["assign"] = json.dumps({new.topic: [new.partition]})
    options["startingOffsets"] = json.dumps(
        offsets_to_json({topic_partition: new.start})
    )
    options["endingOffsets"] = json.dumps(offsets_to_json({topic_partition: new.end}))
    rows = spark.read.format("kafkalog").options(**options).load()
    writer = rows.selectExpr("*", DATE).write.format("delta").mode("append")
    writer = writer.partitionBy("topic", "date")
    writer = writer.option("compression", job.compression)
    writer = writer.option("txnAppId", application_id(*topic_partition))
    writer.option("txnVersion", new.end).save(str(job.out.absolute()))
