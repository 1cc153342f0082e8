"""The partitions or segments under a path, as ``kafkalog ls`` lists them.

Names, sizes, checkpoints and indexes are read; of each log only the first batch and
those after the last index entry. Files that a broker removes meanwhile are not listed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from kafkalog.errors import LocatedError, NotALogDirectoryError
from kafkalog.indexes.index_table import LARGE_BYTES, Entries, IndexTable
from kafkalog.indexes.offset_index import OffsetIndex
from kafkalog.indexes.time_index import TimeIndex
from kafkalog.indexes.txn_index import TransactionIndex
from kafkalog.log.log_segments import list_segments
from kafkalog.query.log_contents import begin_times
from kafkalog.segment.file_records import Step
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.checkpoint_file import LOG_STARTS, read_offsets_or_none
from kafkalog.storage.file_names import (
    CLEAN_SHUTDOWN,
    MAX_OFFSET,
    PartitionDir,
    parse_file_name,
    parse_file_names,
)
from kafkalog.storage.location import Location, entries, open_source
from kafkalog.storage.log_directory import (
    choose_partitions,
    is_partition,
    list_partitions,
    partitions_under,
)

LOG: Final = ".log"
INDEX: Final = "index"
INDEXES: Final = ("index", "timeindex", "txnindex")
BLOCK_BYTES: Final = 512
"""The unit of ``st_blocks``, on every file system."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSummary:
    """A segment. The number of entries of a missing index is None.

    `size_in_bytes` is the size of the ``.log``, `all_files_bytes` includes its indexes.
    Timestamps are in ms: that of the first batch with one, and the greatest; None if
    there is none. `state` is ``deleted``, ``cleaned``, ``swap`` or None.
    """

    file: str
    base_offset: int
    next_offset: int
    size_in_bytes: int
    all_files_bytes: int
    index_entries: int | None
    time_index_entries: int | None
    txn_index_entries: int | None
    first_timestamp: int | None
    max_timestamp: int | None
    state: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSummary:
    """A partition. `segments` and `size_in_bytes` count its ``.log`` files.

    Files with the suffix ``.deleted``, ``.cleaned`` or ``.swap`` are included.
    `all_files_bytes` is the size of all files in the directory.

    `state` is ``delete``, ``future``, ``stray`` or None; `clean_shutdown` is whether
    the log directory has the marker of a clean shutdown.
    """

    topic: str
    partition: int
    segments: int
    size_in_bytes: int
    all_files_bytes: int
    log_start_offset: int
    log_end_offset: int
    first_timestamp: int | None
    max_timestamp: int | None
    state: str | None
    clean_shutdown: bool
    directory: str


def list_path(
    path: Location, topics: Sequence[str] = (), partitions: Sequence[int] = ()
) -> Iterator[PartitionSummary] | Iterator[SegmentSummary]:
    """Yield the partitions of a log directory, or the segments of a partition or file.

    `topics` and `partitions` select partitions; by default all are listed.

    Raises `FileNotFoundError`, and `NotALogDirectoryError` for a path that is no log.
    """
    if path.is_dir() and not is_partition(path):
        return _partitions(path, topics, partitions)
    if not path.exists():
        raise FileNotFoundError(2, os.strerror(2), str(path))
    if not path.is_dir() and not (path.is_file() and LOG in path.name):
        raise NotALogDirectoryError(f"neither a .log file nor a log directory: {path}")
    choose_partitions(partitions_under(path), topics, partitions)
    return _segments(path) if path.is_dir() else iter([_summarize(LogSegment.of(path))])


def _partitions(
    directory: Location, topics: Sequence[str], partitions: Sequence[int]
) -> Iterator[PartitionSummary]:
    starts = read_offsets_or_none(directory, LOG_STARTS)
    clean = (directory / CLEAN_SHUTDOWN).exists()
    listed = list_partitions(directory, marked=True)
    places = [(name.topic, name.partition) for name, _ in listed]
    for i in choose_partitions(places, topics, partitions):
        name, path = listed[i]
        start = 0 if name.state else starts.get(places[i], 0)
        with suppress(FileNotFoundError):
            yield _partition(name, path, start, clean_shutdown=clean)


def _partition(
    name: PartitionDir, path: Location, start: int, *, clean_shutdown: bool
) -> PartitionSummary:
    segments, files = list_segments(path), _files(path)
    logs = _log_files(files)
    ends = [_end_of(segment) for segment in segments[-1:]]
    times = [_latest_indexed(segment) for segment in segments]
    times += [latest for _, latest in ends]
    begins = map(_first_timestamp, segments)
    first = segments[0].base_offset if segments else 0
    return PartitionSummary(
        topic=name.topic,
        partition=name.partition,
        segments=len(logs),
        size_in_bytes=sum(_size_of(path / file) for file in logs),
        all_files_bytes=sum(_bytes_of(path / file) for file in files),
        log_start_offset=max(start, first),
        log_end_offset=max([start, *(next_offset for next_offset, _ in ends)]),
        first_timestamp=next((time for time in begins if time is not None), None),
        max_timestamp=max((time for time in times if time is not None), default=None),
        state=name.state,
        clean_shutdown=clean_shutdown,
        directory=path.name,
    )


