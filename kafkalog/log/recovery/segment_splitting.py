"""Replacement of segments, as in the split of one with offsets too far apart.

After an interruption at any point, loading finds either the old or the new segments:

1. New segments are written with suffix ``.cleaned``, and flushed.
2. ``.cleaned`` is renamed to ``.swap``, the highest offset first. After the last of
   these renames the new segments are complete.
3. The old segments are renamed to ``.deleted``.
4. ``.swap`` is removed from the names, the lowest offset first.

The directory is flushed after each rename, so that after a power cut a rename is on
disk only with all renames before it.

Source: ``LocalLog.splitOverflowedSegment``, ``LocalLog.replaceSegments``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from kafkalog.config import LogConfig
from kafkalog.errors import LogArgumentError, LogStateError
from kafkalog.log.deletion import delete_files
from kafkalog.log.rolling import open_segment
from kafkalog.log.runtime import Runtime
from kafkalog.log.segment_map import SegmentMap
from kafkalog.segment.file_batches import first_offset, windows
from kafkalog.segment.growing_segment import GrowingSegment
from kafkalog.segment.open_files import OpenFiles
from kafkalog.storage.file_names import CLEANED, SWAP

CHUNK_BYTES = 1 << 20


def split_segment(
    segment: GrowingSegment,
    segments: SegmentMap,
    directory: Path,
    config: LogConfig,
    runtime: Runtime,
) -> list[GrowingSegment]:
    """Split a segment, and return the segments whose snapshots are to be removed.

    Raises `LogArgumentError` if its last offset is not too far from its base offset.
    """
    end = segment.next_offset()
    if end <= segment.base_offset or segment.can_hold(end - 1):
        raise LogArgumentError(
            f"next offset {end} of a segment to split, expected one too far from base "
            f"offset {segment.base_offset}: {segment.path}"
        )
    new: list[GrowingSegment] = []
    try:
        position = 0
        while position < segment.size:
            part = _begin_part(segment, position, directory, config, runtime)
            new.append(part)
            position += _copy(segment, position, part)
        for part in new:
            part.become_inactive()
            part.flush()
            part.set_modified(segment.modified_ms)
    except BaseException:
        for part in new:
            part.close()
            part.delete()
        raise
    # From here on the parts may be the only copy: the next load finishes the rest.
    try:
        return replace_segments(segments, new, [segment], directory, config, runtime)
    except BaseException:
        for part in new:
            part.close_handles()
        raise


def replace_segments(
    segments: SegmentMap,
    new: Sequence[GrowingSegment],
    old: Sequence[GrowingSegment],
    directory: Path,
    config: LogConfig,
    runtime: Runtime,
) -> list[GrowingSegment]:
    """Replace old segments by new ones, which have the suffix ``.cleaned``.

    Returns the old segments at whose base offset there is no new one.
    """
    bases = {segment.base_offset for segment in new}
    replaced = sorted(
        (segment for segment in old if segment.base_offset in segments),
        key=lambda segment: segment.base_offset,
    )
    ascending = sorted(new, key=lambda segment: segment.base_offset)
    disk = runtime.disk
    for segment in reversed(ascending):
        segment.rename(CLEANED, SWAP)
        disk.sync_directory(directory)
        segments.add(segment)
    for segment in replaced:
        if segment.base_offset != ascending[0].base_offset:
            segments.remove(segment.base_offset)
        delete_files([segment], runtime, config.file_delete_delay_ms)
    disk.sync_directory(directory)
    for segment in ascending:
        segment.rename(SWAP, "")
        disk.sync_directory(directory)
    return [segment for segment in replaced if segment.base_offset not in bases]


def begin_cleaned_segment(
    directory: Path,
    base_offset: int,
    config: LogConfig,
    runtime: Runtime,
    open_files: OpenFiles,
) -> GrowingSegment:
    """Create an empty segment under ``.cleaned``, over files left under its names."""
    how = directory, base_offset, config, runtime, CLEANED, open_files
    open_segment(*how).delete()
    segment = open_segment(*how)
    segment.create(config.initial_file_size)
    return segment


def _begin_part(
    segment: GrowingSegment,
    position: int,
    directory: Path,
    config: LogConfig,
    runtime: Runtime,
) -> GrowingSegment:
    """Create a segment at the first offset after byte `position`."""
    first = next(windows(segment.file, position, segment.size), None)
    if first is None:
        error = LogStateError(
            f"no complete batch from byte {position} on: {segment.path}"
        )
        error.kafka_name = "NoSuchElementException"
        raise error
    base = first_offset(segment.file, first.rows[0])
    return begin_cleaned_segment(directory, base, config, runtime, runtime.open_files)


def _copy(segment: GrowingSegment, start: int, part: GrowingSegment) -> int:
    """Copy batches while their offsets fit, and return the number of bytes."""
    copied = 0
    for rows, data, origin in windows(segment.file, start, segment.size, CHUNK_BYTES):
        outside = np.flatnonzero(
            [not part.can_hold(int(offset)) for offset in rows["last_offset"]]
        )
        fitting = rows[: outside[0]] if len(outside) else rows
        if len(fitting):
            begin = int(fitting["position"][0]) - origin
            size = int(fitting["size_in_bytes"].sum())
            last_offset = int(fitting["last_offset"][-1])
            part.append(data[begin : begin + size], fitting, last_offset)
            copied += size
        if len(outside):
            break
    if not copied:
        raise LogStateError(
            f"no batch fits a new segment from byte {start} on: {segment.path}"
        )
    return copied
