"""Checks of one partition's directory: its segments and its other files.

Every ``.log`` is read with the indexes that belong to it, by name and suffix. Then the
checks that need several segments follow:

    succession     a segment begins where the one before it ends. A gap between two is
                   reported only where nothing shows compaction, which makes such gaps
    tail           a segment before the last ends within an entry, and the next one does
                   not follow: those records are lost
    zeros          a segment before the last ends in zeros, which consumers cannot read
    orphan         an index without a log: a broker that deletes a segment renames the
                   log before its indexes, so no deletion leaves one
    leader epochs  they do not fall from one segment to the next
    transactions   they may span segments, and transaction indexes agree with them

Files with the suffix ``.deleted`` or ``.swap`` are complete and are checked like live
ones; ``.cleaned`` and ``.part`` are incomplete, so their problems are warnings.

Source: ``LogLoader.java``, ``LocalLog.java``, ``LogSegment.changeFileSuffixes``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from kafkalog.formats.layout import NO_LEADER_EPOCH
from kafkalog.log.reading.log_segments import list_first, segments_read
from kafkalog.log.reading.remote_offsets import find_missing_start
from kafkalog.rehearsal.segment_contents import SegmentContents
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.byte_source import read_regular
from kafkalog.storage.checkpoint_file import LEADER_EPOCHS
from kafkalog.storage.file_names import (
    INDEXES,
    FileKind,
    SegmentFile,
    file_name,
    parse_file_names,
    parse_partition_dir,
)
from kafkalog.storage.leftover_names import offset_of, sort_leftovers
from kafkalog.verification.log_checks import (
    Epochs,
    LogFacts,
    all_events,
)
from kafkalog.verification.name_checks import check_file_names
from kafkalog.verification.segment_checks import (
    SegmentResult,
    SegmentTask,
    check_lone_index,
    findings_for,
    lone_log,
)
from kafkalog.verification.sidecar_checks import (
    FORMS,
    NO_EPOCHS,
    check_epochs,
    check_snapshot,
    parsed,
    reading,
)
from kafkalog.verification.transaction_checks import check_transactions, spans_of
from kafkalog.verification.verification_report import (
    Cause,
    Findings,
    Problem,
    as_error,
)

TAILS = (Cause.INCOMPLETE, Cause.PREALLOCATED)
FindingsFor = Callable[[str], Findings]


class ReadSegment(NamedTuple):
    """A segment that was read: its base offset, file, contents and problems."""

    base: int
    log: str
    facts: LogFacts
    problems: list[Problem]


@dataclass(frozen=True, slots=True)
class PartitionContents:
    """The log end offset of a partition, and its segments by base offset."""

    end: int | None = None
    segments: dict[int, SegmentContents] = field(default_factory=dict)


def check_succession(
    segments: Sequence[ReadSegment],
    orphans: Sequence[int],
    findings_for: FindingsFor,
    *,
    is_compacted: bool,
) -> None:
    """Add a problem for each gap between segments, which are in order of base offsets.

    `orphans` are base offsets of indexes without a log, which have problems of their
    own. A problem of the end of a segment becomes an error if offsets are missing after
    it, or if zeros follow its entries.
    """
    compacted = is_compacted or any(
        read_segment.facts.is_compacted for read_segment in segments
    )
    reached = -1
    for segment, following in pairwise(segments):
        _check_zeros(segment)
        reached = max(reached, segment.facts.last_offset)
        first, last = reached + 1, following.base - 1
        if first > last:
            continue
        missing = f"offsets {first} to {last} are missing before the next segment"
        if segment.facts.tail_bytes:
            for i, problem in enumerate(segment.problems):
                if problem.cause in TAILS and problem.position == segment.facts.end:
                    segment.problems[i] = replace(
                        as_error(problem, missing), last_offset=last
                    )
        elif (
            not compacted
            and segment.facts.damaged_at is None
            and not any(first <= base <= last for base in orphans)
        ):
            findings_for(following.log).warn(
                Cause.GAP,
                f"offsets {first} to {last} before this segment are missing, "
                "and there is no sign of compaction",
                offset=first,
                last_offset=last,
            )


def _check_zeros(segment: ReadSegment) -> None:
    """Make zeros at the end of a segment that is not the last an error.

    A broker trims a preallocated segment when it rolls. It sends the bytes of other
    segments as they are, and the size of an entry among them is no size.

    Source: ``ByteBufferLogInputStream.nextBatchSize``.
    """
    for i, problem in enumerate(segment.problems):
        if problem.cause == Cause.PREALLOCATED:
            text = (
                "another segment follows: a broker sends them, and consumers fail there"
            )
            segment.problems[i] = as_error(problem, text)


def check_overlaps(
    read: Sequence[LogSegment], live: Sequence[int], findings_for: FindingsFor
) -> None:
    """Add a problem for each segment that continues past the next one's base offset.

    `read` are the segments that a reader reads, of those at the base offsets `live`. It
    is an error, as a broker returns other records for other fetches: one that begins
    past the next base offset gets those of the old segments, and none of the new one.
    """
    for segment in read:
        first, end = segment.following, segment.most + 1
        if first is None or not segment.covers_others:
            continue
        old = [base for base in live if segment.base_offset < base < end]
        if not old:  # a broker has merged them into this one since they were listed
            continue
        names = file_name(old[0], "log")
        if len(old) > 1:
            names += f" to {file_name(old[-1], 'log')}, {len(old)} segments"
        findings_for(segment.name).add(
            Cause.OFFSET,
            f"it continues to offset {end - 1}, past the base offset of {names}, as in "
            "a copy that has a compacted segment and some that it replaced; it is read "
            "to its end, but a consumer that fetches less at once, or begins within, "
            "gets old records and misses new ones",
            offset=first,
            last_offset=end - 1,
        )


def check_orphans(
    names: dict[str, SegmentFile],
    orphans: Sequence[tuple[str, SegmentFile, bool]],
    log_start_offset: int,
    findings_for: FindingsFor,
) -> None:
    """Add a problem for each index without a log.

    `orphans` are file, parsed name, and whether the index has entries. The first index
    of a segment is an error if the log held records above the log start offset.
    """
    logs = sorted(
        name.base_offset
        for name in names.values()
        if name.kind == "log" and name.suffix is None
    )
    explained = {
        name.base_offset
        for name in names.values()
        if name.kind == "log" and name.suffix is not None
    }
    reported = set()
    for file, name, has_entries in orphans:
        base = name.base_offset
        message = "index without a log: a broker deletes it"
        after = next((log_base for log_base in logs if log_base > base), None)
        held_records = has_entries if after is None else after > log_start_offset
        if base in explained or base in reported or not held_records:
            findings_for(file).warn(Cause.ORPHAN, message, offset=base)
            continue
        reported.add(base)
        findings_for(file).add(
            Cause.ORPHAN,
            f"{file_name(base, 'log')} is missing, with the records from offset {base} "
            f"{'on' if after is None else f'to {after - 1}'}: copy it from another "
            "replica; a broker deletes its indexes and continues without it",
            offset=base,
            last_offset=None if after is None else after - 1,
        )


def check_epoch_entries(
    epochs: Epochs, segments: Sequence[ReadSegment], end: int, findings: Findings
) -> None:
    """Compare the entries of a ``leader-epoch-checkpoint`` with the end of the log.

    An entry may start at the end: the leader of that epoch has not written yet.
    """
    for start, epoch in zip(*(column.tolist() for column in epochs), strict=True):
        if start > end:
            findings.warn(
                Cause.LOG_END,
                f"leader epoch {epoch} starts at offset {start}, but the log ends at "
                f"{end}: a broker removes the entry",
                offset=start,
            )
    with_epochs = [
        segment.facts for segment in segments if segment.facts.first_epoch >= 0
    ]
    if with_epochs and not len(epochs[0]):
        epoch, (_, offset) = with_epochs[0].first_epoch, with_epochs[0].first_epoch_at
        findings.add(
            Cause.LEADER_EPOCH,
            f"0 entries, expected one for leader epoch {epoch}, that of the batches "
            f"from offset {offset} on: followers cannot find the offset at which they "
            "diverge",
            offset=offset,
        )


Names = dict[str, SegmentFile | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Facts about a partition that follow from its log directory.

    `checkpointed_start` is the log start offset in the checkpoint, or None.
    `is_compacted` is whether the cleaner's checkpoint has the partition. `clean` is
    whether the log directory has the clean shutdown marker. `is_metadata` is whether
    the partition is the cluster's metadata.
    """

    checkpointed_start: int | None = None
    is_compacted: bool = False
    clean: bool = False
    is_metadata: bool = False

    @property
    def log_start_offset(self) -> int:
        """The checkpointed log start offset, 0 without one."""
        return self.checkpointed_start or 0


