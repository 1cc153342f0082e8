"""`offsets_for_times` and `list_segments`, which read indexes, in parallel.

The driver lists the partitions only. Executors read the indexes, a group of partitions
in each task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kafkalog.errors import ConfigError
from kafkalog.formats.timestamps import MAX_MS_IN_US, US_PER_MS, Time, as_ms
from kafkalog.log.log import Log
from kafkalog.query.listing import list_path
from kafkalog.query.listing_report import SegmentSummary
from kafkalog.spark.functions import Paths, format_source_options
from kafkalog.spark.read_options import SourceOptions, parse_options
from kafkalog.spark.task_dataframes import Row, dataframe_of_rows
from kafkalog.storage.location import Location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GROUP_SIZE: Final = 32
"""Partitions in a task: enough to be worth a task, few enough to use all cores."""

OFFSET_SCHEMA: Final = "topic string, partition int, timestamp timestamp, offset bigint"

SEGMENT_SCHEMA: Final = (
    "topic string, partition int, segment string, baseOffset bigint, nextOffset bigint,"
    " sizeInBytes bigint, indexEntries bigint, timeIndexEntries bigint,"
    " txnIndexEntries bigint, firstTimestamp timestamp, maxTimestamp timestamp,"
    " modificationTime timestamp, state string, directory string"
)

Partition = tuple[str, int, Location]
"""A partition: its topic, number and directory."""


def offsets_for_times(
    spark: SparkSession, path: Paths, timestamps: Time | Iterable[Time], **options: Any
) -> DataFrame:
    """Look up, in every partition, the first offset at or after each timestamp.

    The result is that of a broker's ListOffsets request.

    Parameters
    ----------
    spark : SparkSession
        The session to use.
    path : path or list of paths
        Log directories or partition directories.
    timestamps : int, aware datetime, or iterable of such
        Integers are ms since 1970.
    **options
        Options of the source that select topics, those of the storage, and
        ``kafka.isolation.level``; spelled as in `read`.

    Returns
    -------
    DataFrame
        Columns ``topic``, ``partition``, ``timestamp`` and ``offset``, a row for each
        partition and timestamp. ``offset`` is null if there is no such record.

    Raises
    ------
    ConfigError
        If options are invalid, or a timestamp is outside the range of Spark's.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> times = [datetime(2023, 11, 14, 22, 14, tzinfo=UTC)]
    >>> found = offsets_for_times(spark, "/mnt/kafka", times)  # doctest: +SKIP
    >>> found.where("topic = 'orders.none'").first()["offset"]  # doctest: +SKIP
    63
    """
    times = _times(timestamps)
    parsed = parse_options(format_source_options(path, None, options), streaming=False)
    lookup = _Lookup(times, parsed.read_committed)
    return dataframe_of_rows(
        spark, _group_partitions(parsed), lookup.run, OFFSET_SCHEMA
    )


def list_segments(spark: SparkSession, path: Paths, **options: Any) -> DataFrame:
    """List the segments of every partition, from file names, indexes and file metadata.

    Segments that a broker removes meanwhile are skipped.

    Parameters
    ----------
    spark, path, **options
        As in `offsets_for_times`.

    Returns
    -------
    DataFrame
        A row for each segment: ``topic``, ``partition``, ``segment`` (the file name),
        ``baseOffset``, ``nextOffset`` (the offset after its last), ``sizeInBytes`` of
        the ``.log``, ``indexEntries``, ``timeIndexEntries`` and ``txnIndexEntries``
        (null without the index), ``firstTimestamp`` and ``maxTimestamp`` (null if there
        is none, at most Spark's last), ``modificationTime`` (null if the storage has
        none), ``state`` (``deleted`` and so on) and ``directory``.

    Raises
    ------
    ConfigError
        If options are invalid.

    Examples
    --------
    >>> list_segments(spark, "/mnt/kafka", subscribe="ledger").count()  # doctest: +SKIP
    7
    """
    parsed = parse_options(format_source_options(path, None, options), streaming=False)
    return dataframe_of_rows(
        spark, _group_partitions(parsed), summarize_segments, SEGMENT_SCHEMA
    )


def _times(timestamps: Time | Iterable[Time]) -> tuple[int, ...]:
    if isinstance(timestamps, Time):
        timestamps = [timestamps]
    times = tuple(as_ms(timestamp) for timestamp in timestamps)
    if outside := [ms for ms in times if abs(ms) > MAX_MS_IN_US]:
        raise ConfigError(
            f"timestamp {outside[0]} ms, expected at most {MAX_MS_IN_US} ms either"
            " side of 1970, the range of Spark's"
        )
    return times


def _group_partitions(options: SourceOptions) -> list[list[Partition]]:
    """Return the selected partitions in groups."""
    from kafkalog.spark.batch_query import open_partitions, warn_of_ignored_options

    warn_of_ignored_options(options)
    partitions = open_partitions(options)
    selected: list[Partition] = [
        (*tp, partitions.directory(tp))
        for tp in options.topics.select(partitions.topic_partitions())
    ]
    return [selected[i : i + GROUP_SIZE] for i in range(0, len(selected), GROUP_SIZE)]


@dataclass(frozen=True, slots=True)
class _Lookup:
    """A lookup of timestamps in partitions."""

    times_ms: tuple[int, ...]
    read_committed: bool

    def run(self, group: list[Partition]) -> Iterator[Row]:
        """Yield a row for each partition and timestamp."""
        for topic, partition, directory in group:
            log = Log(directory)
            end = log.last_stable_offset if self.read_committed else None
            offsets = log.offsets_for_times(list(self.times_ms)).tolist()
            for time_ms, offset in zip(self.times_ms, offsets, strict=True):
                exists = offset >= 0 and (end is None or offset < end)
                time_us = time_ms * US_PER_MS
                yield topic, partition, time_us, offset if exists else None


def summarize_segments(group: list[Partition]) -> Iterator[Row]:
    """Yield a row for each segment of some partitions."""
    for topic, partition, directory in group:
        for summary in list_path(directory):
            if isinstance(summary, SegmentSummary):
                try:
                    status = (directory / summary.file).stat()
                except FileNotFoundError:
                    continue
                written = status.st_mtime_ns // 1000 or None
                yield topic, partition, *_segment_row(summary, written, directory)


def _segment_row(
    summary: SegmentSummary, written_us: int | None, directory: Location
) -> tuple[Any, ...]:
    return (
        summary.file,
        summary.base_offset,
        summary.next_offset,
        summary.size_in_bytes,
        summary.index_entries,
        summary.time_index_entries,
        summary.txn_index_entries,
        _microseconds(summary.first_timestamp),
        _microseconds(summary.max_timestamp),
        written_us,
        summary.state,
        str(directory),
    )


def _microseconds(time_ms: int | None) -> int | None:
    """Return a timestamp in microseconds, limited to the range of Spark's."""
    if time_ms is None:
        return None
    return max(-MAX_MS_IN_US, min(time_ms, MAX_MS_IN_US)) * US_PER_MS
