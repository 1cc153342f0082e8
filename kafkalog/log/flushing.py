"""Forcing a log to disk, and closing it in order.

`flush_unlocked` does not hold the log's lock while it waits for the disk: it lists the
segments under the lock, forces them without it, and moves the recovery point under it
again. `flush` holds the lock throughout. It is for an append that must be on disk
before it returns, and for closing.

Source: ``UnifiedLog.java`` (``flush``, ``close``), ``LocalLog.flush``,
``LogManager.shutdown``.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress

from kafkalog.log.ownership import Name, OwnedDirectory
from kafkalog.log.state import LogState
from kafkalog.segment.growing_segment import GrowingSegment


def flush_due_at(log: LogState) -> int:
    """Return the log end offset at which ``flush.messages`` requires a flush.

    It may be above the greatest offset.
    """
    return log.recovery_point + log.config.flush_messages


def flush(log: LogState, offset: int, *, inclusive: bool = False) -> None:
    """Force all below `offset` to disk, and `offset` itself if `inclusive`.

    The caller holds the log's lock. Nothing is done if all of it was forced before.
    With `inclusive` at the log end, the files of an empty active segment are created.
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
    """Force the segments before that of `offset` to disk if they were not.

    Recovery reads the segment of `offset` itself, if the recovery point is in it.
    """
    segment = log.segments.floor(offset)
    if segment is not None and segment.base_offset > log.recovery_point:
        segments = log.segments.between(log.recovery_point, segment.base_offset)
        for before in segments:
            before.flush()
        _force_names(log, segments, log.recovery_point)


def flush_unlocked(
    log: LogState, offset: int | None = None, *, inclusive: bool = False
) -> None:
    """Force to disk what `flush` does, by default all, without holding the lock.

    `offset` may be above the log end, if the log was truncated after the call was
    scheduled: it is lowered to the end. If the log is truncated during the call, the
    recovery point stays. If a segment at `offset` is rolled during the call, it is
    forced again: rolling has trimmed it, and relies on all below the recovery point
    being on disk.
    """
    runtime = log.runtime
    with runtime.lock:
        runtime.check_open()
        offset = log.log_end_offset if offset is None else min(offset, log.reach)
        end = offset + 1 if inclusive else offset
        start, was_rolled = log.recovery_point, offset in log.segments
        truncations = log.truncations
        if end <= start:
            return
        segments = log.segments.between(start, end)
    for segment in segments:
        _force(log, segment)
    _force_names(log, segments, start)
    with runtime.lock:
        runtime.check_open()
        rolled_since = offset in log.segments and not was_rolled
        if log.truncations == truncations and not rolled_since:
            _note_flushed(log, offset)
    if rolled_since:
        flush_unlocked(log, offset, inclusive=inclusive)


def _force(log: LogState, segment: GrowingSegment) -> None:
    """Force the files of a segment to disk, unless it has left the log."""
    with ExitStack() as files:
        with log.runtime.lock:
            log.runtime.check_open()
            if log.segments.floor(segment.base_offset) is not segment:
                return
            handles = [files.enter_context(file) for file in segment.to_force()]
        for file in handles:
            file.sync()
    with log.runtime.lock:
        is_present = log.segments.floor(segment.base_offset) is segment
        if is_present and segment is not log.segments.active:
            segment.close_forced()


def _force_names(log: LogState, segments: list[GrowingSegment], start: int) -> None:
    """Force the directory to disk if it has new file names.

    They are new for a segment that begins at or above `start`, and for a transaction
    index that got its first entry.
    """
    new_indexes = [
        segment.txn_index for segment in segments if not segment.txn_index.is_named
    ]
    if new_indexes or any(segment.base_offset >= start for segment in segments):
        with suppress(FileNotFoundError):  # the log was deleted meanwhile
            log.runtime.disk.sync_directory(log.directory)
    for index in new_indexes:
        # Set after the sync: a concurrent flush must not skip it.
        index.is_named = True


def _note_flushed(log: LogState, offset: int) -> None:
    """Raise the recovery point to `offset`."""
    if offset > log.recovery_point:
        log.recovery_point = offset
        log.last_flushed_ms = log.runtime.now_ms()


def close_in_order(log: LogState, owner: OwnedDirectory | None, name: Name) -> None:
    """Write the producer snapshot, close the files and force their names to disk.

    With an `owner`, all records are forced to disk before, and the offsets are
    checkpointed after. The clean shutdown marker may be written only then: it states
    that no recovery is needed, so no content, size or name of a file may be lost.
    """
    if owner is not None:
        flush(log, log.log_end_offset, inclusive=True)
    log.topic_id_file.flush()
    log.producers.take_snapshot()
    for segment in log.segments.in_use:
        segment.close()
    log.runtime.disk.sync_directory(log.directory)
    if owner is not None:
        owner.checkpoint(
            name,
            recovery_point=min(log.recovery_point, log.end_after_closing),
            high_watermark=min(log.high_watermark.offset, log.end_after_closing),
            log_start_offset=log.log_start_to_checkpoint,
        )
