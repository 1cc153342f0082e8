"""The partitions of log directories and their offsets, for planning a query.

Offsets are read from the files at each call, except a log's end, which is read once and
kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from kafkalog.errors import ConfigError, NotALogDirectoryError
from kafkalog.log.log import Log
from kafkalog.query.readable_offsets import (
    earliest_offset,
    latest_offset,
    warn_of_missing_offsets,
)
from kafkalog.query.sources import PartitionSource, find_sources
from kafkalog.spark.offset_json import TopicPartition, format_partition
from kafkalog.storage.location import Location, entries


class LogPartitions:
    """The partitions found in log directories when this object is made.

    `sources` are paths of log directories or partition directories; no partition may be
    in two of them. An empty directory is rejected: it may be a mount point whose file
    system is not mounted.
    """

    def __init__(self, sources: Sequence[Any], *, read_committed: bool = False) -> None:
        self._read_committed = read_committed
        self._parts: dict[TopicPartition, PartitionSource] = {}
        self._ends: dict[TopicPartition, int] = {}
        for part in find_sources(list(sources)):
            if part.directory is None:
                raise NotALogDirectoryError(f"not a log directory: {part.file}")
            if part.directory in sources and not entries(part.directory):
                raise NotALogDirectoryError(f"an empty directory: {part.directory}")
            topic_partition = part.topic, part.partition
            if topic_partition in self._parts:
                raise ConfigError(
                    f"expected one directory of {format_partition(topic_partition)},"
                    f" got {self.directory(topic_partition)} and {part.directory}"
                )
            self._parts[topic_partition] = part

    def topic_partitions(self) -> list[TopicPartition]:
        """Return the partitions, sorted."""
        return sorted(self._parts)

    def directory(self, topic_partition: TopicPartition) -> Location:
        """Return the directory of a partition."""
        return cast("Location", self._parts[topic_partition].directory)

    def earliest_offsets(
        self, topic_partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Return the log start offset of each partition."""
        return {tp: self._earliest(tp) for tp in topic_partitions}

    def latest_offsets(
        self, topic_partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Return each log end offset, or last stable offset under read_committed."""
        return {tp: self._latest(tp) for tp in topic_partitions}

    def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | None]:
        """Return the first offset at or after each timestamp; None where none is."""
        return {tp: self._for_time(tp, time) for tp, time in times_ms.items()}

    def _earliest(self, topic_partition: TopicPartition) -> int:
        part = self._parts[topic_partition]
        warn_of_missing_offsets([(part, part.log_start_offset)])
        return earliest_offset(self.directory(topic_partition), part)

    def _latest(self, topic_partition: TopicPartition) -> int:
        if topic_partition not in self._ends:
            self._ends[topic_partition] = latest_offset(
                self.directory(topic_partition),
                self._parts[topic_partition],
                read_committed=self._read_committed,
            )
        return self._ends[topic_partition]

    def _for_time(self, topic_partition: TopicPartition, time_ms: int) -> int | None:
        log = Log(self.directory(topic_partition))
        [offset] = log.offsets_for_times([time_ms]).tolist()
        if offset < 0:
            return None
        if self._read_committed and offset >= self._latest(topic_partition):
            return None
        return int(offset)
