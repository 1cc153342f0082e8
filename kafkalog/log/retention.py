"""Retention: deletion of segments below the log start, by size and by age.

There is a pass for each rule, in this order, from the oldest segment on. It ends at the
first segment that is kept, so a segment with a timestamp in the future keeps all
segments after it. A segment that is not replicated is kept.

The passes read a list of segments and the offsets of a log. `plan_retention` returns
the segments to delete, and `delete_old_segments` deletes them.

Source: ``UnifiedLog.deleteOldSegments`` and its helpers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Generic, NamedTuple, Protocol, TypeVar

from kafkalog.config import LogConfig
from kafkalog.log.deletion import delete_snapshots, remove_segments
from kafkalog.log.rolling import roll
from kafkalog.log.state import LogState
from kafkalog.log.watermarks import raise_log_start
from kafkalog.segment.growing_segment import GrowingSegment


class RetentionRule(StrEnum):
    """A rule that deletes segments; the members are in the order of the passes."""

    LOG_START = "log_start_offset"
    SIZE = "retention.bytes"
    TIME = "retention.ms"


class RetainedSegment(Protocol):
    """The attributes of a segment that retention reads."""

    @property
    def base_offset(self) -> int:
        """The offset in the name of the segment."""

    @property
    def size(self) -> int:
        """The size of the ``.log`` file, in bytes."""

    @property
    def largest_timestamp(self) -> int:
        """Greatest timestamp, or the modification time if there is none."""


Segment = TypeVar("Segment", bound=RetainedSegment)
Condition = Callable[[RetainedSegment, RetainedSegment | None], bool]
"""Whether a rule deletes a segment; the second argument is the following segment."""


class LogOffsets(NamedTuple):
    """The offsets of a log that retention depends on."""

    log_start_offset: int
    high_watermark: int
    log_end_offset: int


class ExpiredSegment(NamedTuple, Generic[Segment]):
    """A segment, and the rule that deletes it."""

    segment: Segment
    rule: RetentionRule


def rules_of(config: LogConfig) -> tuple[RetentionRule, ...]:
    """Return the rules that ``cleanup.policy`` applies, in order.

    >>> [str(rule) for rule in rules_of(LogConfig(cleanup_policy="compact"))]
    ['log_start_offset']
    """
    return tuple(RetentionRule) if config.delete else (RetentionRule.LOG_START,)


def plan_retention(
    segments: Sequence[Segment], offsets: LogOffsets, config: LogConfig, now_ms: int
) -> list[ExpiredSegment[Segment]]:
    """Return the segments that retention deletes at a time, oldest first."""
    removals: list[ExpiredSegment[Segment]] = []
    for rule in rules_of(config):
        kept = segments[len(removals) :]
        deletable = find_deletable(rule, kept, offsets, config, now_ms)
        removals += [ExpiredSegment(segment, rule) for segment in deletable]
    return removals


def find_deletable(
    rule: RetentionRule,
    segments: Sequence[Segment],
    offsets: LogOffsets,
    config: LogConfig,
    now_ms: int,
) -> list[Segment]:
    """Return the segments that a rule deletes, up to the first that it keeps."""
    condition = condition_of(rule, segments, offsets, config, now_ms)
    deletable = []
    for segment, following in with_following(segments):
        if not is_replicated(following, offsets) or not condition(segment, following):
            break
        if following is None and segment.size == 0:
            break
        deletable.append(segment)
    return deletable


def with_following(
    segments: Sequence[Segment],
) -> Iterator[tuple[Segment, Segment | None]]:
    """Yield each segment with the segment after it; None after the last one."""
    yield from zip(segments, [*segments[1:], None], strict=False)


def is_replicated(following: RetainedSegment | None, offsets: LogOffsets) -> bool:
    """Return whether the high watermark is at or above the end of a segment."""
    end = offsets.log_end_offset if following is None else following.base_offset
    return offsets.high_watermark >= end


def condition_of(
    rule: RetentionRule,
    segments: Sequence[RetainedSegment],
    offsets: LogOffsets,
    config: LogConfig,
    now_ms: int,
) -> Condition:
    """Return the condition of a rule; it must be called with the segments in order."""
    match rule:
        case RetentionRule.LOG_START:
            return _is_below(offsets.log_start_offset)
        case RetentionRule.SIZE:
            return _is_excess(segments, config.retention_bytes)
        case RetentionRule.TIME:
            return _is_expired(config.retention_ms, now_ms)


def _is_below(log_start_offset: int) -> Condition:
    def is_below(_: RetainedSegment, following: RetainedSegment | None) -> bool:
        return following is not None and following.base_offset <= log_start_offset

    return is_below


def _is_excess(segments: Sequence[RetainedSegment], limit: int) -> Condition:
    excess = sum(segment.size for segment in segments) - limit

    def is_excess(segment: RetainedSegment, _: RetainedSegment | None) -> bool:
        nonlocal excess
        if excess < segment.size:
            return False
        excess -= segment.size
        return True

    return _never if limit < 0 or excess < 0 else is_excess


def _is_expired(limit: int, now_ms: int) -> Condition:
    def is_expired(segment: RetainedSegment, _: RetainedSegment | None) -> bool:
        return now_ms - segment.largest_timestamp > limit

    return _never if limit < 0 else is_expired


def _never(_: RetainedSegment, __: RetainedSegment | None) -> bool:
    return False


def expires_ms(segment: RetainedSegment, config: LogConfig) -> int | None:
    """Return the first time at which a segment is too old; None if there is none."""
    if config.retention_ms < 0:
        return None
    return segment.largest_timestamp + config.retention_ms + 1


def delete_old_segments(log: LogState) -> int:
    """Delete the segments that the settings do not keep; return their number.

    Of a tiered partition only those below the log start offset are deleted: which of
    the others are in remote storage is not known.
    """
    rules = rules_of(log.config)
    is_tiered = log.is_tiered or log.is_fragment
    if is_tiered and not log.config.remote_log_copy_disable:
        rules = (RetentionRule.LOG_START,)
    return sum(_delete_by(rule, log) for rule in rules)


def _delete_by(rule: RetentionRule, log: LogState) -> int:
    deletable = find_deletable(
        rule,
        list(log.segments),
        LogOffsets(log.log_start_offset, log.high_watermark.offset, log.log_end_offset),
        log.config,
        log.runtime.now_ms(),
    )
    if deletable:
        _delete(log, deletable)
    return len(deletable)


def _delete(log: LogState, segments: list[GrowingSegment]) -> None:
    """Delete segments; if they are all segments of the log, roll it first."""
    if len(segments) == len(log.segments):
        active = roll(log)
        if segments[-1].base_offset == active.base_offset:
            segments = segments[:-1]
    delay = log.config.file_delete_delay_ms
    if segments:
        following = log.segments.higher(segments[-1].base_offset)
        if following is not None:
            raise_log_start(log, following.base_offset)
        remove_segments(log.segments, segments, log.runtime, delay)
    delete_snapshots(segments, log.producers, log.runtime, delay)
