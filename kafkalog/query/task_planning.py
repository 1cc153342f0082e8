"""Division of offset ranges into tasks, each a list of segment ranges.

Segments are cut where the offset index has a batch; large ones are divided, and small
ones share a task. The driver chooses the bytes of each task, so a task that runs again
reads the same bytes even if the log has grown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkalog.decoding.decompression import first_offsets
from kafkalog.decoding.read_policy import SKIPPING
from kafkalog.formats.batch_headers import (
    BatchHeaders,
    offset_field,
    scan_headers,
    size_field,
)
from kafkalog.formats.layout import LOG_OVERHEAD, MAX_BATCH_BYTES
from kafkalog.integer_limits import MAX_INT64
from kafkalog.log.reading.log_segments import from_offset, list_segments, read_on
from kafkalog.segment.file_records import Skipped, Step
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.byte_source import ByteSource
from kafkalog.storage.file_names import MAX_OFFSET
from kafkalog.storage.location import Location, OpenedSource
from kafkalog.storage.stores import Version

MIN_TASK_BYTES: Final = 32 << 20
"""The least bytes of a task that shares ranges: starting a task costs time."""


class OffsetRange(NamedTuple):
    """The offsets of one partition from `start`, inclusive, to `end`, exclusive."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def topic_partition(self) -> tuple[str, int]:
        """The topic and the partition number."""
        return self.topic, self.partition

    @property
    def length(self) -> int:
        """The number of offsets; there may be fewer records."""
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRange:
    """Bytes ``[begin, end)`` of a segment, read for the offsets ``[start, stop)``.

    The rest identifies the file that the driver saw. `offset_fields` are positions and
    the base offsets stored there. `size` is the size of the file; unless the segment is
    active (`grows`), another size means that it was compacted. `version` identifies the
    content in a remote store.
    """

    topic: str
    partition: int
    directory: Location
    segment: LogSegment
    begin: int
    end: int
    start: int
    stop: int
    offset_fields: tuple[tuple[int, int], ...]
    size: int
    grows: bool
    version: Version | None

    @property
    def size_in_bytes(self) -> int:
        """The number of bytes to read."""
        return self.end - self.begin

    def was_replaced(self, source: OpenedSource) -> bool:
        """Return whether `source` is another file of the same size, by its version.

        An active segment may be written within its size if the broker preallocated it.
        Its modification time is not compared.
        """
        if self.version is None or (self.grows and self.version.is_time):
            return False
        return source.size == self.size and source.version != self.version

    def is_unchanged(self, source: ByteSource) -> bool:
        """Return whether `source` has the size and fields that the driver saw."""
        same = source.size >= self.end if self.grows else source.size == self.size
        return same and all(
            _offset_at(source, position) == offset
            for position, offset in self.offset_fields
        )


ReadTask = list[SegmentRange]


def plan_tasks(
    ranges: Iterable[OffsetRange],
    directory_of: Callable[[tuple[str, int]], Location],
    *,
    target_bytes: int,
    cores: int = 1,
    share: bool = True,
) -> list[ReadTask]:
    """Divide offset ranges into tasks of about `target_bytes`, a third more at most.

    If `share`, a task may read several ranges, and the number of tasks keeps `cores`
    busy to the end. Otherwise a task reads one range only.
    """
    by_range = [
        list(segment_ranges(offset_range, directory_of(offset_range.topic_partition)))
        for offset_range in ranges
    ]
    if not share:
        return [task for parts in by_range for task in divide(parts, target_bytes)]
    minimum = min(MIN_TASK_BYTES, target_bytes)
    return divide(
        [part for parts in by_range for part in parts], target_bytes, cores, minimum
    )


