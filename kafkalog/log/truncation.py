"""Cutting a log at an offset, or wholly, and what goes with it.

A batch is cut whole, also where the offset lies inside it: the log's end is then the
offset, whatever the last batch says.

What was cut does not come back after a crash, where it would lie behind, or in between,
what is appended next; nor does a crash in between leave a gap. So each step is on disk
before the next one:

    1. the recovery point in its checkpoint, where it is beyond the cut
    2. where all goes, the start of the log in its checkpoint, so that one of which no
       segment is left begins there
    3. the new names of the segments that go, the last one first
    4. the cut of the last segment that stays, or the segment that is begun anew
    5. the start of the log in its checkpoint, where that is beyond the cut: not before,
       or what was deleted before the start would be back

Knows: what ends at an offset. Does not know: why a log is cut.
Source: ``UnifiedLog.truncateTo``, ``LocalLog.truncateTo`` and their ``fully``; but the
order of the steps is not Kafka's.
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
    """Cut off `offset` and all behind; whether there was anything.

    `owner` keeps the checkpoints, in which the log goes by `name`.
    """
    if offset < 0:
        raise LogArgumentError(f"a log cannot be cut at offset {offset}")
    if offset >= log.log_end_offset:
        log.leader_epochs.truncate_from_end(log.log_end_offset)
        return False
    if log.segments.first.base_offset > offset:
        truncate_fully(log, offset, owner, name)
        return True
    _lower_recovery_point(log, offset, owner, name)
    doomed = log.segments.above(offset)
    delay = log.config.file_delete_delay_ms
    mark_from_the_end(doomed, log.directory, log.runtime.disk)
    remove_segments(log.segments, doomed, log.runtime, delay)
    log.segments.active.truncate_to(offset)
    log.move_end(offset)
    delete_snapshots(doomed, log.producers, log.runtime, delay)
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
    """Delete all, and go on at `offset`; the log starts there, or at `log_start`."""
    if offset < 0:
        raise LogArgumentError(f"a log cannot go on at offset {offset}")
    _lower_recovery_point(log, offset, owner, name)
    if owner is not None:
        owner.set_log_start(name, max(offset, log.log_start_offset))
    replace_segments(log, offset, list(log.segments))
    log.runtime.disk.sync_directory(log.directory)
    log.move_end(offset)
    _set_log_start(log, offset if log_start is None else log_start, owner, name)
    log.leader_epochs.clear_and_flush()
    log.producers.truncate_fully_and_start_at(offset)
    _rebuild(log, offset)
    log.runtime.disk.sync_directory(log.directory)
    update_high_watermark(log, log.end)


def _lower_recovery_point(
    log: LogState, offset: int, owner: OwnedDirectory | None, name: Name
) -> None:
    """Let nothing from `offset` on count as forced, here and in the checkpoint."""
    log.recovery_point = min(log.recovery_point, offset)
    if owner is not None:
        owner.lower_recovery_point(name, offset)


def _set_log_start(
    log: LogState, offset: int, owner: OwnedDirectory | None, name: Name
) -> None:
    """Let the log begin at `offset`, here and in the checkpoint."""
    if owner is not None:
        owner.set_log_start(name, offset)
    log.log_start_offset = offset


def _rebuild(log: LogState, offset: int) -> None:
    rebuild_producers(
        log.producers, log.segments, log.log_start_offset, offset, log.runtime.now_ms()
    )
