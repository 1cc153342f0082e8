"""Rolling: the conditions for a new segment, and its creation.

The conditions are checked before each append. A log without appends does not roll. A
segment is rolled if one of these holds:

    size      the segment and the append together exceed segment.bytes
    time      the append's greatest timestamp is more than segment.ms, less the jitter,
              above that of the first batch; without timestamps the clock counts
    indexes   one of them is full
    offsets   the append's last offset is too far from the base offset

Source: ``LogSegment.shouldRoll``, ``LocalLog.roll``, ``UnifiedLog.roll``.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from kafkalog import _speedups
from kafkalog.config import LogConfig
from kafkalog.errors import LogRollError
from kafkalog.formats.checkpoint import EpochEntry
from kafkalog.formats.layout import NO_LEADER_EPOCH
from kafkalog.log.deletion import delete_files, mark_from_the_end
from kafkalog.log.flushing import flush_due_at, flush_unlocked
from kafkalog.log.runtime import Runtime
from kafkalog.log.state import LogState
from kafkalog.log.watermarks import raise_to_log_end
from kafkalog.segment.growing_segment import GrowingSegment
from kafkalog.segment.open_files import OpenFiles
from kafkalog.segment.segment_files import SegmentSettings
from kafkalog.storage.file_names import MAX_OFFSET, SEGMENT_KINDS, file_name

NO_EPOCH: Final = EpochEntry(NO_LEADER_EPOCH, 0)


def open_segment(
    directory: Path,
    base_offset: int,
    config: LogConfig,
    runtime: Runtime,
    suffix: str = "",
    open_files: OpenFiles | None = None,
) -> GrowingSegment:
    """Return a segment with the log's settings; no file is created or read.

    It shares the limit of open files of the log, unless it has `open_files` of its own.
    """
    settings = SegmentSettings(
        config.index_interval_bytes,
        config.segment_index_bytes,
        config.random_segment_jitter_ms(),
    )
    return GrowingSegment(
        directory,
        base_offset,
        settings,
        runtime.clock.now_ms,
        runtime.disk,
        runtime.open_files if open_files is None else open_files,
        suffix,
    )


class SegmentLimits(NamedTuple):
    """The limits at which the active segment rolls or the log is flushed."""

    leader_epoch: int
    epoch_start: int
    base_offset: int
    segment_bytes: int
    segment_ms: int
    created_ms: int
    index_interval_bytes: int
    flush_at: int


class SegmentEnd(NamedTuple):
    """The end of the active segment."""

    next_offset: int
    size: int
    first_timestamp: int  # of its first batch, -1 without one
    bytes_since_entry: int
    greatest_timestamp: int
    offset_of_greatest: int
    offset_index: tuple[int, bytes]  # `GrowingIndex.end` of the indexes
    time_index: tuple[int, bytes]


def segment_limits(log: LogState) -> SegmentLimits:
    """Return the limits of the active segment."""
    segment, config = log.segments.active, log.config
    epoch, epoch_start = log.leader_epochs.latest or NO_EPOCH
    return SegmentLimits(
        epoch,
        epoch_start,
        segment.base_offset,
        config.segment_size,
        config.max_segment_ms - segment.settings.roll_jitter_ms,
        segment.created_ms,
        segment.settings.index_interval_bytes,
        min(flush_due_at(log), MAX_OFFSET),
    )


def segment_end(log: LogState) -> SegmentEnd:
    """Return the end of the active segment; create its indexes, as Kafka does."""
    segment = log.segments.active
    # Before the greatest timestamp, for which a time index may be too small.
    indexes = segment.offset_index.end, segment.time_index.end
    return SegmentEnd(
        log.end.offset,
        segment.size,
        segment.rolling_timestamp,
        segment.bytes_since_index_entry,
        *segment.greatest_timestamp,
        *indexes,
    )


def should_roll(
    log: LogState, size_in_bytes: int, max_timestamp: int, last_offset: int
) -> bool:
    """Return whether an append goes into a new segment."""
    return _speedups.must_roll(
        segment_limits(log),
        segment_end(log),
        size_in_bytes,
        max_timestamp,
        last_offset,
        log.runtime.now_ms(),
    )


def roll(log: LogState, base_offset: int = 0) -> GrowingSegment:
    """Begin a segment at the log's end, or at `base_offset` if that is above it.

    Raises `LogRollError` if a segment begins there or above.
    """
    base = max(base_offset, log.log_end_offset)
    segment = _begin(log, base)
    log.segments.add(segment)
    log.move_end(log.log_end_offset)
    log.producers.map_end_offset = base
    snapshot = log.producers.take_snapshot(sync=False)
    raise_to_log_end(log)

    def flush_rolled() -> None:
        if snapshot is not None:
            with suppress(FileNotFoundError):
                log.runtime.disk.sync_path(snapshot)
        flush_unlocked(log, base)

    log.runtime.later("flush-log", flush_rolled, locked=False)
    return segment


def replace_segments(
    log: LogState, base: int, replaced: Sequence[GrowingSegment]
) -> GrowingSegment:
    """Replace the log's last segments by a new one at `base`; return that.

    The names of their files are changed, on disk, before the new one is created: after
    a crash in between there is no segment at the same offsets as the new one.
    """
    mark_from_the_end(replaced, log.directory, log.runtime.disk)
    segment = open_segment(log.directory, base, log.config, log.runtime)
    segment.create(log.config.initial_file_size)
    log.segments.add(segment)
    for old in replaced:
        if old.base_offset != base:
            log.segments.remove(old.base_offset)
    delay = log.config.file_delete_delay_ms
    *others, last = replaced
    if others:
        delete_files(others, log.runtime, delay)
    delete_files([last], log.runtime, delay)
    return segment


def _begin(log: LogState, base: int) -> GrowingSegment:
    active = log.segments.active
    if base in log.segments:
        if base == active.base_offset and active.size == 0:
            # An index too small for one entry makes every segment full. Kafka logs a
            # warning with the numbers of entries, which creates the index files.
            active.make_indexes()
            return replace_segments(log, base, [active])
        raise LogRollError(f"a segment begins at {base} already: {log.directory}")
    if base < active.base_offset:
        raise LogRollError(
            f"new segment at offset {base}, expected it above {active.base_offset}, "
            f"the base of the active segment: {log.directory}"
        )
    for kind in SEGMENT_KINDS:
        log.runtime.disk.remove_if_there(log.directory / file_name(base, kind))
    active.become_inactive()
    if log.recovery_point >= base:
        active.flush()  # no flush is due later: all records are on disk already
    segment = open_segment(log.directory, base, log.config, log.runtime)
    segment.create(log.config.initial_file_size)
    return segment
