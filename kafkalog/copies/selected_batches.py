"""The batches of a partition with the records of a selection, as a copy has them.

A record that is not selected leaves its offset, as compaction does: its batch is
written anew without it, with the same first and last offset. A batch whose records are
all selected is copied byte for byte. A batch without any is dropped, unless its header
is needed: the last one of a producer, which has the producer's sequence, and the last
one of the log, which has its end offset.

At the end bound a batch is cut: its last offset becomes the one before the bound, so
that the copy ends there.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from kafkalog.array_types import Bools, Bytes, Int64s
from kafkalog.cleaner.batch_filter import (
    COPY,
    FilteredChunk,
    LastRecords,
)
from kafkalog.cleaner.retention_decision import BatchDecision, sums_of_batches
from kafkalog.copies.record_selection import RecordSelection
from kafkalog.decoding.batch_decoder import decode
from kafkalog.decoding.read_policy import STRICT, Bounds, CrcCheck, ReadPolicy
from kafkalog.decoding.record_counts import count_records
from kafkalog.decoding.workspace import Workspace
from kafkalog.errors import CorruptCheckpointError, LocatedError
from kafkalog.formats.batch_headers import BatchHeaders, have_flag
from kafkalog.formats.layout import (
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
)
from kafkalog.integer_limits import MIN_INT64
from kafkalog.log.ownership import Name
from kafkalog.log.reading.log_segments import (
    OpenSegment,
    from_offset,
    list_segments,
    read_on,
    read_partition,
)
from kafkalog.log.reading.remote_offsets import find_missing_start
from kafkalog.progress import Advance
from kafkalog.query.partition_reader import ScanProblem
from kafkalog.query.record_search import are_within
from kafkalog.query.sources import PartitionSource
from kafkalog.segment.entry_search import read_valid_entry
from kafkalog.segment.file_batches import Window
from kafkalog.segment.file_records import Skipped, Step
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.checkpoint_file import LOG_STARTS
from kafkalog.storage.file_names import MAX_OFFSET
from kafkalog.storage.location import Location

NO_DATA: Final = -1


class LogExtent(NamedTuple):
    """The offsets of a copy, and the last batch of each of its producers.

    `start` is the log start offset; batches from `first` on are copied. Without a bound
    that is the base of a segment, so that whole segments are copied. `last_records` is
    empty where every record is selected, as it is not needed then. `remote_from` is the
    log start offset of a tiered log, which is below `first`, or None.
    """

    first: int
    start: int
    end: int
    last_records: LastRecords
    remote_from: int | None = None


class _WindowFacts(NamedTuple):
    """Facts about the batches of a window.

    `first` are their first offsets. `is_cut` is whether a batch also has offsets out of
    bounds, `may_have` whether it may have selected records by its header, and `is_read`
    whether its records are read.
    """

    first: Int64s
    is_data: Bools
    is_cut: Bools
    may_have: Bools
    is_read: Bools


class CopiedBatches(NamedTuple):
    """Batches for the copy of one segment, and the number of their data records."""

    segment: LogSegment
    data: Bytes
    rows: BatchHeaders
    records: int


@dataclass(slots=True)
class SelectedBatches:
    """A reader of the batches of one partition with the records of a selection.

    `bounds` are of offsets. Damage raises an error, or is skipped and listed in
    `problems`. `excluded` counts the data records within `bounds` that were read and
    not selected.
    """

    source: PartitionSource
    directory: Location
    bounds: Bounds
    selection: RecordSelection
    policy: ReadPolicy = STRICT
    progress: Advance | None = None
    excluded: int = 0
    problems: list[ScanProblem] = field(default_factory=list)
    _workspace: Workspace = field(default_factory=Workspace)

    @property
    def name(self) -> Name:
        """Topic and number of the partition."""
        return self.source.topic, self.source.partition

    def extent(self) -> LogExtent:
        """Return the offsets of the copy, from headers of batches alone.

        All batches are read if some records are not selected, otherwise the last one.
        """
        segments = list_segments(self.directory)
        if not segments:
            return LogExtent(0, 0, 0, LastRecords.of({}))
        with segments[-1].open() as source:
            end = segments[-1].next_offset(source, past_damage=True)
        start = max(self._log_start_offset(end), segments[0].base_offset)
        last = _LastOfProducers()
        if not self.selection.is_everything:
            for rows in self._headers(from_offset(segments, start)):
                last.add(rows, self.bounds.end_offset)
                end = max(end, int(rows["last_offset"][-1]) + 1)
        bound = self.bounds.start_offset
        start = min(max(start, bound), end)
        end = min(end, self.bounds.end_offset)
        first = max(from_offset(segments, start)[0].start_offset, bound)
        first = min(first, start) if start < end else start
        return LogExtent(
            first, start, max(end, start), last.result(), self._remote_from(segments)
        )

    def _remote_from(self, segments: list[LogSegment]) -> int | None:
        """Return the log start offset of a tiered log, of which all is selected."""
        line = self.source.log_start_offset
        start = None if line == MIN_INT64 else line
        missing = find_missing_start(self.directory, segments, start)
        if missing is None or missing.is_tiered is False:
            return None
        whole = self.bounds.start_offset <= missing.first_offset
        return missing.first_offset if whole else None

    def _log_start_offset(self, end: int) -> int:
        """Return the log start offset of the source, unless it is past its `end`.

        That is damage, with which no record would be copied.
        """
        start = self.source.log_start_offset
        if start <= end:
            return start
        reason = f"log start offset {start} of {self.name[0]}-{self.name[1]}"
        error = CorruptCheckpointError(f"{reason}, expected at most {end}").located(
            self.directory.parent / LOG_STARTS
        )
        if not self.policy.skips:
            raise error
        self._skip(error, None, None)
        return MIN_INT64

    def least_bytes(self) -> int:
        """Return the bytes that the copy has at least, by the sizes of files.

        They are those of segments that are copied byte for byte; 0 if that is not known
        before they are read.
        """
        if self.policy.skips or not self.selection.is_everything:
            return 0
        extent, total = self.extent(), 0
        for segment in from_offset(list_segments(self.directory), extent.first):
            with segment.open() as source:
                if not total:
                    entry = read_valid_entry(source, 0)
                    if entry is None or entry["magic"][0] < 2:
                        return 0  # messages are written anew, as batches
                end, size = segment.most + 1, source.size
                if segment.most == MAX_OFFSET:
                    end, size = segment.last_end(source, past_damage=True)
            is_whole = segment.covered_to is None
            if is_whole and extent.first <= segment.base_offset and end <= extent.end:
                total += size
        return total

    def _headers(self, segments: list[LogSegment]) -> Iterator[BatchHeaders]:
        """Yield the headers of all batches; damage that is not skipped raises later."""
        check: CrcCheck = "before" if self.policy.skips else "never"
        policy = ReadPolicy(needs="headers", check_crcs=check, on_corruption="skip")
        for opened in read_on(self.directory, segments):
            for step in opened.records(policy=policy):
                if isinstance(step, Step):
                    yield step.rows

    def batches(self, extent: LogExtent) -> Iterator[CopiedBatches]:
        """Yield the batches of the copy; each result is valid until the next one.

        Raises `LocatedError` for damage, unless it is skipped.
        """
        reached = extent.first
        with closing(read_partition(self.directory, extent.first)) as segments:
            for opened in segments:
                if opened.segment.base_offset >= extent.end:
                    return
                reached = yield from self._of_segment(opened, reached, extent)

    def _of_segment(
        self, opened: OpenSegment, reached: int, extent: LogExtent
    ) -> Generator[CopiedBatches, None, int]:
        """Yield the batches of a segment; return the offset after the last one read.

        Batches below the offset `reached` were read before.
        """
        segment = opened.segment
        start, least = 0, segment.base_offset
        if reached > segment.base_offset:
            start = opened.position_for(reached)
        if start:  # an earlier part of the segment is not read
            least = extent.first - 1
        records = opened.records(start, end_offset=extent.end, policy=self.policy)
        done = start
        for step in records:
            if self.progress is not None:
                self.progress(records.end - done)
            done = records.end
            if isinstance(step, Skipped):
                self._skip(step.error, step.first_offset, step.last_offset)
                continue
            # Compaction may move batches to a later file meanwhile.
            rows = step.rows[step.rows["last_offset"] >= reached]
            for window in _contiguous(step, rows):
                copied = self._select(segment, window, least, extent)
                reached = least = int(window.rows["last_offset"][-1]) + 1
                if copied is not None:
                    yield copied
        return reached

    def _skip(self, error: LocatedError, first: int | None, last: int | None) -> None:
        self.problems.append(ScanProblem.of(error, first, last))

    def _select(
        self, segment: LogSegment, window: Window, least: int, extent: LogExtent
    ) -> CopiedBatches | None:
        """Return the batches of a window with the selected records.

        No offset of the window is below `least`.
        """
        within = _bounds_in(segment, extent)
        first = _first_offsets(window.rows, least)
        last = window.rows["last_offset"]
        overlaps = (last >= within.start_offset) & (first < within.end_offset)
        if not overlaps.any():
            return None
        window, first = _trimmed(window, overlaps), first[overlaps]
        rows = window.rows
        is_cut = first < within.start_offset
        is_cut |= rows["last_offset"] >= within.end_offset
        is_data = ~have_flag(rows, CONTROL_FLAG)
        may_have = ~is_data | self.selection.may_have(rows)
        is_read = is_data & (is_cut | (may_have & self.selection.needs_records))
        if may_have.all() and not is_read.any():
            count = self._count(window, is_data)
            return CopiedBatches(segment, window.data, rows, count)
        batches = _WindowFacts(first, is_data, is_cut, may_have, is_read)
        return self._filter(segment, window, extent, batches)

    def _filter(
        self,
        segment: LogSegment,
        window: Window,
        extent: LogExtent,
        batches: _WindowFacts,
    ) -> CopiedBatches | None:
        within = _bounds_in(segment, extent)
        rows, data, origin = window
        kept_rows = rows.copy()
        kept_rows["base_offset"] = batches.first
        kept_rows["last_offset"] = np.minimum(rows["last_offset"], extent.end - 1)
        none = np.zeros(len(rows), np.bool_)
        # As in a cleaning, a batch that loses all its records is kept empty if it has
        # its producer's last sequence, or the log end offset.
        decision = BatchDecision(
            is_read=~none,
            drops_records=none,
            is_kept_empty=extent.last_records.are_in(kept_rows)
            | (kept_rows["last_offset"] + 1 == extent.end),
            needs_horizon=none,
        )
        chunk = FilteredChunk(kept_rows, data, origin, decision)
        copied = batches.may_have & ~batches.is_read
        chunk.outcome[copied] = COPY
        records = self._count(window, copied & batches.is_data)
        self.excluded += self._count(window, ~copied & ~batches.is_read)
        for views in decode(
            data,
            origin,
            rows[batches.is_read],
            bounds=Bounds(),
            limit=self.policy.max_batch_bytes,
            workspace=self._workspace,
        ):
            if isinstance(views, LocatedError):
                self._raise_or_skip(views, segment, rows)
                continue
            selected = self.selection.select(views, within, self.name)
            kept = sums_of_batches(selected, views.counts)
            has_horizon = have_flag(views.rows, DELETE_HORIZON_FLAG)
            horizon = np.where(has_horizon, views.rows["base_timestamp"], NO_TIMESTAMP)
            can_be_copied = views.rows["last_offset"] < extent.end
            chunk.keep(views, selected, kept, can_be_copied, horizon)
            records += int(kept.sum())
            in_bounds = int(are_within(views, within).sum())
            self.excluded += in_bounds - int(kept.sum())
        filtered = chunk.assemble()
        if filtered is None:
            return None
        return CopiedBatches(segment, filtered.data, filtered.rows, records)

    def _raise_or_skip(
        self, error: LocatedError, segment: LogSegment, rows: BatchHeaders
    ) -> None:
        error.located(segment.path)
        if not self.policy.skips:
            raise error
        self.problems.append(ScanProblem.of_batch(error, rows))

    def _count(self, window: Window, chosen: Bools) -> int:
        """Return the number of records of some batches."""
        if not chosen.any():
            return 0
        rows = window.rows[chosen]
        return int(count_records(rows, window.data, window.origin).sum())


def _bounds_in(segment: LogSegment, extent: LogExtent) -> Bounds:
    """Return the offsets to copy from a segment; an earlier one may have the first."""
    start = extent.first
    if segment.covered_to is not None:
        start = max(start, segment.covered_to)
    return Bounds(start_offset=start, end_offset=extent.end)


class _LastOfProducers:
    """The last batch of each producer, as a log is read in order."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[int, int]] = {}

    def add(self, rows: BatchHeaders, end: int) -> None:
        """Add the batches below an end offset."""
        rows = rows[(rows["base_offset"] < end) & (rows["magic"] == 2)]
        rows = rows[rows["producer_id"] > NO_PRODUCER_ID]
        _, newest = np.unique(rows["producer_id"][::-1], return_index=True)
        rows = rows[::-1][newest]
        offsets = np.minimum(rows["last_offset"], end - 1)
        offsets[have_flag(rows, CONTROL_FLAG)] = NO_DATA
        self._found |= {
            producer: (offset, epoch)
            for producer, offset, epoch in zip(
                rows["producer_id"].tolist(),
                offsets.tolist(),
                rows["producer_epoch"].tolist(),
                strict=True,
            )
        }

    def result(self) -> LastRecords:
        """Return the last batches, by ascending producer id."""
        rows = [(producer, *last) for producer, last in sorted(self._found.items())]
        return LastRecords(*np.array(rows, np.int64).reshape(-1, 3).T)


