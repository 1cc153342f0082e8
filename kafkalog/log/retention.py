"""Which old segments go: those before the log's start, beyond its size, or too old.

Three passes, in this order, from the oldest segment on; each ends at the first segment
that is to stay, so that one segment with a timestamp in the future shields all that
follow. Nothing goes that is not replicated.

Knows: what a log may lose. Does not know: how files are removed.
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
    """Delete what the log's settings no longer keep; answers how many segments."""
    deleted = _delete_before_start(log)
    if log.config.delete:
        deleted += _delete_beyond_size(log)
        deleted += _delete_too_old(log)
    return deleted


def _delete_before_start(log: LogState) -> int:
    def passed(segment: GrowingSegment, following: GrowingSegment | None) -> bool:
        del segment
        return following is not None and following.base_offset <= log.log_start_offset

    return _delete_while(log, passed)


def _delete_beyond_size(log: LogState) -> int:
    limit = log.config.retention_bytes
    excess = log.segments.size_in_bytes - limit
    if limit < 0 or excess < 0:
        return 0

    def too_much(segment: GrowingSegment, following: GrowingSegment | None) -> bool:
        nonlocal excess
        del following
        if excess < segment.size:
            return False
        excess -= segment.size
        return True

    return _delete_while(log, too_much)


def _delete_too_old(log: LogState) -> int:
    limit = log.config.retention_ms
    if limit < 0:
        return 0
    now = log.runtime.now_ms()

    def too_old(segment: GrowingSegment, following: GrowingSegment | None) -> bool:
        del following
        return now - segment.largest_timestamp > limit

    return _delete_while(log, too_old)


def _delete_while(log: LogState, condition: Condition) -> int:
    doomed = _deletable(log, condition)
    if doomed:
        _delete(log, doomed)
    return len(doomed)


def _deletable(log: LogState, condition: Condition) -> list[GrowingSegment]:
    """Segments from the oldest on that are replicated and meet the condition."""
    segments = list(log.segments)
    followers = [*segments[1:], None]
    doomed = []
    for segment, following in zip(segments, followers, strict=True):
        end = log.log_end_offset if following is None else following.base_offset
        if log.high_watermark.offset < end or not condition(segment, following):
            break
        if following is None and segment.size == 0:
            break
        doomed.append(segment)
    return doomed


def _delete(log: LogState, doomed: list[GrowingSegment]) -> None:
    """Delete segments; where that would be all, a new one begins first."""
    gone = doomed
    if len(doomed) == len(log.segments):
        active = roll(log)
        if doomed[-1].base_offset == active.base_offset:
            gone = doomed[:-1]
    if gone:
        following = log.segments.higher(gone[-1].base_offset)
        if following is not None:
            raise_log_start(log, following.base_offset)
        delay = log.config.file_delete_delay_ms
        remove_segments(log.segments, gone, log.runtime, delay)
    delay = log.config.file_delete_delay_ms
    delete_snapshots(gone, log.producers, log.runtime, delay)