def divide(
    parts: list[SegmentRange],
    target_bytes: int,
    cores: int = 1,
    min_bytes: int = 1,
    *,
    slack: float = 1 / 64,
) -> list[ReadTask]:
    """Fill tasks one after another; cut a segment range where a task is full.

    A task may end at a segment range's end instead, if it is full up to a part `slack`
    of its size, or exceeds that by as much.

    Tasks have the same size, in whole rounds of all cores, or of `min_bytes`. One may
    be a little larger, since cuts are where batches begin.
    """
    total = sum(part.size_in_bytes for part in parts)
    most_tasks = max(total // min_bytes, -(-total // target_bytes), 1)
    count = min(_rounds(total, target_bytes * cores) * cores, most_tasks)
    capacity = -(-total // count)
    spare = int(capacity * slack)
    tasks: list[ReadTask] = [[]]
    size = 0
    for whole in parts:
        space = capacity - size
        if space <= spare < whole.size_in_bytes - space:
            tasks.append([])
            size, space = 0, capacity
        ends = range(whole.begin + space, whole.end - spare, capacity)
        first, *more = _cut(whole, list(ends))
        if size and first.size_in_bytes > space + capacity // 8:
            tasks.append([])  # there was no position to cut at near the target
            size = 0
        tasks[-1].append(first)
        tasks += ([part] for part in more)
        size = more[-1].size_in_bytes if more else size + first.size_in_bytes
    return tasks if parts else []


def _rounds(total: int, round_bytes: int) -> int:
    """Return how many rounds of tasks read `total` bytes.

    A round reads up to a third more than `round_bytes`, since another round for less
    would cost more time.
    """
    return max(1, -(-(3 * total - round_bytes) // (3 * round_bytes)))


def segment_ranges(
    offset_range: OffsetRange, directory: Location, *, grows: bool = False
) -> Iterator[SegmentRange]:
    """Yield the parts of an offset range by segment.

    A range without an end ends after the last batch that the log has now, unless it
    `grows`, or the log ends in damage: that is found when the range is read.
    """
    reached = offset_range.start
    for segment, source in read_on(directory, _segments_in(offset_range, directory)):
        start = max(reached, segment.base_offset)
        stop, end = min(offset_range.end, segment.most + 1), source.size
        if offset_range.end < MAX_INT64 and offset_range.end <= segment.most:
            end = _end_position(segment, source, stop)
        elif segment.most == MAX_OFFSET and not grows:
            stop, end = _end_now(segment, source, (stop, end))
        part = _range_in(segment, source, offset_range, (start, stop), end)
        if part.begin < part.end and start < stop:
            yield part
        reached = max(reached, stop)


def growing_ranges(
    offset_range: OffsetRange, directory: Location
) -> Iterator[SegmentRange]:
    """Yield the parts of an offset range by segment; the last may grow.

    They are to be read by offset and not by byte, so that segments are opened only if a
    bound is within one. Without an end, the last range is open.
    """
    segments, end = _segments_in(offset_range, directory), offset_range.end
    if not segments:
        return
    starts_within = segments[0].base_offset < offset_range.start
    ends_within = end < MAX_INT64 and end <= segments[-1].most
    try:
        sizes = [segment.size_in_bytes for segment in segments]
    except FileNotFoundError:  # removed, or compacted into another, since it was listed
        sizes = []
    if starts_within or ends_within or not sizes:
        yield from segment_ranges(offset_range, directory, grows=True)
        return
    for segment, size in zip(segments, sizes, strict=True):
        if size:
            yield SegmentRange(
                topic=offset_range.topic,
                partition=offset_range.partition,
                directory=directory,
                segment=segment,
                begin=0,
                end=size,
                start=segment.base_offset,
                stop=min(end, segment.most + 1),
                offset_fields=(),
                size=size,
                grows=segment.most == MAX_OFFSET,
                version=None,
            )


def _segments_in(offset_range: OffsetRange, directory: Location) -> list[LogSegment]:
    """Return the segments that may have offsets of a range."""
    listed = from_offset(list_segments(directory), offset_range.start)
    return [segment for segment in listed if segment.base_offset < offset_range.end]


def _end_now(
    segment: LogSegment, source: ByteSource, no_end: tuple[int, int]
) -> tuple[int, int]:
    """Return the offset and the position of the end; `no_end` if there is damage."""
    end = segment.last_end(source, past_damage=True)
    after = segment.records(source, end[1], policy=SKIPPING)
    return no_end if any(isinstance(step, Skipped) for step in after) else end


def file_range(
    offset_range: OffsetRange, file: Location, *, grows: bool = False
) -> SegmentRange:
    """Return the part of a single file that has an offset range, as `segment_ranges`.

    Its `directory` is the file: a source may list the file's directory as well.
    """
    segment = LogSegment.of(file)
    with segment.open() as source:
        stop, end = offset_range.end, source.size
        if stop < MAX_INT64:
            end = _end_position(segment, source, stop)
        elif not grows:
            stop, end = _end_now(segment, source, (stop, end))
        offsets = offset_range.start, stop
        part = _range_in(segment, source, offset_range, offsets, end)
    return replace(part, directory=file)


def _range_in(
    segment: LogSegment,
    source: OpenedSource,
    offset_range: OffsetRange,
    offsets: tuple[int, int],
    end: int,
) -> SegmentRange:
    """Return the bytes of an opened segment that have offsets, up to byte `end`."""
    start, stop = offsets
    begin = segment.position_for(source, start) if start > segment.base_offset else 0
    return SegmentRange(
        topic=offset_range.topic,
        partition=offset_range.partition,
        directory=segment.path.parent,
        segment=segment,
        begin=begin,
        end=end,
        start=start,
        stop=stop,
        offset_fields=((begin, _offset_at(source, begin)),) if begin < end else (),
        size=source.size,
        grows=segment.most == MAX_OFFSET,
        version=source.version,
    )


def _cut(whole: SegmentRange, targets: list[int]) -> list[SegmentRange]:
    """Cut a segment range near the positions `targets`, where the index has batches.

    The offsets of a part are those of its first batch, within the offsets of `whole`.
    """
    if not targets:
        return [whole]
    with whole.segment.open() as source:
        near = whole.segment.positions_near(source, targets)
        within = [position for position in near if whole.begin < position < whole.end]
        found = _ascending(whole, [(_first_offset(source, at), at) for at in within])
        cuts = [position for _, position in found]
        fields = {cut: _offset_at(source, cut) for cut in cuts}
    fields |= dict(whole.offset_fields)
    bounds = pairwise([whole.start, *(first for first, _ in found), whole.stop])
    return [
        replace(
            whole,
            begin=begin,
            end=end,
            start=start,
            stop=stop,
            offset_fields=tuple(
                (at, fields[at]) for at in (begin, end) if at in fields
            ),
        )
        for (begin, end), (start, stop) in zip(
            pairwise([whole.begin, *cuts, whole.end]), bounds, strict=True
        )
    ]


def _ascending(
    whole: SegmentRange, cuts: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return the cuts whose first offsets ascend within those of `whole`.

    No CRC covers the offset of a batch. Of two that do not ascend neither is certain.
    """
    found = list[tuple[int, int]]()
    for cut in cuts:
        if not whole.start < cut[0] < whole.stop:
            continue
        if found and found[-1][0] >= cut[0]:
            found.pop()
        else:
            found.append(cut)
    return found


def _end_position(segment: LogSegment, source: ByteSource, stop: int) -> int:
    """Return the position after the last batch with an offset below `stop`."""

    def reaching(rows: BatchHeaders) -> tuple[npt.NDArray[np.bool_], bool]:
        reaches = rows["last_offset"] >= stop - 1
        return reaches, bool(reaches.any())

    start = segment.position_for(source, stop - 1)
    records = segment.records(source, start, reaching, policy=SKIPPING)
    for step in records:
        if isinstance(step, Step):
            return int(step.rows["position"][0] + step.rows["size_in_bytes"][0])
    # A partial batch in the middle of a log may be damage, which the reader reports.
    return records.end if segment.most == MAX_OFFSET else source.size


def _first_offset(source: ByteSource, position: int) -> int:
    """Return the first offset of the valid entry at `position`."""
    size = size_field(source.read(position, LOG_OVERHEAD))
    data = source.read(position, LOG_OVERHEAD + size)
    rows, _, _ = scan_headers(data, 0, position, 1)
    return int(first_offsets(data, position, rows, MAX_BATCH_BYTES)[0])


def _offset_at(source: ByteSource, position: int) -> int:
    """Return the offset field of the entry at `position`."""
    return offset_field(source.read(position, LOG_OVERHEAD))
