"""Closing a log in order: what is in it is on disk, and where it ends is written down.

Only then may the marker of a clean stop be put back, for what it says is that nothing
need be read through: neither a file's content nor its size nor its name may be lost.

Knows: one log, and its lines of the checkpoints. Does not know: other logs, the marker.
Source: ``UnifiedLog.close``, ``LogManager.shutdown``.
"""

from __future__ import annotations

from kafkalog.log.flushing import flush
from kafkalog.log.ownership import Name, OwnedDirectory
from kafkalog.log.state import LogState


def close_in_order(log: LogState, owner: OwnedDirectory | None, name: Name) -> None:
    """Write what closing writes, and let go of the files.

    With an `owner`, all is flushed before, and checkpointed by it.
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
            recovery_point=log.recovery_point,
            high_watermark=log.high_watermark.offset,
            log_start_offset=log.log_start_to_checkpoint,
        )
