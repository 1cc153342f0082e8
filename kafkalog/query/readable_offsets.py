"""The offsets of a partition that can be read: from its log start to its end.

There is no broker to state the high watermark, so the log end is used instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kafkalog.decoding.read_policy import ReadPolicy
from kafkalog.integer_limits import MIN_INT64
from kafkalog.log.reading.log_segments import list_first, list_segments
from kafkalog.log.reading.offset_lookup import find_end
from kafkalog.log.reading.remote_offsets import (
    find_missing_start,
    is_tiered,
    warn_of_missing_start,
)
from kafkalog.log.reading.transactions import find_stable
from kafkalog.query.sources import PartitionSource
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.location import Location


def earliest_offset(directory: Location, source: PartitionSource) -> int:
    """Return the log start offset, at least that of the first segment."""
    return _start_in(list_first(directory), source)


def _start_in(listed: list[LogSegment], source: PartitionSource) -> int:
    first = listed[0].base_offset if listed else 0
    return max(first, source.log_start_offset)


def warn_of_missing_offsets(readings: Iterable[tuple[PartitionSource, int]]) -> None:
    """Warn where a reading of a partition lacks offsets that are in remote storage.

    Each reading is of a partition from an offset on. Without a checkpointed log start
    offset only the metadata of a cluster can state that, if it is in the same log
    directory. It is asked once for each topic.
    """
    tiered: dict[tuple[Path, str], bool | None] = {}
    for source, start in readings:
        directory, line = source.directory, source.log_start_offset
        if directory is None:
            continue
        checkpointed = None if line == MIN_INT64 else line
        if checkpointed is None:
            if not isinstance(directory, Path):
                continue
            topic = directory.parent, source.topic
            if topic not in tiered:
                tiered[topic] = is_tiered(directory)
            if not tiered[topic]:
                continue
        with suppress(FileNotFoundError):  # deleted since
            missing = find_missing_start(directory, list_first(directory), checkpointed)
            if missing is not None and start <= missing.last_offset:
                warn_of_missing_start(directory, missing)


def latest_offset(
    directory: Location, source: PartitionSource, *, read_committed: bool
) -> int:
    """Return the log end offset, or the last stable offset under read_committed."""
    segments = list_segments(directory)
    end = _log_end(directory, segments, source)
    if not read_committed:
        return end
    return find_stable(directory, segments, _start_in(segments, source), end)


def end_of_reading(
    directory: Location, source: PartitionSource, start: int, policy: ReadPolicy
) -> int:
    """Return the offset up to which a reading from `start` has records, as of now."""
    segments = list_segments(directory)
    end = _log_end(directory, segments, source)
    if policy.isolation == "read_uncommitted":
        return end
    first = min(_start_in(segments, source), start)
    if not policy.skips:
        return find_stable(directory, segments, first, end)
    return find_stable(directory, segments, first, end, start=start, policy=policy)


def _log_end(
    directory: Location, segments: list[LogSegment], source: PartitionSource
) -> int:
    start = max(0, source.log_start_offset)
    return find_end(directory, segments, start, past_damage=True)


class Replica(NamedTuple):
    """A partition's directory, and the offsets of its log."""

    source: PartitionSource
    directory: Location
    log_start_offset: int
    log_end_offset: int


def longest_replicas(
    sources: Iterable[PartitionSource],
) -> dict[tuple[str, int], Replica]:
    """Return, by topic and partition, the replica with the highest log end offset.

    Files and bytes in memory are ignored.
    """
    found: dict[tuple[str, int], Replica] = {}
    for source in sources:
        if source.directory is None:
            continue
        place = source.topic, source.partition
        segments = list_segments(source.directory)
        start = _start_in(segments, source)
        end = find_end(source.directory, segments, start)
        if place not in found or found[place].log_end_offset < end:
            found[place] = Replica(source, source.directory, start, end)
    return found
