"""Reader of one partition: its batches within bounds, in order of offsets.

Batches are selected by their headers twice. The first selection is by offsets, which no
CRC covers. The second follows the check of the CRCs and is by the rest of a header:
control flag, timestamps, transactions, the scan's condition. So a flipped bit in a
header hides no record. If batches are selected by offsets alone, the decoder checks the
CRCs of ordinary batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog.array_types import Bools
from kafkalog.decoding.read_policy import Bounds, ReadPolicy
from kafkalog.errors import LocatedError
from kafkalog.formats.batch_headers import BatchHeaders, find_crc_mismatches
from kafkalog.formats.layout import (
    CONTROL_FLAG,
    RECORD_BATCH_OVERHEAD,
)
from kafkalog.integer_limits import MAX_INT64, MIN_INT64
from kafkalog.log.reading.log_segments import (
    OpenSegment,
    from_offset,
    list_segments,
    read_on,
)
from kafkalog.progress import note_begun
from kafkalog.query.conditions import (
    ANYTHING,
    BatchCondition,
    ValueRange,
    batch_ranges,
    constant,
    partition_ranges,
    unproven,
)
from kafkalog.query.header_columns import timestamp_ranges
from kafkalog.query.record_filter import EVERY_RECORD, RecordFilter
from kafkalog.query.sources import PartitionSource
from kafkalog.segment.entry_order import Limits
from kafkalog.segment.file_records import STEP_BYTES, FileRecords, Skipped, Step
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.buffers import KeptBuffer, Take
from kafkalog.storage.byte_source import ByteSource, FileSource, MemorySource
from kafkalog.storage.file_names import MAX_OFFSET
from kafkalog.storage.location import Location

if TYPE_CHECKING:
    from kafkalog.log.reading.transactions import Transactions

HEADER_STEP_BYTES: Final = 64 << 20
"""Size of a step of which only the headers are read, in memory."""

Suffice = Callable[[BatchHeaders, Bounds], Bools]
"""Returns for each batch whether its header is all that is used, within bounds."""


def all_suffice(rows: BatchHeaders, _bounds: Bounds) -> Bools:
    """Return True for every batch: its header suffices."""
    return np.ones(len(rows), np.bool_)


class ScanProblem(NamedTuple):
    """A range that a scan skipped: bytes from `position` on, and the offsets lost.

    `path` is None for bytes in memory; offsets are None where they are unknown.
    """

    path: Location | None
    position: int | None
    first_offset: int | None
    last_offset: int | None
    reason: str

    @classmethod
    def of(cls, error: LocatedError, first: int | None, last: int | None) -> Self:
        """Return the problem for an error."""
        return cls(error.path, error.position, first, last, error.reason)

    @classmethod
    def of_batch(cls, error: LocatedError, rows: BatchHeaders) -> Self:
        """Return the problem for an error in one of the batches `rows`, in order."""
        damaged = rows[rows["position"] <= error.position][-1]
        base, last = int(damaged["base_offset"]), int(damaged["last_offset"])
        return cls.of(error, base if base >= 0 else None, last)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as they are printed in JSON: the path is text."""
        return {
            **self._asdict(),
            "path": None if self.path is None else str(self.path),
        }

    def __str__(self) -> str:
        """Return one line: the reason, the place, and the offsets.

        >>> from pathlib import Path
        >>> print(ScanProblem(Path("a.log"), 17, 4, 6, "crc differs"))
        crc differs: a.log at byte 17, offsets 4 to 6
        """
        place = "" if self.path is None else f": {self.path}"
        byte = "" if self.position is None else f" at byte {self.position}"
        if self.first_offset is None or self.last_offset is None:
            return f"{self.reason}{place}{byte}"
        lost = f"offsets {self.first_offset} to {self.last_offset}"
        return f"{self.reason}{place}{byte}, {lost}"


class ResumePoint(NamedTuple):
    """The batch from which a reading resumes: its file, position and header.

    `before` is the last offset before it.
    """

    segment: str
    position: int
    header: bytes
    before: int | None

    def is_in(self, segment: LogSegment | None, source: ByteSource) -> bool:
        """Return whether the batch is in a file, which compaction may have replaced."""
        if segment is not None and segment.name != self.segment:
            return False
        return source.read(self.position, len(self.header)).tobytes() == self.header


