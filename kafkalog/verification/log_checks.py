"""Checks of one ``.log``: every entry, every record, and their order.

A batch's checksum covers its bytes from the attributes on. The 21 bytes before are
compared with what they must agree with:

    base offset    the entries around it, the names of the segments, the indexes
    length         a valid entry, or the end of the file, must follow
    leader epoch   it never falls along a log, and agrees with
                   ``leader-epoch-checkpoint``
    magic          it determines the position of the checksum, which must match

Gaps between offsets are legal: compaction and transactions make them.

Source: ``DefaultRecordBatch.java``, ``FileRecords.java``, ``LogSegment.java``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from kafkalog.decoding.batch_decoder import RecordViews, decode
from kafkalog.decoding.read_policy import Bounds, ReadPolicy
from kafkalog.decoding.workspace import Workspace
from kafkalog.errors import BatchTooLargeError, LocatedError
from kafkalog.formats.batch_headers import (
    BatchHeaders,
    find_crc_mismatches,
    scan_headers,
)
from kafkalog.formats.control_keys import control_types
from kafkalog.formats.layout import (
    CONTROL_FLAG,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAX_OFFSET_DELTA,
    NO_LEADER_EPOCH,
    TRANSACTIONAL_FLAG,
)
from kafkalog.progress import Advance
from kafkalog.segment.entry_order import Limits
from kafkalog.segment.file_records import FileRecords, Skipped, Step
from kafkalog.storage.byte_source import ByteSource, only_zeros
from kafkalog.verification.index_checks import runs
from kafkalog.verification.transaction_checks import DATA, EVENT, events_of
from kafkalog.verification.verification_report import Cause, Findings

CONTROL_KEY_BYTES: Final = 4
NO_TYPE: Final = -1
MERGED: Final = frozenset({Cause.TIMESTAMP, Cause.LEADER_EPOCH})
"""Causes for which adjacent batches make one problem.

For other causes, what recovery does depends on each batch.
"""

Epochs = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Start offsets, rising, and the leader epoch in force from each on."""


class Observer(Protocol):
    """A receiver of a log's valid entries, in order, up to the first damage."""

    def feed(self, rows: BatchHeaders, last_before: int) -> None:
        """Take the next entries; `last_before` is the last offset before them."""

    def finish(self, valid_to: int, last_offset: int, *, whole: bool) -> None:
        """Take the end of the entries fed, and whether the log ends there."""


@dataclass(slots=True, kw_only=True)
class LogFacts:
    """The contents of one log; `end` is the byte after its last whole entry."""

    batches: int = 0
    records: int = 0
    end: int = 0
    last_offset: int = -1
    first_epoch: int = NO_LEADER_EPOCH
    first_epoch_at: tuple[int, int] = (0, 0)
    last_epoch: int = NO_LEADER_EPOCH
    damaged_at: int | None = None
    """Position of the first entry that is corrupt, or too far for the indexes."""
    tail_bytes: int = 0
    """Bytes after `end`, which are not a whole entry."""
    is_compacted: bool = False
    """Whether offsets are missing inside, as where compaction removed records."""
    first_type: int = NO_TYPE
    last_type: int = NO_TYPE
    """Control type of the first and the last record, if they are control records."""
    events: list[npt.NDArray[np.void]] = field(default_factory=list)


@dataclass(slots=True)
class SkippedRun:
    """Adjacent entries that were skipped: the place of their problem in the findings.

    `count` valid entries with rising offsets from `first` to `last`, which contradict
    those of the entries around them; `count` is 0 for other damage.
    """

    place: int
    count: int = 0
    first: int = 0
    last: int = 0

    def continues(self, skipped: Skipped, most: int) -> bool:
        """Return whether a skipped entry is the next one, and at most at `most`.

        Recovery then does the same for both.
        """
        first, last = skipped.first_offset, skipped.last_offset
        if not self.count or skipped.error.cause != Cause.OFFSET:
            return False
        if first is None or last is None:
            return False
        return self.last < first <= last <= most

    def describe(self, before: str, after: str) -> str:
        """Return the message on misplaced entries."""
        batches = "a batch has" if self.count == 1 else f"{self.count} batches have"
        return (
            f"{batches} offsets {self.first} to {self.last}, but {before}"
            f"{f' and {after}' if after else ''}"
        )


