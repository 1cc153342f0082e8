"""The segments of a partition's directory, in order of their base offsets.

A segment is its ``.log`` file, without the suffixes ``.deleted`` and ``.cleaned``. A
directory may change while it is read, as a broker rolls, deletes and compacts.
Compaction replaces several segments by one: the new one is written as ``.swap``, the
old ones are renamed to ``.deleted``, and then the new one gets the name of the first of
them.

A listing made in between may miss segments, so `list_segments` lists again. If the
``.swap`` keeps its name, a crash left it, and it is read in place of the segments that
it replaces, as when the log is loaded. One that is damaged, which no crash leaves, is
read only where no segment has its base offset.

A segment may also be merged or truncated after it was listed, before it is opened.
`read_on` then opens it by its ``.deleted`` name, or lists the directory again to find
the segment that has its offsets now.

Segments overlap if a copy has a new segment and some of those that it replaced. They
are read as a consumer reads them from a broker, from the start on with fetches of any
size: each segment to its end, then the last one that begins at or below the next
offset, or the next one if that is the same. So offsets never go back.

Source: ``LogSegments.java``, ``LocalLog.java`` (``read``, ``replaceSegments``),
``LogLoader.java``.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple, Unpack

import numpy as np
import numpy.typing as npt

from kafkalog.decoding.read_policy import SKIPPING, STRICT, ReadPolicy
from kafkalog.errors import CorruptRecordError, LocatedError
from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.segment.entry_search import read_valid_entry
from kafkalog.segment.file_records import (
    FIRST_STEP_BYTES,
    FileRecords,
    ReadOptions,
    Skipped,
    Step,
)
from kafkalog.segment.log_segment import LogSegment
from kafkalog.segment.segment_overlap import end_past_next
from kafkalog.storage.byte_source import FileSource
from kafkalog.storage.file_names import MAX_OFFSET, file_name, parse_file_names
from kafkalog.storage.leftover_names import replaced_offsets, sort_leftovers
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

    `swaps` are the ``.swap`` files. `waits` is whether one is to be renamed: the
    segments that it replaces may have been renamed already.
    """

    files: list[tuple[int, str]]
    swaps: dict[int, str]
    waits: bool


class Listing(NamedTuple):
    """The segments of a partition's directory that are read, and all its entries."""

    segments: list[LogSegment]
    entries: Sequence[Entry]


class OpenSegment(NamedTuple):
    """A segment of a partition, open for reading."""

    segment: LogSegment
    source: OpenedSource

    def records(
        self,
        start: int = 0,
        *,
        end_offset: int = MAX_OFFSET,
        **options: Unpack[ReadOptions],
    ) -> FileRecords:
        """Return its entries from a position on, then the records lost at its end.

        Lost records are damage, unless all of them are from `end_offset` on.
        """
        return FileRecords(
            source=self.source,
            start=start,
            limits=self.segment.limits,
            find_lost=partial(find_lost_tail, self.segment, end_offset),
            **options,
        )

    def position_for(self, offset: int) -> int:
        """Return a position from which on all records at or above `offset` are."""
        return self.segment.position_for(self.source, offset)


def list_segments(directory: AnyPath) -> list[LogSegment]:
    """List the segments that are read of a partition, the lowest base offset first.

    While a broker renames files, the directory is listed until two listings agree.
    """
    return list_directory(locate(directory)).segments


def list_first(directory: Location) -> list[LogSegment]:
    """List only the first segment, or none.

    This does not look for the ends of the others.
    """
    files = _list(directory)[1]
    return list(islice(segments_read(directory, files[:2]), 1))


def list_directory(directory: Location) -> Listing:
    """List the segments as `list_segments` does, and all entries next to them."""
    listed, files = _list(directory)
    return Listing(list(segments_read(directory, files)), listed)


def segments_read(
    directory: Location, files: Sequence[tuple[int, str]]
) -> Iterator[LogSegment]:
    """Yield the segments that a consumer reads, of `files` by base offset.

    One that continues past the next is followed by the one that has the next offset.
    Those in between are not read. At a URL, where the ends of all segments would take
    two requests each, no segment continues past the next: its batches there are damage.
    """
    following = [*(base for base, _ in files[1:]), None][: len(files)]
    segments = [
        LogSegment(
            directory / name,
            base,
            MAX_OFFSET if after is None else after - 1,
            following=after,
        )
        for (base, name), after in zip(files, following, strict=True)
    ]
    bases = [segment.base_offset for segment in segments]
    prefix = f"{directory}/"
    place, covered_to = 0, None
    while place < len(segments):
        segment, end = segments[place], None
        if segment.following is not None and isinstance(directory, Path):
            with suppress(FileNotFoundError):
                file = prefix + files[place][1]
                end = end_past_next(file, segment.base_offset, segment.most)
        place += 1
        if covered_to is not None and covered_to > segment.base_offset:
            segment = replace(segment, covered_to=covered_to)
        if end is not None:
            segment = replace(segment, most=end - 1)
            covered_to = end if covered_to is None else max(end, covered_to)
            place = max(place, bisect_right(bases, covered_to) - 1)
        yield segment


def _list(directory: Location) -> tuple[Sequence[Entry], list[tuple[int, str]]]:
    """List the entries, and the ``.log`` files, once no file is being renamed."""
    if not isinstance(directory, Path):
        listed = entries(directory)  # object stores do not rename
        return listed, _swapped(directory, _log_files(listed), listed)
    previous: LogFiles | None = None
    for number in range(MAX_LISTINGS):
        changed_ns = directory.stat().st_mtime_ns
        quiet_ns = time.time_ns() - changed_ns
        listed = entries(directory)
        found = _log_files(listed)
        is_quiet = quiet_ns > (ABANDONED_NS if found.waits else QUIET_NS)
        if is_quiet and directory.stat().st_mtime_ns == changed_ns:
            break
        if not found.waits and (found == previous or number == MAX_DIFFERING):
            break
        previous = found
        if found.waits:
            time.sleep(PAUSE_S)
    return listed, _swapped(directory, found, listed)


