"""Truncation of a log at an offset, or of all of it.

A batch that holds the offset is removed whole. The log end offset is then the offset,
though the last batch may end before it. If the log is closed then, and opened again, it
ends with the last batch, as in Kafka. Therefore no later offset is checkpointed.

Truncated records must not come back after a crash, among or after records appended
later, and a crash must not leave a gap. So each step is on disk before the next one:

    1. the recovery point in its checkpoint, if it is above the offset
    2. if all is removed, the log start offset in its checkpoint, so that a log without
       a segment begins there
    3. the new names of the removed segments, in descending order
    4. the new end of the last segment that is kept, or the new segment
    5. the log start offset in its checkpoint, if it is above the offset; not earlier,
       or records deleted below the log start would reappear

Source: ``UnifiedLog.java``, ``LocalLog.java`` (``truncateTo``,
``truncateFullyAndStartAt``). The order of the steps is not Kafka's.
"""

from __future__ import annotations

from kafkalog.errors import LogArgumentError
from kafkalog.log.deletion import delete_snapshots, mark_from_the_end, remove_segments
from kafkalog.log.ownership import Name, OwnedDirectory
from kafkalog.log.producers.producer_loading import rebuild_producers
from kafkalog.log.rolling import replace_segments
from kafkalog.log.state import LogState
from kafkalog.log.watermarks import update_high_watermark


def truncate_to(
    log: LogState, offset: int, owner: OwnedDirectory | None, name: Name
) -> bool:
    """Remove the records at `offset` and after it; return whether there were any.

    `owner` writes the checkpoints, in which the log is listed as `name`.
    """
    if offset < 0:
        raise LogArgumentError(f"truncation to offset {offset}, expected at least 0")
    if offset >= log.log_end_offset:
        log.leader_epochs.truncate_from_end(log.log_end_offset)
        return False
    if log.segments.first.base_offset > offset:
        truncate_fully(log, offset, owner, name)
        return True
    _lower_recovery_point(log, offset, owner, name)
    removed = log.segments.above(offset)
    delay = log.config.file_delete_delay_ms
    mark_from_the_end(removed, log.directory, log.runtime.disk)
    remove_segments(log.segments, removed, log.runtime, delay)
    log.segments.active.truncate_to(offset)
    log.move_end(offset)
    log.cut = offset, log.segments.active.next_offset()
    delete_snapshots(removed, log.producers, log.runtime, delay)
    log.leader_epochs.truncate_from_end(offset)
    if offset < log.log_start_offset:
        _set_log_start(log, offset, owner, name)
    _rebuild(log, offset)
    log.runtime.disk.sync_directory(log.directory)
    if log.high_watermark.offset >= log.log_end_offset:
        update_high_watermark(log, log.end)
    return True


def truncate_fully(
    log: LogState,
    offset: int,
    owner: OwnedDirectory | None,
    name: Name,
    log_start: int | None = None,
) -> None:
    """Remove all and continue at `offset`; the log starts there, or at `log_start`."""
    start = offset if log_start is None else log_start
    if (least := min(offset, start)) < 0:
        raise LogArgumentError(f"truncation to offset {least}, expected at least 0")
    _lower_recovery_point(log, offset, owner, name)
    if owner is not None:
        owner.set_log_start(name, max(offset, log.log_start_offset))
    replace_segments(log, offset, list(log.segments))
    log.runtime.disk.sync_directory(log.directory)
    log.move_end(offset)
    log.cut = None
    _set_log_start(log, start, owner, name)
    if start < offset and log.is_tiered is None:
        log.keeps_log_start = log.is_fragment = True
    log.leader_epochs.clear_and_flush()
    log.producers.truncate_fully_and_start_at(offset)
    _rebuild(log, offset)
    log.runtime.disk.sync_directory(log.directory)
    update_high_watermark(log, log.end)


def _lower_recovery_point(
    log: LogState, offset: int, owner: OwnedDirectory | None, name: Name
) -> None:
    """Lower the recovery point to `offset`, in memory and in the checkpoint."""
    log.recovery_point = min(log.recovery_point, offset)
    if owner is not None:
        owner.lower_recovery_point(name, offset)


def _set_log_start(
    log: LogState, offset: int, owner: OwnedDirectory | None, name: Name
) -> None:
    """Set the log start offset, in memory and in the checkpoint."""
    if owner is not None:
        owner.set_log_start(name, offset)
    log.log_start_offset = offset


def _rebuild(log: LogState, offset: int) -> None:
    rebuild_producers(
        log.producers, log.segments, log.log_start_offset, offset, log.runtime.now_ms()
    )
