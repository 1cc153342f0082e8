"""The offsets that a partition's files have: its end, and the first after a time.

Each function reads the files as they are now. `time_lookup` is for a writable log.

Source: ``UnifiedLog.java`` (``fetchOffsetByTimestamp``), ``LogSegment.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkalog.decoding.batch_decoder import decode
from kafkalog.decoding.read_policy import STRICT, Bounds, ReadPolicy
from kafkalog.decoding.workspace import Workspace
from kafkalog.errors import LocatedError
from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.formats.layout import MAX_BATCH_BYTES
from kafkalog.formats.timestamps import Times, all_as_ms
from kafkalog.log.reading.log_segments import (
    OpenSegment,
    from_offset,
    list_segments,
    read_on,
)
from kafkalog.segment.file_records import Skipped
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.location import Location

NOT_FOUND: Final = -1


class RecordPlace(NamedTuple):
    """The offset and the timestamp of a record; -1 if there is none."""

    offset: int
    timestamp: int


NO_RECORD: Final = RecordPlace(NOT_FOUND, NOT_FOUND)


def find_end(
    directory: Location,
    segments: list[LogSegment],
    log_start_offset: int = 0,
    *,
    past_damage: bool = False,
) -> int:
    """Return the offset after the last valid batch; at least the log start offset.

    That is the last batch before damage, where recovery truncates; with `past_damage`,
    the last valid batch of all.
    """
    end = log_start_offset
    for segment, source in read_on(directory, segments[-1:]):
        end = max(end, segment.next_offset(source, past_damage=past_damage))
    return end


def find_offsets_for_times(
    directory: Location,
    segments: list[LogSegment],
    times: Sequence[int],
    start: int,
    policy: ReadPolicy = STRICT,
) -> list[int]:
    """Return the first offset at or above each time and the start offset, else -1.

    `times` ascend. So the offsets do, and each segment is opened once.
    """
    found = find_records_for_times(directory, segments, times, start, policy)
    return [record.offset for record in found]


def find_records_for_times(
    directory: Location,
    segments: list[LogSegment],
    times: Sequence[int],
    start: int,
    policy: ReadPolicy = STRICT,
) -> list[RecordPlace]:
    """Return offset and timestamp of the records of `find_offsets_for_times`."""
    records = list[RecordPlace]()
    for opened in read_on(directory, from_offset(segments, start)):
        while len(records) < len(times):
            first = max(start, opened.segment.start_offset)
            bounds = Bounds(start_offset=first, start_timestamp=times[len(records)])
            record = _find_in(opened, bounds, policy)
            if record is None:
                break
            records.append(record)
            start = record.offset
        if len(records) == len(times):
            break
    return records + [NO_RECORD] * (len(times) - len(records))


def find_offset_for_time(
    directory: Location, timestamp: int, start: int, policy: ReadPolicy = STRICT
) -> int:
    """Return the first offset at or above both timestamp and start offset, else -1."""
    segments = list_segments(directory)
    [found] = find_offsets_for_times(directory, segments, [timestamp], start, policy)
    return found


def _find_in(
    opened: OpenSegment, bounds: Bounds, policy: ReadPolicy
) -> RecordPlace | None:
    """Return the first record of a segment within bounds, or None."""
    timestamp = bounds.start_timestamp
    assert timestamp is not None

    def late(rows: BatchHeaders) -> tuple[npt.NDArray[np.bool_], bool]:
        timed = (rows["magic"] < 2) | (rows["max_timestamp"] >= timestamp)
        return timed & (rows["last_offset"] >= bounds.start_offset), False

    position = opened.segment.position_for_time(opened.source, timestamp)
    for step in opened.records(position, select=late, policy=policy):
        if isinstance(step, Skipped):
            continue
        for views in decode(
            step.data,
            step.origin,
            step.rows,
            bounds=bounds,
            limit=MAX_BATCH_BYTES,
            workspace=Workspace(),
        ):
            if not isinstance(views, LocatedError):
                first = views.records["offset"][0], views.records["timestamp"][0]
                return RecordPlace(int(first[0]), int(first[1]))
            if not policy.skips:
                raise views.located(opened.segment.path)
    return None


def for_each_time(
    timestamps: Times, find: Callable[[list[int]], list[int]]
) -> npt.NDArray[np.int64]:
    """Return an offset for each of many timestamps, in their shape.

    `find` is called with distinct times in ascending order.
    """
    times = all_as_ms(timestamps)
    distinct, places = np.unique(times, return_inverse=True)
    return np.array(find(distinct.tolist()), np.int64)[places].reshape(times.shape)
