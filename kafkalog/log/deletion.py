"""Removing segments and snapshots: marked at once, removed after a delay.

Files get ``.deleted`` behind their names, so that they are gone for the log and for
whoever opens it, while those who are reading them go on. The log itself closes them: if
it is closed before the delay has passed, they are removed when it is loaded again.

Knows: marking and removing. Does not know: why something is to go.
Source: ``LocalLog.deleteSegmentFiles``, ``UnifiedLog.deleteProducerSnapshots``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kafkalog.log.ownership import Name, OwnedDirectory
from kafkalog.log.producers.producer_manager import ProducerStateManager
from kafkalog.log.runtime import Runtime
from kafkalog.log.segment_map import SegmentMap
from kafkalog.log.state import LogState
from kafkalog.segment.growing_segment import GrowingSegment
from kafkalog.storage.durable_file import Disk

DELETED = ".deleted"


def remove_segments(
    segments: SegmentMap,
    doomed: Sequence[GrowingSegment],
    runtime: Runtime,
    delay_ms: int,
) -> None:
    """Mark the files of segments, take them out of the log, and remove the files later.

    In this order: a log that is cut off in between closes the files it still has.
    """
    if not doomed:
        return
    delete_files(doomed, runtime, delay_ms)
    for segment in doomed:
        segments.remove(segment.base_offset)


def mark_from_the_end(
    doomed: Sequence[GrowingSegment], directory: Path, disk: Disk
) -> None:
    """Close and mark the files of a log's last segments, the last first, on disk each.

    A crash in between leaves the first segments of those there were, without a gap.
    """
    for segment in reversed(doomed):
        segment.close_handles()
        segment.rename("", DELETED)
        disk.sync_directory(directory)


def delete_files(
    doomed: Sequence[GrowingSegment], runtime: Runtime, delay_ms: int
) -> None:
    """Close and mark the files of segments, and remove them in `delay_ms`."""
    for segment in doomed:
        segment.close_handles()
    for segment in doomed:
        if not segment.is_marked(DELETED):
            segment.rename("", DELETED)

    def remove() -> None:
        for segment in doomed:
            segment.delete()

    runtime.later("delete-file", remove, delay_ms)


def delete_snapshots(
    doomed: Sequence[GrowingSegment],
    producers: ProducerStateManager,
    runtime: Runtime,
    delay_ms: int,
) -> None:
    """Mark the snapshots at the base offsets of segments, and remove them later."""
    marked = [producers.snapshots.mark(one.base_offset) for one in doomed]
    paths = [path for path in marked if path is not None]

    def remove() -> None:
        for path in paths:
            runtime.disk.remove_if_there(path)

    runtime.later("delete-producer-snapshot", remove, delay_ms)


def delete_log(log: LogState, owner: OwnedDirectory | None, name: Name) -> None:
    """Remove all of a log's files at once, and its directory; `owner` forgets it."""
    log.leader_epochs.clear()
    disk = log.runtime.disk
    for segment in list(log.segments):
        log.segments.remove(segment.base_offset)
        segment.rename("", DELETED)
        segment.delete()
    for path in sorted(log.directory.iterdir()):
        disk.remove(path)
    disk.remove_directory(log.directory)
    disk.sync_directory(log.directory.parent)
    if owner is not None:
        owner.forget(name)
