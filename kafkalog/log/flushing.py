"""Forcing a log to disk, and the offset below which that was done.

Waiting for a disk holds up nobody: the log is asked what to force, and told that it was
done, under its lock; in between it is read and appended to. Only where an append is to
be on disk before it is answered, or the log is closed, all is done in one go.

Knows: which segments have not been forced. Does not know: when it is due.
Source: ``UnifiedLog.flush``, ``LocalLog.flush``.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress

from kafkalog.log.state import LogState
from kafkalog.segment.growing_segment import GrowingSegment


def flush(log: LogState, offset: int, *, inclusive: bool = False) -> None:
    """Force all below `offset` to disk, and `offset` itself if `inclusive`.

    With the lock of the log held. Does nothing if it was. With `inclusive` at the
    log's end, the files of an empty active segment are made, too.
    """
    end = offset + 1 if inclusive else offset
    if end <= log.recovery_point:
        return
    segments = log.segments.between(log.recovery_point, end)
    for segment in segments:
        segment.flush()
    _force_names(log, segments, log.recovery_point)
    _note_flushed(log, offset)


def force_segments_before(log: LogState, offset: int) -> None:
    """Force the segments before that of `offset` to disk, where they were not.

    That one is read through after a crash, if the recovery point lies in it.
    """
    segment = log.segments.floor(offset)
    if segment is not None and segment.base_offset > log.recovery_point:
        segments = log.segments.between(log.recovery_point, segment.base_offset)
        for one in segments:
            one.flush()
        _force_names(log, segments, log.recovery_point)


def flush_beside(
    log: LogState, offset: int | None = None, *, inclusive: bool = False
) -> None:
    """Force to disk what `flush` does, by default all, without holding the lock.

    No more than the log holds now: `offset` may lie beyond its end, if the log was cut
    after this was scheduled. Where it is cut meanwhile, the recovery point stays. A
    segment left at `offset` meanwhile is forced again: rolling has trimmed it since,
    and whoever rolled finds all below the recovery point done.
    """
    runtime = log.runtime
    with runtime.lock:
        runtime.check_untold()
        offset = log.log_end_offset if offset is None else min(offset, log.reach)
        end = offset + 1 if inclusive else offset
        start, cuts, was_left = log.recovery_point, log.cuts, offset in log.segments
        if end <= start:
            return
        segments = log.segments.between(start, end)
    for segment in segments:
        _force(log, segment)
    _force_names(log, segments, start)
    with runtime.lock:
        runtime.check_untold()
        left_since = offset in log.segments and not was_left
        if log.cuts == cuts and not left_since:
            _note_flushed(log, offset)
    if left_since:
        flush_beside(log, offset, inclusive=inclusive)


def _force(log: LogState, segment: GrowingSegment) -> None:
    """Force the files of a segment to disk, unless it has left the log."""
    with ExitStack() as files:
        with log.runtime.lock:
            log.runtime.check_untold()
            if log.segments.floor(segment.base_offset) is not segment:
                return
            handles = [files.enter_context(one) for one in segment.to_force()]
        for file in handles:
            file.sync()
    with log.runtime.lock:
        here = log.segments.floor(segment.base_offset) is segment
        if here and segment is not log.segments.active:
            segment.close_forced()


def _force_names(log: LogState, segments: list[GrowingSegment], start: int) -> None:
    """Force the names of files to disk, if there are new ones.

    Of a segment that began at `start` or since, or whose first transaction was aborted.
    """
    aborts = [one.txn_index for one in segments if not one.txn_index.is_named]
    if aborts or any(segment.base_offset >= start for segment in segments):
        with suppress(FileNotFoundError):  # the log was removed meanwhile
            log.runtime.disk.sync_directory(log.directory)
    for index in aborts:  # only now: who flushes beside this must not rely on it
        index.is_named = True


def _note_flushed(log: LogState, offset: int) -> None:
    """Take note that all below `offset` is on disk now, if it was not before."""
    if offset > log.recovery_point:
        log.recovery_point = offset
        log.last_flushed_ms = log.runtime.now_ms()
