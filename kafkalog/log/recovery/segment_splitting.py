"""Segments put in place of others, as when one with offsets too far apart is split.

Whenever that is interrupted, opening the log finds either the ones or the others:

    1. new segments are written under .cleaned, and forced to disk
    2. .cleaned -> .swap, the highest offset first: with the last of them they are whole
    3. the old ones -> .deleted
    4. .swap -> their names, the lowest offset first

Each renaming is forced out of the directory before the next: after a power cut, too, it
is there only with those before it.

Knows: files of segments. Does not know: why they are replaced.
Source: ``LocalLog.splitOverflowedSegment``, ``LocalLog.replaceSegments``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from kafkalog.config import LogConfig
from kafkalog.errors import LogArgumentError, LogStateError
from kafkalog.log.deletion import delete_files
from kafkalog.log.recovery.leftover_files import CLEANED, SWAP
from kafkalog.log.rolling import open_segment
from kafkalog.log.runtime import Runtime
from kafkalog.log.segment_map import SegmentMap
from kafkalog.segment.file_batches import first_offset, windows
from kafkalog.segment.growing_segment import GrowingSegment
from kafkalog.segment.open_files import OpenFiles

CHUNK_BYTES = 1 << 20


def split_segment(
    segment: GrowingSegment,
    segments: SegmentMap,
    directory: Path,
    config: LogConfig,
    runtime: Runtime,
) -> list[GrowingSegment]:
    """Split a segment; answers what it left, its files marked, to forget snapshots of.

    Raises `LogArgumentError` where its last offset is not too far from its base.
    """
    end = segment.next_offset()
    if end <= segment.base_offset or segment.can_hold(end - 1):
        raise LogArgumentError(
            f"the offsets of a segment are not too far apart, but out of place: "
            f"{segment.path}"
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
    # From here on the parts may be all there is: what fails is left to the next load.
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
    """Put new segments, under ``.cleaned``, in place of old ones.

    Answers the old ones at whose base offset there is no new one.
    """
    bases = {one.base_offset for one in new}
    replaced = sorted(
        (one for one in old if one.base_offset in segments),
        key=lambda one: one.base_offset,
    )
    rising = sorted(new, key=lambda one: one.base_offset)
    disk = runtime.disk
    for one in reversed(rising):
        one.rename(CLEANED, SWAP)
        disk.sync_directory(directory)
        segments.add(one)
    for one in replaced:
        if one.base_offset != rising[0].base_offset:
            segments.remove(one.base_offset)
        delete_files([one], runtime, config.file_delete_delay_ms)
    disk.sync_directory(directory)
    for one in rising:
        one.rename(SWAP, "")
        disk.sync_directory(directory)
    return [one for one in replaced if one.base_offset not in bases]


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
    """Begin a segment at the first offset behind `position`."""
    first = next(windows(segment.file, position, segment.size), None)
    if first is None:
        error = LogStateError(f"no whole batch from byte {position}: {segment.path}")
        error.kafka_name = "NoSuchElementException"
        raise error
    base = first_offset(segment.file, first.rows[0])
    return begin_cleaned_segment(directory, base, config, runtime, runtime.open_files)


def _copy(segment: GrowingSegment, start: int, part: GrowingSegment) -> int:
    """Copy batches while their offsets fit; answers how many bytes."""
    copied = 0
    for rows, data, origin in windows(segment.file, start, segment.size, CHUNK_BYTES):
        outside = np.flatnonzero(
            [not part.can_hold(int(one)) for one in rows["last_offset"]]
        )
        held = rows[: outside[0]] if len(outside) else rows
        if len(held):
            begin = int(held["position"][0]) - origin
            size = int(held["size_in_bytes"].sum())
            part.append(data[begin : begin + size], held, int(held["last_offset"][-1]))
            copied += size
        if len(outside):
            break
    if not copied:
        raise LogStateError(f"nothing fits a part from byte {start}: {segment.path}")
    return copied
