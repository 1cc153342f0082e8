"""The valid batches of a partition's directory or of a lone file, past all damage.

A batch is valid if its CRC and its records are, and if its offsets, which no CRC
covers, agree with its segment and with the batches around it. After damage the next
valid batch is searched for. A header of which the right content is certain is
corrected, as `repair` does.

No batch after it contradicts the offsets of a log's last batch. If they leave a gap,
and are past the end of the log by its checkpoints and producer snapshots, they are
wrong, unless there are other gaps, as compaction leaves them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple, Self, TypeVar

import numpy as np

from kafkalog.array_types import Bytes, Int64s
from kafkalog.copies.epoch_repair import epoch_corrections, restore_header
from kafkalog.copies.known_offsets import KnownOffsets
from kafkalog.copies.offset_coverage import OffsetCoverage
from kafkalog.decoding.batch_decoder import decode
from kafkalog.decoding.decompression import first_offsets
from kafkalog.decoding.read_policy import Bounds, ReadPolicy
from kafkalog.decoding.workspace import Workspace
from kafkalog.errors import BatchTooLargeError, LocatedError
from kafkalog.formats.batch_headers import (
    BatchHeaders,
    find_crc_mismatches,
    scan_headers,
)
from kafkalog.formats.layout import MAX_BATCH_BYTES, NO_LEADER_EPOCH
from kafkalog.indexes.offset_index import OffsetIndex
from kafkalog.indexes.time_index import TimeIndex
from kafkalog.log.ownership import Name
from kafkalog.log.reading.log_segments import list_directory, list_segments
from kafkalog.repairs.header_correction import (
    HeaderCorrection,
    apply_corrections,
    correct_offset,
)
from kafkalog.repairs.log_excerpt import excerpt_of
from kafkalog.segment.entry_order import Limits
from kafkalog.segment.entry_search import (
    find_valid_entry,
    read_valid_entry,
)
from kafkalog.segment.file_records import STEP_BYTES, STEP_ROWS, FileRecords, Step
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.buffers import Take
from kafkalog.storage.byte_source import BLOCK_BYTES, ByteSource
from kafkalog.storage.file_names import (
    MAX_OFFSET,
    SEGMENT_KINDS,
    FileKind,
    file_name,
    parse_file_names,
)
from kafkalog.storage.location import Location, entries

POLICY: Final = ReadPolicy(needs="headers", check_crcs="before", control_records=True)
IndexKind = TypeVar("IndexKind", OffsetIndex, TimeIndex)

MAX_EARLIER: Final = 4096
"""Number of runs before another that are compared with it."""


class CorrectedSource:
    """The bytes of a file with the corrections of its headers in them.

    `most` is the offset before the next segment. `end` is the least offset at which the
    log may end, None if it is unknown.
    """

    def __init__(self, source: ByteSource, most: int, end: int | None) -> None:
        self._source = source
        self._most = most
        self._end = end
        self.corrections: list[HeaderCorrection] = []
        self._is_searched = False

    @property
    def path(self) -> Location | None:
        """The file."""
        return self._source.path

    @property
    def size(self) -> int:
        """The size of the file."""
        return self._source.size

    @size.setter
    def size(self, size: int) -> None:
        self._source.size = size

    def read(self, position: int, length: int, take: Take | None = None) -> Bytes:
        """Return up to `length` bytes from `position` on."""
        data = self._source.read(position, length, take)
        apply_corrections(data, position, self.corrections)
        return data

    def read_headers(self, position: int, length: int, take: Take | None) -> None:
        """Return None: all bytes are read."""

    def discard_read_ahead(self) -> None:
        """Discard bytes that were read ahead."""
        self._source.discard_read_ahead()

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def correct(self, least: int) -> bool:
        """Search for headers to correct, once; return whether there are any.

        `least` is the base offset of the segment.
        """
        if self._is_searched or not isinstance(self.path, Path):
            return False
        self._is_searched = True
        excerpt = excerpt_of(self.path, least, self._most, (), self._end)
        self.corrections = excerpt.corrections
        return bool(self.corrections)


@dataclass(slots=True)
class ValidBatches:
    """The valid batches of one partition, with what is missing between them.

    The numbers are complete once `read` was iterated to its end.
    """

    known: KnownOffsets | None = None
    coverage: OffsetCoverage = field(default_factory=OffsetCoverage)
    bytes_unreadable: int = 0
    notes: list[str] = field(default_factory=list)
    """What was damaged next to the batches, and what holds instead."""
    first_offsets: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    """The first offsets of the batches that were yielded last."""
    bases: list[int] = field(default_factory=list)
    """The base offsets of all segments that are known."""
    restored: list[int] = field(default_factory=list)
    """The indexes of those whose header was damaged, and is corrected."""
    deleted: dict[int, Location] = field(default_factory=dict)
    """The segments that retention has marked as deleted and that are read as well."""
    _workspace: Workspace = field(default_factory=Workspace)
    has_gaps: bool = False
    """Whether offsets are missing between batches without damage."""
    _epoch: int = NO_LEADER_EPOCH
    _next: LogSegment | None = None

    @classmethod
    def undeleted(cls, directory: Location, name: Name) -> Self:
        """Return the batches from the first on that retention has not removed yet.

        The log starts with them. Epochs are those of the batches, as the checkpoint has
        no earlier ones.
        """
        known = KnownOffsets.of(directory, name)
        known = known._replace(log_start_offset=None, epochs=[])
        return cls(known, deleted=_deleted_segments(directory))

    @classmethod
    def of(cls, directory: Location, name: Name) -> Self:
        """Return the valid batches of a directory, with the offsets known around it.

        A checkpointed log start offset after all that is known of the log is damaged.
        It is ignored: with it, no record of the log could be read.
        """
        known, notes = KnownOffsets.of(directory, name), []
        start = known.log_start_offset
        if start is not None and start > known.end:
            batches = cls(known)
            for _ in batches.of_directory(directory):
                pass
            end = max(known.end, batches.coverage.reached or 0)
            if start > end:
                notes.append(f"log start offset {start}, expected at most {end}")
                known = known._replace(log_start_offset=None)
        return cls(known, OffsetCoverage(known.log_start_offset), notes=notes)

    def segments_in(self, directory: Location) -> list[LogSegment]:
        """Return the segments of a directory that are read, in order."""
        return _live_segments(directory, self.deleted)

    def of_directory(self, directory: Location) -> Iterator[LogSegment | Step]:
        """Yield the segments of a partition's directory, and their batches.

        A segment whose ``.log`` is missing is known by the names of its other files.
        """
        self.bases = _known_bases(directory)
        known = self.bases[:]
        segments = self.segments_in(directory)
        for segment, self._next in zip(segments, [*segments, None][1:], strict=True):
            while known and known[0] < segment.base_offset:
                self._lose(known.pop(0))
            known = [base for base in known if base > segment.base_offset]
            self.coverage.reach(segment.base_offset)
            yield segment
            with segment.open() as source:
                is_last = segment.most == MAX_OFFSET and not known
                end = yield from self._of_source(
                    source, segment.limits, segment.covered_to, is_last=is_last
                )
            self.coverage.is_damaged |= self._is_cut(segment, end)
            # A segment that continues past others has their offsets.
            reached = self.coverage.reached or 0
            known = [base for base in known if base >= reached]
        for base in known:
            self._lose(base)

    def of_file(self, source: ByteSource) -> Iterator[Step]:
        """Yield the batches of a lone file, which may begin inside of a batch."""
        yield from self._of_source(source, Limits(), None, is_last=True)

    def _lose(self, base_offset: int) -> None:
        """Add a segment of which no batch is left."""
        self.coverage.reach(base_offset)
        self.coverage.is_damaged = True

    def _restore_epochs(self, source: ByteSource, step: Step, end: int) -> None:
        """Write the leader epochs that fit into batches with damaged ones.

        `end` is the position after the batches.
        """
        rows, known = step.rows, self.known
        of_batches = rows["leader_epoch"][rows["magic"] == 2]
        if not len(of_batches):
            return
        following = None
        if of_batches[-1] > of_batches[:-1].max(initial=self._epoch):
            following = self._epoch_after(source, end)
        epochs = [] if known is None else known.epochs
        for i, epoch in epoch_corrections(rows, self._epoch, following, epochs):
            position = int(rows["position"][i])
            self.notes.append(
                f"leader epoch {rows['leader_epoch'][i]}, expected {epoch}: "
                f"{source.path} at byte {position}"
            )
            rows["leader_epoch"][i] = epoch
            restore_header(step.data, position - step.origin, rows[i])
            self.restored.append(i)
        self._epoch = int(rows["leader_epoch"][rows["magic"] == 2][-1])

    def _without_invalid_records(self, source: ByteSource, step: Step) -> Step:
        """Return a step without the batches whose records cannot be decoded.

        Those above the maximum size are kept.
        """
        results = decode(
            step.data,
            step.origin,
            step.rows,
            bounds=Bounds(),
            limit=MAX_BATCH_BYTES,
            workspace=self._workspace,
        )
        invalid = []
        for result in results:
            if isinstance(result, LocatedError) and not isinstance(
                result, BatchTooLargeError
            ):
                at = step.rows["position"] <= result.position
                invalid.append(int(at.sum()) - 1)
                position = int(step.rows["position"][invalid[-1]])
                place = f"{source.path} at byte {position}"
                self.notes.append(f"{result.reason}: {place}, left out")
        if not invalid:
            return step
        kept = np.delete(np.arange(len(step.rows)), invalid)
        self.restored = np.flatnonzero(np.isin(kept, self.restored)).tolist()
        return replace(step, rows=step.rows[kept])

    def _note_corrections(
        self, source: CorrectedSource, rows: BatchHeaders
    ) -> list[int]:
        """Note the corrected headers among `rows`, and return their indexes."""
        found = []
        for each in source.corrections:
            i = int(np.searchsorted(rows["position"], each.position, side="right")) - 1
            size = int(rows["size_in_bytes"][i]) if i >= 0 else 0
            if size and each.position < int(rows["position"][i]) + size:
                at = f"{source.path} at byte {int(rows['position'][i])}"
                self.notes.append(f"{each.description}: {at}")
                found.append(i)
        return sorted(set(found))

    def _detect_gaps(self, firsts: Int64s, rows: BatchHeaders) -> None:
        """Record whether compaction may have removed offsets before or in `rows`."""
        after = np.append(self.coverage.reached or 0, rows["last_offset"][:-1] + 1)
        counted = rows["magic"] == 2
        spans = rows["last_offset"] - rows["base_offset"] + 1
        thinned = counted & (rows["count"] < spans)
        gaps = firsts > after
        if self.coverage.reached is None or self.coverage.is_damaged:
            gaps[:1] = False
        self.has_gaps |= bool((gaps | thinned).any())

    def _ends_past_the_log(self, source: ByteSource, step: Step) -> bool:
        """Return whether the last batch of a step cannot have its offsets.

        Offsets that are certain are corrected, in the header and in `step`.
        """
        row, known = step.rows[-1], self.known
        if known is None or row["magic"] != 2:
            return False
        base, last = int(row["base_offset"]), int(row["last_offset"])
        before = (self.coverage.reached or 0) - 1
        if len(step.rows) > 1:
            before = int(step.rows["last_offset"][-2])
        position = int(row["position"])
        is_doubtful = base > before + 1 and last >= known.end > 0
        is_doubtful &= self.coverage.reached is not None or len(step.rows) > 1
        end = position + int(row["size_in_bytes"])
        if not is_doubtful or find_valid_entry(source, end) is not None:
            return False
        place = f"{source.path} at byte {position}"
        offset = correct_offset(position, (base, last), before, known.end, is_last=True)
        if offset is not None:
            row["base_offset"], row["last_offset"] = (
                before + 1,
                before + 1 + last - base,
            )
            restore_header(step.data, position - step.origin, row)
            self.restored.append(len(step.rows) - 1)
            self.notes.append(f"{offset.description}: {place}")
            return False
        of_batch = f"base offset {base} of the last batch after offset {before}"
        at_end = f"the log ends at {known.end} by its checkpoints: {place}"
        is_kept = self.has_gaps or known.cleaned_to > 0
        self.notes.append(f"{of_batch}, but {at_end}{'' if is_kept else ', left out'}")
        return not is_kept

    def _epoch_after(self, source: ByteSource, end: int) -> int | None:
        """Return the leader epoch of the batch at `end`, or of the next segment's."""
        after = read_valid_entry(source, end)
        if after is None and end == source.size and self._next is not None:
            with self._next.open() as following:
                after = read_valid_entry(following, 0)
        if after is None or after["magic"][0] != 2:
            return None
        return int(after["leader_epoch"][0])

    def _is_cut(self, segment: LogSegment, end: int) -> bool:
        """Return whether an index of a segment has batches after its last one."""
        positions = _read_index(OffsetIndex, segment, "index")
        if positions is not None and int(positions.entries["position"][-1]) >= end:
            return True
        times = _read_index(TimeIndex, segment, "timeindex")
        reached = self.coverage.reached
        return times is not None and int(times.offsets[-1]) >= (reached or 0)

    def _of_source(
        self,
        source: ByteSource,
        limits: Limits,
        covered_to: int | None,
        *,
        is_last: bool,
    ) -> Generator[Step, None, int]:
        """Yield the valid batches of a file; return the position after the last.

        Those below `covered_to` are in an earlier segment.
        """
        end = unread = 0
        end_offset = None if self.known is None else self.known.end or None
        most = MAX_OFFSET if is_last else limits.most
        source = CorrectedSource(source, most, end_offset)
        for step in _valid_steps(source, limits):
            self.restored = self._note_corrections(source, step.rows)
            if is_last and self._ends_past_the_log(source, step):
                step = replace(step, rows=step.rows[:-1])
            step = self._without_invalid_records(source, step)
            rows = step.rows
            if not len(rows):
                continue
            firsts = first_offsets(step.data, step.origin, rows, MAX_BATCH_BYTES)
            unread += int(rows["position"][-1] + rows["size_in_bytes"][-1]) - end
            unread -= int(rows["size_in_bytes"].sum())
            covered = 0 if covered_to is None else int((firsts < covered_to).sum())
            if covered:
                last = rows[covered - 1]
                end = int(last["position"] + last["size_in_bytes"])
                # Its records from the offset on are lost: it cannot be written.
                self.coverage.is_damaged |= bool(last["last_offset"] >= covered_to)
                rows, firsts = rows[covered:], firsts[covered:]
                step = replace(step, rows=rows)
                self.restored = [i - covered for i in self.restored if i >= covered]
                if not len(rows):
                    continue
            self._detect_gaps(firsts, rows)
            end = self.coverage.add(rows, firsts, end)
            self._restore_epochs(source, step, end)
            self.first_offsets = firsts
            yield step
        tail = _end_of_bytes(source, end) - end
        self.bytes_unreadable += unread + tail
        # A segment with another after it was trimmed when that began.
        if tail or (end < source.size and not is_last):
            self.coverage.is_damaged = True
        return end


