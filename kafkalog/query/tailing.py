"""The last records of partitions, found from the end; and what comes behind them.

How far back to begin is told by the headers of batches, from places that the offset
index knows, each farther from the end than the one before: a log is never read whole
for its last records, unless these are all of it.

A partition that is followed is looked at again where its last segment changed. What was
given stays given: where a broker cut the log back, following goes on from the cut. Such
a cut shows by the log's end, or, if it has grown anew since, by a later leader epoch
that begins below what was given.

Knows: ends of logs, and how they move. Does not know: when to look, how records are
shown.
Source: ``SubscriptionState.java`` (how a consumer detects such a cut).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from kafkalog.errors import CorruptCheckpointError
from kafkalog.files.checkpoint_file import LEADER_EPOCHS, read_if_there
from kafkalog.files.location import Location
from kafkalog.files.naming import MAX_OFFSET
from kafkalog.formats.checkpoint import parse_epochs
from kafkalog.formats.decoding import FIRST, Bounds
from kafkalog.formats.layout import NO_LEADER_EPOCH
from kafkalog.log.log_segments import list_segments
from kafkalog.query.plan import Part, Span
from kafkalog.query.reading import PartReading, Problem
from kafkalog.query.records import Records
from kafkalog.query.scan import Scan
from kafkalog.segment.file_records import Step
from kafkalog.segment.log_segment import LogSegment

FIRST_LOOK_BYTES: Final = 256 << 10
FARTHER: Final = 8
NEEDED: Final = ("offset", "leader_epoch")
"""Columns that following needs itself."""

Planned = tuple[Part, Bounds]


def last_records(scan: Scan, count: int) -> Scan:
    """Bound a scan from below, so that it gives the last `count` records of each part.

    Damage is passed over while they are looked for; the scan then meets it as it was
    asked to.

    >>> import tempfile, kafkalog
    >>> from pathlib import Path
    >>> batch = kafkalog.RecordBatchBuilder(base_offset=0)
    >>> for value in (b"one", b"two", b"three"):
    ...     batch.append(None, value, timestamp=1)
    >>> with tempfile.TemporaryDirectory() as root:
    ...     path = Path(root, "00000000000000000000.log")
    ...     _ = path.write_bytes(batch.build())
    ...     [records] = last_records(kafkalog.scan(path), 2).chunks()
    >>> records.value.to_list()
    [b'two', b'three']
    """
    parts = []
    for part, bounds in scan.parts:
        start = _start_of_last(scan, part, bounds, count)
        parts.append((part, replace(bounds, start_offset=start)))
    return replace(scan, parts=tuple(parts))


def _start_of_last(scan: Scan, part: Part, bounds: Bounds, count: int) -> int:
    """Offset of the last record but `count`; of 0, the offset behind the last one."""
    request = replace(scan.request, skip=True)
    start = _rough_start(PartReading(part=part, bounds=bounds, request=request), count)
    rough = replace(
        scan,
        parts=((part, replace(bounds, start_offset=start)),),
        columns=("offset",),
        request=request,
    )
    last = np.empty(0, np.int64)
    for records in rough.chunks():
        last = np.concatenate((last, records.offset))[-max(count, 1) :]
    if not len(last):
        return bounds.start_offset
    return int(last[0]) if count else int(last[-1]) + 1


def _rough_start(reading: PartReading, count: int) -> int:
    """Offset from which on there are `count` records or more, if so many are there."""
    least, wanted = reading.bounds.start_offset, max(count, 1)
    for segment in reversed(_segments(reading.part)):
        there = 0
        for span in _ends_of(segment):
            there, first = _count(reading, span)
            if there >= wanted:
                return max(first, least)
        wanted -= there
        if segment.base_offset <= least:
            break
    return least


def _segments(part: Part) -> list[LogSegment]:
    """List segments that can be begun anywhere: of a snapshot that is not known."""
    if part.directory is not None:
        return list_segments(part.directory)
    if part.file is None or ".log" not in part.file.name:
        return []
    return [LogSegment.of(part.file)]


def _ends_of(segment: LogSegment) -> Iterator[Span]:
    """Yield ends of a segment, each longer than the one before, at last all of it."""
    with suppress(FileNotFoundError), segment.open() as source:
        length = FIRST_LOOK_BYTES
        while length < source.size:
            near = segment.positions_near(source, [source.size - length])
            if near:
                yield Span(segment, near[0], source.size, source)
            length *= FARTHER
        yield Span(segment, 0, source.size, source)


def _count(reading: PartReading, span: Span) -> tuple[int, int]:
    """Count the records wanted in a span, at least so many; and the first's offset."""
    bounds = reading.bounds
    if reading.part.directory is not None:
        base = max(bounds.start_offset, span.segment.base_offset)
        bounds = replace(bounds, start_offset=base)
    there, first = 0, None
    for piece in PartReading(
        part=replace(reading.part, span=span),
        bounds=bounds,
        request=reading.request,
        headers_only=True,
    ).pieces():
        if isinstance(piece, Problem):
            continue
        rows = piece.step.rows
        there += int(np.where(rows["count"] < 0, 1, rows["count"]).sum(dtype=np.int64))
        if first is None:
            # Of a wrapper only the last offset is known, and that is one record.
            base = int(rows["base_offset"][0])
            first = int(rows["last_offset"][0]) if base < 0 else base
    return there, FIRST if first is None else first


