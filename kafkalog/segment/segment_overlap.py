"""Segments that continue past the base offset of the next one.

The cleaner replaces several segments by one, with the name of the first. A copy that
was made meanwhile, or over an older one, has the new segment and some of those that it
replaced. A broker reads the new one to its end, and then goes on at the next offset.

No checksum covers the offset of a batch: a single batch past the next segment may have
a damaged one. So a segment continues there only if two or more batches are past it in
order, or if an index has an entry there.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from kafkalog.decoding.read_policy import ReadPolicy
from kafkalog.formats.batch_headers import scan_headers
from kafkalog.formats.layout import MAX_BATCH_BYTES
from kafkalog.indexes.offset_index import OffsetIndex
from kafkalog.indexes.time_index import TimeIndex
from kafkalog.segment.entry_order import Limits
from kafkalog.segment.entry_search import read_valid_entry
from kafkalog.segment.file_records import (
    FIRST_STEP_BYTES,
    STEP_GROWTH,
    STEP_ROWS,
    FileRecords,
    Step,
)
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.byte_source import ByteSource, only_zeros
from kafkalog.storage.file_names import MAX_OFFSET
from kafkalog.storage.location import Location, open_source

SEGMENTS_KEPT: Final = 1 << 16
"""Number of segments whose ends are kept, so that each file is read once."""

POLICY: Final = ReadPolicy(
    needs="headers", check_crcs="before", on_corruption="skip", control_records=True
)


def end_past_next(segment: LogSegment) -> int | None:
    """Return the end offset of a segment that continues past `most`, or None.

    Raises `FileNotFoundError` if the file was removed.
    """
    status = segment.path.stat()
    key = (segment.path, segment.base_offset, segment.most)
    return _end_past(*key, status.st_size, status.st_mtime_ns)


@lru_cache(SEGMENTS_KEPT)
def _end_past(
    path: Location, base_offset: int, most: int, size: int, _modified_ns: int
) -> int | None:
    """Return the end offset of a file of this size and time, if it is past `most`."""
    if not size:
        return None
    segment = LogSegment(path, base_offset)
    with segment.open() as source:
        last = _last_offset(segment, source)
        if last is not None and last <= most:
            return None
        start = segment.position_for(source, most + 1)
        records = FileRecords(
            source=source, start=start, limits=Limits(least=base_offset), policy=POLICY
        )
        past, end = 0, most + 1
        for step in records:
            if isinstance(step, Step):
                past += int((step.rows["last_offset"] > most).sum())
                end = max(end, int(step.rows["last_offset"][-1]) + 1)
    if past > 1 or (past and _is_indexed(segment, most + 1, end)):
        return end
    return None


def _last_offset(segment: LogSegment, source: ByteSource) -> int | None:
    """Return the last offset by the headers alone; None if they do not lead to it."""
    position, length = _last_indexed(segment, source), FIRST_STEP_BYTES
    last = None
    while position < source.size:
        data = source.read(position, length)
        rows, _, parsed = scan_headers(data, 0, position, STEP_ROWS)
        if len(rows):
            last = int(rows["last_offset"][-1])
        elif length < MAX_BATCH_BYTES and position + len(data) < source.size:
            length *= STEP_GROWTH  # one entry is larger
        else:
            return last if only_zeros(source, position) else None
        position += parsed
    return last


def _last_indexed(segment: LogSegment, source: ByteSource) -> int:
    """Return the position in the last entry of the offset index, if it is confirmed."""
    width = OffsetIndex.ENTRY.itemsize
    try:
        with open_source(segment.index_path("index"), links=False) as index:
            last = max(index.size // width - 1, 0)
            data = index.read(last * width, width).tobytes()
    except FileNotFoundError:
        return 0
    if len(data) < width:
        return 0
    if not any(data):  # it is preallocated
        return segment.position_for(source, MAX_OFFSET)
    position = int.from_bytes(data[width // 2 :])
    return 0 if read_valid_entry(source, position) is None else position


def _is_indexed(segment: LogSegment, first: int, end: int) -> bool:
    """Return whether an index ends with an offset from `first` to before `end`."""
    indexes = (
        segment.read_index(OffsetIndex, "index"),
        segment.read_index(TimeIndex, "timeindex"),
    )
    return any(
        index is not None and len(index) and first <= int(index.offsets[-1]) < end
        for index in indexes
    )