class SegmentStep(NamedTuple):
    """Batches of one segment to decode, and which of their records are requested.

    `bytes_before` is the size of the partition's files before this one.
    """

    step: Step
    segment: str
    path: Location | None
    bounds: Bounds
    bytes_before: int

    def resume_point(self, position: int) -> ResumePoint:
        """Return the point from which a reading resumes at the batch at `position`."""
        step, rows = self.step, self.step.rows
        before, i = step.before, int(np.searchsorted(rows["position"], position))
        if before is not None and i:
            before = int(rows["last_offset"][i - 1])
        start = position - step.origin
        header = step.data[start : start + RECORD_BATCH_OVERHEAD].tobytes()
        return ResumePoint(self.segment, position, header, before)

    def indexes_of(self, rows: BatchHeaders) -> npt.NDArray[np.intp]:
        """Return the index, among the rows of the step, of each batch in `rows`."""
        return np.searchsorted(self.step.rows["position"], rows["position"])

    def skip(self, error: LocatedError, policy: ReadPolicy) -> ScanProblem:
        """Return the problem of a damaged batch; raise it unless damage is skipped."""
        if self.path is not None:
            error.located(self.path)
        if not policy.skips:
            raise error
        return ScanProblem.of_batch(error, self.step.rows)


_Opened = tuple[LogSegment | None, ByteSource, Callable[..., FileRecords]]
"""An open segment or file, or bytes in memory, and what reads their entries."""


