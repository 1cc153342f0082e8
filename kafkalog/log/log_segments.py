"""The segments of a partition's directory, in order of their base offsets.

A segment is its ``.log`` file, without the suffixes ``.deleted``, ``.cleaned`` and
``.swap``. A directory may change while it is read, as a broker rolls, deletes and
compacts. Compaction replaces several segments by one: the new one is written as
``.swap``, the old ones are renamed to ``.deleted``, and then the new one gets the name
of the first of them.

A listing made in between may miss segments, so `list_segments` lists again. A segment
may also be merged or truncated after it was listed, before it is opened. `read_on` then
opens it by its ``.deleted`` name, or lists the directory again to find the segment that
has its offsets now.

Source: ``LogSegments.java``, ``LocalLog.replaceSegments``.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kafkalog.errors import CorruptRecordError
from kafkalog.segment.entry_search import read_valid_entry
from kafkalog.segment.file_records import FileRecords
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.file_names import MAX_OFFSET, file_name, parse_file_names
from kafkalog.storage.location import (
    AnyPath,
    Entry,
    Location,
    OpenedSource,
    entries,
    is_file,
    locate,
)

QUIET_NS: Final = 50_000_000
"""Age of a directory's modification time after which a listing of it is complete.

The clocks of file systems advance in steps of some milliseconds."""

ABANDONED_NS: Final = 1_000_000_000
"""Age of the modification time after which a ``.swap`` was left by a crash."""

LOG: Final = ".log"
PAUSE_S: Final = 0.005
MAX_LISTINGS: Final = 1000
"""Maximum listings of a directory while a ``.swap`` file in it is to be renamed."""

MAX_DIFFERING: Final = 5
"""Maximum listings of a directory while each listing differs from the last."""

MAX_RELISTINGS: Final = 20
"""Maximum listings of the directory for one segment while it keeps changing."""


class LogFiles(NamedTuple):
    """The ``.log`` files of a directory by base offset.

    `swaps` is whether a ``.swap`` file is to be renamed. The segments that it replaces
    may have been renamed already.
    """

    files: list[tuple[int, str]]
    swaps: bool


class Listing(NamedTuple):
    """The segments of a partition's directory, and all its entries."""

    segments: list[LogSegment]
    entries: Sequence[Entry]


class LostTail(NamedTuple):
    """Records missing at the end of a segment: the error, and their offsets."""

    error: CorruptRecordError
    first_offset: int
    last_offset: int


def list_segments(directory: AnyPath) -> list[LogSegment]:
    """List the segments of a partition's directory, the lowest base offset first.

    While a broker renames files, the directory is listed until two listings agree.
    """
    return list_directory(locate(directory)).segments


def list_directory(directory: Location) -> Listing:
    """List the segments as `list_segments` does, and all entries next to them."""
    listed, files = _list(directory)
    ends = [*(base - 1 for base, _ in files[1:]), MAX_OFFSET][: len(files)]
    segments = [
        LogSegment(directory / name, base, end)
        for (base, name), end in zip(files, ends, strict=True)
    ]
    return Listing(segments, listed)


def _list(directory: Location) -> tuple[Sequence[Entry], list[tuple[int, str]]]:
    """List the entries, and the ``.log`` files, once no file is being renamed."""
    if not isinstance(directory, Path):
        listed = entries(directory)
        return listed, _log_files(listed).files  # object stores do not rename
    previous: LogFiles | None = None
    for number in range(MAX_LISTINGS):
        changed_ns = directory.stat().st_mtime_ns
        quiet_ns = time.time_ns() - changed_ns
        listed = entries(directory)
        found = _log_files(listed)
        is_quiet = quiet_ns > (ABANDONED_NS if found.swaps else QUIET_NS)
        if is_quiet and directory.stat().st_mtime_ns == changed_ns:
            break
        if not found.swaps and (found == previous or number == MAX_DIFFERING):
            break
        previous = found
        if found.swaps:
            time.sleep(PAUSE_S)
    return listed, found.files


