"""The partitions or segments under a path.

Names, sizes, checkpoints and indexes are read; of each log only the first batch and
those after the last index entry, of a small one all. Files that a broker removes
meanwhile are not listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from operator import attrgetter
from typing import Final, Literal, NamedTuple, TypeAlias, cast

from kafkalog.errors import CorruptIndexError, NotALogDirectoryError
from kafkalog.formats.batch_headers import BatchHeaders, begin_times
from kafkalog.indexes.index_table import LARGE_BYTES, IndexTable, read_slots
from kafkalog.indexes.offset_index import OffsetIndex
from kafkalog.indexes.time_index import TIMESTAMP, TimeIndex
from kafkalog.indexes.txn_index import TransactionIndex
from kafkalog.log.reading.log_segments import LOG, list_directory
from kafkalog.log.reading.remote_offsets import log_start_in
from kafkalog.query.listing_report import (
    PartitionList,
    PartitionSummary,
    SegmentList,
    SegmentSummary,
)
from kafkalog.segment.file_records import FIRST_STEP_BYTES
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.checkpoint_file import LOG_STARTS, read_offsets_or_none
from kafkalog.storage.file_names import (
    CLEAN_SHUTDOWN,
    INDEXES,
    MAX_OFFSET,
    PartitionDir,
    parse_file_name,
    parse_file_names,
)
from kafkalog.storage.location import (
    AnyPath,
    Entry,
    Location,
    OpenedSource,
    allocated_size,
    entries,
    file_size,
    is_file,
    locate,
    locate_all,
    no_such_path,
    read_range,
    regular_files,
)
from kafkalog.storage.log_directory import (
    EVERY_PARTITION,
    Numbers,
    PartitionSelection,
    Topics,
    is_partition,
    list_partitions,
    partitions_under,
)

Sort: TypeAlias = Literal["name", "size"]
"""The order of the rows."""

INDEX: Final = "index"
SMALL_SLOTS: Final = 128
"""Entries up to which an index is read whole: a text in its place is that small."""


def ls(
    path: AnyPath,
    *,
    topics: Topics = None,
    exclude_topics: Topics = None,
    partitions: Numbers = None,
    sort: Sort = "name",
    filesystem: object = None,
    storage_options: Mapping[str, str] | None = None,
) -> PartitionList | SegmentList:
    """Return the partitions of a log directory, or the segments of a partition or file.

    Names, sizes, checkpoints and indexes are read, and the ends of each log. Records
    are not.

    Parameters
    ----------
    path : path or URL
        A log directory, a partition's directory, or a ``.log`` file.
    topics, exclude_topics : str or iterable of str, optional
        Only these topics, and not these; ``*``, ``?`` and ``[...]`` match as in a
        shell.
    partitions : int or iterable of int, optional
        Only partitions with these numbers.
    sort : {"name", "size"}
        By topic and partition, or segments by offset; or by the bytes of all files,
        most first.
    filesystem, storage_options : optional
        The file system of the path, or options of that of a URL, as for `scan`.

    Returns
    -------
    PartitionList or SegmentList
        A report. Its rows have the sizes, the log start and end offset or those of the
        segment, the times of the first and the latest record, and the state of what is
        marked: ``-delete``, ``-future`` and ``-stray`` directories, ``.deleted``,
        ``.cleaned`` and ``.swap`` files.

    Raises
    ------
    FileNotFoundError
        If the path, a topic or a partition does not exist.
    NotALogDirectoryError
        If the path is neither a log directory nor a partition or one of its files.
    ValueError
        If `sort` is another word.

    Examples
    --------
    >>> import kafkalog
    >>> listed = kafkalog.ls("tests/golden/k431-clean/logs", topics="ledger")
    >>> [(row.partition, row.log_end_offset) for row in listed.partitions]
    [(0, 126), (1, 111)]
    """
    if sort not in ("name", "size"):
        raise ValueError(f"sort {sort!r}, expected name or size")
    place = locate(locate_all(path, filesystem, storage_options))
    selection = PartitionSelection.of(topics, partitions, exclude_topics)
    of_partitions = place.is_dir() and not is_partition(place)
    rows = [*list_path(place, selection)]
    if sort == "size":
        rows.sort(key=attrgetter("all_files_bytes"), reverse=True)
    if of_partitions:
        return PartitionList(tuple(cast("list[PartitionSummary]", rows)))
    return SegmentList(tuple(cast("list[SegmentSummary]", rows)))


def list_path(
    path: Location, selection: PartitionSelection = EVERY_PARTITION
) -> Iterator[PartitionSummary] | Iterator[SegmentSummary]:
    """Yield the partitions of a log directory, or the segments of a partition or file.

    Raises `FileNotFoundError`, and `NotALogDirectoryError` for a path that is no log.
    """
    if path.is_dir() and not is_partition(path):
        return _partitions(path, selection)
    if not path.exists():
        raise no_such_path(path)
    if not path.is_dir() and not (path.is_file() and LOG in path.name):
        raise NotALogDirectoryError(f"neither a .log file nor a log directory: {path}")
    selection.choose(partitions_under(path))
    if path.is_dir():
        return _segments(path)
    files = regular_files(entries(path.parent))
    return iter([_summarize(LogSegment.of(path), files)])


def _partitions(
    directory: Location, selection: PartitionSelection
) -> Iterator[PartitionSummary]:
    starts = read_offsets_or_none(directory, LOG_STARTS)
    clean = is_file(directory / CLEAN_SHUTDOWN)
    listed = list_partitions(directory, marked=True)
    places = [(name.topic, name.partition) for name, _ in listed]
    for i in selection.choose(places):
        name, path = listed[i]
        start = None if name.state else starts.get(places[i])
        with suppress(FileNotFoundError):
            yield _partition(name, path, start, clean_shutdown=clean)


def _partition(
    name: PartitionDir, path: Location, start: int | None, *, clean_shutdown: bool
) -> PartitionSummary:
    segments, listed = list_directory(path)
    files = regular_files(listed)
    logs = _log_files(files)
    indexed = [_time_index(segment, files)[1] for segment in segments]
    first_times = map(_first_timestamp, segments[:-1])
    first_time = next((time for time in first_times if time is not None), None)
    end, latest = start or 0, None
    if segments:
        ends = _read(segments[-1], indexed[-1], needs_first=first_time is None)
        end, latest = max(end, ends.next_offset), ends.latest
        first_time = ends.first_timestamp if first_time is None else first_time
    return PartitionSummary(
        topic=name.topic,
        partition=name.partition,
        segments=len(logs),
        size_in_bytes=sum(file_size(files[file]) for file in logs),
        all_files_bytes=sum(map(_bytes_used, files.values())),
        log_start_offset=log_start_in(path, segments, start),
        log_end_offset=end,
        first_timestamp=first_time,
        max_timestamp=_latest(*indexed, latest),
        state=name.state,
        clean_shutdown=clean_shutdown,
        directory=path.name,
    )


def _segments(directory: Location) -> Iterator[SegmentSummary]:
    """Yield all segments, including those with a suffix such as ``.deleted``."""
    segments, listed = list_directory(directory)
    live = {segment.path: segment for segment in segments}
    files = regular_files(listed)
    for file in _log_files(files):
        path = directory / file
        with suppress(FileNotFoundError):
            yield _summarize(live.get(path) or LogSegment.of(path), files)


def _log_files(names: Iterable[str]) -> list[str]:
    """Return the ``.log`` files by offset, including those with a suffix."""
    parsed = parse_file_names(sorted(name for name in names if LOG in name))
    return [file for file, name in parsed.items() if name.kind == "log"]


def _bytes_used(file: Entry) -> int:
    """Return the size of a file; for a preallocated index, its size on the disk."""
    size = file_size(file)
    preallocated = size > LARGE_BYTES and INDEX in file.name
    return min(size, allocated_size(file)) if preallocated else size


def _latest(*times: int | None) -> int | None:
    """Return the latest of the times that are known."""
    return max((time for time in times if time is not None), default=None)


def _summarize(segment: LogSegment, files: Mapping[str, Entry]) -> SegmentSummary:
    name = parse_file_name(segment.name)
    indexes = [_index(segment, kind, files) for kind in INDEXES]
    used = [_bytes_used(index) for index in indexes if index is not None]
    size = segment.size_in_bytes
    times, indexed = _time_index(segment, files)
    ends = _read(segment, indexed)
    return SegmentSummary(
        file=segment.name,
        base_offset=segment.base_offset,
        next_offset=ends.next_offset,
        size_in_bytes=size,
        all_files_bytes=size + sum(used),
        index_entries=_count(OffsetIndex, segment, "index", files),
        time_index_entries=times,
        txn_index_entries=_count(TransactionIndex, segment, "txnindex", files),
        first_timestamp=ends.first_timestamp,
        max_timestamp=_latest(indexed, ends.latest),
        state=None if name is None else name.suffix,
    )


class Ends(NamedTuple):
    """What is read of a log: the time of its first batch, and its end.

    `next_offset` and `position` are those after the last valid batch that was read, and
    `latest` is the greatest time of those batches.
    """

    first_timestamp: int | None
    next_offset: int
    position: int
    latest: int | None


def _read(
    segment: LogSegment, indexed: int | None, *, needs_first: bool = True
) -> Ends:
    """Read the ends of a log whose time index ends with the time `indexed`.

    The log is read from its last index entry on; without times in the index from its
    start. A log of one step is read from its start as well, unless it is damaged.
    """
    with segment.open() as source:
        if indexed is None or source.size <= FIRST_STEP_BYTES:
            ends = _read_from(segment, source, 0, needs_first=needs_first)
            if indexed is None or ends.position == source.size:
                return ends
        first = _first_time_of(segment, source) if needs_first else None
        start = segment.position_for(source, MAX_OFFSET)
        ends = _read_from(segment, source, start, needs_first=False)
        return ends._replace(first_timestamp=first)


def _read_from(
    segment: LogSegment, source: OpenedSource, start: int, *, needs_first: bool
) -> Ends:
    """Read a log from `start`, 0 or a confirmed position, to damage or its end."""
    ends = Ends(None, segment.base_offset, start, None)
    first, latest = None, -1
    for step in segment.last_steps(source, start):
        if needs_first:
            first, needs_first = _first_known(step.rows), False
        last = step.rows[-1]
        latest = max(latest, *step.rows["max_timestamp"].tolist())
        ends = Ends(
            first,
            max(ends.next_offset, int(last["last_offset"]) + 1),
            int(last["position"] + last["size_in_bytes"]),
            None if latest < 0 else latest,
        )
    return ends


def _first_timestamp(segment: LogSegment) -> int | None:
    """Return the time of the first batch whose header has one."""
    with segment.open() as source:
        return _first_time_of(segment, source)


def _first_time_of(segment: LogSegment, source: OpenedSource) -> int | None:
    for step in segment.last_steps(source, 0):
        return _first_known(step.rows)
    return None


def _first_known(rows: BatchHeaders) -> int | None:
    return next((time for time in begin_times(rows).tolist() if time >= 0), None)


def _time_index(
    segment: LogSegment, files: Mapping[str, Entry]
) -> tuple[int | None, int | None]:
    """Return the number of entries in the time index, and the greatest timestamp.

    The timestamp is None if the index is damaged.
    """
    count, last = _entries(TimeIndex, segment, "timeindex", files)
    place, width = TIMESTAMP
    timestamp = int.from_bytes(last[place : place + width], "big", signed=True)
    return count, timestamp if last and timestamp >= 0 else None


def _count(
    kind: type[IndexTable],
    segment: LogSegment,
    extension: str,
    files: Mapping[str, Entry],
) -> int | None:
    return _entries(kind, segment, extension, files)[0]


def _entries(
    kind: type[IndexTable],
    segment: LogSegment,
    extension: str,
    files: Mapping[str, Entry],
) -> tuple[int | None, bytes]:
    """Return the number of entries of an index, None if it is missing, and the last.

    If the last slot is used, the index is closed and all slots are used. An index that
    ends with zeros is preallocated, and is read. So is one that is small, or ends
    inside an entry; if it is damaged, it has no last entry.
    """
    width, file = kind.ENTRY.itemsize, _index(segment, extension, files)
    base = segment.base_offset
    if file is None or base < 0:
        return None, b""
    slots, torn = divmod(file_size(file), width)
    with suppress(FileNotFoundError):
        if slots > SMALL_SLOTS and not torn:
            last = read_range(file.path, (slots - 1) * width, width)
            if len(last) == width and any(last):
                return slots, last
        path = segment.path.with_name(file.name)
        try:
            data, size = read_slots(path, width, links=False)
        except CorruptIndexError:
            return 0, b""
        used = kind.count_valid(data, base)
        is_damaged = kind.find_damage(data, used, size, base) is not None
        is_damaged &= torn > 0 or slots <= SMALL_SLOTS
        return used, b"" if is_damaged else data[: used * width][-width:].tobytes()
    return None, b""


def _index(
    segment: LogSegment, extension: str, files: Mapping[str, Entry]
) -> Entry | None:
    """Return the file of an index of a segment, which has the segment's suffix."""
    stem, _, suffix = segment.name.partition(LOG)
    return files.get(f"{stem}.{extension}{suffix}")
