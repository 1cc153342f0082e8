"""One part of a source, read in order: which steps, which entries, which bounds.

Entries are chosen by their headers in two goes. By offsets first, which no checksum
covers. Then, once the checksums are found right, by everything else that a header says:
control, time, transactions. So a flipped bit in a header hides no record. Where nothing
is asked for but offsets, checksums of plain batches are left to whoever decodes them.

Knows: what is wanted of a partition, and where its indexes say it lies. Does not know:
how records become columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog.decoding.batch_decoder import FIRST, LAST, Bounds
from kafkalog.errors import LocatedError
from kafkalog.formats.entry_headers import Rows, find_unsound
from kafkalog.formats.layout import (
    BATCH_HEADER_BYTES,
    CODEC_MASK,
    CONTROL_FLAG,
    LOG_APPEND_TIME_FLAG,
    MAX_BATCH_BYTES,
)
from kafkalog.log.log_segments import (
    find_lost_tail,
    from_offset,
    list_segments,
    read_on,
)
from kafkalog.log.transactions import Transactions, replay, replay_partition
from kafkalog.query.sources import Part
from kafkalog.segment.file_records import STEP_BYTES, FileRecords, Skipped, Step
from kafkalog.segment.log_segment import LogSegment
from kafkalog.segment.strays import Limits
from kafkalog.storage.byte_source import ByteSource, MemorySource, Rooms, Take
from kafkalog.storage.file_names import MAX_OFFSET
from kafkalog.storage.location import Location

GLANCED_BYTES: Final = 64 << 20

Tell = Callable[[Rows, Bounds], npt.NDArray[np.bool_]]
"""Says of which rows headers tell all that is asked, within bounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked of every part alike."""

    read_committed: bool = False
    control_records: bool = False
    check_crcs: bool = True
    by_headers: bool = False
    """Whether nothing is unpacked for columns that headers tell."""
    skip: bool = False
    max_batch_bytes: int = MAX_BATCH_BYTES


class Problem(NamedTuple):
    """What a scan left out: bytes of a file from `position` on, and the offsets lost.

    `path` is None for bytes in memory; offsets are None where nothing tells them.
    """

    path: Location | None
    position: int | None
    first_offset: int | None
    last_offset: int | None
    reason: str

    @classmethod
    def of(cls, error: LocatedError, first: int | None, last: int | None) -> Problem:
        """Make a problem of an error that is passed over."""
        return cls(error.path, error.position, first, last, error.reason)

    def __str__(self) -> str:
        """Say in a line what is missing, why and where.

        >>> from pathlib import Path
        >>> print(Problem(Path("a.log"), 17, 4, 6, "crc differs"))
        crc differs: a.log at byte 17, offsets 4 to 6
        """
        place = "" if self.path is None else f": {self.path}"
        byte = "" if self.position is None else f" at byte {self.position}"
        if self.first_offset is None or self.last_offset is None:
            return f"{self.reason}{place}{byte}"
        lost = f"offsets {self.first_offset} to {self.last_offset}"
        return f"{self.reason}{place}{byte}, {lost}"


class Place(NamedTuple):
    """A batch that a reading goes on from: its file, where, and behind which offset."""

    segment: str
    position: int
    header: bytes
    before: int | None

    def is_in(self, segment: LogSegment | None, source: ByteSource) -> bool:
        """Whether the batch is there still; compaction may have put another file."""
        if segment is not None and segment.name != self.segment:
            return False
        return source.read(self.position, len(self.header)).tobytes() == self.header


class Piece(NamedTuple):
    """Entries to decode, from which file, and which of their records are wanted.

    `bytes_before` is how much of the part lies before that file.
    """

    step: Step
    segment: str
    path: Location | None
    bounds: Bounds
    bytes_before: int

    def place(self, position: int) -> Place:
        """Return the place of the batch at `position`."""
        step, rows = self.step, self.step.rows
        before, i = step.before, int(np.searchsorted(rows["position"], position))
        if before is not None and i:
            before = int(rows["last_offset"][i - 1])
        start = position - step.origin
        header = step.data[start : start + BATCH_HEADER_BYTES].tobytes()
        return Place(self.segment, position, header, before)


def left_out(error: LocatedError, piece: Piece, request: Request) -> Problem:
    """Raise what is wrong with a batch, or, where asked to pass over it, say so."""
    if piece.path is not None:
        error.located(piece.path)
    if not request.skip:
        raise error
    rows = piece.step.rows
    inside = rows[rows["position"] <= error.position][-1]
    base = int(inside["base_offset"])
    return Problem.of(error, base if base >= 0 else None, int(inside["last_offset"]))


@dataclass(slots=True, kw_only=True)
class PartReading:
    """One reading of a part; `bytes_done` goes up to `size` meanwhile.

    Where it `defers`, checksums may be left to whoever decodes a step, and it says so.
    With `told`, which says of which rows no more is asked, given the bounds, nobody
    looks at checksums, and a step has only headers where these are told all of them.
    `place` is that of the batch it begins with, where it goes on from one.
    """

    part: Part
    bounds: Bounds
    request: Request
    take: Take | None = field(default_factory=lambda: Rooms().take)
    told: Tell | None = None
    defers: bool = False
    place: Place | None = None
    bytes_done: int = 0
    _transactions: Transactions | None = field(default=None)

    def behind(self, piece: Piece, position: int) -> PartReading:
        """Return a reading from the batch of `piece` at `position` on.

        All that precedes it was given. Checksums are looked at before anything is.
        """
        bounds, place = piece.bounds, piece.place(position)
        if place.before is not None:
            start = max(bounds.start_offset, place.before + 1)
            bounds = replace(bounds, start_offset=start)
        return replace(
            self,
            bounds=bounds,
            place=place,
            bytes_done=piece.bytes_before,
            defers=False,
        )

    def pieces(self) -> Iterator[Piece | Problem]:
        """Yield the entries wanted, in order of offsets, and what is left out."""
        segments = self._segments()
        self._transactions = self._settle(segments)
        for segment, source, limits in self._sources(segments):
            if limits.least >= self.bounds.end_offset:
                return
            before = self.bytes_done
            yield from self._of_segment(segment, source, limits)
            self.bytes_done = before + source.size

    def size(self) -> int:
        """Bytes that there are to read, now."""
        total = 0
        for segment in self._segments():
            with suppress(FileNotFoundError):
                total += segment.size_in_bytes
        return total

    def _segments(self) -> list[LogSegment]:
        part = self.part
        if part.span is not None:
            return [part.span.segment]
        if part.directory is None:
            return [] if part.file is None else [LogSegment.of(part.file)]
        listed = list_segments(part.directory)
        return from_offset(listed, self.bounds.start_offset)

    def _sources(
        self, segments: list[LogSegment]
    ) -> Iterator[tuple[LogSegment | None, ByteSource, Limits]]:
        part = self.part
        if part.memory is not None:
            yield None, MemorySource(part.memory), Limits(ordered=False)
        elif part.span is not None:
            segment, _, end, opened = part.span
            with segment.open() if opened is None else nullcontext(opened) as source:
                source.size = min(source.size, end)
                yield segment, source, segment.limits
        elif part.directory is not None:
            for segment, source in read_on(part.directory, segments):
                yield segment, source, segment.limits
        else:
            with segments[0].open() as source:
                yield segments[0], source, Limits()

    def _settle(self, segments: list[LogSegment]) -> Transactions | None:
        """Find out about transactions, as far as this reading needs it."""
        if not self.request.read_committed:
            return None
        checked, skip = self.request.check_crcs, self.request.skip
        start, end = self.bounds.start_offset, self.bounds.end_offset
        if self.part.directory is not None:
            return replay_partition(
                self.part.directory, start, end, check_crcs=checked, skip=skip
            )
        sources = ((source, limits) for _, source, limits in self._sources(segments))
        return replay(sources, end_offset=end, check_crcs=checked, skip=skip)

    def _of_segment(
        self, segment: LogSegment | None, source: ByteSource, limits: Limits
    ) -> Iterator[Piece | Problem]:
        name = "" if segment is None else segment.name
        already, reached = self.bytes_done, self.bounds.start_offset
        place, self.place = self.place, None
        if place is not None and place.is_in(segment, source):
            start, before = place.position, place.before
        else:
            start, before = self._start(segment, source), None
        records = FileRecords(
            source=source,
            start=start,
            before=FIRST if before is None else before,
            select=self._by_offset,
            limits=limits,
            suffice=self._suffice(),
            check_crcs=self.request.check_crcs and self.told is None,
            defer_crcs=self.defers and self._by_offset_alone,
            skip=self.request.skip,
            take=self.take,
            step_bytes=self._step_bytes(),
            max_batch_bytes=self.request.max_batch_bytes,
        )
        for step in records:
            self.bytes_done = already + records.end
            if isinstance(step, Skipped):
                yield Problem.of(step.error, step.first_offset, step.last_offset)
                continue
            chosen = self._by_header(step) if step.checked else step.rows
            if len(chosen):
                if chosen is not step.rows:
                    step = replace(step, rows=chosen)
                yield Piece(step, name, source.path, self.bounds, already)
            if limits.ordered:
                reached = max(reached, int(step.rows["last_offset"][-1]) + 1)
        yield from self._lost_tail(segment, records)
        # Where a segment is found anew, as compaction leaves it, go on there.
        self.bounds = replace(self.bounds, start_offset=reached)

    def _lost_tail(
        self, segment: LogSegment | None, records: FileRecords
    ) -> Iterator[Problem]:
        """Raise, or with `skip` yield, that a segment has lost records at its end."""
        directory = self.part.directory
        if directory is None or segment is None:
            return
        lost = find_lost_tail(directory, segment, records)
        if lost is None or lost.first_offset >= self.bounds.end_offset:
            return
        if not self.request.skip:
            raise lost.error
        yield Problem.of(lost.error, lost.first_offset, lost.last_offset)

    def _step_bytes(self) -> int:
        """Size of a step; a large one where headers in memory are all that is read."""
        glanced = self.told is not None and self.part.memory is not None
        return GLANCED_BYTES if glanced and not self.bounds.timed else STEP_BYTES

    def _start(self, segment: LogSegment | None, source: ByteSource) -> int:
        """Position from which on everything wanted of a segment lies."""
        if segment is None:
            return 0
        if self.part.span is not None:
            return self.part.span.begin
        start, bounds = 0, self.bounds
        if bounds.start_offset > max(segment.base_offset, 0):
            start = segment.position_for(source, min(bounds.start_offset, MAX_OFFSET))
        if bounds.start_timestamp is not None:
            by_time = segment.position_for_time(source, bounds.start_timestamp)
            start = max(start, by_time)
        return start

    def _suffice(self) -> Callable[[Rows], bool] | None:
        """Say of which rows headers are all that is asked; None where of none."""
        told = self.told
        if told is None:
            return None
        return lambda rows: bool(told(rows, self.bounds).all())

    def _by_offset(self, rows: Rows) -> tuple[npt.NDArray[np.bool_] | None, bool]:
        """Choose by offsets alone, and say whether all that follows lies behind."""
        start, end = self.bounds.start_offset, self.bounds.end_offset
        rise = self.part.memory is None and len(rows)
        if end == LAST and (start <= 0 or (rise and rows["base_offset"][0] >= start)):
            return None, False
        last = rows["last_offset"]
        base = np.where(rows["base_offset"] < 0, last, rows["base_offset"])
        if self.part.memory is not None:
            return (last >= start) & ((base < end) | (rows["base_offset"] < 0)), False
        # A wrapper begins behind the entry before it, wherever that is, and a batch may
        # reach to the next: what it says of its end is known only by its checksum.
        begins = np.where(rows["base_offset"] < 0, np.append(-1, last[:-1]) + 1, base)
        reach = np.where(rows["magic"] == 2, np.append(begins[1:], LAST) - 1, last)
        done = (begins >= end).any() or (last[-1:] >= end - 1).any()
        return (np.maximum(last, reach) >= start) & (begins < end), bool(done)

    @property
    def _by_offset_alone(self) -> bool:
        """Whether plain batches are chosen by their offsets, and by nothing else."""
        return self._transactions is None and not self.bounds.timed

    def _by_header(self, step: Step) -> Rows:
        """Choose by all else that the headers say, which the checksums cover."""
        rows = step.rows
        if self._by_offset_alone and _speedups.all_uncompressed(rows, MAX_OFFSET):
            return rows
        chosen: npt.NDArray[np.bool_] = rows["count"] != 0
        batch = rows["magic"] == 2
        attributes = rows["attributes"]
        if not self.request.control_records:
            control = batch & (attributes & CONTROL_FLAG != 0)
            if self.told is not None and self.request.check_crcs:
                # Nobody has looked at these: what is damaged is left to be found.
                unsound = find_unsound(step.data, step.origin, rows[control])
                control[np.flatnonzero(control)[unsound]] = False
            chosen &= ~control
        if self._transactions is not None:
            chosen &= self._transactions.committed(rows)
        if self.bounds.timed:
            chosen &= self._by_time(rows, batch, attributes)
        return rows[chosen]

    def _by_time(
        self,
        rows: Rows,
        batch: npt.NDArray[np.bool_],
        attributes: npt.NDArray[np.int16],
    ) -> npt.NDArray[np.bool_]:
        """Leave out what holds no record of the times asked for, where that is sure.

        Of a wrapper it is not: some clients wrote another time into it.
        """
        start, end = self.bounds.start_timestamp, self.bounds.end_timestamp
        latest = rows["max_timestamp"]
        plain = (rows["magic"] == 1) & (attributes & CODEC_MASK == 0)
        chosen: npt.NDArray[np.bool_] = rows["magic"] > 0
        if start is not None:
            chosen &= ~(batch | plain) | (latest >= start)
        if end is not None:
            stamped = batch & (attributes & LOG_APPEND_TIME_FLAG != 0)
            chosen &= ~(stamped | plain) | (latest < end)
        return chosen
