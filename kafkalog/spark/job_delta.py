"""The job's Delta table, to which each run appends what is new, exactly once.

Executors write the files of a run, and `kafkalog.export.delta_table` adds them to the
table in one commit, with the offset to continue from of each partition. Files get their
places in the table's directory before that: they are no part of the table without it.
The next run starts where the table says.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from kafkalog.errors import ConfigError
from kafkalog.export.delta_table import DATE, DeltaAppender, is_delta_table
from kafkalog.export.file_export import check_target
from kafkalog.optional_packages import require
from kafkalog.spark.job_output import (
    FOLDER,
    Manifest,
    locked,
)
from kafkalog.spark.job_parquet import NO_DATE
from kafkalog.spark.job_run import (
    Job,
    JobOutcome,
    find_new_offsets,
    open_checked,
    write_files,
)
from kafkalog.spark.offset_json import TopicPartition
from kafkalog.spark.spark_columns import COLUMNS

INTEGERS: Final = {
    name
    for name, column in COLUMNS.items()
    if column.sql_type in ("tinyint", "smallint", "int", "bigint")
}
"""The columns of integers."""


def check_table(out: Path) -> None:
    """Raise `FileExistsError` if a directory has files that are not of a Delta table.

    Raises `PermissionError` if it is a log directory or within one.
    """
    check_target(out, overwrite=is_delta_table(out) or (out / FOLDER).is_dir())


def run_delta_job(job: Job, session: Callable[[], Any]) -> JobOutcome:
    """Append the new records to a Delta table as one commit.

    Raises `BlockingIOError` while another job writes to the directory, and the errors
    of reading and of the table. Nothing has been appended then.
    """
    check_job(job)
    partitions = open_checked(job)
    with locked(job.out) as folder:
        folder.remove_staged()
        table = _open(job) if is_delta_table(job.out) else None
        known: dict[TopicPartition, int] = {}
        if table is not None:
            found = {tp: table.committed(*tp) for tp in partitions.topic_partitions()}
            known = {tp: end for tp, end in found.items() if end is not None}
        outcome = JobOutcome()
        new = find_new_offsets(job.options, partitions, known, outcome.left_out.append)
        if new.ranges:
            outcome.ranges = new.ranges
            with folder.staged(0) as staged:
                written = write_files(job, staged, partitions, new.ranges, session)
                outcome.left_out += written.skipped
                arranged = staged.arrange(written.files, f"run-{uuid.uuid4()}")
                staged.move_files(job.out)
                reached = {
                    read.topic_partition: (
                        known.get(read.topic_partition),
                        new.ends[read.topic_partition],
                    )
                    for read in new.ranges
                }
                added = added_files(job.out, arranged)
                (table or _open(job)).append_files(added, reached)
    return outcome


def _open(job: Job) -> DeltaAppender:
    pa = require("pyarrow", "spark")
    fields = [(name, COLUMNS[name].arrow_type) for name in job.columns]
    return DeltaAppender(job.out, pa.schema(fields), by_date=True)


def added_files(out: Path, arranged: list[Manifest]) -> list[Any]:
    """Return the actions of a commit that adds files of the table's directory."""
    actions = require("deltalake.transaction", "delta")
    now_ms = time.time_ns() // 1_000_000
    return [
        actions.AddAction(
            path=file["path"],
            size=file["size_in_bytes"],
            partition_values=partition_values(file["path"]),
            modification_time=now_ms,
            data_change=True,
            stats=json.dumps(statistics(out / file["path"])),
        )
        for file in arranged
    ]


def statistics(path: Path) -> dict[str, Any]:
    """Return what a commit states of a file, by which readers of the table skip it.

    That is the number of its rows, and the least and greatest of its columns of
    integers.

    Source: the Delta protocol, "Per-file Statistics".
    """
    metadata = require("pyarrow.parquet", "spark").read_metadata(path)
    least: dict[str, int] = {}
    greatest: dict[str, int] = {}
    groups = range(metadata.num_row_groups)
    for column in range(metadata.num_columns):
        name = metadata.schema.column(column).path
        found = [metadata.row_group(g).column(column).statistics for g in groups]
        if name in INTEGERS and all(each and each.has_min_max for each in found):
            least[name] = min(each.min for each in found)
            greatest[name] = max(each.max for each in found)
    return {
        "numRecords": metadata.num_rows,
        "minValues": least,
        "maxValues": greatest,
    }


def partition_values(path: str) -> dict[str, str | None]:
    """Return the topic and date in the path of a file.

    >>> partition_values("topic=orders/date=2026-11-21/part-00000.parquet")
    {'topic': 'orders', 'date': '2026-11-21'}
    """
    topic, date, _ = (name.partition("=")[2] for name in path.split("/"))
    return {"topic": topic, DATE: None if date == NO_DATE else date}


def check_job(job: Job) -> None:
    """Raise `ConfigError` for options that do not apply to a table.

    Raises `MissingDependencyError` without Delta's library.
    """
    require("deltalake", "delta")
    if missing := {"topic", "timestamp"} - set(job.columns):
        raise ConfigError(
            "expected the columns topic and timestamp, by which the table is "
            f"partitioned, without {', '.join(sorted(missing))}"
        )
    if job.options.on_corruption == "skip":
        raise ConfigError(
            "--to delta, expected without --on-corruption skip: a table does not "
            "report what was skipped"
        )