def _read_index(
    kind: type[IndexKind], segment: LogSegment, extension: FileKind
) -> IndexKind | None:
    """Return an index of a segment that has entries; None if there is no valid one."""
    path = segment.path.with_name(file_name(segment.base_offset, extension))
    try:
        index = kind.read_live(path, segment.base_offset)
    except (FileNotFoundError, LocatedError):
        return None
    return index if len(index) else None


def _live_segments(
    directory: Location, deleted: Mapping[int, Location]
) -> list[LogSegment]:
    """Return the segments of a log that are read, after the `deleted` ones."""
    live = list_segments(directory)
    bases = sorted(deleted)
    ends = [base - 1 for base in [*bases, *(each.base_offset for each in live)][1:]]
    earlier = zip(bases, [*ends, MAX_OFFSET], strict=False)
    return [*(LogSegment(deleted[base], base, end) for base, end in earlier), *live]


def _deleted_segments(directory: Location) -> dict[int, Location]:
    """Return the ``.log.deleted`` files that retention has left, by base offset.

    They are below the first segment. Those among the others were replaced by
    compaction, and those above were truncated.
    """
    live, listed = list_directory(directory)
    first = live[0].base_offset if live else MAX_OFFSET
    names = parse_file_names(entry.name for entry in listed)
    return {
        name.base_offset: directory / file
        for file, name in names.items()
        if (name.kind, name.suffix) == ("log", "deleted") and name.base_offset < first
    }


