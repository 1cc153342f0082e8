"""The range of a log that may be compacted, and the log's share of dirty bytes.

    clean        offsets below the first dirty one, which is checkpointed
    cleanable    from there to the first uncleanable offset, the start of a segment
    uncleanable  the active segment, unstable records, records that are too young

Source: ``LogCleanerManager.cleanableOffsets``, ``LogToClean.java``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from kafkalog.config import LogConfig
from kafkalog.log.writable_log import WritableLog
from kafkalog.segment.growing_segment import GrowingSegment


class CleaningLimit(StrEnum):
    """A reason not to compact a part of a log."""

    UNSTABLE = "last_stable_offset"
    ACTIVE = "active"
    LAG = "min.compaction.lag.ms"


class LimitOffset(NamedTuple):
    """A reason, and the first offset that is not compacted for that reason."""

    limit: CleaningLimit
    offset: int


class CleanedSegment(Protocol):
    """The attributes of a segment that the limits of compaction depend on."""

    @property
    def base_offset(self) -> int:
        """The offset in the name of the segment."""

    @property
    def largest_timestamp(self) -> int:
        """Greatest timestamp, or the modification time if there is none."""


def find_limits(
    dirty: Sequence[CleanedSegment],
    active_base: int,
    last_stable_offset: int,
    config: LogConfig,
    now_ms: int,
) -> list[LimitOffset]:
    """Return the limits of compaction in a log; the lowest offset applies.

    `dirty` are the segments before the active one that may have dirty offsets.
    """
    limits = [
        LimitOffset(CleaningLimit.UNSTABLE, last_stable_offset),
        LimitOffset(CleaningLimit.ACTIVE, active_base),
    ]
    lag_ms = config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in dirty:
            if segment.largest_timestamp > now_ms - lag_ms:
                limits.append(LimitOffset(CleaningLimit.LAG, segment.base_offset))
                break
    return limits


def find_first_dirty(
    checkpoint: int | None, log_start_offset: int, log_end_offset: int
) -> tuple[int, bool]:
    """Return the first dirty offset, and whether the checkpointed one is invalid."""
    dirty = log_start_offset if checkpoint is None else checkpoint
    if log_start_offset <= dirty <= log_end_offset:
        return dirty, False
    return log_start_offset, True


@dataclass(frozen=True, slots=True)
class CleanableLog:
    """A log, and the range of it that a round of compaction covers.

    `must_reset_checkpoint` is set if the checkpointed offset is not in the log,
    `needs_compaction_now` if a record has waited for ``max.compaction.lag.ms``. The
    lowest of `limits` ends the range.
    """

    log: WritableLog
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    must_reset_checkpoint: bool
    needs_compaction_now: bool
    limits: tuple[LimitOffset, ...] = ()

    @property
    def name(self) -> tuple[str, int]:
        """Topic and partition of the log."""
        return self.log.topic, self.log.partition

    @property
    def cleanable_ratio(self) -> float:
        """Share of the cleanable bytes in clean and cleanable ones; 0 if none."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    @property
    def is_dirty_enough(self) -> bool:
        """Whether a cleaner compacts the log."""
        if self.needs_compaction_now and self.cleanable_bytes > 0:
            return True
        return self.cleanable_ratio > self.log.config.min_cleanable_dirty_ratio


def find_cleanable(
    log: WritableLog, checkpoint: int | None, now_ms: int, *, checks_age: bool = True
) -> CleanableLog:
    """Return the cleanable range of a log.

    `checkpoint` is the first dirty offset that the last round wrote; None if there was
    no round. Without `checks_age`, no record counts as overdue.
    """
    with log.runtime.lock, log.runtime.guard():
        return _find_cleanable(log, checkpoint, now_ms, checks_age=checks_age)


def _find_cleanable(
    log: WritableLog, checkpoint: int | None, now_ms: int, *, checks_age: bool
) -> CleanableLog:
    dirty, is_invalid = find_first_dirty(
        checkpoint, log.log_start_offset, log.log_end_offset
    )
    active = log.growing_segments[-1]
    limits = find_limits(
        _inactive_from(log, dirty, active),
        active.base_offset,
        log.last_stable_offset,
        log.config,
        now_ms,
    )
    first_uncleanable = min(limit.offset for limit in limits)
    covering = _inactive_from(log, max(dirty, first_uncleanable), active)
    bound = (covering[0] if covering else active).base_offset
    return CleanableLog(
        log,
        dirty,
        bound,
        clean_bytes=_total_size(log.replaceable_segments.between(-1, dirty)),
        cleanable_bytes=_total_size(
            log.replaceable_segments.between(min(dirty, bound), bound)
        ),
        must_reset_checkpoint=is_invalid,
        needs_compaction_now=checks_age and _is_overdue(log, dirty, active, now_ms),
        limits=tuple(limits),
    )


def _is_overdue(
    log: WritableLog, dirty: int, active: GrowingSegment, now_ms: int
) -> bool:
    """Return whether a dirty segment began before ``max.compaction.lag.ms`` ago."""
    segments = _inactive_from(log, dirty, active)
    limit = now_ms - max(log.config.max_compaction_lag_ms, 0)
    return any(0 < segment.rolling_timestamp < limit for segment in segments)


def _inactive_from(
    log: WritableLog, offset: int, active: GrowingSegment
) -> list[GrowingSegment]:
    if offset > active.base_offset:
        return []
    return log.replaceable_segments.between(offset, active.base_offset)


def _total_size(segments: list[GrowingSegment]) -> int:
    return sum(segment.size for segment in segments)
