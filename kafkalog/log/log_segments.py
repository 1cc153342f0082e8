"""The segments of a partition's directory, in order of their base offsets.

A segment is its ``.log`` file, without the suffixes ``.deleted``, ``.cleaned`` and
``.swap``. Directories change while they are read: a broker rolls, retains, compacts.
Compaction makes one segment of several: it is written as ``.swap``, the several are
renamed to ``.deleted``, and then it takes the name of the first of them.

A listing made meanwhile may miss segments, so `list_segments` lists again. A segment
may also be merged or truncated away after it was listed, before it is opened. So
`read_on` opens a segment without a name by its ``.deleted`` name, and lists the
directory again to find where its offsets are now.

Knows: names and order. Does not know: what is in a segment, topics.
Source: ``LogSegments.java``; ``LocalLog.java``, its ``replaceSegments``.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Generator
from pathlib import Path
from typing import Final, NamedTuple

from kafkalog.errors import CorruptRecordError
from kafkalog.segment.entry_search import read_valid_entry
from kafkalog.segment.file_records import FileRecords
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.file_names import MAX_OFFSET, file_name, parse_file_names
from kafkalog.storage.location import AnyPath, Location, OpenedSource, entries, locate

QUIET_NS: Final = 50_000_000
"""A directory that did not change for so long does not while it is listed, by its time:
that of file systems goes in steps of some milliseconds."""

LEFT_NS: Final = 1_000_000_000
"""After so long a ``.swap`` is what a crash has left."""

PAUSE_S: Final = 0.005
MAX_LISTINGS: Final = 1000
"""How often a directory is listed in which a ``.swap`` file is to be renamed."""

MAX_DIFFERING: Final = 5
"""How often a directory is listed where each listing differs from the last."""

MAX_RELISTINGS: Final = 20
"""How often one segment is looked for anew, where a directory never comes to rest."""


class Listing(NamedTuple):
    """The ``.log`` files of a directory by base offset.

    `swaps` is whether a ``.swap`` file is to be renamed, and the segments it was made
    of may have lost their names.
    """

    files: list[tuple[int, str]]
    swaps: bool


class LostTail(NamedTuple):
    """Records that a segment has lost at its end: the error, and their offsets."""

    error: CorruptRecordError
    first_offset: int
    last_offset: int


def list_segments(directory: AnyPath) -> list[LogSegment]:
    """List the segments of a partition's directory, the lowest base offset first.

    While a broker renames files, the directory is listed until two listings agree.
    """
    directory = locate(directory)
    found = _files(directory)
    ends = [*(base - 1 for base, _ in found[1:]), MAX_OFFSET][: len(found)]
    return [
        LogSegment(directory / name, base, most)
        for (base, name), most in zip(found, ends, strict=True)
    ]


def _files(directory: Location) -> list[tuple[int, str]]:
    """List the ``.log`` files, by base offset, when all is at rest."""
    if not isinstance(directory, Path):
        return _list(directory).files  # at a URL nothing is renamed
    before: Listing | None = None
    for number in range(MAX_LISTINGS):
        changed_ns = directory.stat().st_mtime_ns
        quiet_ns = time.time_ns() - changed_ns
        listing = _list(directory)
        rests = quiet_ns > (LEFT_NS if listing.swaps else QUIET_NS)
        if rests and directory.stat().st_mtime_ns == changed_ns:
            break
        if not listing.swaps and (listing == before or number == MAX_DIFFERING):
            break
        before = listing
        if listing.swaps:
            time.sleep(PAUSE_S)
    return listing.files


def _list(directory: Location) -> Listing:
    files, swaps = [], set()
    listed = {entry.name: entry for entry in entries(directory)}
    for file, name in parse_file_names(listed).items():
        if name.kind != "log":
            continue
        if name.suffix is None and listed[file].is_file(follow_symlinks=False):
            files.append((name.base_offset, file))
        elif name.suffix == "swap":
            swaps.add(name.base_offset)
    files.sort()
    return Listing(files, not swaps.issubset(base for base, _ in files))


def from_offset(segments: list[LogSegment], offset: int) -> list[LogSegment]:
    """Keep the segments that may hold records at or above `offset`.

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
    """Open one segment after another, through renames and removals.

    A segment that was removed, be it by retention, or because the log was cut before
    it, or as compaction has put its records into an earlier one, is passed over for
    what the directory then holds from its base offset on: that may begin with
    offsets that were read already. The source is closed when the next is taken.
    """
    listings = 0
    while segments:
        segment = segments[0]
        try:
            source = segment.open()
        except FileNotFoundError:
            if listings == MAX_RELISTINGS or not directory.is_dir():
                raise
            segments = _anew(directory, segments)
            listings += 1
            continue
        with source:
            if listings < MAX_RELISTINGS and not _stands(segments, source):
                anew = _anew(directory, segments)
                # Where retention took both, what is open is all that there is of it.
                if anew and anew[0].base_offset <= segment.base_offset:
                    segments = anew
                    listings += 1
                    continue
            listings = 0
            yield segment, source
        segments = segments[1:]


def find_lost_tail(
    directory: Location, segment: LogSegment, records: FileRecords
) -> LostTail | None:
    """Return what is lost where a segment ends in part of an entry; None if nothing is.

    `records` is a reading of the segment that came to its end. Only the last segment of
    a log may just end; any other ends where the next begins. A gap without such a tail
    is none of this: compaction leaves gaps. What a broker has changed meanwhile is not
    damage: the directory and the file are read again.
    """
    if not records.has_tail or segment.most == MAX_OFFSET:
        return None
    first = max(records.before + 1, segment.base_offset)
    if first > segment.most or not _still_ends_so(directory, segment, records.end):
        return None
    reason = (
        f"the segment ends in part of a batch after offset {first - 1}, and the next "
        f"begins at {segment.most + 1}, expected {first}"
    )
    error = CorruptRecordError(reason, position=records.end, cause="size")
    return LostTail(error.located(segment.path), first, segment.most)


def _still_ends_so(directory: Location, segment: LogSegment, end: int) -> bool:
    """Whether a segment and the next are still there, and it has no entry at `end`."""
    if not directory.is_dir() or segment not in list_segments(directory):
        return False
    try:
        source = segment.open()
    except FileNotFoundError:
        return False
    with source:
        return source.size > end and read_valid_entry(source, end) is None


def _anew(directory: Location, segments: list[LogSegment]) -> list[LogSegment]:
    """List what now holds the offsets of `segments`; nothing without a directory."""
    if not directory.is_dir():
        return []
    listed = from_offset(list_segments(directory), segments[0].base_offset)
    most = segments[-1].base_offset
    return [one for one in listed if one.base_offset <= most]


def _stands(segments: list[LogSegment], source: OpenedSource) -> bool:
    """Whether the first segment, and the next one, have their names.

    If the first is marked, its records may be in an earlier one, or cut off the log. If
    the next has no name, its records may be in the first, and reach beyond its end.
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
