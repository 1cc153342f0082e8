"""Deletion of segments and snapshots: marked at once, removed after a delay.

The suffix ``.deleted`` is added to the names of the files. From then on they are not
part of the log, but readers that have them open can still read them. If the log is
closed before the delay has passed, they are removed when it is opened again.

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
from kafkalog.storage.file_names import DELETED


def remove_segments(
    segments: SegmentMap,
    deleted: Sequence[GrowingSegment],
    runtime: Runtime,
    delay_ms: int,
) -> None:
    """Mark the files of segments, drop them from the log, and remove the files later.

    In this order, so that a log that fails in between still closes the files.
    """
    if not deleted:
        return
    delete_files(deleted, runtime, delay_ms)
    for segment in deleted:
        segments.remove(segment.base_offset)


def mark_from_the_end(
    deleted: Sequence[GrowingSegment], directory: Path, disk: Disk
) -> None:
    """Close and mark the files of a log's last segments, in descending order.

    Each step is forced to disk: a crash in between leaves no gap between segments.
    """
    for segment in reversed(deleted):
        segment.close_handles()
        segment.rename("", DELETED)
        disk.sync_directory(directory)


def delete_files(
    deleted: Sequence[GrowingSegment], runtime: Runtime, delay_ms: int
) -> None:
    """Close and mark the files of segments, and remove them in `delay_ms`."""
    for segment in deleted:
        segment.close_handles()
    for segment in deleted:
        if not segment.is_marked(DELETED):
            segment.rename("", DELETED)

    def remove() -> None:
        for segment in deleted:
            segment.delete()

    runtime.later("delete-file", remove, delay_ms)


def delete_snapshots(
    deleted: Sequence[GrowingSegment],
    producers: ProducerStateManager,
    runtime: Runtime,
    delay_ms: int,
) -> None:
    """Mark the snapshots at the base offsets of segments, and remove them later."""
    marked = [producers.snapshots.mark(segment.base_offset) for segment in deleted]
    paths = [path for path in marked if path is not None]

    def remove() -> None:
        for path in paths:
            runtime.disk.remove_if_there(path)

    runtime.later("delete-producer-snapshot", remove, delay_ms)


def delete_log(log: LogState, owner: OwnedDirectory | None, name: Name) -> None:
    """Delete the files and the directory of a log, and its checkpointed offsets."""
    log.leader_epochs.clear()
    disk = log.runtime.disk
    for segment in list(log.segments):
        log.segments.remove(segment.base_offset)
        segment.rename("", DELETED)
        segment.delete()
    disk.remove_tree(log.directory)
    disk.sync_directory(log.directory.parent)
    if owner is not None:
        owner.forget(name)
