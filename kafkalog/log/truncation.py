"""Cutting a log at an offset, or wholly, and what goes with it.

A batch is cut whole, also where the offset lies inside it: the log's end is then the
offset, whatever the last batch says.

What was cut does not come back after a power cut: it would lie behind, or in between,
what is appended next.

Knows: what ends at an offset. Does not know: why a log is cut.
Source: ``UnifiedLog.truncateTo``, ``LocalLog.truncateTo`` and their ``fully``.
"""

from __future__ import annotations

from kafkalog.errors import LogArgumentError
from kafkalog.log.deletion import delete_snapshots, remove_segments
from kafkalog.log.producer_loading import rebuild_producers
from kafkalog.log.rolling import replace_segment
from kafkalog.log.state import LogState
from kafkalog.log.watermarks import update_high_watermark


def truncate_to(log: LogState, offset: int) -> bool:
    """Cut off `offset` and all behind; whether there was anything."""
    if offset < 0:
        raise LogArgumentError(f"a log cannot be cut at offset {offset}")
    if offset >= log.log_end_offset:
        log.leader_epochs.truncate_from_end(log.log_end_offset)
        return False
    if log.segments.first.base_offset > offset:
        truncate_fully(log, offset)
        return True
    doomed = log.segments.above(offset)
    delay = log.config.file_delete_delay_ms
    remove_segments(log.segments, doomed, log.runtime, delay)
    log.segments.active.truncate_to(offset)
    log.move_end(offset)
    delete_snapshots(doomed, log.producers, log.runtime, delay)
    log.leader_epochs.truncate_from_end(offset)
    log.log_start_offset = min(offset, log.log_start_offset)
    _rebuild(log, offset)
    log.runtime.disk.sync_directory(log.directory)
    if log.high_watermark.offset >= log.log_end_offset:
        update_high_watermark(log, log.end)
    return True


def truncate_fully(log: LogState, offset: int, log_start: int | None = None) -> None:
    """Delete all, and go on at `offset`; the log starts there, or at `log_start`."""
    if offset < 0:
        raise LogArgumentError(f"a log cannot go on at offset {offset}")
    *others, last = log.segments
    delay = log.config.file_delete_delay_ms
    remove_segments(log.segments, others, log.runtime, delay)
    replace_segment(log, offset, last)
    log.move_end(offset)
    log.leader_epochs.clear_and_flush()
    log.producers.truncate_fully_and_start_at(offset)
    log.log_start_offset = offset if log_start is None else log_start
    _rebuild(log, offset)
    log.runtime.disk.sync_directory(log.directory)
    update_high_watermark(log, log.end)


def _rebuild(log: LogState, offset: int) -> None:
    rebuild_producers(
        log.producers, log.segments, log.log_start_offset, offset, log.runtime.now_ms()
    )
