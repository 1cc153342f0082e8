"""Segments that continue past the base offset of the next one.

The cleaner replaces several segments by one, with the name of the first. A copy that
was made meanwhile, or over an older one, has the new segment and some of those that it
replaced. A broker reads the new one to its end, and then goes on at the next offset.

No checksum covers the offset of a batch: a single batch past the next segment may have
a damaged one. So a segment continues there only if two or more batches are past it in
order, or if an index has an entry there.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np

from kafkalog.decoding.read_policy import ReadPolicy
from kafkalog.formats.batch_headers import scan_headers
from kafkalog.formats.layout import MAX_BATCH_BYTES
from kafkalog.indexes.offset_index import OffsetIndex
from kafkalog.segment.entry_order import Limits
from kafkalog.segment.file_records import (
    FIRST_STEP_BYTES,
    STEP_GROWTH,
    FileRecords,
    Step,
)
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.byte_source import FileSource, only_zeros, open_regular

SEGMENTS_KEPT: Final = 1 << 16
"""Number of segments whose ends are kept, so that each file is read once."""

ROWS: Final = 64
"""Headers scanned at a time: the last entry of an index is near the end."""

SMALL_BYTES: Final = 16 << 10
"""Size of a log up to which its index is not opened."""

POLICY: Final = ReadPolicy(
    needs="headers", check_crcs="before", on_corruption="skip", control_records=True
)


def end_past_next(file: str, base_offset: int, most: int) -> int | None:
    """Return the end offset of a segment that continues past `most`, or None.

    A log may have thousands of segments, so the file is named by text, which is faster.

    Raises `FileNotFoundError` if the file was removed.
    """
    status = os.lstat(file)
    return _end_past(file, base_offset, most, status.st_size, status.st_mtime_ns)


@lru_cache(SEGMENTS_KEPT)
def _end_past(
    file: str, base_offset: int, most: int, size: int, _modified_ns: int
) -> int | None:
    """Return the end offset of a file of this size and time, if it is past `most`."""
    if not size:
        return None
    last = _last_offset(file, base_offset, size)
    if last is not None and last <= most:
        return None
    segment = LogSegment(Path(file), base_offset)
    with segment.open() as source:
        start = segment.position_for(source, most + 1)
        records = FileRecords(
            source=source, start=start, limits=Limits(least=base_offset), policy=POLICY
        )
        past, end = 0, most + 1
        for step in records:
            if isinstance(step, Step):
                past += int((step.rows["last_offset"] > most).sum())
                end = max(end, int(step.rows["last_offset"][-1]) + 1)
    indexed = (most < last < end for last in segment.last_indexed_offsets())
    return end if past > 1 or (past and any(indexed)) else None


def _last_offset(file: str, base_offset: int, size: int) -> int | None:
    """Return the last offset by the headers alone; None if they do not lead to it.

    They are read from the last entry of the index on, if the log has its offset there.
    A small log is read from its start, which is faster than to open its index.
    """
    position, indexed = 0, None
    if size > SMALL_BYTES:
        stem, _, suffix = file.rpartition(".log")
        position, indexed = _last_entry(f"{stem}.index{suffix}", base_offset)
    log, status = open_regular(file)
    length, last = FIRST_STEP_BYTES, None
    with log:
        while position < status.st_size:
            left = status.st_size - position
            data = os.pread(log.fileno(), min(length, left), position)
            rows, _, parsed = scan_headers(
                np.frombuffer(data, np.uint8), 0, position, ROWS
            )
            if indexed is not None and (
                not len(rows) or int(rows["last_offset"][0]) != indexed
            ):
                position, indexed = 0, None
                continue
            indexed = None
            if len(rows):
                last = int(rows["last_offset"][-1])
            elif length < MAX_BATCH_BYTES and len(data) < left:
                length *= STEP_GROWTH  # one entry is larger
            else:
                with FileSource(file) as source:
                    return last if only_zeros(source, position) else None
            position += parsed
    return last


def _last_entry(file: str, base_offset: int) -> tuple[int, int | None]:
    """Return the position and the offset in the last entry of an offset index."""
    width = OffsetIndex.ENTRY.itemsize
    try:
        index, status = open_regular(file)
    except FileNotFoundError:
        return 0, None
    with index:
        last = status.st_size // width - 1
        data = os.pread(index.fileno(), width, last * width) if last >= 0 else b""
    if len(data) < width:
        return 0, None
    if any(data):
        half = width // 2
        return int.from_bytes(data[half:]), base_offset + int.from_bytes(data[:half])
    entries = OffsetIndex.read_live(Path(file), base_offset)  # it is preallocated
    if not len(entries):
        return 0, None
    return int(entries.entries["position"][-1]), int(entries.offsets[-1])