def _steps_of(records: FileRecords) -> Iterator[Step]:
    """Yield the steps of a file, without what is skipped."""
    yield from (step for step in records if isinstance(step, Step))


def _known_bases(directory: Location) -> list[int]:
    """Return the base offsets of segments, by the names of all of their files."""
    names = parse_file_names(entry.name for entry in entries(directory))
    return sorted(
        {
            name.base_offset
            for name in names.values()
            if name.kind in SEGMENT_KINDS and name.suffix is None
        }
    )


class _ValidRun(NamedTuple):
    """Adjacent valid batches, with ascending offsets."""

    start: int
    end: int
    first_offset: int
    last_offset: int
    batches: int


def _valid_steps(source: CorrectedSource, limits: Limits) -> Iterator[Step]:
    """Yield the valid batches of a source, those after damage as well.

    At the first damage, headers whose right content is certain are corrected.
    """
    end, before = 0, limits.least - 1
    for _ in range(2):
        records = FileRecords(
            source=source, start=end, before=before, limits=limits, policy=POLICY
        )
        with suppress(LocatedError):
            for step in _steps_of(records):
                yield step
                end = int(step.rows["position"][-1] + step.rows["size_in_bytes"][-1])
                before = max(before, int(step.rows["last_offset"][-1]))
        if end == source.size or not source.correct(limits.least):
            break
    if end == source.size:
        return
    for run in _in_order(list(_runs_after(source, end, before, limits.most))):
        data = source.read(run.start, run.end - run.start)
        rows, _, _ = scan_headers(data, 0, run.start, run.batches)
        yield Step(data, run.start, rows)


