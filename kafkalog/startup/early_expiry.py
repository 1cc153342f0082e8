"""Segments that a broker deletes too early, as their time index is damaged.

The greatest timestamp of a segment that is not recovered is the one in the last slot of
its time index. If that is too low, or a slot of zeros, ``retention.ms`` deletes the
segment at the first check, a few seconds after the start.

Source: ``LogSegment.largestTimestamp``,
``UnifiedLog.deleteRetentionMsBreachedSegments``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kafkalog.config import LogConfig
from kafkalog.errors import KafkaLogError
from kafkalog.log.retention import LogOffsets, RetentionRule, plan_retention
from kafkalog.log.topic_settings import PartitionSettings
from kafkalog.log.writable_log import WritableLog
from kafkalog.segment.file_batches import greatest_timestamp
from kafkalog.segment.growing_segment import GrowingSegment
from kafkalog.storage.file_names import file_name


@dataclass(frozen=True, slots=True)
class TimedSegment:
    """A segment with the timestamp that a broker has loaded for it."""

    base_offset: int
    size: int
    largest_timestamp: int


@dataclass(frozen=True, slots=True)
class EarlyExpiry:
    """A segment that is deleted early: the timestamp loaded, and the greatest one."""

    base_offset: int
    size: int
    loaded: int
    greatest: int

    def note(self, retention_ms: int) -> str:
        """Return what a broker does, and why."""
        name = file_name(self.base_offset, "timeindex")
        return (
            f"{file_name(self.base_offset, 'log')}: deleted at the first check of "
            f"retention.ms={retention_ms}: the last entry of {name} has timestamp "
            f"{self.loaded}, but the records have up to {self.greatest}"
        )


def retention_settings(settings: PartitionSettings) -> LogConfig:
    """Return the settings of a log, with Kafka's default of an unknown retention."""
    if settings.unknown is None or settings.config.retention_ms >= 0:
        return settings.config
    default = LogConfig().retention_ms
    return settings.config.with_changes({"retention.ms": default})


def find_early(log: WritableLog, config: LogConfig) -> list[EarlyExpiry]:
    """Return the segments that the first check of retention deletes too early.

    All records count as replicated, as soon after a start.
    """
    end, now_ms = log.log_end_offset, time.time_ns() // 1_000_000
    offsets = LogOffsets(log.log_start_offset, end, end)
    loaded = [
        TimedSegment(each.base_offset, each.size, each.largest_timestamp)
        for each in log.growing_segments
    ]
    actual, found = list(loaded), []
    for i, removal in enumerate(plan_retention(loaded, offsets, config, now_ms)):
        segment = log.growing_segments[i]
        greatest = _greatest(segment)
        if (
            removal.rule == RetentionRule.TIME
            and greatest > loaded[i].largest_timestamp
        ):
            actual[i] = replace(loaded[i], largest_timestamp=greatest)
            found.append(i)
    if not found:
        return []
    kept = _bases(loaded, offsets, config, now_ms) - _bases(
        actual, offsets, config, now_ms
    )
    return [
        EarlyExpiry(
            each.base_offset,
            each.size,
            each.largest_timestamp,
            actual[i].largest_timestamp,
        )
        for i, each in enumerate(loaded)
        if each.base_offset in kept
    ]


def _bases(
    segments: Sequence[TimedSegment], offsets: LogOffsets, config: LogConfig, now: int
) -> set[int]:
    planned = plan_retention(segments, offsets, config, now)
    return {removal.segment.base_offset for removal in planned}


def _greatest(segment: GrowingSegment) -> int:
    """Return the greatest timestamp of a segment's records; -1 if it is corrupt."""
    try:
        return greatest_timestamp(segment.file, 0, segment.size)[0]
    except KafkaLogError:
        return -1
