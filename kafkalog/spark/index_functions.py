"""`offsets_for_times` and `list_segments`: what indexes tell of a cluster's partitions.

Partitions are shared out among the executors in bunches; each is asked where it lies,
so that the driver has only listed the directories.

Knows: what is asked of a partition, and the tables it makes. Does not know: how indexes
are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from kafkalog.errors import ConfigError
from kafkalog.formats.timestamps import as_ms
from kafkalog.log.log import Log
from kafkalog.query.listing import SegmentSummary, list_path
from kafkalog.spark.functions import Paths, source_options
from kafkalog.spark.read_options import SourceOptions, parse_options
from kafkalog.spark.row_converter import MOST_MS, US_PER_MS
from kafkalog.spark.task_dataframes import Row, frame_of_rows
from kafkalog.storage.location import Location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BUNCH: Final = 32
"""Partitions a task: enough to be worth starting one, few enough to share out."""

FOUND: Final = "topic string, partition int, timestamp timestamp, offset bigint"

SEGMENTS: Final = (
    "topic string, partition int, segment string, baseOffset bigint, nextOffset bigint,"
    " sizeInBytes bigint, indexEntries bigint, timeIndexEntries bigint,"
    " txnIndexEntries bigint, firstTimestamp timestamp, maxTimestamp timestamp,"
    " modificationTime timestamp, state string, directory string"
)

Time = int | datetime
Held = tuple[str, int, Location]
"""A partition: its topic, its number, where it lies."""


def offsets_for_times(
    spark: SparkSession, path: Paths, timestamps: Time | Iterable[Time], **options: Any
) -> DataFrame:
    """Look up, in every partition, the first offset at or after each time.

    As a broker answers ListOffsets: exact, by the time indexes and the batch they lead
    to.

    Parameters
    ----------
    path : path, or list of such
        Log directories or partitions.
    timestamps : int, aware datetime, or iterable of such
        Ms since 1970, if numbers.
    **options
        Of the source, those that choose topics, the storage and
        ``kafka.isolation.level``; as in `read`.

    Returns
    -------
    DataFrame
        ``topic, partition, timestamp, offset``: a row for each partition and time;
        `offset` is null where there is no such record.
    """
    times = _times(timestamps)
    parsed = parse_options(source_options(path, None, options), streaming=False)
    lookup = _Lookup(times, parsed.read_committed)
    return frame_of_rows(spark, _bunches(parsed), lookup.run, FOUND)


def list_segments(spark: SparkSession, path: Paths, **options: Any) -> DataFrame:
    """List the segments of every partition, with what files and indexes tell of them.

    A row a segment: `segment` (its file) of ``topic`` and ``partition`` in
    ``directory``; ``baseOffset`` and ``nextOffset``, one past its last; ``sizeInBytes``
    of the ``.log``; how many entries its indexes hold, null where there is none; the
    time of its first batch that tells one and the greatest there is, null where there
    is none, the latter at most Spark's own last; when the file was last written, null
    where its storage does not tell; and `state`, ``deleted`` and the like. Segments
    that a broker removes meanwhile are left out.

    Parameters as of `offsets_for_times`.
    """
    parsed = parse_options(source_options(path, None, options), streaming=False)
    return frame_of_rows(spark, _bunches(parsed), summarize_segments, SEGMENTS)


def _times(timestamps: Time | Iterable[Time]) -> tuple[int, ...]:
    alone = isinstance(timestamps, (int, datetime))
    given: Sequence[Any] = [timestamps] if alone else list(timestamps)  # type: ignore[arg-type]
    times = tuple(map(as_ms, given))
    if beyond := [ms for ms in times if abs(ms) > MOST_MS]:
        raise ConfigError(f"a timestamp of {beyond[0]} ms is beyond Spark's")
    return times


def _bunches(options: SourceOptions) -> list[list[Held]]:
    """Share out the partitions that are asked for."""
    from kafkalog.spark.batch_query import open_partitions, warn_of_ignored

    warn_of_ignored(options)
    held = open_partitions(options)
    chosen: list[Held] = [
        (*place, held.directory(place))
        for place in options.topics.choose(held.places())
    ]
    return [chosen[i : i + BUNCH] for i in range(0, len(chosen), BUNCH)]


@dataclass(frozen=True, slots=True)
class _Lookup:
    """Looks up the same times in partitions."""

    times_ms: tuple[int, ...]
    read_committed: bool

    def run(self, bunch: list[Held]) -> Iterator[Row]:
        """Look them up in some partitions."""
        for topic, partition, directory in bunch:
            log = Log(directory)
            end = log.last_stable_offset if self.read_committed else None
            found = log.offsets_for_times(list(self.times_ms)).tolist()
            for time_ms, offset in zip(self.times_ms, found, strict=True):
                there = offset >= 0 and (end is None or offset < end)
                time_us = time_ms * US_PER_MS
                yield topic, partition, time_us, offset if there else None


def summarize_segments(bunch: list[Held]) -> Iterator[Row]:
    """Summarize the segments of some partitions."""
    for topic, partition, directory in bunch:
        for one in list_path(directory):
            if isinstance(one, SegmentSummary):
                try:
                    status = (directory / one.file).stat()
                except FileNotFoundError:
                    continue
                written = status.st_mtime_ns // 1000 or None
                yield topic, partition, *_told(one, written, directory)


def _told(
    one: SegmentSummary, written_us: int | None, directory: Location
) -> tuple[Any, ...]:
    return (
        one.file,
        one.base_offset,
        one.next_offset,
        one.size_in_bytes,
        one.index_entries,
        one.time_index_entries,
        one.txn_index_entries,
        _microseconds(one.first_timestamp),
        _microseconds(one.max_timestamp),
        written_us,
        one.state,
        str(directory),
    )


def _microseconds(time_ms: int | None) -> int | None:
    """Return a time as Spark has it; the last that Spark has for one beyond that."""
    if time_ms is None:
        return None
    return max(-MOST_MS, min(time_ms, MOST_MS)) * US_PER_MS
