"""Rebuilding of the producer state at an offset, from a snapshot and the log.

Source: ``UnifiedLog.rebuildProducerState``, ``loadProducersFromRecords``.
"""

from __future__ import annotations

from kafkalog.formats.layout import MAX_FILE_BYTES, NO_PRODUCER_ID
from kafkalog.log.markers import read_markers
from kafkalog.log.producers.producer_manager import ProducerStateManager
from kafkalog.log.producers.producer_updates import ProducerUpdates
from kafkalog.log.segment_map import SegmentMap
from kafkalog.segment.file_batches import windows
from kafkalog.segment.growing_segment import GrowingSegment
from kafkalog.validation.appends import AppendOrigin


def rebuild_producers(
    producers: ProducerStateManager,
    segments: SegmentMap,
    log_start_offset: int,
    offset: int,
    now_ms: int,
    *,
    clean: bool = False,
) -> list[tuple[int, int]]:
    """Restore the producer state at `offset`, and write a snapshot there.

    Returns the base offsets of the segments that were read, with the number of bytes.

    Starts from the newest snapshot at or below the offset. A log with a clean shutdown
    and without snapshots was written by an old release: it gets empty snapshots, and
    is not read.
    """
    points = _snapshot_points(segments)
    if clean and producers.snapshots.latest() is None:
        for point in [*points, offset]:
            producers.map_end_offset = point
            producers.take_snapshot()
        return []
    read = []
    was_empty = producers.is_empty and producers.map_end_offset >= offset
    producers.truncate_and_reload(log_start_offset, offset, now_ms)
    if offset > producers.map_end_offset and not was_empty:
        last = segments.floor(offset)
        for segment in segments.between(producers.map_end_offset, offset):
            start = max(segment.base_offset, producers.map_end_offset, log_start_offset)
            producers.map_end_offset = start
            if segment.base_offset in points:
                producers.take_snapshot()
            end = _end_position(segment, offset) if segment is last else segment.size
            size = _load(producers, segment, start, end)
            read.append((segment.base_offset, size))
    producers.map_end_offset = offset
    producers.take_snapshot()
    return read


def _snapshot_points(segments: SegmentMap) -> list[int]:
    """Return the base offsets of the last two segments."""
    return segments.last_base_offsets(2)


def _end_position(segment: GrowingSegment, offset: int) -> int:
    batch = segment.find(offset)
    return segment.size if batch is None else batch.position


def _load(
    producers: ProducerStateManager, segment: GrowingSegment, offset: int, end: int
) -> int:
    """Apply the batches from `offset` to position `end`; return the bytes read."""
    read = segment.read(offset, MAX_FILE_BYTES, end)
    if read is None:
        return 0
    updates = ProducerUpdates(
        producers, AppendOrigin.REPLICATION, transaction_version=0
    )
    start, end = read.position, read.position + read.length
    for rows, data, origin in windows(segment.file, start, end):
        produced = rows[rows["producer_id"] != NO_PRODUCER_ID]
        if len(produced):
            updates.add(produced, read_markers(data, produced, origin))
    updates.apply()
    for completed in updates.completed:
        producers.complete_txn(completed)
    return read.length
