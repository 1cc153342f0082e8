"""The last records of partitions, and the records that are appended to them later.

The start of the last records is found from the headers of batches, in ranges at the end
of a segment. Each range is longer than the one before, and begins at a position in the
offset index.

A followed partition is read again when its last segment changed, or when the last batch
read is not in it any more. Records that were returned cannot be taken back: if a broker
truncates the log, following continues after the last batch that is unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from kafkalog.decoding.read_policy import Bounds
from kafkalog.formats.batch_headers import (
    has_count,
)
from kafkalog.formats.layout import (
    MAX_BATCH_BYTES,
)
from kafkalog.integer_limits import MAX_INT64, MIN_INT64
from kafkalog.log.reading.log_segments import list_segments
from kafkalog.query.batch_history import BatchHistory, is_unchanged
from kafkalog.query.header_counts import not_control
from kafkalog.query.partition_reader import PartitionReader, ScanProblem
from kafkalog.query.records import Records
from kafkalog.query.scan import Scan
from kafkalog.query.scan_run import ScanRun
from kafkalog.query.sources import ByteRange, PartitionSource
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.location import Location

FIRST_RANGE_BYTES: Final = 256 << 10
RANGE_GROWTH: Final = 8
OFFSETS_BEFORE: Final = 64
"""Number of offsets before the start that are also checked for a truncation."""

SourceBounds = tuple[PartitionSource, Bounds]


def last_records(scan: Scan, count: int) -> Scan:
    """Return a scan of the last `count` records of each partition of `scan`.

    Damage is skipped while the start is searched. The returned scan handles it as
    `scan` does.

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
    sources = []
    for source, bounds in scan.sources:
        start = _start_of_last(scan, source, bounds, count)
        sources.append((source, replace(bounds, start_offset=start)))
    return replace(scan, sources=tuple(sources))


def _start_of_last(
    scan: Scan, source: PartitionSource, bounds: Bounds, count: int
) -> int:
    """Return the offset of the first of the last `count` records, or after the last."""
    policy = replace(scan.policy, on_corruption="skip")
    reader = PartitionReader(
        source=source, bounds=bounds, policy=policy, filter=scan.filter
    )
    start = _lower_bound(reader, count)
    rough = replace(
        scan,
        sources=((source, replace(bounds, start_offset=start)),),
        columns=("offset",),
        policy=policy,
    )
    last = np.empty(0, np.int64)
    for records in rough.chunks():
        last = np.concatenate((last, records.offset))[-max(count, 1) :]
    if not len(last):
        return bounds.start_offset
    return int(last[0]) if count else int(last[-1]) + 1


def _lower_bound(reader: PartitionReader, count: int) -> int:
    """Return an offset from which on there are at least `count` records, if any."""
    start, missing = reader.bounds.start_offset, max(count, 1)
    for segment in reversed(_segments(reader.source)):
        number = 0
        for byte_range in _ends_of(segment):
            number, first = _count(reader, byte_range)
            if number >= missing:
                return max(first, start)
        missing -= number
        if segment.base_offset <= start:
            break
    return start


def _segments(source: PartitionSource) -> list[LogSegment]:
    """Return the segments of a source; none for a metadata snapshot or memory."""
    if source.directory is not None:
        return list_segments(source.directory)
    if source.file is None or ".log" not in source.file.name:
        return []
    return [LogSegment.of(source.file)]


def _ends_of(segment: LogSegment) -> Iterator[ByteRange]:
    """Yield ranges at the end of a segment, each longer; the last is all of it."""
    with suppress(FileNotFoundError), segment.open() as source:
        length = FIRST_RANGE_BYTES
        while length < source.size:
            near = segment.positions_near(source, [source.size - length])
            if near:
                yield ByteRange(segment, near[0], source.size, source)
            length *= RANGE_GROWTH
        yield ByteRange(segment, 0, source.size, source)