@dataclass(slots=True, kw_only=True)
class PartitionReader:
    """One reading of a partition; `bytes_done` rises up to `size` meanwhile.

    Segments and batches without a record that may satisfy the `condition` are skipped.
    Parts of it that hold for the whole partition, or within the bounds, are dropped.
    Batches are also selected by the `filter`, whose other conditions are the caller's.
    If the policy needs headers, `headers_suffice` states of which batches within bounds
    the headers are all that is used, so that their records are not read.
    With a `resume_point`, the reading begins there.
    """

    source: PartitionSource
    bounds: Bounds
    policy: ReadPolicy
    condition: BatchCondition = ANYTHING
    filter: RecordFilter = EVERY_RECORD
    take: Take = field(default_factory=lambda: KeptBuffer().take)
    headers_suffice: Suffice = all_suffice
    resume_point: ResumePoint | None = None
    bytes_done: int = 0
    _transactions: Transactions | None = field(default=None)

    def __post_init__(self) -> None:
        """Drop the parts of the condition that every requested record satisfies."""
        if self.condition != ANYTHING:
            start, end = self.bounds.start_offset, self.bounds.end_offset
            last = end if end == MAX_INT64 else end - 1
            ranges = self._of_partition() | {"offset": ValueRange(start, last)}
            self.condition = unproven(self.condition, ranges)

    def resumed(self, step: SegmentStep, position: int) -> PartitionReader:
        """Return a reader from the batch of `step` at `position` on.

        It checks every CRC before a batch is used.
        """
        bounds, point = step.bounds, step.resume_point(position)
        if point.before is not None:
            start = max(bounds.start_offset, point.before + 1)
            bounds = replace(bounds, start_offset=start)
        return replace(
            self,
            bounds=bounds,
            resume_point=point,
            bytes_done=step.bytes_before,
            policy=self.policy.checking_first(),
        )

    def steps(self) -> Iterator[SegmentStep | ScanProblem]:
        """Yield the requested batches in order of offsets, and what is skipped."""
        read = self.source.byte_range
        note_begun(self.source if read is None else read.segment.path)
        segments = self._segments()
        self._transactions = self._replay_transactions(segments)
        for segment, source, records_of in self._opened(self._matching(segments)):
            before = self.bytes_done
            yield from self._of_segment(segment, source, records_of)
            self.bytes_done = before + source.size

    def size(self) -> int:
        """Return the number of bytes to read."""
        total = 0
        for segment in self._matching(self._segments()):
            with suppress(FileNotFoundError):
                total += segment.size_in_bytes
        return total

    def _segments(self) -> list[LogSegment]:
        source = self.source
        if source.byte_range is not None:
            return [source.byte_range.segment]
        if source.directory is None:
            return [] if source.file is None else [LogSegment.of(source.file)]
        listed = list_segments(source.directory)
        from_start = from_offset(listed, self.bounds.start_offset)
        end = self.bounds.end_offset
        return [segment for segment in from_start if segment.limits.least < end]

    def _matching(self, segments: list[LogSegment]) -> list[LogSegment]:
        """Return the segments that may hold a record that satisfies the condition."""
        if self.condition == ANYTHING:
            return segments
        return [segment for segment in segments if self._may_match(segment)]

    def _may_match(self, segment: LogSegment) -> bool:
        ranges = self._ranges(segment.name)
        if self.source.directory is not None:  # else its name states nothing
            limits = segment.limits
            ranges["offset"] = ValueRange(limits.least, limits.most)
        return bool(self.condition.may_match(ranges))

    def _ranges(self, segment: str) -> dict[str, ValueRange]:
        """Return the ranges of the columns with one value in a segment."""
        return {**self._of_partition(), "segment": constant(segment)}

    def _of_partition(self) -> dict[str, ValueRange]:
        """Return the ranges of the columns with one value in the partition."""
        return partition_ranges(self.source.topic, self.source.partition)

    def _opened(self, segments: list[LogSegment]) -> Iterator[_Opened]:
        whole, end_offset = self.source, self.bounds.end_offset
        if whole.memory is not None:
            memory, limits = MemorySource(whole.memory), Limits(ordered=False)
            yield None, memory, partial(FileRecords, source=memory, limits=limits)
        elif whole.byte_range is not None:
            segment, _, end, found = whole.byte_range
            with segment.open() if found is None else nullcontext(found) as source:
                source.size = min(source.size, end)
                records_of = OpenSegment(segment, source).records
                yield segment, source, partial(records_of, end_offset=end_offset)
        elif whole.directory is not None:
            for opened in read_on(whole.directory, segments):
                if opened.segment.limits.least >= end_offset:
                    return
                yield *opened, partial(opened.records, end_offset=end_offset)
        else:
            for segment in segments:
                with segment.open() as source:
                    yield segment, source, partial(FileRecords, source=source)

    def _replay_transactions(self, segments: list[LogSegment]) -> Transactions | None:
        """Return the transactions of the log, as far as this reading needs them."""
        if self.policy.isolation == "read_uncommitted":
            return None
        from kafkalog.log.reading.transactions import replay, replay_partition

        start, end = self.bounds.start_offset, self.bounds.end_offset
        if self.source.directory is not None:
            return replay_partition(
                self.source.directory,
                list_segments(self.source.directory),
                start,
                end,
                self.policy,
            )
        opened = (records_of for _, _, records_of in self._opened(segments))
        return replay(opened, self.policy, end_offset=end)

    def _of_segment(
        self,
        segment: LogSegment | None,
        source: ByteSource,
        records_of: Callable[..., FileRecords],
    ) -> Iterator[SegmentStep | ScanProblem]:
        name = "" if segment is None else segment.name
        if self.policy.memory_map and isinstance(source, FileSource):
            source.map_memory()
        bytes_before, reached = self.bytes_done, self.bounds.start_offset
        point, self.resume_point = self.resume_point, None
        if point is not None and point.is_in(segment, source):
            start, before = point.position, point.before
        else:
            start, before = self._start(segment, source), None
        policy = self.policy
        if policy.needs == "records" and not self._by_offset_alone:
            policy = policy.checking_first()
        records = records_of(
            start=start,
            before=MIN_INT64 if before is None else before,
            select=self._by_offset,
            headers_suffice=self._all_suffice,
            policy=policy,
            take=self.take,
            step_bytes=self._step_bytes(),
        )
        for step in records:
            self.bytes_done = bytes_before + records.end
            if isinstance(step, Skipped):
                yield ScanProblem.of(step.error, step.first_offset, step.last_offset)
                continue
            selected = step.rows if step.crcs_deferred else self._by_header(step, name)
            if len(selected):
                if selected is not step.rows:
                    step = replace(step, rows=selected)
                yield SegmentStep(step, name, source.path, self.bounds, bytes_before)
            if records.limits.ordered:
                reached = max(reached, int(step.rows["last_offset"][-1]) + 1)
        # Compaction may replace the segment: the next one then starts from here.
        self.bounds = replace(self.bounds, start_offset=reached)

    def _step_bytes(self) -> int:
        """Return the size of a step, large where only headers in memory are read."""
        in_memory = self.policy.trusts_headers and self.source.memory is not None
        return HEADER_STEP_BYTES if in_memory and not self.bounds.timed else STEP_BYTES

    def _start(self, segment: LogSegment | None, source: ByteSource) -> int:
        """Return the position from which to read the requested batches of a segment."""
        if segment is None:
            return 0
        if self.source.byte_range is not None:
            return self.source.byte_range.begin
        start, bounds = 0, self.bounds
        if bounds.start_offset > max(segment.base_offset, 0):
            start = segment.position_for(source, min(bounds.start_offset, MAX_OFFSET))
        if bounds.start_timestamp is not None:
            by_time = segment.position_for_time(source, bounds.start_timestamp)
            start = max(start, by_time)
        return start

    def _all_suffice(self, rows: BatchHeaders) -> bool:
        """Return whether the headers are all that is used of the batches `rows`."""
        return bool(self.headers_suffice(rows, self.bounds).all())

    def _by_offset(self, rows: BatchHeaders) -> tuple[Bools | None, bool]:
        """Select by offsets alone; also return whether the rest is beyond the end."""
        start, end = self.bounds.start_offset, self.bounds.end_offset
        rise = self.source.memory is None and len(rows)
        if end == MAX_INT64 and (
            start <= 0 or (rise and rows["base_offset"][0] >= start)
        ):
            return None, False
        last = rows["last_offset"]
        base = np.where(rows["base_offset"] < 0, last, rows["base_offset"])
        if self.source.memory is not None:
            return (last >= start) & ((base < end) | (rows["base_offset"] < 0)), False
        # A wrapper begins after the previous entry. A batch may reach up to the next
        # one: the last offset in its header is certain only once its CRC is checked.
        begins = np.where(rows["base_offset"] < 0, np.append(-1, last[:-1]) + 1, base)
        reach = np.where(rows["magic"] == 2, np.append(begins[1:], MAX_INT64) - 1, last)
        done = (begins >= end).any() or (last[-1:] >= end - 1).any()
        return (np.maximum(last, reach) >= start) & (begins < end), bool(done)

    @property
    def _by_offset_alone(self) -> bool:
        """Whether data batches are selected by their offsets, and by nothing else."""
        by_more = self.bounds.timed or self.condition != ANYTHING
        by_more |= self.filter.of_batches
        return self._transactions is None and not by_more

    def _by_header(self, step: Step, segment: str) -> BatchHeaders:
        """Select by everything else in a header, which the CRC covers."""
        rows = step.rows
        if self._by_offset_alone and _speedups.all_uncompressed(rows, MAX_OFFSET):
            return rows
        selected: Bools = rows["count"] != 0
        batch = rows["magic"] == 2
        attributes = rows["attributes"]
        if not self.policy.control_records:
            control = batch & (attributes & CONTROL_FLAG != 0)
            if self.policy.trusts_headers and self.policy.check_crcs != "never":
                # A damaged batch stays selected, so that the damage is reported.
                damaged = find_crc_mismatches(step.data, step.origin, rows[control])
                control[np.flatnonzero(control)[damaged]] = False
            selected &= ~control
        if self._transactions is not None:
            selected &= self._transactions.committed(rows)
        if self.bounds.timed:
            selected &= self._by_time(rows)
        if self.condition != ANYTHING:
            ranges = self._ranges(segment) | batch_ranges(rows)
            selected &= self.condition.may_match(ranges)
        if self.filter.of_batches:
            source = self.source
            selected &= self.filter.select_batches(rows, source.topic, source.partition)
        return rows[selected]

    def _by_time(self, rows: BatchHeaders) -> Bools:
        """Exclude batches that certainly hold no record within the time bounds."""
        start, end = self.bounds.start_timestamp, self.bounds.end_timestamp
        least, greatest, _ = timestamp_ranges(rows)
        selected: Bools = least <= greatest
        if start is not None:
            selected &= greatest >= start
        if end is not None:
            selected &= least < end
        return selected
