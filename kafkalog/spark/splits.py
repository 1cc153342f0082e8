"""Ranges of offsets -> tasks, each some stretches of segments.

Segments are cut where the offset index knows that a batch begins; large ones are
divided, small ones packed together, so that a task is worth starting. What is to be
read is settled here, on the driver: a task that runs again reads the same bytes,
whatever was appended meanwhile.

Knows: segments and their sizes. Does not know: options, Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from kafkalog.files.location import Location
from kafkalog.files.reading import ByteSource
from kafkalog.formats.headers import Rows, scan_headers
from kafkalog.formats.layout import MAX_BATCH_BYTES
from kafkalog.formats.wrappers import first_offsets
from kafkalog.log.log_segments import from_offset, list_segments, read_on
from kafkalog.segment.file_records import Step
from kafkalog.segment.log_segment import LogSegment
from kafkalog.spark.ranges import OffsetRange

OFFSET_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Bytes from `begin` to `end` of a segment, for the offsets ``[start, stop)``.

    `marks` are positions and what is written there in the field of the offset: by them
    a task sees whether the file is still the one that was planned with.
    """

    topic: str
    partition: int
    directory: Location
    segment: LogSegment
    begin: int
    end: int
    start: int
    stop: int
    marks: tuple[tuple[int, int], ...] = ()

    @property
    def size_in_bytes(self) -> int:
        """How much there is to read."""
        return self.end - self.begin

    def fits(self, source: ByteSource) -> bool:
        """Whether `source` is, at the ends of the stretch, what it was."""
        return self.end <= source.size and all(
            _offset_at(source, position) == offset for position, offset in self.marks
        )


Task = list[Stretch]


def plan_tasks(
    ranges: Iterable[OffsetRange],
    directory_of: Callable[[tuple[str, int]], Location],
    *,
    target_bytes: int,
    pack: bool = True,
) -> list[Task]:
    """Divide ranges of offsets into tasks of at most about `target_bytes`.

    With `pack` a task may have stretches of several ranges.
    """
    tasks: list[Task] = []
    size = 0
    for one in ranges:
        directory, fresh = directory_of(one.place), True
        for stretch in _stretches(one, directory, target_bytes):
            size += stretch.size_in_bytes
            if not tasks or size > target_bytes or (fresh and not pack):
                tasks.append([])
                size = stretch.size_in_bytes
            tasks[-1].append(stretch)
            fresh = False
    return tasks


def _stretches(
    wanted: OffsetRange, directory: Location, target_bytes: int
) -> Iterator[Stretch]:
    """Cut a range at segments, and these at about `target_bytes`."""
    segments = from_offset(list_segments(directory), wanted.start)
    segments = [one for one in segments if one.base_offset < wanted.end]
    for segment, source in read_on(directory, segments):
        start = max(wanted.start, segment.base_offset)
        stop = min(wanted.end, segment.most + 1)
        begin = 0
        if start > segment.base_offset:
            begin = segment.position_for(source, start)
        end = source.size
        if stop <= segment.most:
            end = _position_behind(segment, source, stop)
        if begin >= end or start >= stop:
            continue
        cuts = _cuts(segment, source, begin, end, target_bytes)
        firsts = (_first_offset(source, cut) for cut in cuts)
        offsets = [start, *(min(max(start, one), stop) for one in firsts), stop]
        for (a, b), (first, last) in zip(
            pairwise([begin, *cuts, end]), pairwise(offsets), strict=True
        ):
            yield Stretch(
                topic=wanted.topic,
                partition=wanted.partition,
                directory=directory,
                segment=segment,
                begin=a,
                end=b,
                start=first,
                stop=last,
                marks=tuple(
                    (place, _offset_at(source, place))
                    for place in (a, b)
                    if place in (begin, *cuts)
                ),
            )


def _cuts(
    segment: LogSegment, source: ByteSource, begin: int, end: int, target_bytes: int
) -> list[int]:
    """Positions between `begin` and `end` that part them evenly."""
    parts = -(-(end - begin) // target_bytes)
    wanted = [begin + (end - begin) * i // parts for i in range(1, parts)]
    if not wanted:
        return []
    near = segment.positions_near(source, wanted)
    return [position for position in near if begin < position < end]


def _position_behind(segment: LogSegment, source: ByteSource, stop: int) -> int:
    """Position behind which nothing lies of what is below the offset `stop`."""

    def reaching(rows: Rows) -> tuple[npt.NDArray[np.bool_], bool]:
        reaches = rows["last_offset"] >= stop - 1
        return reaches, bool(reaches.any())

    start = segment.position_for(source, stop - 1)
    records = segment.records(source, start, reaching, skip=True)
    for step in records:
        if isinstance(step, Step):
            return int(step.rows["position"][0] + step.rows["size_in_bytes"][0])
    return records.end


def _first_offset(source: ByteSource, position: int) -> int:
    """Offset at which the sound entry at `position` begins."""
    head = source.read(position, OFFSET_BYTES + 4).tobytes()
    size = len(head) + int.from_bytes(head[OFFSET_BYTES:])
    data = source.read(position, size)
    rows, _, _ = scan_headers(data, 0, position, 1)
    return int(first_offsets(data, position, rows, MAX_BATCH_BYTES)[0])


def _offset_at(source: ByteSource, position: int) -> int:
    """Read the field of the offset of the entry at `position`."""
    field = source.read(position, OFFSET_BYTES).tobytes()
    return int.from_bytes(field, signed=True)