def _log_files(listed: Sequence[Entry]) -> LogFiles:
    files, swaps = [], {}
    logs = {entry.name: entry for entry in listed if LOG in entry.name}
    for file, name in parse_file_names(logs).items():
        if name.kind != "log":
            continue
        if name.suffix is None and is_file(logs[file]):
            files.append((name.base_offset, file))
        elif name.suffix == "swap":
            swaps[name.base_offset] = file
    files.sort()
    waits = not swaps.keys() <= {base for base, _ in files}
    return LogFiles(files, swaps, waits)


def _swapped(
    directory: Location, found: LogFiles, listed: Sequence[Entry]
) -> list[tuple[int, str]]:
    """Return the ``.log`` files as when the log is loaded, which finishes a swap."""
    if not found.swaps:
        return found.files
    names = parse_file_names(entry.name for entry in listed)
    complete = set(sort_leftovers(names).swapped_logs)
    files, ends = dict(found.files), {}
    for base, name in found.swaps.items():
        if name not in complete:
            continue
        end = _end_of_swap(LogSegment(directory / name, base))
        if end is not None:
            ends[base] = end
        else:
            files.setdefault(base, name)
    if ends:
        start, end = replaced_offsets(ends, ends.__getitem__)
        files = {base: name for base, name in files.items() if not start <= base < end}
        files |= {base: found.swaps[base] for base in ends}
    return sorted(files.items())


def _end_of_swap(segment: LogSegment) -> int | None:
    """Return the end offset of a ``.log.swap``; None if it is damaged or too short.

    Its indexes have no offset after its last one.
    """
    end = segment.whole_end()
    if end is None or any(last >= end for last in segment.last_indexed_offsets()):
        return None
    return end


def from_offset(segments: list[LogSegment], offset: int) -> list[LogSegment]:
    """Return the segments that may hold records at or above `offset`.

    >>> from pathlib import Path
    >>> segments = [LogSegment(Path(f"{base}.log"), base) for base in (0, 50, 90)]
    >>> [segment.base_offset for segment in from_offset(segments, 60)]
    [50, 90]
    """
    starts = [segment.start_offset for segment in segments]
    return segments[max(0, bisect_right(starts, offset) - 1) :]


def read_partition(
    directory: Location, start_offset: int = 0
) -> Generator[OpenSegment]:
    """Open the segments that may hold records at or above an offset, as `read_on`."""
    return read_on(directory, from_offset(list_segments(directory), start_offset))


def read_on(directory: Location, segments: list[LogSegment]) -> Generator[OpenSegment]:
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
            yield OpenSegment(segment, source)
        segments = segments[1:]


def entry_steps(
    directory: Location,
    segments: list[LogSegment],
    offset: int,
    end: int = MAX_OFFSET,
    *,
    first_bytes: int = FIRST_STEP_BYTES,
    policy: ReadPolicy = STRICT,
    errors: list[LocatedError] | None = None,
) -> Iterator[tuple[OpenedSource, Step]]:
    """Yield the batches that reach `offset` and begin before `end`, with their file.

    With a list for errors, corrupt batches are skipped and their errors appended; else
    the first one is raised.
    """

    def in_interval(rows: BatchHeaders) -> tuple[npt.NDArray[np.bool_], bool]:
        following = rows["last_offset"] >= offset
        return following & (rows["base_offset"] < end), False

    for opened in read_on(directory, from_offset(segments, offset)):
        if policy.memory_map and isinstance(opened.source, FileSource):
            opened.source.map_memory()
        for step in opened.records(
            opened.position_for(offset),
            end_offset=end,
            select=in_interval,
            first_bytes=first_bytes,
            policy=policy if errors is None else SKIPPING,
        ):
            if isinstance(step, Step):
                yield opened.source, step
                offset = int(step.rows["last_offset"][-1]) + 1
            elif errors is not None:
                errors.append(step.error)


def rows_within(rows: BatchHeaders, max_bytes: int) -> BatchHeaders:
    """Return the first of `rows`, and those that fit into `max_bytes` with it."""
    ends = np.cumsum(rows["size_in_bytes"])
    return rows[: max(1, int(np.searchsorted(ends, max_bytes, side="right")))]


def find_lost_tail(
    segment: LogSegment, end_offset: int, following: int, position: int
) -> Skipped | None:
    """Return the records below `end_offset` lost by a segment's partial batch, or None.

    The batch is at `position`, and should have the offset `following`. Only the last
    segment of a log may end in a partial batch. A gap before the next segment without
    one is valid, as compaction leaves gaps. The directory and the file are read again,
    as a broker may have changed them meanwhile.
    """
    if segment.most == MAX_OFFSET:
        return None
    first = max(following, segment.base_offset)
    is_lost = first <= segment.most and first < end_offset
    if not is_lost or not _still_ends_at(segment, position):
        return None
    reason = (
        f"the segment ends in a partial batch after offset {first - 1}, and the next "
        f"begins at {segment.most + 1}, expected {first}"
    )
    error = CorruptRecordError(reason, position=position, cause="size")
    return Skipped(error.located(segment.path), first, segment.most)


def _still_ends_at(segment: LogSegment, end: int) -> bool:
    """Return whether a segment is unchanged, and has no complete batch at `end`."""
    directory = segment.path.parent
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
    if first.following is None:
        return True
    following = (
        segments[1].name if len(segments) > 1 else file_name(first.following, "log")
    )
    return first.path.with_name(following).exists()
