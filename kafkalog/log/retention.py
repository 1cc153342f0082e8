"""Retention: deletion of segments below the log start, by size and by age.

Three passes are made, in this order, from the oldest segment on. Each ends at the first
segment that is kept, so one segment with a timestamp in the future keeps all that
follow. A segment that is not replicated is kept.

Source: ``UnifiedLog.deleteOldSegments`` and its helpers.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkalog.log.deletion import delete_snapshots, remove_segments
from kafkalog.log.rolling import roll
from kafkalog.log.state import LogState
from kafkalog.log.watermarks import raise_log_start
from kafkalog.segment.growing_segment import GrowingSegment

Condition = Callable[[GrowingSegment, GrowingSegment | None], bool]


def delete_old_segments(log: LogState) -> int:
    """Delete the segments that the settings no longer keep; return their number."""
    deleted = _delete_before_start(log)
    if log.config.delete:
        deleted += _delete_beyond_size(log)
        deleted += _delete_too_old(log)
    return deleted


def _delete_before_start(log: LogState) -> int:
    def is_below(segment: GrowingSegment, following: GrowingSegment | None) -> bool:
        del segment
        return following is not None and following.base_offset <= log.log_start_offset

    return _delete_while(log, is_below)


def _delete_beyond_size(log: LogState) -> int:
    limit = log.config.retention_bytes
    excess = log.segments.size_in_bytes - limit
    if limit < 0 or excess < 0:
        return 0

    def is_excess(segment: GrowingSegment, following: GrowingSegment | None) -> bool:
        nonlocal excess
        del following
        if excess < segment.size:
            return False
        excess -= segment.size
        return True

    return _delete_while(log, is_excess)


def _delete_too_old(log: LogState) -> int:
    limit = log.config.retention_ms
    if limit < 0:
        return 0
    now = log.runtime.now_ms()

    def is_old(segment: GrowingSegment, following: GrowingSegment | None) -> bool:
        del following
        return now - segment.largest_timestamp > limit

    return _delete_while(log, is_old)


def _delete_while(log: LogState, condition: Condition) -> int:
    deletable = _deletable(log, condition)
    if deletable:
        _delete(log, deletable)
    return len(deletable)


def _deletable(log: LogState, condition: Condition) -> list[GrowingSegment]:
    """Return the oldest segments, while they are replicated and meet a condition."""
    segments = list(log.segments)
    followers = [*segments[1:], None]
    deletable = []
    for segment, following in zip(segments, followers, strict=True):
        end = log.log_end_offset if following is None else following.base_offset
        if log.high_watermark.offset < end or not condition(segment, following):
            break
        if following is None and segment.size == 0:
            break
        deletable.append(segment)
    return deletable


def _delete(log: LogState, segments: list[GrowingSegment]) -> None:
    """Delete segments; if these are all of the log, roll first."""
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
