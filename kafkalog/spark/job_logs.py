"""The job that appends a table of Parquet files to log directories.

It is one write of the sink. If the files have the columns ``topic``, ``partition`` and
``offset``, the rows of a partition are written in the order of their offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from kafkalog.log.log import Log
from kafkalog.log.ownership import Name
from kafkalog.spark.job_run import errors_of_spark
from kafkalog.spark.sink.write_options import parse_sink_options
from kafkalog.storage.log_directory import existing_partitions

ORDER: Final = ("topic", "partition", "offset")


def append_table(
    spark: Any, lake: str, logs: Path, options: Mapping[str, str]
) -> dict[Name, tuple[int, int]]:
    """Append the rows of Parquet files to the logs of a directory.

    Returns the first offset of each partition that was written, and the one after the
    last.

    Raises `ConfigError` for an invalid option, and the error of the sink.
    """
    parse_sink_options({**options, "path": str(logs)})
    before = _end_offsets(logs)
    with errors_of_spark():
        table = spark.read.parquet(lake)
        if set(ORDER) <= set(table.columns):
            table = table.repartition("topic", "partition").sortWithinPartitions(*ORDER)
        writer = table.write.format("kafkalog").mode("append")
        writer.options(**options).save(str(logs))
    return {
        name: (before.get(name, 0), end)
        for name, end in sorted(_end_offsets(logs).items())
        if end > before.get(name, 0)
    }


def _end_offsets(logs: Path) -> dict[Name, int]:
    return {
        (topic, partition): Log(logs / f"{topic}-{partition}").log_end_offset
        for topic, partitions in existing_partitions(logs).items()
        for partition in partitions
    }