def _log_files(listed: Sequence[Entry]) -> LogFiles:
    files, swaps = [], set()
    logs = {entry.name: entry for entry in listed if LOG in entry.name}
    for file, name in parse_file_names(logs).items():
        if name.kind != "log":
            continue
        if name.suffix is None and is_file(logs[file]):
            files.append((name.base_offset, file))
        elif name.suffix == "swap":
            swaps.add(name.base_offset)
    files.sort()
    return LogFiles(files, not swaps.issubset(base for base, _ in files))


def from_offset(segments: list[LogSegment], offset: int) -> list[LogSegment]:
    """Return the segments that may hold records at or above `offset`.

    >>> from pathlib import Path
    >>> segments = [LogSegment(Path(f"{base}.log"), base) for base in (0, 50, 90)]
    >>> [segment.base_offset for segment in from_offset(segments, 60)]
    [50, 90]
    """
    bases = [segment.base_offset for segment in segments]
    return segments[max(0, bisect_right(bases, offset) - 1) :]


def read_on(
    directory: Location, segments: list[LogSegment]
) -> Generator[tuple[LogSegment, OpenedSource], None, None]:
    """Open one segment after another, while a broker renames and removes files.

    A segment may be removed by retention or truncation, or because compaction has moved
    its records into an earlier one. Then the directory is listed again from its base
    offset on; the segments found may begin with offsets that were read already. A
    source is closed when the next one is taken.
    """
    listings = 0
    while segments:
        segment = segments[0]
        try:
            source = segment.open()
        except FileNotFoundError:
            if listings == MAX_RELISTINGS or not directory.is_dir():
                raise
            segments = _list_again(directory, segments)
            listings += 1
            continue
        with source:
            if listings < MAX_RELISTINGS and not _keeps_name(segments, source):
                relisted = _list_again(directory, segments)
                # If retention deleted both, only the open file has these records.
                if relisted and relisted[0].base_offset <= segment.base_offset:
                    segments = relisted
                    listings += 1
                    continue
            listings = 0
            yield segment, source
        segments = segments[1:]


def find_lost_tail(
    directory: Location, segment: LogSegment, records: FileRecords
) -> LostTail | None:
    """Return the records lost if a segment ends in a partial batch, or None.

    `records` has read the segment to its end. Only the last segment of a log may end in
    a partial batch. A gap before the next segment without one is valid, as compaction
    leaves gaps. The directory and the file are read again, as a broker may have changed
    them meanwhile.
    """
    if not records.has_tail or segment.most == MAX_OFFSET:
        return None
    first = max(records.before + 1, segment.base_offset)
    if first > segment.most or not _still_ends_at(directory, segment, records.end):
        return None
    reason = (
        f"the segment ends in a partial batch after offset {first - 1}, and the next "
        f"begins at {segment.most + 1}, expected {first}"
    )
    error = CorruptRecordError(reason, position=records.end, cause="size")
    return LostTail(error.located(segment.path), first, segment.most)


def _still_ends_at(directory: Location, segment: LogSegment, end: int) -> bool:
    """Return whether a segment is unchanged, and has no complete batch at `end`."""
    if not directory.is_dir() or segment not in list_segments(directory):
        return False
    try:
        source = segment.open()
    except FileNotFoundError:
        return False
    with source:
        return source.size > end and read_valid_entry(source, end) is None


def _list_again(directory: Location, segments: list[LogSegment]) -> list[LogSegment]:
    """List the segments that hold the offsets of `segments` now."""
    if not directory.is_dir():
        return []
    listed = from_offset(list_segments(directory), segments[0].base_offset)
    last = segments[-1].base_offset
    return [segment for segment in listed if segment.base_offset <= last]


def _keeps_name(segments: list[LogSegment], source: OpenedSource) -> bool:
    """Return whether the first segment, and the next one, have their names.

    If the first is marked, its records may be in an earlier segment, or truncated. If
    the next has lost its name, the first may hold its records now.
    """
    first = segments[0]
    if not isinstance(first.path, Path):
        return True
    if source.path != first.path:
        return False
    if first.most == MAX_OFFSET:
        return True
    following = (
        segments[1].name if len(segments) > 1 else file_name(first.most + 1, "log")
    )
    return first.path.with_name(following).exists()
