"""Checks of one partition's directory: its segments, and the files beside them.

Every ``.log`` is read with the indexes that belong to it, by name and suffix. Then the
checks that need several segments follow:

    succession     a segment begins where the one before it ends. A gap between two is
                   reported only where nothing shows compaction, which makes such gaps
    tail           a segment before the last ends within an entry, and the next one does
                   not follow: those records are lost
    orphan         an index without a log: a broker that deletes a segment renames the
                   log before its indexes, so no deletion leaves one
    leader epochs  they do not fall from one segment to the next
    transactions   they may span segments, and transaction indexes agree with them

Files with the suffix ``.deleted`` or ``.swap`` are complete and are checked like live
ones; ``.cleaned`` and ``.part`` are incomplete, so their problems are warnings.

Knows: one directory, its names. Does not know: other partitions.
Source: ``LogLoader.java``, ``LocalLog.java``, ``LogSegment.changeFileSuffixes``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from kafkalog.formats.layout import NO_LEADER_EPOCH
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.byte_source import read_plain
from kafkalog.storage.checkpoint_file import LEADER_EPOCHS
from kafkalog.storage.file_names import (
    MAX_OFFSET,
    FileKind,
    SegmentFile,
    file_name,
    parse_file_names,
)
from kafkalog.verification.log_checks import (
    Epochs,
    LogFacts,
    all_events,
)
from kafkalog.verification.name_checks import check_file_names
from kafkalog.verification.recovery_effects import PartitionContents, SegmentContents
from kafkalog.verification.segment_checks import (
    INDEXES,
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
from kafkalog.verification.verification_report import Cause, Findings, Problem, Severity

TAILS = (Cause.INCOMPLETE, Cause.PREALLOCATED)
FindingsFor = Callable[[str], Findings]


class ReadSegment(NamedTuple):
    """A segment that was read: its base offset, file, contents and problems."""

    base: int
    log: str
    facts: LogFacts
    problems: list[Problem]


def check_succession(
    segments: Sequence[ReadSegment],
    orphans: Sequence[int],
    findings_for: FindingsFor,
    *,
    is_compacted: bool,
) -> None:
    """Note where the segments, by rising base, do not follow one another.

    `orphans` are base offsets of indexes without a log, of which notice is taken
    elsewhere. Problems at the end of a segment that costs offsets become errors.
    """
    compacted = is_compacted or any(one.facts.is_compacted for one in segments)
    for one, following in pairwise(segments):
        first, last = one.facts.last_offset + 1, following.base - 1
        if first > last:
            continue
        where = f"offsets {first} to {last} are missing before the next segment"
        if one.facts.tail_bytes:
            for i, found in enumerate(one.problems):
                if found.cause in TAILS and found.position == one.facts.end:
                    one.problems[i] = replace(
                        found,
                        severity=Severity.ERROR,
                        message=f"{found.message}; {where}",
                        last_offset=last,
                    )
        elif (
            not compacted
            and one.facts.damaged_at is None
            and not any(first <= base <= last for base in orphans)
        ):
            findings_for(following.log).warn(
                Cause.GAP,
                f"offsets {first} to {last} before this segment are in none, "
                "and nothing shows that they were compacted",
                offset=first,
                last_offset=last,
            )


def check_orphans(
    names: dict[str, SegmentFile],
    orphans: Sequence[tuple[str, SegmentFile, bool]],
    log_start_offset: int,
    findings_for: FindingsFor,
) -> None:
    """Note indexes without a log: file, name, and whether there are entries in it.

    The first of a segment's is an error, if the log held records above the log start.
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
        message = "there is no log that it belongs to: a broker deletes it"
        after = next((one for one in logs if one > base), None)
        held_records = has_entries if after is None else after > log_start_offset
        if base in explained or base in reported or not held_records:
            findings_for(file).warn(Cause.ORPHAN, message, offset=base)
            continue
        reported.add(base)
        findings_for(file).add(
            Cause.ORPHAN,
            f"{file_name(base, 'log')} is missing, with the records from offset {base} "
            f"{'on' if after is None else f'to {after - 1}'}: copy it from another "
            "replica; a broker deletes its indexes and goes on without it",
            offset=base,
            last_offset=None if after is None else after - 1,
        )