def _segments(directory: Location) -> Iterator[SegmentSummary]:
    """Yield all segments, including those with a suffix such as ``.deleted``."""
    live = {segment.path: segment for segment in list_segments(directory)}
    for file in _log_files(_files(directory)):
        path = directory / file
        with suppress(FileNotFoundError):
            yield _summarize(live.get(path) or LogSegment.of(path))


def _log_files(names: Iterable[str]) -> list[str]:
    """Return the ``.log`` files by offset, including those with a suffix."""
    parsed = parse_file_names(sorted(names))
    return [file for file, name in parsed.items() if name.kind == "log"]


def _files(directory: Location) -> list[str]:
    """Return the names of the regular files in a directory, without links."""
    listed = entries(directory)
    return [entry.name for entry in listed if entry.is_file(follow_symlinks=False)]


def _size_of(path: Location) -> int:
    """Return the size of a file; 0 if it is missing."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _bytes_of(path: Location) -> int:
    """Return the size of a file; for a preallocated index, its size on the disk.

    A link counts as missing.
    """
    if isinstance(path, Path) and path.is_symlink():
        return 0
    size = _size_of(path)
    if size > LARGE_BYTES and isinstance(path, Path) and INDEX in path.name:
        with suppress(FileNotFoundError):
            return min(size, path.stat().st_blocks * BLOCK_BYTES)
    return size


def _summarize(segment: LogSegment) -> SegmentSummary:
    name = parse_file_name(segment.name)
    next_offset, latest = _end_of(segment)
    indexed = _latest_indexed(segment)
    times = [time for time in (latest, indexed) if time is not None]
    return SegmentSummary(
        file=segment.name,
        base_offset=segment.base_offset,
        next_offset=next_offset,
        size_in_bytes=segment.size_in_bytes,
        all_files_bytes=segment.size_in_bytes
        + sum(_bytes_of(_index_path(segment, kind)) for kind in INDEXES),
        index_entries=_count(OffsetIndex, segment, "index"),
        time_index_entries=_count(TimeIndex, segment, "timeindex"),
        txn_index_entries=_count(TransactionIndex, segment, "txnindex"),
        first_timestamp=_first_timestamp(segment),
        max_timestamp=max(times, default=None),
        state=None if name is None else name.suffix,
    )


def _end_of(segment: LogSegment) -> tuple[int, int | None]:
    """Return the offset after the last valid batch, and the greatest time there."""
    end, latest = segment.base_offset, -1
    with segment.open() as source:
        timed = _latest_indexed(segment) is not None
        start = segment.position_for(source, MAX_OFFSET) if timed else 0
        for step in segment.last_steps(source, start):
            end = max(end, int(step.rows["last_offset"][-1]) + 1)
            latest = max(latest, int(step.rows["max_timestamp"].max()))
    return end, None if latest < 0 else latest


def _first_timestamp(segment: LogSegment) -> int | None:
    """Return the time of the first batch whose header has one."""
    with segment.open() as source, suppress(LocatedError):
        for step in segment.records(source):
            if isinstance(step, Step):
                times = begin_times(step.rows)
                known = times[times >= 0]
                return int(known[0]) if len(known) else None
    return None


def _latest_indexed(segment: LogSegment) -> int | None:
    """Return the greatest timestamp in the time index."""
    count, last = _entries(TimeIndex, segment, "timeindex")
    return int(last["timestamp"][-1]) if count else None


def _count(kind: type[IndexTable], segment: LogSegment, extension: str) -> int | None:
    return _entries(kind, segment, extension)[0]


def _entries(
    kind: type[IndexTable], segment: LogSegment, extension: str
) -> tuple[int | None, Entries]:
    """Return the number of entries of an index, None if it is missing, and the last.

    If the last slot is used, the index is closed and all slots are used. An index that
    ends with zeros is preallocated, and is read.
    """
    width, nothing = kind.ENTRY.itemsize, np.empty(0, kind.ENTRY)
    path = _index_path(segment, extension)
    if segment.base_offset < 0 or not path.exists():
        return None, nothing
    with suppress(FileNotFoundError):
        with open_source(path, links=False) as source:
            slots = source.size // width
            last = source.read((slots - 1) * width, width) if slots else nothing
        if len(last) == width and last.any():
            return slots, last.view(kind.ENTRY)
        entries = kind.read_live(path, segment.base_offset).entries
        return len(entries), entries[-1:]
    return None, nothing


def _index_path(segment: LogSegment, extension: str) -> Location:
    """Return the path of an index of a segment, with the segment's suffix."""
    stem, _, suffix = segment.name.partition(LOG)
    return segment.path.with_name(f"{stem}.{extension}{suffix}")
