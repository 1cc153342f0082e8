"""The segments, offsets and settings of a partition, read without changing it.

They are what retention and compaction depend on. A broker may have the partition open.
The settings are those that a `LogManager` would use, with the caller's changes.

Source: ``LogManager.fetchLogConfig``, ``LogSegment.largestTimestamp``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafkalog.config import LogConfig
from kafkalog.config.log_config import is_older_segment_size
from kafkalog.decoding.read_policy import ReadPolicy
from kafkalog.decoding.record_counts import count_records, suffices_to_count
from kafkalog.errors import NotALogDirectoryError
from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.formats.partition_files import PartitionMetadata
from kafkalog.indexes.time_index import TimeIndex, last_slot_timestamp
from kafkalog.log.log import Log
from kafkalog.log.ownership import Name
from kafkalog.log.reading.log_segments import list_segments
from kafkalog.log.retention import LogOffsets
from kafkalog.log.topic_settings import PartitionSettings, TopicSettings
from kafkalog.segment.file_records import FileRecords, Step
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.checkpoint_file import (
    RECOVERY_POINTS,
    read_if_exists,
    read_offsets_or_none,
)
from kafkalog.storage.file_names import (
    CLEAN_SHUTDOWN,
    MAX_OFFSET,
    METADATA_TOPIC,
    PARTITION_METADATA,
    parse_partition_dir,
)
from kafkalog.storage.location import no_such_path
from kafkalog.storage.log_directory import (
    PartitionSelection,
    is_partition,
    list_partitions,
)

READABLE: Final = ReadPolicy(needs="headers", check_crcs="never", on_corruption="skip")


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """File, base offset, size and largest timestamp of a segment."""

    file: LogSegment
    base_offset: int
    size: int
    largest_timestamp: int


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """A partition's segments, offsets and settings at one time."""

    directory: Path
    name: Name
    segments: tuple[SegmentFacts, ...]
    offsets: LogOffsets
    settings: PartitionSettings

    @property
    def config(self) -> LogConfig:
        """The settings, with the changes of the caller."""
        return self.settings.config


def partitions_at(path: Path) -> list[tuple[Path, Name]]:
    """Return the directory and name of the partition at a path, or of those below it.

    All have the same parent. Raises `FileNotFoundError` and `NotALogDirectoryError`.
    """
    if not path.exists():
        raise no_such_path(path)
    if is_partition(path):
        return [(path, partition_name(path))]
    return [
        (path / name.name, (name.topic, name.partition))
        for name, _ in list_partitions(path)
    ]


def chosen(
    found: list[tuple[Path, Name]], selection: PartitionSelection
) -> list[tuple[Path, Name]]:
    """Return those that are requested; raise if one is missing."""
    numbers = selection.choose([name for _, name in found])
    return [found[number] for number in numbers]


def partition_name(directory: Path) -> Name:
    """Return the topic and partition of a partition's directory.

    Raises `NotALogDirectoryError` if the name is not that of a partition.
    """
    name = parse_partition_dir(directory.name)
    if name is None or name.state is not None:
        raise NotALogDirectoryError(f"not a partition's directory: {directory}")
    return name.topic, name.partition


def find_settings(
    topics: TopicSettings, directory: Path, topic: str, changes: Mapping[str, object]
) -> PartitionSettings:
    """Return the settings of a partition, with changes by Kafka's names.

    The changes do not apply to the cluster's metadata log, whose segments a broker
    deletes by its snapshots alone.

    Raises `ConfigError`, and `CorruptCheckpointError` for ``partition.metadata``.
    """
    stored = read_if_exists(directory / PARTITION_METADATA, PartitionMetadata.parse)
    settings = topics.assumed(topic, None if stored is None else stored.topic_id)
    config = settings.config.with_changes(_of_older_brokers(changes))
    if topic == METADATA_TOPIC:
        return settings
    if settings.source == "cluster" and "retention.ms" in changes:
        return PartitionSettings(config, None, settings.source)  # only that was unknown
    return settings._replace(config=config)