def check_epoch_entries(
    epochs: Epochs, segments: Sequence[ReadSegment], end: int, findings: Findings
) -> None:
    """Hold the entries of a ``leader-epoch-checkpoint`` to where the log ends.

    One may start at the end: that of a leader that has written nothing yet.
    """
    for start, epoch in zip(*(column.tolist() for column in epochs), strict=True):
        if start > end:
            findings.warn(
                Cause.LOG_END,
                f"leader epoch {epoch} starts at offset {start}, but the log ends at "
                f"{end}: a broker removes the entry",
                offset=start,
            )
    given = [one.facts for one in segments if one.facts.first_epoch >= 0]
    if given and not len(epochs[0]):
        epoch, (_, offset) = given[0].first_epoch, given[0].first_epoch_at
        findings.add(
            Cause.LEADER_EPOCH,
            f"it has no entry, though batches from offset {offset} on have leader "
            f"epochs from {epoch} on: followers cannot find where they differ",
            offset=offset,
        )


Names = dict[str, SegmentFile | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a log directory says of a partition.

    Where its log starts, whether a cleaner has compacted it, whether the log directory
    was closed in order, and whether it is the cluster's metadata.
    """

    log_start_offset: int = 0
    is_compacted: bool = False
    clean: bool = False
    is_metadata: bool = False


@dataclass(slots=True, kw_only=True)
class PartitionCheck:
    """One directory: `plan` lists the logs to read, `finish` takes what they hold."""

    directory: Path
    prefix: str
    names: Names
    around: Surroundings
    problems: list[Problem] = field(default_factory=list)
    epochs: Epochs = NO_EPOCHS
    epochs_are_read: bool = False
    snapshots: dict[int, int] = field(default_factory=dict)
    """Producers, by the last offset of a batch of theirs."""
    orphans: list[tuple[str, SegmentFile, bool]] = field(default_factory=list)
    """Indexes without a log, and whether they have entries."""

    @classmethod
    def of(
        cls,
        directory: Path,
        prefix: str,
        names: Iterable[str],
        around: Surroundings,
    ) -> PartitionCheck:
        """Make ready to check the files `names` of a directory."""
        in_order = sorted(names)
        parsed = parse_file_names(in_order)
        known: Names = {name: parsed.get(name) for name in in_order}
        return cls(directory=directory, prefix=prefix, names=known, around=around)

    @property
    def is_kafkas(self) -> bool:
        """Whether any file is one of Kafka's."""
        kinds = (name or file for file, name in self.names.items())
        return any(
            not isinstance(kind, str) or kind in (LEADER_EPOCHS, *FORMS)
            for kind in kinds
        )

    def plan(self) -> list[SegmentTask]:
        """Check the small files, and list what is to be read."""
        self._check_names()
        self._check_small_files()
        plain = [name.base_offset for _, name in self._of_kind("log", (None,))]
        tasks = [self._task(*log, plain) for log in self._of_kind("log")]
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
            self.around.log_start_offset,
            self._noted,
        )
        return tasks

    def _noted(self, file: str) -> Findings:
        """Make the list for a file's problems, whose content is this check's own."""
        found = findings_for(self.prefix, file)
        found.problems = self.problems
        return found

    def _check_names(self) -> None:
        metadata = self.around.is_metadata
        for file, reason in check_file_names(self.names, is_metadata=metadata):
            self._noted(file).add(
                Cause.FOREIGN,
                f"{reason}, and a broker does not start with it: move it out of the "
                "partition's directory",
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
                data = read_plain(self.directory / file)
                if kind == LEADER_EPOCHS:
                    self.epochs = check_epochs(data, findings)
                    self.epochs_are_read = not findings.problems
                elif name is not None:
                    told = check_snapshot(data, name.base_offset, findings)
                    self.snapshots.update({} if name.suffix else told)
                else:
                    parsed(FORMS[file], data, findings)
            self.problems += findings.problems

    def _task(self, file: str, name: SegmentFile, plain: list[int]) -> SegmentTask:
        most = MAX_OFFSET
        if name.suffix is None:
            most = min((b - 1 for b in plain if b > name.base_offset), default=most)
        segment = LogSegment(self.directory / file, name.base_offset, most)
        task = SegmentTask(
            directory=self.directory,
            prefix=self.prefix,
            log=file,
            plain=name.suffix is None,
            limits=segment.limits,
            epochs=self.epochs,
            snapshots={} if name.suffix else self.snapshots,
            active=name.suffix is None and name.base_offset == max(plain),
            clean=self.around.clean,
        )
        for kind in INDEXES:
            for index, other in self._of_kind(kind, (name.suffix, "swap")):
                taken = name.suffix == other.suffix or (
                    name.suffix is None
                    and replace(name, suffix="swap").name not in self.names
                    and replace(other, suffix=None).name not in self.names
                )
                if other.base_offset == name.base_offset and taken:
                    task.indexes[kind] = index
            if kind not in task.indexes and kind != "txnindex" and not name.suffix:
                self._missing(name, kind)
        return task

    def _missing(self, name: SegmentFile, kind: FileKind) -> None:
        file = file_name(name.base_offset, kind)
        findings = findings_for(self.prefix, file)
        made = "an empty one" if kind == "timeindex" else "it anew"
        message = f"the segment has no such index: a broker makes {made}"
        findings.warn(Cause.MISSING, message, offset=name.base_offset)
        self.problems += findings.problems

    def _check_orphan(self, file: str, name: SegmentFile) -> None:
        """Check an index by itself; that it has no log counts, unless it is to go."""
        findings = findings_for(self.prefix, file)
        entries = 0
        with reading(findings):
            entries = check_lone_index(self.directory / file, name, findings)
        if name.suffix is None:
            self.orphans.append((file, name, entries > 0))
        self.problems += findings.problems

    def finish(self, results: list[SegmentResult]) -> PartitionContents:
        """Check what takes all segments; return what the partition holds."""
        read = [(one.task, one.facts, one) for one in results if one.facts is not None]
        plain = [one for one in read if one[0].plain]
        plain.sort(key=lambda one: one[0].limits.least)
        segments = [
            ReadSegment(task.limits.least, task.log, facts, result.problems)
            for task, facts, result in plain
        ]
        orphans = [name.base_offset for _, name, _ in self.orphans]
        compacted = self.around.is_compacted
        check_succession(segments, orphans, self._noted, is_compacted=compacted)
        for result in results:
            self.problems += result.problems
        self._check_epochs_across([(task, facts) for task, facts, _ in plain])
        self._check_transactions(plain)
        if not plain:
            return PartitionContents()
        end = plain[-1][1].last_offset + 1
        self._check_snapshots_behind(end)
        if LEADER_EPOCHS in self.names and self.epochs_are_read:
            findings = self._noted(LEADER_EPOCHS)
            check_epoch_entries(self.epochs, segments, end, findings)
        held = {
            one.base: SegmentContents(one.facts.records, one.facts.last_offset + 1)
            for one in segments
        }
        return PartitionContents(end, held)

    def _check_transactions(
        self, plain: list[tuple[SegmentTask, LogFacts, SegmentResult]]
    ) -> None:
        events = all_events([facts for _, facts, _ in plain])
        spans = spans_of(events)
        for task, facts, result in plain:
            file = task.indexes.get(
                "txnindex", file_name(task.limits.least, "txnindex")
            )
            events = all_events([facts])
            if facts.damaged_at is None and (len(events) or result.txn_index):
                findings = self._noted(file)
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

    def _check_snapshots_behind(self, end: int) -> None:
        for file, name in self._of_kind("snapshot", (None,)):
            if name.base_offset > end:
                findings = findings_for(self.prefix, file)
                message = f"the log ends at {end}: a broker deletes this snapshot"
                findings.warn(Cause.LOG_END, message, offset=end)
                self.problems += findings.problems
