"""Forcing a log to disk, and the offset below which that was done.

Knows: which segments have not been forced. Does not know: when it is due.
Source: ``UnifiedLog.flush``, ``LocalLog.flush``.
"""

from __future__ import annotations

from contextlib import suppress

from kafkalog.log.state import LogState


def flush(log: LogState, offset: int, *, inclusive: bool = False) -> None:
    """Force all below `offset` to disk, and `offset` itself if `inclusive`.

    Does nothing if it was. With `inclusive` at the log's end, the files of an empty
    active segment are made, too.
    """
    end = offset + 1 if inclusive else offset
    if end <= log.recovery_point:
        return
    segments = log.segments.between(log.recovery_point, end)
    for segment in segments:
        segment.flush()
    if any(segment.base_offset >= log.recovery_point for segment in segments):
        with suppress(FileNotFoundError):
            log.runtime.disk.sync_directory(log.directory)
    if offset > log.recovery_point:
        log.recovery_point = offset
        log.last_flushed_ms = log.runtime.now_ms()