Stamp = tuple[str, int, int]
"""A part's last segment: its name, size and time of change."""


@dataclass(slots=True)
class _Followed:
    """How far one part was given: `epoch` is that of the last record."""

    next_offset: int
    epoch: int = NO_LEADER_EPOCH
    stamp: Stamp | None = None


@dataclass(slots=True)
class Follower:
    """Gives what comes to partitions, look by look; `parts_now` lists them anew.

    `scan` says what was asked of each; from where its parts start, they are followed.
    """

    scan: Scan
    parts_now: Callable[[], Sequence[Planned]]
    _followed: dict[Location | None, _Followed] = field(default_factory=dict)
    _told: set[Problem] = field(default_factory=set)

    def first_look(self) -> Iterator[Records | str]:
        """Give what the scan has to give."""
        return self._look(self.scan.parts)

    def look(self) -> Iterator[Records | str]:
        """Give what came since the last look, and notices of what went.

        Records have the columns `NEEDED` behind those asked for.
        """
        parts = self.parts_now()
        there = {_place(part) for part, _ in parts}
        for place in [one for one in self._followed if one not in there]:
            del self._followed[place]
            yield f"it is gone: {place}"
        yield from self._look(parts)

    def _look(self, parts: Sequence[Planned]) -> Iterator[Records | str]:
        for part, bounds in parts:
            place = _place(part)
            try:
                yield from self._of_part(part, bounds)
            except FileNotFoundError:
                # Removed since it was listed: the next look says so, if it stays away.
                if place in self._followed:
                    self._followed[place].stamp = None

    def _of_part(self, part: Part, bounds: Bounds) -> Iterator[Records | str]:
        place, stamp = _place(part), _stamp(part)
        state = self._followed.get(place)
        if state is None:
            state = self._followed[place] = _Followed(bounds.start_offset)
        elif stamp == state.stamp:
            return
        else:
            yield from _go_back(part, state)
            if state.next_offset < part.log_start_offset:
                state.next_offset = part.log_start_offset
        columns = self.scan.columns
        scan = replace(
            self.scan,
            parts=((part, replace(bounds, start_offset=state.next_offset)),),
            columns=(*columns, *(name for name in NEEDED if name not in columns)),
        )
        for records in scan.chunks():
            yield records
            state.next_offset = int(records.offset[-1]) + 1
            state.epoch = int(records.leader_epoch[-1])
        state.stamp = stamp
        for problem in scan.problems:
            if problem not in self._told:
                self._told.add(problem)
                yield f"left out: {problem}"


def _place(part: Part) -> Location | None:
    return part.file if part.directory is None else part.directory


def _stamp(part: Part) -> Stamp | None:
    segments = _segments(part)
    if not segments:
        return None
    told = segments[-1].path.stat()
    return segments[-1].name, told.st_size, told.st_mtime_ns


def _go_back(part: Part, state: _Followed) -> Iterator[str]:
    """Set the next offset back to where the log was cut below it, if it was."""
    cut = state.next_offset
    segments = _segments(part)
    if segments:
        cut = min(cut, _end_of(segments[-1]))
    cut = min(cut, _later_epoch(part, state.epoch))
    if cut < state.next_offset:
        yield f"it was cut back to offset {cut}: {_place(part)}"
        state.next_offset = cut


def _end_of(segment: LogSegment) -> int:
    """Offset behind the last sound batch, whatever is damaged before it."""
    end = segment.base_offset
    with segment.open() as source:
        start = segment.position_for(source, MAX_OFFSET)
        for step in segment.records(source, start, skip=True):
            if isinstance(step, Step):
                end = max(end, int(step.rows["last_offset"][-1]) + 1)
    return end


def _later_epoch(part: Part, epoch: int) -> int:
    """Offset at which the first leader epoch behind `epoch` begins, if there is one."""
    if part.directory is None or epoch == NO_LEADER_EPOCH:
        return MAX_OFFSET
    entries = None
    with suppress(CorruptCheckpointError):
        entries = read_if_there(part.directory / LEADER_EPOCHS, parse_epochs)
    later = [start for one, start in entries or () if one > epoch]
    return min(later, default=MAX_OFFSET)