def _count(reader: PartitionReader, byte_range: ByteRange) -> tuple[int, int]:
    """Return a lower bound of the records in a range, and an offset before them.

    Records are counted by the headers of their batches, unless a filter selects some.
    """
    if reader.filter.of_records:
        return _count_selected(reader, byte_range)
    bounds = reader.bounds
    if reader.source.directory is not None:
        base = max(bounds.start_offset, byte_range.segment.start_offset)
        bounds = replace(bounds, start_offset=base)
    count, first = 0, None
    for step in PartitionReader(
        source=replace(reader.source, byte_range=byte_range),
        bounds=bounds,
        policy=replace(reader.policy, needs="headers"),
        headers_suffice=not_control,
        filter=reader.filter,
    ).steps():
        if isinstance(step, ScanProblem):
            continue
        rows = step.step.rows
        known, is_message = has_count(rows, MAX_BATCH_BYTES), rows["magic"] < 2
        # A wrapper has one message at least; a corrupt number is of no record.
        counts = np.where(known, rows["count"], is_message)
        count += int(counts.sum(dtype=np.int64))
        if first is None:
            # Only the last offset of a wrapper is known: it counts as one record.
            base = int(rows["base_offset"][0])
            first = int(rows["last_offset"][0]) if base < 0 else base
    return count, MIN_INT64 if first is None else first


def _count_selected(reader: PartitionReader, byte_range: ByteRange) -> tuple[int, int]:
    """Return the number of records that a filter selects, and the first's offset."""
    count, first = 0, MIN_INT64
    for records in ScanRun(
        sources=((replace(reader.source, byte_range=byte_range), reader.bounds),),
        columns=("offset",),
        policy=reader.policy,
        problems=[],
        filter=reader.filter,
        reuse=True,
    ).in_order():
        first = first if count else int(records.offset[0])
        count += len(records)
    return count, first


FileVersion = tuple[str, int, int]
"""A partition's last segment: its name, size and time of change."""


@dataclass(slots=True)
class _FollowedPartition:
    """The offset up to which a partition was returned, and its files at that time."""

    next_offset: int
    history: BatchHistory
    version: FileVersion | None = None
    was_truncated: bool = False  # since records were returned last


@dataclass(slots=True)
class Follower:
    """A follower of growing partitions, which `list_sources` lists at each poll.

    It begins at the bounds of `scan`, and uses its columns and policy.
    """

    scan: Scan
    list_sources: Callable[[], Sequence[SourceBounds]]
    _followed: dict[Location | None, _FollowedPartition] = field(default_factory=dict)
    _reported: set[ScanProblem] = field(default_factory=set)

    def first_poll(self) -> Iterator[Records | str]:
        """Yield the records of the scan."""
        return self._poll(self.scan.sources)

    def poll(self) -> Iterator[Records | str]:
        """Yield records appended since the last poll, and notices of missing ones.

        Records have the column ``offset`` after the requested ones.
        """
        sources = self.list_sources()
        listed = {_place(source) for source, _ in sources}
        for place in [known for known in self._followed if known not in listed]:
            del self._followed[place]
            yield f"removed: {place}"
        yield from self._poll(sources)

    def _poll(self, sources: Sequence[SourceBounds]) -> Iterator[Records | str]:
        for source, bounds in sources:
            place = _place(source)
            try:
                yield from self._of_source(source, bounds)
            except FileNotFoundError:
                # Removed after it was listed. If it is still missing, the next poll
                # reports it.
                if place in self._followed:
                    self._followed[place].version = None

    def _of_source(
        self, source: PartitionSource, bounds: Bounds
    ) -> Iterator[Records | str]:
        place, version = _place(source), _version(source)
        state = self._followed.get(place)
        if state is None:
            first = bounds.start_offset
            least = max(source.log_start_offset, first - OFFSETS_BEFORE)
            state = _FollowedPartition(first, BatchHistory(least))
            self._followed[place] = state
        elif version == state.version and not _is_truncated(source, state):
            return
        most = self.scan.policy.max_batch_bytes
        end = yield from _catch_up(source, state, most)
        yield from _skip_to(source.log_start_offset, source, state)
        yield from self._records(source, bounds, state, end)
        if end < MAX_INT64 and self.scan.policy.isolation == "read_uncommitted":
            state.next_offset = max(state.next_offset, end)  # after markers, too
        state.version = version

    def _records(
        self,
        source: PartitionSource,
        bounds: Bounds,
        state: _FollowedPartition,
        end: int,
    ) -> Iterator[Records | str]:
        """Yield the records up to an offset, and notices of skipped ones."""
        columns = self.scan.columns
        bounds = replace(bounds, start_offset=state.next_offset, end_offset=end)
        scan = replace(
            self.scan,
            sources=((source, bounds),),
            columns=columns if "offset" in columns else (*columns, "offset"),
        )
        for records in scan.chunks():
            first = int(records.offset[0])
            if first > state.next_offset:  # because of compaction or retention
                yield from _skip_to(min(first, _first_offset(source)), source, state)
            yield records
            state.next_offset = int(records.offset[-1]) + 1
            state.was_truncated = False
        for problem in scan.problems:
            if problem not in self._reported:
                self._reported.add(problem)
                yield f"skipped: {problem}"


