"""The last records of partitions, found from the end; and what comes behind them.

How far back to begin is told by the headers of batches, from places that the offset
index knows, each farther from the end than the one before: a log is never read whole
for its last records, unless these are all of it.

A partition that is followed is looked at again where its last segment changed, or where
the last batch read is not there any more. What was given stays given: where a broker
cut the log back, following goes on behind the last batch that still stands, whatever
was written over those that do not.

Knows: ends of logs, and how they move. Does not know: when to look, how records are
shown.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from kafkalog.decoding.batch_decoder import FIRST, LAST, Bounds
from kafkalog.log.log_segments import list_segments
from kafkalog.query.header_columns import tell_all
from kafkalog.query.part_reading import PartReading, Problem
from kafkalog.query.read_marks import Given, stands
from kafkalog.query.records import Records
from kafkalog.query.scan import Scan
from kafkalog.query.sources import Part, Span
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.location import Location

FIRST_LOOK_BYTES: Final = 256 << 10
FARTHER: Final = 8
SEEN_BEFORE: Final = 64
"""How many offsets before where following begins are watched for a cut, too."""

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
        told=tell_all,
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
    """How far one part was given, and what it was made of then."""

    next_offset: int
    given: Given
    stamp: Stamp | None = None
    was_cut: bool = False  # since records were given last


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

        Records have the column ``offset`` behind those asked for.
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
            first = bounds.start_offset
            least = max(part.log_start_offset, first - SEEN_BEFORE)
            state = self._followed[place] = _Followed(first, Given(least))
        elif stamp == state.stamp and not _is_cut(part, state):
            return
        most = self.scan.request.max_batch_bytes
        end = yield from _catch_up(part, state, most)
        yield from _skip_to(part.log_start_offset, part, state)
        yield from self._records(part, bounds, state, end)
        if end < LAST and not self.scan.request.read_committed:
            state.next_offset = max(state.next_offset, end)  # behind markers, too
        state.stamp = stamp

    def _records(
        self, part: Part, bounds: Bounds, state: _Followed, end: int
    ) -> Iterator[Records | str]:
        """Give what is there up to an offset, and tell of what is left out."""
        columns = self.scan.columns
        bounds = replace(bounds, start_offset=state.next_offset, end_offset=end)
        scan = replace(
            self.scan,
            parts=((part, bounds),),
            columns=columns if "offset" in columns else (*columns, "offset"),
        )
        for records in scan.chunks():
            first = int(records.offset[0])
            if first > state.next_offset:  # by compaction, or retention meanwhile
                yield from _skip_to(min(first, _first_offset(part)), part, state)
            yield records
            state.next_offset, state.was_cut = int(records.offset[-1]) + 1, False
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


def _is_cut(part: Part, state: _Followed) -> bool:
    """Whether the last batch that was read does not stand any more."""
    last = state.given.last
    return last is not None and not stands(last, _segments(part))


def _catch_up(
    part: Part, state: _Followed, max_batch_bytes: int
) -> Generator[str, None, int]:
    """Mark what is there now, from the cut on if there was one; answer how far to read.

    It is marked first and read then: what is written over in between is found to be so
    at the next look. What was marked before must still stand when the new is marked.
    """
    given = state.given
    while True:
        last, sound = given.last, given.extend(part, max_batch_bytes)
        segments = _segments(part)
        if last is None or stands(last, segments):
            return given.end if sound else LAST
        given.forget(last, segments)
        if not given.marks:
            given.start = min(given.start, _end_of(segments[-1]))
        if given.end < state.next_offset:
            shown, state.next_offset = state.next_offset - 1, given.end
            state.was_cut = True
            yield _told_of_cut(part, max(given.end, segments[0].base_offset), shown)


def _told_of_cut(part: Part, offset: int, last: int) -> str:
    """Say that a log was cut, and which of the offsets given were: up to `last`."""
    if offset < 0:
        return f"it was emptied: {_place(part)}"
    message = f"it was cut back to offset {offset}: {_place(part)}"
    if offset > last:
        return message
    return f"{message}: what was there from {offset} to {last} counts no more"


def _skip_to(start: int, part: Part, state: _Followed) -> Iterator[str]:
    """Go on at the log's start, and say which offsets are never given by that.

    Nothing is skipped where no first offset was requested. After a truncation that was
    reported it is not known what was there.
    """
    if start > state.next_offset:
        skipped = f"offsets {state.next_offset} to {start - 1}"
        is_skipped = state.next_offset > FIRST and not state.was_cut
        state.next_offset = start
        if is_skipped:
            reason = f"the log was deleted up to {start} before they were read"
            yield f"skipped {skipped} of {part.topic}-{part.partition}: {reason}"


def _first_offset(part: Part) -> int:
    """Offset with which the first segment that is there begins."""
    segments = _segments(part)
    return segments[0].base_offset if segments else FIRST


def _end_of(segment: LogSegment) -> int:
    """Offset behind the last sound batch, whatever is damaged before it."""
    with segment.open() as source:
        return segment.next_offset(source, past_damage=True)
