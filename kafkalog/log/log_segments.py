"""The segments of a partition's directory, in order of their base offsets.

A segment is there by its ``.log``; what is marked ``.deleted``, ``.cleaned`` or
``.swap`` is none. Directories change while they are read: a broker rolls, retains,
compacts. `read_on` copes: a segment that is gone from under its name is looked for
under its mark, and if it is gone for good the directory is listed again.

Knows: names and order. Does not know: what is in a segment, topics.
Source: ``LogSegments.java``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator

from kafkalog.files.location import AnyPath, Location, OpenedSource, entries, locate
from kafkalog.files.naming import MAX_OFFSET, parse_file_name
from kafkalog.segment.log_segment import LogSegment


def list_segments(directory: AnyPath) -> list[LogSegment]:
    """List the segments of a partition's directory, the lowest base offset first."""
    found = []
    directory = locate(directory)
    for entry in entries(directory):
        name = parse_file_name(entry.name)
        if name is None or name.kind != "log" or name.suffix is not None:
            continue
        if entry.is_file(follow_symlinks=False):
            found.append((name.base_offset, entry.name))
    found.sort()
    ends = [*(base - 1 for base, _ in found[1:]), MAX_OFFSET][: len(found)]
    return [
        LogSegment(directory / name, base, most)
        for (base, name), most in zip(found, ends, strict=True)
    ]


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

    A segment that was removed, be it by retention or because compaction has put its
    records into an earlier one, is passed over for what the directory then holds at
    and behind its base offset. The source is closed when the next is taken.
    """
    missing = 0
    while segments:
        segment = segments[0]
        try:
            source = segment.open()
        except FileNotFoundError:
            missing += 1
            if missing > len(segments) + 1 or not directory.is_dir():
                raise
            listed = from_offset(list_segments(directory), segment.base_offset)
            most = segments[-1].base_offset
            segments = [one for one in listed if one.base_offset <= most]
            continue
        missing = 0
        try:
            yield segment, source
        finally:
            source.close()
        segments = segments[1:]