def _of_older_brokers(changes: Mapping[str, object]) -> dict[str, object]:
    """Return changes with a ``segment.bytes`` that brokers before 4.0 allowed.

    It is the internal setting then, which has no minimum.
    """
    result = dict(changes)
    with suppress(KeyError, TypeError, ValueError):
        size = int(str(result["segment.bytes"]).strip())
        if is_older_segment_size(size):
            del result["segment.bytes"]
            result["internal.segment.bytes"] = size
    return result


def read_facts(
    directory: Path, name: Name, settings: PartitionSettings
) -> PartitionFacts:
    """Return the current segments and offsets of a partition."""
    log, root = Log(directory), directory.parent
    recovered_from = 0
    if (root / CLEAN_SHUTDOWN).exists():
        recovered_from = MAX_OFFSET + 1
    elif name[0] != METADATA_TOPIC:
        recovered_from = read_offsets_or_none(root, RECOVERY_POINTS).get(name, 0)
    return PartitionFacts(
        directory,
        name,
        tuple(_read_segments(list_segments(directory), recovered_from)),
        LogOffsets(log.log_start_offset, log.high_watermark, log.log_end_offset),
        settings,
    )


def _read_segments(
    segments: Iterable[LogSegment], recovered_from: int
) -> Iterator[SegmentFacts]:
    for segment in segments:
        with suppress(FileNotFoundError):  # a broker has deleted it since
            yield _read_segment(segment, is_recovered=segment.most >= recovered_from)


def _read_segment(segment: LogSegment, *, is_recovered: bool) -> SegmentFacts:
    """Return the facts of a segment; the last segment ends at its last valid batch.

    The greatest timestamp is that of the records if recovery reads the segment; else it
    is the one in the last slot of the time index, which a broker does not check.
    """
    latest, is_last = _latest_indexed(segment), segment.most == MAX_OFFSET
    loaded = None if is_recovered else _loaded_timestamp(segment)
    with segment.open() as source:
        start = segment.position_for(source, MAX_OFFSET) if latest >= 0 else 0
        end = 0
        for step in segment.last_steps(source, start):
            latest = max(latest, int(step.rows["max_timestamp"].max()))
            end = int(step.rows["position"][-1]) + int(step.rows["size_in_bytes"][-1])
        size = end if is_last else source.size
    if loaded is not None:
        latest = loaded
    if latest < 0:
        latest = int(segment.path.stat().st_mtime * 1000)
    return SegmentFacts(segment, segment.base_offset, size, latest)


def _latest_indexed(segment: LogSegment) -> int:
    """Return the greatest timestamp in the time index; -1 if there is none."""
    path = segment.path.with_suffix(".timeindex")
    with suppress(FileNotFoundError):
        timestamps = TimeIndex.read_live(path, segment.base_offset).timestamps
        return int(timestamps[-1]) if len(timestamps) else -1
    return -1


def _loaded_timestamp(segment: LogSegment) -> int | None:
    """Return the greatest timestamp that a broker loads; -1 if there is none.

    None for a segment without an offset index, which is recovered.
    """
    path = segment.path
    if not isinstance(path, Path) or not path.with_suffix(".index").exists():
        return None
    with suppress(FileNotFoundError):
        return last_slot_timestamp(path.with_suffix(".timeindex"))
    return -1


def count_file_records(segment: LogSegment) -> int:
    """Return the number of records of a segment, without those in corrupt batches."""

    def is_counted(rows: BatchHeaders) -> bool:
        return bool(suffices_to_count(rows).all())

    with segment.open() as source:
        records = FileRecords(
            source=source,
            headers_suffice=is_counted,
            limits=segment.limits,
            policy=READABLE,
        )
        return sum(
            int(count_records(step.rows, step.data, step.origin).sum())
            for step in records
            if isinstance(step, Step)
        )
