"""Ranges of offsets -> tasks, each some stretches of segments.

Segments are cut where the offset index knows that a batch begins; large ones are
divided, small ones packed together, so that a task is worth starting. What is to be
read is settled here, on the driver: a task that runs again reads the same bytes,
whatever was appended meanwhile.

Knows: segments and their sizes. Does not know: options, Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from kafkalog.decoding.message_wrappers import first_offsets
from kafkalog.formats.entry_fields import offset_field, size_field
from kafkalog.formats.entry_headers import Rows, scan_headers
from kafkalog.formats.layout import LOG_OVERHEAD, MAX_BATCH_BYTES
from kafkalog.log.log_segments import from_offset, list_segments, read_on
from kafkalog.segment.file_records import Step
from kafkalog.segment.log_segment import LogSegment
from kafkalog.spark.offset_ranges import OffsetRange
from kafkalog.storage.byte_source import ByteSource, Version
from kafkalog.storage.file_names import MAX_OFFSET
from kafkalog.storage.location import Location, OpenedSource

LEAST_BYTES: Final = 32 << 20
"""What a task has at least, where there is as much: starting one costs time, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Bytes from `begin` to `end` of a segment, for the offsets ``[start, stop)``.

    `marks` are positions and what is written there in the field of the offset: by them
    a task sees whether the file is still the one that was planned with, and by `size`,
    unless the segment `grows`: in one that was closed, compaction may leave more, and
    less. What else a file system tells of its content is its `version`.
    """

    topic: str
    partition: int
    directory: Location
    segment: LogSegment
    begin: int
    end: int
    start: int
    stop: int
    marks: tuple[tuple[int, int], ...]
    size: int
    grows: bool
    version: Version | None

    @property
    def size_in_bytes(self) -> int:
        """How much there is to read."""
        return self.end - self.begin

    def was_replaced(self, source: OpenedSource) -> bool:
        """Whether `source` is, by its version, another file of the same size.

        A segment that grows may do so within its size, if a broker allocated it before:
        then its time says nothing.
        """
        if self.version is None or (self.grows and self.version.is_time):
            return False
        return source.size == self.size and source.version != self.version

    def fits(self, source: ByteSource) -> bool:
        """Whether `source` is, at the ends of the stretch, what it was."""
        same = source.size >= self.end if self.grows else source.size == self.size
        return same and all(
            _offset_at(source, position) == offset for position, offset in self.marks
        )


Task = list[Stretch]


def plan_tasks(
    ranges: Iterable[OffsetRange],
    directory_of: Callable[[tuple[str, int]], Location],
    *,
    most_bytes: int,
    cores: int = 1,
    pack: bool = True,
) -> list[Task]:
    """Divide ranges of offsets into tasks of about `most_bytes`, a third more at most.

    With `pack` a task may have stretches of several ranges, and tasks are such that
    `cores` are all busy to the end. Without, no two ranges share a task.
    """
    wholes = [list(_stretches(one, directory_of(one.place))) for one in ranges]
    if not pack:
        return [task for whole in wholes for task in _filled(whole, most_bytes, 1)]
    least = min(LEAST_BYTES, most_bytes)
    together = [stretch for whole in wholes for stretch in whole]
    return _filled(together, most_bytes, cores, least)


def _filled(
    stretches: list[Stretch], most_bytes: int, cores: int, least_bytes: int = 1
) -> list[Task]:
    """Fill one task after another, each stretch cut where a task is full.

    Tasks are of one size, in whole rounds of all cores, or of `least_bytes`; one may
    have a little more, for cuts lie where batches begin.
    """
    total = sum(stretch.size_in_bytes for stretch in stretches)
    worthwhile = max(total // least_bytes, -(-total // most_bytes), 1)
    count = min(_rounds(total, most_bytes * cores) * cores, worthwhile)
    most = -(-total // count)
    slack = most // 64
    tasks: list[Task] = [[]]
    size = 0
    for whole in stretches:
        room = most - size
        if room <= slack < whole.size_in_bytes - room:
            tasks.append([])
            size, room = 0, most
        full = range(whole.begin + room, whole.end - slack, most)
        first, *more = _cut(whole, list(full))
        if size and first.size_in_bytes > room + most // 8:
            tasks.append([])  # it could not be cut there
            size = 0
        tasks[-1].append(first)
        tasks += ([stretch] for stretch in more)
        size = more[-1].size_in_bytes if more else size + first.size_in_bytes
    return tasks if stretches else []


def _rounds(total: int, most_bytes: int) -> int:
    """How often all cores take up tasks, of `most_bytes` in all, or of a third more.

    A round for less than that third would cost as much to begin as any.
    """
    return max(1, -(-(3 * total - most_bytes) // (3 * most_bytes)))


def _stretches(wanted: OffsetRange, directory: Location) -> Iterator[Stretch]:
    """Part a range at its segments."""
    segments = from_offset(list_segments(directory), wanted.start)
    segments = [one for one in segments if one.base_offset < wanted.end]
    reached = wanted.start
    for segment, source in read_on(directory, segments):
        start = max(reached, segment.base_offset)
        stop = min(wanted.end, segment.most + 1)
        begin = 0
        if start > segment.base_offset:
            begin = segment.position_for(source, start)
        end = source.size
        if stop <= segment.most:
            end = _position_behind(segment, source, stop)
        if begin < end and start < stop:
            yield Stretch(
                topic=wanted.topic,
                partition=wanted.partition,
                directory=directory,
                segment=segment,
                begin=begin,
                end=end,
                start=start,
                stop=stop,
                marks=((begin, _offset_at(source, begin)),),
                size=source.size,
                grows=segment.most == MAX_OFFSET,
                version=source.version,
            )
        reached = max(reached, stop)


def _cut(whole: Stretch, wanted: list[int]) -> list[Stretch]:
    """Part a stretch where the offset index knows that a batch begins, near `wanted`.

    Offsets of a cut are those of the batch there, but within those of the whole.
    """
    if not wanted:
        return [whole]
    with whole.segment.open() as source:
        near = whole.segment.positions_near(source, wanted)
        cuts = [position for position in near if whole.begin < position < whole.end]
        firsts = [_first_offset(source, cut) for cut in cuts]
        marks = {cut: _offset_at(source, cut) for cut in cuts} | dict(whole.marks)
    firsts = [min(max(whole.start, first), whole.stop) for first in firsts]
    bounds = pairwise([whole.start, *firsts, whole.stop])
    return [
        replace(
            whole,
            begin=begin,
            end=end,
            start=start,
            stop=stop,
            marks=tuple((at, marks[at]) for at in (begin, end) if at in marks),
        )
        for (begin, end), (start, stop) in zip(
            pairwise([whole.begin, *cuts, whole.end]), bounds, strict=True
        )
    ]


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
    size = size_field(source.read(position, LOG_OVERHEAD))
    data = source.read(position, LOG_OVERHEAD + size)
    rows, _, _ = scan_headers(data, 0, position, 1)
    return int(first_offsets(data, position, rows, MAX_BATCH_BYTES)[0])


def _offset_at(source: ByteSource, position: int) -> int:
    """Read the field of the offset of the entry at `position`."""
    return offset_field(source.read(position, LOG_OVERHEAD))
