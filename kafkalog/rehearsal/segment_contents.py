"""The readable records of a segment, past any damage."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kafkalog.decoding.read_policy import SKIPPING
from kafkalog.decoding.record_counts import count_records
from kafkalog.segment.file_records import FileRecords, Step
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.byte_source import FileSource


class SegmentContents(NamedTuple):
    """The number of records of a segment, and the offset after its last batch."""

    records: int
    end: int


def contents_from(path: Path, base_offset: int, position: int = 0) -> SegmentContents:
    """Count the records of a segment from `position` on, past any damage.

    A missing file has none.
    """
    try:
        opened = FileSource(path)
    except FileNotFoundError:
        return SegmentContents(0, base_offset)
    records, end = 0, base_offset
    with opened as source:
        limits = LogSegment(path, base_offset).limits
        for step in FileRecords(
            source=source, start=position, limits=limits, policy=SKIPPING
        ):
            if isinstance(step, Step):
                records += int(count_records(step.rows, step.data, step.origin).sum())
                end = int(step.rows["last_offset"][-1]) + 1
    return SegmentContents(records, end)