@dataclass(slots=True, kw_only=True)
class LogCheck:
    """One reading of a log, which adds every problem to `findings`.

    `epochs` are the known leader epochs; `advance` is called with the bytes read so
    far. Entries before byte `start` are ignored.
    """

    source: ByteSource
    findings: Findings
    limits: Limits
    start: int = 0
    epochs: Epochs
    observers: Sequence[Observer] = ()
    max_batch_bytes: int
    advance: Advance
    facts: LogFacts = field(default_factory=LogFacts)
    _workspace: Workspace = field(default_factory=Workspace)
    _skipped_last: bool = False
    _is_far: bool = False
    _skipped: list[SkippedRun] = field(default_factory=list)
    """The runs that were skipped since the last valid entry."""

    def run(self) -> LogFacts:
        """Read the log to its end, past any damage."""
        self.facts.last_offset = self.limits.least - 1
        self._read()
        self._end_skipped()
        self.advance(self.source.size)
        self._check_tail()
        damage = self.facts.damaged_at
        valid_to = self.facts.end if damage is None else damage
        for observer in self.observers:
            observer.finish(valid_to, self.facts.last_offset, whole=damage is None)
        return self.facts

    def _read(self) -> None:
        records = FileRecords(
            source=self.source,
            start=self.start,
            limits=self.limits,
            policy=ReadPolicy(
                on_corruption="skip", max_batch_bytes=self.max_batch_bytes
            ),
        )
        for step in records:
            if isinstance(step, Step):
                self._take(step)
            else:
                self._skip(step)
            self._skipped_last = not isinstance(step, Step)
            self.advance(records.end)  # the end of the step before
        self.facts.end = records.end

    def _skip(self, skipped: Skipped) -> None:
        error, offset = skipped.error, skipped.first_offset
        expected = self.facts.last_offset + 1
        if offset is None or error.cause == Cause.OFFSET or offset < expected:
            offset = expected
        self._damaged(error.position)
        if self._skipped and self._skipped[-1].continues(
            skipped, self.limits.most_of_tail
        ):
            self._skipped[-1].count += 1
            self._skipped[-1].last = skipped.last_offset or 0
            return
        run = SkippedRun(len(self.findings.problems))
        last = skipped.last_offset
        if error.cause == Cause.OFFSET and last is not None:
            first = last if skipped.first_offset is None else skipped.first_offset
            run = SkippedRun(run.place, 1, first, last)
        if error.cause == Cause.OFFSET or not self._may_be_last(offset, last):
            last = None
        self._skipped.append(run)
        self._add(error, offset, last)

    def _may_be_last(self, first: int, last: int | None) -> bool:
        """Return whether a skipped entry with the offset `first` may end at `last`."""
        return last is not None and first <= last <= self.limits.most

    def _end_skipped(self, rows: BatchHeaders | None = None) -> None:
        """Complete the problems of what was skipped before `rows`, or the file's end.

        No checksum covers the last offset of a skipped entry, and none is known if its
        size is wrong. Offsets that are missing after it may have been compacted.
        """
        skipped, self._skipped = self._skipped, []
        following = None
        if rows is not None and self.limits.ordered:
            following = int(rows["base_offset"][0])
            following = None if following < 0 else following
        problems = self.findings.problems
        for run in skipped:
            problem = problems[run.place]
            first, last = problem.offset, problem.last_offset
            if following is not None and first is not None:
                last = following - 1 if last is None else min(last, following - 1)
                last = last if last >= first else None
            problem = replace(problem, last_offset=last)
            if run.count:
                message = run.describe(*self._neighbours(following))
                problem = replace(problem, message=message, reason=message)
            problems[run.place] = problem

    def _neighbours(self, following: int | None) -> tuple[str, str]:
        """Return texts on the offsets before and after what was skipped."""
        limits, before = self.limits, self.facts.last_offset
        start = f"the segment begins at offset {limits.least}"
        if self.facts.batches:
            start = f"the valid batch before ends at offset {before}"
        if following is not None:
            return start, f"the valid batch after begins at offset {following}"
        if limits.most < limits.most_of_tail:
            return start, f"the next segment begins at offset {limits.most + 1}"
        return start, ""

    def _add(self, error: LocatedError, first: int, last: int | None) -> None:
        """Add the problem of an entry that cannot be read, with its offsets."""
        if isinstance(error, BatchTooLargeError):
            self.findings.warn(
                Cause.TOO_LARGE,
                error.reason,
                position=error.position,
                offset=first,
                last_offset=last,
            )
        else:
            self.findings.add_error(error, first, last_offset=last)

    def _damaged(self, position: int | None) -> None:
        if self.facts.damaged_at is None:
            self.facts.damaged_at = position

    def _take(self, step: Step) -> None:
        rows, facts = step.rows, self.facts
        if self._skipped:
            self._end_skipped(rows)
        results = decode(
            step.data,
            step.origin,
            rows,
            bounds=Bounds(),
            limit=self.max_batch_bytes,
            workspace=self._workspace,
        )
        for views in results:
            if isinstance(views, LocatedError):
                self._add_error(views, rows)
            else:
                self._check_records(views)
        self._detect_compaction(rows)
        self._check_distance(rows)
        facts.batches += len(rows)
        self._check_epochs(rows)
        rows["base_offset"] = np.where(
            rows["base_offset"] < 0, rows["last_offset"], rows["base_offset"]
        )
        if facts.damaged_at is None:
            for observer in self.observers:
                observer.feed(rows, facts.last_offset)
        facts.last_offset = int(rows["last_offset"][-1])

    def _detect_compaction(self, rows: BatchHeaders) -> None:
        """Record whether offsets are missing between entries, or within one."""
        if self.facts.is_compacted:
            return
        known = rows["base_offset"] >= 0
        before = np.concatenate(([self.facts.last_offset], rows["last_offset"][:-1]))
        skips = known & (rows["base_offset"] > before + 1)
        if self._skipped_last or not self.facts.batches:
            skips[:1] = False
        counted = known & (rows["magic"] == 2)
        spans = rows["last_offset"] - rows["base_offset"] + 1
        thinned = counted & (rows["count"] < spans)
        self.facts.is_compacted = bool((skips | thinned).any())

    def _check_distance(self, rows: BatchHeaders) -> None:
        """Check that offsets are near enough to the base offset for the indexes.

        A broker that recovers the segment splits it there.
        """
        far = np.flatnonzero(rows["last_offset"] > self.limits.most_of_tail)[:1]
        if self._is_far or not len(far):
            return
        self._is_far = True
        self._damaged(int(rows["position"][far[0]]))  # no index can have an entry
        row = rows[far[0]]
        last, at = int(row["last_offset"]), int(row["position"])
        first = max(int(row["base_offset"]), self.facts.last_offset + 1)
        message = f"last offset {last}, expected at most {self.limits.most_of_tail}"
        message += (
            f", {MAX_OFFSET_DELTA} above the base offset; the batches from here on are "
            "read, and a broker that recovers the segment moves them to another one"
        )
        self.findings.add(Cause.OFFSET, message, position=at, offset=first)

    def _add_error(self, error: LocatedError, rows: BatchHeaders) -> None:
        """Add a batch that cannot be decoded although its checksum is right."""
        place = error.position or 0
        at = int(np.searchsorted(rows["position"], place, side="right")) - 1
        offset = max(int(rows["base_offset"][at]), self.facts.last_offset + 1)
        self._add(error, offset, int(rows["last_offset"][at]))

    def _check_records(self, views: RecordViews) -> None:
        """Compare the records of each batch with its header."""
        self.facts.records += len(views.records)
        full = views.counts > 0
        rows, counts = views.rows, views.counts
        if not full.all():
            rows, counts = rows[full], counts[full]
        ends = np.cumsum(counts)
        starts = ends - counts
        offsets = views.records["offset"]
        rises = np.ones(len(offsets), np.bool_)
        rises[1:] = offsets[1:] > offsets[:-1]
        rises[starts] = True
        batch = rows["magic"] == 2
        inside = offsets[ends - 1] <= rows["last_offset"]
        inside &= ~batch | (offsets[starts] >= rows["base_offset"])
        strange = ~(inside & np.logical_and.reduceat(rises, starts))
        message = "offsets of records do not rise, or exceed those of the batch header"
        self._note(rows, strange, Cause.RECORDS, message)
        latest = np.maximum.reduceat(views.records["timestamp"], starts)
        created = batch & (rows["attributes"] & LOG_APPEND_TIME_FLAG == 0)
        message = "greatest timestamp of the records differs from that of the header"
        wrong = created & (latest != rows["max_timestamp"])
        self._note(rows, wrong, Cause.TIMESTAMP, message)
        self._check_control(views, rows, starts, counts)

    def _check_control(
        self,
        views: RecordViews,
        rows: BatchHeaders,
        starts: npt.NDArray[np.int64],
        counts: npt.NDArray[np.int64],
    ) -> None:
        """Read the types of control records, and collect transactional events."""
        flags = np.where(rows["magic"] == 2, rows["attributes"], 0)
        control = flags & CONTROL_FLAG > 0
        types = np.full(len(rows), DATA, np.int16)
        if control.any():
            which = np.repeat(control, counts)
            keyed = which & (views.records["key_length"] >= CONTROL_KEY_BYTES)
            unkeyed = np.logical_or.reduceat(which & ~keyed, starts)
            message = "key of a control record has no type"
            self._note(rows, unkeyed, Cause.CONTROL, message)
            keys = views.records["key_start"], views.records["key_length"]
            read = control_types(views.data, *(column[starts] for column in keys))
            types = np.where(control & ~unkeyed, read, DATA).astype(np.int16)
        if self.facts.records == len(views.records):
            self.facts.first_type = int(types[0])
        self.facts.last_type = int(types[-1])
        transactional = flags & TRANSACTIONAL_FLAG > 0
        transactional &= ~control | (types != DATA)
        if transactional.any():
            events = events_of(rows[transactional], types[transactional])
            self.facts.events.append(events)

    def _check_epochs(self, rows: BatchHeaders) -> None:
        """Compare leader epochs with the known ones, and with each other."""
        epoch, facts = rows["leader_epoch"], self.facts
        present = (rows["magic"] == 2) & (epoch != NO_LEADER_EPOCH)
        starts, epochs = self.epochs
        slot = np.searchsorted(starts, rows["base_offset"], side="right") - 1
        expected = np.append(epochs, NO_LEADER_EPOCH)[slot]
        differs = present & (slot >= 0) & (epoch != expected)
        stale = differs & (epoch < expected) & np.isin(epoch, epochs)
        wrong = (differs & ~stale) | (present & (epoch < 0))
        message = "leader epoch differs from that of leader-epoch-checkpoint"
        self._note(rows, wrong, Cause.LEADER_EPOCH, message)
        # In a checkpoint that is not truncated yet, this holds for all later batches.
        for row in rows[np.flatnonzero(stale)[:1]]:
            message = "leader-epoch-checkpoint has a later epoch from this offset on"
            at, offset = int(row["position"]), int(row["base_offset"])
            self.findings.warn(Cause.LEADER_EPOCH, message, position=at, offset=offset)
        held = np.flatnonzero(present & ~wrong)
        if not len(held):
            return
        before = np.concatenate(([facts.last_epoch], epoch[held[:-1]]))
        falls = held[epoch[held] < before]
        message = "leader epoch is below that of the batch before"
        self._note(rows, falls, Cause.LEADER_EPOCH, message)
        if facts.first_epoch == NO_LEADER_EPOCH:
            first = rows[held[0]]
            facts.first_epoch = int(first["leader_epoch"])
            facts.first_epoch_at = int(first["position"]), int(first["base_offset"])
        facts.last_epoch = int(epoch[held[-1]])

    def _note(
        self,
        rows: BatchHeaders,
        which: npt.NDArray[np.bool_] | npt.NDArray[np.intp],
        cause: Cause,
        message: str,
    ) -> None:
        chosen = np.zeros(len(rows), np.bool_)
        chosen[which] = True
        single = ((at, at) for at in np.flatnonzero(chosen).tolist())
        for first, last in runs(chosen) if cause in MERGED else single:
            at, offset = int(rows["position"][first]), int(rows["base_offset"][first])
            more, until = "", None
            if last > first or cause not in MERGED:
                until = int(rows["last_offset"][last])
            if last > first:
                more = f" ({last - first + 1} batches, to offset {until})"
            self.findings.add(
                cause, message + more, position=at, offset=offset, last_offset=until
            )

    def _check_tail(self) -> None:
        """Add the bytes that follow the last whole entry."""
        end, offset = self.facts.end, self.facts.last_offset + 1
        left = self.source.size - end
        if left <= 0:
            return
        self.facts.tail_bytes = left
        if only_zeros(self.source, end):
            message = f"{left} trailing zeros after the last entry"
            self.findings.warn(Cause.PREALLOCATED, message, position=end, offset=offset)
        elif self._is_valid_with_other_size(end, left):
            message = "size of an entry exceeds its bytes, whose checksum is right"
            self._damaged(end)
            self.findings.add(Cause.SIZE, message, position=end, offset=offset)
        else:
            message = f"{left} trailing bytes are an incomplete entry"
            self.findings.warn(Cause.INCOMPLETE, message, position=end, offset=offset)

    def _is_valid_with_other_size(self, position: int, left: int) -> bool:
        """Return whether the checksum is that of an entry that ends with the file."""
        if left > self.max_batch_bytes:
            return False
        data = self.source.read(position, left).copy()
        size = (len(data) - LOG_OVERHEAD).to_bytes(4, signed=True)
        data[8:LOG_OVERHEAD] = np.frombuffer(size, np.uint8)[: len(data[8:12])]
        rows, _, _ = scan_headers(data, 0, 0, 1)
        return bool(len(rows)) and not len(find_crc_mismatches(data, 0, rows))


def all_events(facts: Sequence[LogFacts]) -> npt.NDArray[np.void]:
    """Concatenate the transactional events of several logs."""
    return np.concatenate([np.empty(0, EVENT), *(e for f in facts for e in f.events)])