def contiguous_runs(rows: BatchHeaders) -> list[BatchHeaders]:
    """Return batches of a file in runs without bytes between them."""
    if not len(rows):
        return []
    ends = rows["position"] + rows["size_in_bytes"]
    breaks = np.flatnonzero(rows["position"][1:] != ends[:-1]) + 1
    return np.split(rows, breaks)


def _contiguous(step: Step, rows: BatchHeaders) -> Iterator[Window]:
    """Yield the batches of a step in runs without bytes between them."""
    for run in contiguous_runs(rows):
        first, end = int(run["position"][0]), int(run["position"][-1])
        end += int(run["size_in_bytes"][-1])
        yield Window(run, step.data[first - step.origin : end - step.origin], first)


def _trimmed(window: Window, chosen: Bools) -> Window:
    """Return the chosen batches of a window, which are contiguous."""
    rows, data, origin = window
    if chosen.all():
        return window
    rows = rows[chosen]
    first, last = int(rows["position"][0]), int(rows["position"][-1])
    end = last + int(rows["size_in_bytes"][-1])
    return Window(rows, data[first - origin : end - origin], first)


def _first_offsets(rows: BatchHeaders, least: int) -> Int64s:
    """Return the first offset of each batch, or a lower bound of it.

    The first offset of a wrapper message is not in its header: it is after the entry
    before the wrapper, and at least `least` for the first entry.
    """
    follows = np.append(least - 1, rows["last_offset"][:-1]) + 1
    first: Int64s = np.where(rows["base_offset"] < 0, follows, rows["base_offset"])
    return first