def _runs_after(
    source: ByteSource, position: int, before: int, most: int
) -> Iterator[_ValidRun]:
    """Yield the runs of valid batches from `position` on.

    Their offsets are above `before`, and at most `most`.
    """
    found = find_valid_entry(source, position)
    while found is not None:
        data = source.read(found, STEP_BYTES)
        rows, _, _ = scan_headers(data, 0, found, STEP_ROWS)
        if not len(rows):  # it is larger than a step
            data = source.read(found, MAX_BATCH_BYTES)
            rows, _, _ = scan_headers(data, 0, found, 1)
        last = rows["last_offset"]
        first = np.where(rows["base_offset"] < 0, last, rows["base_offset"])
        valid = (first > before) & (last <= most) & (last >= first)
        valid[1:] &= first[1:] > last[:-1]
        valid[find_crc_mismatches(data, found, rows)] = False
        count = len(rows) if valid.all() else int(valid.argmin())
        if not count:
            found = find_valid_entry(source, found + 1)
            continue
        end = int(rows["position"][count - 1] + rows["size_in_bytes"][count - 1])
        yield _ValidRun(found, end, int(first[0]), int(last[count - 1]), count)
        found = find_valid_entry(source, end)


def _in_order(runs: list[_ValidRun]) -> list[_ValidRun]:
    """Return the runs with the most batches whose offsets ascend in their order."""
    first = np.array([run.first_offset for run in runs], np.int64)
    last = np.array([run.last_offset for run in runs], np.int64)
    batches = np.array([run.batches for run in runs], np.int64)
    total = batches.copy()
    earlier = np.full(len(runs), -1)
    for i in range(len(runs)):
        start = max(0, i - MAX_EARLIER)
        fitting = np.where(last[start:i] < first[i], total[start:i], 0)
        if fitting.any():
            # Of equal ones the last, so that adjacent runs stay together.
            earlier[i] = i - 1 - int(fitting[::-1].argmax())
            total[i] += total[earlier[i]]
    chosen: list[_ValidRun] = []
    at = int(total.argmax()) if len(runs) else -1
    while at >= 0:
        chosen.append(runs[at])
        at = int(earlier[at])
    return chosen[::-1]


def _end_of_bytes(source: ByteSource, start: int) -> int:
    """Return the position after the last byte from `start` on that is not zero."""
    position = source.size
    while position > start:
        begin = max(start, position - BLOCK_BYTES)
        block = source.read(begin, position - begin)
        places = np.flatnonzero(block)
        if len(places):
            return begin + int(places[-1]) + 1
        position = begin
    return start