def _place(source: PartitionSource) -> Location | None:
    return source.file if source.directory is None else source.directory


def _version(source: PartitionSource) -> FileVersion | None:
    segments = _segments(source)
    if not segments:
        return None
    status = segments[-1].path.stat()
    return segments[-1].name, status.st_size, status.st_mtime_ns


def _is_truncated(source: PartitionSource, state: _FollowedPartition) -> bool:
    """Return whether the last batch that was read is not in the log any more."""
    last = state.history.last
    return last is not None and not is_unchanged(last, _segments(source))


def _catch_up(
    source: PartitionSource, state: _FollowedPartition, max_batch_bytes: int
) -> Generator[str, None, int]:
    """Record the present batches; return the offset to read up to.

    They are recorded first and read afterwards: the next poll finds what was
    overwritten in between. The batches recorded before must still be unchanged then.
    """
    history = state.history
    while True:
        last, valid = history.last, history.extend(source, max_batch_bytes)
        segments = _segments(source)
        if last is None or is_unchanged(last, segments):
            return history.end if valid else MAX_INT64
        history.truncate(last, segments)
        if not history.batches:
            history.start = min(history.start, _end_of(segments[-1]))
        if history.end < state.next_offset:
            shown, state.next_offset = state.next_offset - 1, history.end
            state.was_truncated = True
            start = max(history.end, segments[0].base_offset)
            yield _truncation_notice(source, start, shown)


def _truncation_notice(source: PartitionSource, offset: int, last: int) -> str:
    """Return the notice of a truncation; offsets up to `last` were returned before."""
    if offset < 0:
        return f"log was emptied: {_place(source)}"
    message = f"log was truncated to offset {offset}: {_place(source)}"
    if offset > last:
        return message
    return f"{message}: records returned from {offset} to {last} are not in it any more"


def _skip_to(
    start: int, source: PartitionSource, state: _FollowedPartition
) -> Iterator[str]:
    """Continue at the log's start; yield a notice of the offsets that are skipped.

    There is no notice without a requested first offset, nor after a reported
    truncation: the log's previous records are unknown then.
    """
    if start > state.next_offset:
        skipped = f"offsets {state.next_offset} to {start - 1}"
        is_skipped = state.next_offset > MIN_INT64 and not state.was_truncated
        state.next_offset = start
        if is_skipped:
            reason = f"the log was deleted up to {start} before they were read"
            yield f"skipped {skipped} of {source.topic}-{source.partition}: {reason}"


def _first_offset(source: PartitionSource) -> int:
    """Return the base offset of the first segment."""
    segments = _segments(source)
    return segments[0].base_offset if segments else MIN_INT64


def _end_of(segment: LogSegment) -> int:
    """Return the offset after the last valid batch, which damage may precede."""
    with segment.open() as source:
        return segment.next_offset(source, past_damage=True)