@dataclass(slots=True, kw_only=True)
class PartitionCheck:
    """A check of one partition: `plan` returns tasks, `finish` takes their results."""

    directory: Path
    prefix: str
    names: Names
    surroundings: Surroundings
    problems: list[Problem] = field(default_factory=list)
    epochs: Epochs = NO_EPOCHS
    epochs_are_read: bool = False
    snapshots: dict[int, int] = field(default_factory=dict)
    """Producer ids by the last offset of a batch, from the producer snapshots."""
    orphans: list[tuple[str, SegmentFile, bool]] = field(default_factory=list)
    """Indexes without a log, and whether they have entries."""
    read: dict[int, LogSegment] = field(default_factory=dict)
    """The live segments that a reader reads, by base offset, in order."""

    @classmethod
    def of(
        cls,
        directory: Path,
        prefix: str,
        names: Iterable[str],
        surroundings: Surroundings,
    ) -> PartitionCheck:
        """Return the check of the files `names` of a directory."""
        in_order = sorted(names)
        parsed = parse_file_names(in_order)
        return cls(
            directory=directory,
            prefix=prefix,
            names={name: parsed.get(name) for name in in_order},
            surroundings=surroundings,
        )

    def on_files(self, names: Iterable[str]) -> PartitionCheck:
        """Return a new check of the files that the directory has now."""
        return self.of(self.directory, self.prefix, names, self.surroundings)

    @property
    def end_without_log(self) -> int | None:
        """The log end offset, if there is no segment: a broker begins a new log there.

        None if there is one.
        """
        if self._of_kind("log", (None, "swap")):
            return None
        return self.surroundings.log_start_offset

    @property
    def is_kafkas(self) -> bool:
        """Whether any file is one of Kafka's."""
        kinds = (name or file for file, name in self.names.items())
        return any(
            not isinstance(kind, str) or kind in (LEADER_EPOCHS, *FORMS)
            for kind in kinds
        )

    def plan(self) -> list[SegmentTask]:
        """Check names and small files; return the segments to read."""
        self._check_names()
        self._check_small_files()
        self._check_start()
        live = sorted(
            (name.base_offset, file) for file, name in self._of_kind("log", (None,))
        )
        self.read = {
            segment.base_offset: segment
            for segment in segments_read(self.directory, live)
        }
        tasks = [self._task(*log) for log in self._of_kind("log")]
        tasks += [
            lone_log(self.directory / file, self.prefix)
            for file, _ in self._of_kind("checkpoint")
        ]
        owned = {index for task in tasks for index in task.indexes.values()}
        for file, name in self.names.items():
            if name is not None and name.kind in INDEXES and file not in owned:
                self._check_orphan(file, name)
        check_orphans(
            {file: name for file, name in self.names.items() if name is not None},
            self.orphans,
            self.surroundings.log_start_offset,
            self._findings,
        )
        return tasks

    def _findings(self, file: str) -> Findings:
        """Return findings of a file, which are added to the problems of this check."""
        findings = findings_for(self.prefix, file)
        findings.problems = self.problems
        return findings

    def _check_names(self) -> None:
        metadata = self.surroundings.is_metadata
        for file, reason in check_file_names(self.names, is_metadata=metadata):
            self._findings(file).add(
                Cause.FOREIGN,
                f"{reason}, and a broker does not start with it: move it out of the "
                "partition's directory",
            )
        for file, name in self._of_kind("log", (None,)):
            expected = file_name(name.base_offset, "log")
            if file != expected:
                self._findings(file).add(
                    Cause.FOREIGN,
                    "the offset in the name does not have 20 digits: a broker ignores "
                    f"the file, and opens {expected}, which it creates if needed",
                    offset=name.base_offset,
                )

    def _check_start(self) -> None:
        """Warn of offsets before the first segment, in remote storage or lost."""
        segments = list_first(self.directory)
        start = self.surroundings.checkpointed_start
        missing = find_missing_start(self.directory, segments, start)
        if missing is not None and not self.surroundings.is_metadata:
            is_lost = missing.is_tiered is False
            self._findings(segments[0].name).warn(
                Cause.GAP if is_lost else Cause.TIERED,
                str(missing),
                offset=missing.first_offset,
                last_offset=missing.last_offset,
            )

    def _of_kind(
        self, kind: str, suffixes: tuple[str | None, ...] | None = None
    ) -> list[tuple[str, SegmentFile]]:
        return [
            (file, name)
            for file, name in self.names.items()
            if name is not None
            and name.kind == kind
            and (suffixes is None or name.suffix in suffixes)
        ]

    def _check_small_files(self) -> None:
        for file, name in self.names.items():
            kind = file if name is None else name.kind
            if kind not in (LEADER_EPOCHS, "snapshot", *FORMS):
                continue
            findings = findings_for(self.prefix, file)
            with reading(findings):
                data = read_regular(self.directory / file)
                if kind == LEADER_EPOCHS:
                    self.epochs = check_epochs(data, findings)
                    self.epochs_are_read = not findings.problems
                elif name is not None:
                    producers = check_snapshot(data, name.base_offset, findings)
                    self.snapshots.update({} if name.suffix else producers)
                else:
                    parsed(FORMS[file], data, findings)
            self.problems += findings.problems

    def _task(self, file: str, name: SegmentFile) -> SegmentTask:
        segment = LogSegment(self.directory / file, name.base_offset)
        if name.suffix is None:
            segment = self.read.get(name.base_offset, segment)
        task = SegmentTask(
            directory=self.directory,
            prefix=self.prefix,
            log=file,
            live=name.suffix is None,
            limits=segment.limits,
            # A truncation marks segments deleted, and removes their epochs.
            epochs=NO_EPOCHS if name.suffix == "deleted" else self.epochs,
            snapshots={} if name.suffix else self.snapshots,
            active=name.suffix is None and name.base_offset == max(self.read),
            clean=self.surroundings.clean,
            expires=self._expires and name.suffix in (None, "swap"),
        )
        for kind in INDEXES:
            for index, other in self._of_kind(kind, (name.suffix, "swap")):
                belongs = name.suffix == other.suffix or (
                    name.suffix is None
                    and replace(name, suffix="swap").name not in self.names
                    and replace(other, suffix=None).name not in self.names
                )
                if other.base_offset == name.base_offset and belongs:
                    task.indexes[kind] = index
            if kind not in task.indexes and kind != "txnindex" and not name.suffix:
                self._add_missing(name, kind)
        return task

    @property
    def _expires(self) -> bool:
        """Whether a broker deletes segments by age, as in no marked directory."""
        name = parse_partition_dir(self.directory.absolute().name)
        return name is None or name.state in (None, "future")

    def _add_missing(self, name: SegmentFile, kind: FileKind) -> None:
        file = file_name(name.base_offset, kind)
        findings = findings_for(self.prefix, file)
        action = "creates an empty one" if kind == "timeindex" else "rebuilds it"
        message = f"missing index of a segment: a broker {action}"
        findings.warn(Cause.MISSING, message, offset=name.base_offset)
        self.problems += findings.problems

    def _check_orphan(self, file: str, name: SegmentFile) -> None:
        """Check an index without a log; with a suffix, it is not an orphan."""
        findings = findings_for(self.prefix, file)
        entries = 0
        with reading(findings):
            entries = check_lone_index(self.directory / file, name, findings)
        if name.suffix is None:
            self.orphans.append((file, name, entries > 0))
        self.problems += findings.problems

    def finish(self, results: list[SegmentResult]) -> PartitionContents:
        """Run the checks of several segments; return the partition's contents."""
        live = [
            (result.task, result.facts, result)
            for result in results
            if result.facts is not None and result.task.live
        ]
        live.sort(key=lambda item: item[0].limits.least)
        segments = [
            ReadSegment(task.limits.least, task.log, facts, result.problems)
            for task, facts, result in live
        ]
        check_overlaps(
            list(self.read.values()),
            [segment.base for segment in segments],
            self._findings,
        )
        self._check_swaps(results)
        orphans = [name.base_offset for _, name, _ in self.orphans]
        compacted = self.surroundings.is_compacted
        check_succession(segments, orphans, self._findings, is_compacted=compacted)
        for result in results:
            self.problems += result.problems
        # No reader uses a segment that an earlier one covers.
        read = [each for each in live if each[0].limits.least in self.read]
        self._check_epochs_across([(task, facts) for task, facts, _ in read])
        self._check_transactions(read)
        if not live:
            return PartitionContents()
        end = max(facts.last_offset for _, facts, _ in read) + 1
        self._check_later_snapshots(end)
        if LEADER_EPOCHS in self.names and self.epochs_are_read:
            findings = self._findings(LEADER_EPOCHS)
            check_epoch_entries(self.epochs, segments, end, findings)
        contents = {
            segment.base: SegmentContents(
                segment.facts.records, segment.facts.last_offset + 1
            )
            for segment in segments
        }
        return PartitionContents(end, contents)

    def _check_swaps(self, results: Sequence[SegmentResult]) -> None:
        """Warn of each ``.swap`` that replaces segments."""
        place = parse_partition_dir(self.directory.absolute().name)
        if place is None or place.state == "delete":
            return
        found = {result.task.log: result.facts for result in results}
        names = (file for file, name in self.names.items() if name is not None)
        for file in sort_leftovers(names).swapped_logs:
            facts, base = found.get(file), offset_of(file)
            if facts is None:
                continue
            until = max(facts.last_offset, base)
            self._findings(file).warn(
                Cause.SWAP,
                f"compaction or a split was interrupted: {facts.records} records from "
                f"offset {base} to {until} are in this file, which is read in place of "
                "the segments that it replaces, and gets its name when a broker starts",
                offset=base,
                last_offset=until,
            )

    def _check_transactions(
        self, live: list[tuple[SegmentTask, LogFacts, SegmentResult]]
    ) -> None:
        events = all_events([facts for _, facts, _ in live])
        spans = spans_of(events)
        for task, facts, result in live:
            file = task.indexes.get(
                "txnindex", file_name(task.limits.least, "txnindex")
            )
            events = all_events([facts])
            if facts.damaged_at is None and (len(events) or result.txn_index):
                findings = self._findings(file)
                check_transactions(result.txn_index, events, spans, findings)

    def _check_epochs_across(self, logs: list[tuple[SegmentTask, LogFacts]]) -> None:
        latest = NO_LEADER_EPOCH
        for task, facts in logs:
            if facts.first_epoch != NO_LEADER_EPOCH and facts.first_epoch < latest:
                position, offset = facts.first_epoch_at
                findings = findings_for(self.prefix, task.log)
                message = "its leader epoch is below that of the segment before it"
                findings.add(
                    Cause.LEADER_EPOCH, message, position=position, offset=offset
                )
                self.problems += findings.problems
            latest = max(latest, facts.last_epoch)

    def _check_later_snapshots(self, end: int) -> None:
        for file, name in self._of_kind("snapshot", (None,)):
            if name.base_offset > end:
                findings = findings_for(self.prefix, file)
                message = f"the log ends at {end}: a broker deletes this snapshot"
                findings.warn(Cause.LOG_END, message, offset=end)
                self.problems += findings.problems
