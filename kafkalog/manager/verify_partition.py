"""Checks of one partition's directory: its segments, and what lies beside them.

Every ``.log`` is read with the indexes that belong to it, by name and mark; then what
takes more than one segment is asked: that leader epochs do not fall from one to the
next, and that transaction indexes agree with transactions, which may span segments.

Files that are marked ``.deleted`` or ``.swap`` are whole and are held to the same;
``.cleaned`` and ``.part`` are being written, so what is wrong there is a warning.

Knows: one directory, its names. Does not know: other partitions.
Source: ``LogLoader.java``, ``LocalLog.java``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np

from kafkalog.files.checkpoint_file import LEADER_EPOCHS
from kafkalog.files.naming import (
    MAX_OFFSET,
    FileKind,
    SegmentFile,
    file_name,
    parse_file_name,
    parse_file_names,
)
from kafkalog.files.reading import FileSource, read_plain
from kafkalog.formats.control import ControlRecordType
from kafkalog.formats.layout import MAX_FILE_BYTES, NO_LEADER_EPOCH
from kafkalog.indexes.offset_index import OffsetIndex
from kafkalog.indexes.time_index import TimeIndex
from kafkalog.indexes.txn_index import TransactionIndex
from kafkalog.manager.report import Cause, Findings, Problem
from kafkalog.manager.verify_indexes import (
    OffsetIndexCheck,
    SnapshotCheck,
    TimeIndexCheck,
    read_index,
)
from kafkalog.manager.verify_log import (
    Advance,
    Epochs,
    LogCheck,
    LogFacts,
    Observer,
    all_events,
)
from kafkalog.manager.verify_sidecars import (
    FORMS,
    NO_EPOCHS,
    check_epochs,
    check_snapshot,
    parsed,
    reading,
)
from kafkalog.manager.verify_transactions import check_transactions, spans_of
from kafkalog.segment.log_segment import LogSegment
from kafkalog.segment.strays import Limits

HALF_WRITTEN: Final = ("cleaned", "part")
INDEXES: Final[tuple[FileKind, ...]] = ("index", "timeindex", "txnindex")

Names = dict[str, SegmentFile | None]


@dataclass(slots=True, kw_only=True)
class SegmentTask:
    """One log to be read, and the indexes beside it (file names, by kind)."""

    directory: Path
    prefix: str
    log: str
    plain: bool = False
    limits: Limits
    epochs: Epochs
    snapshots: dict[int, int] = field(default_factory=dict)
    active: bool = False
    raft: bool = False
    indexes: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class SegmentResult:
    """What came of a task; `facts` is None where the log was gone when asked for."""

    task: SegmentTask
    facts: LogFacts | None
    problems: list[Problem]
    txn_index: TransactionIndex | None = None


def findings_for(prefix: str, name: str) -> Findings:
    """Make the list for one file's problems."""
    parts = name.rsplit(".", 1)
    return Findings(prefix + name, lenient=parts[-1] in HALF_WRITTEN)


@dataclass(slots=True, kw_only=True)
class PartitionCheck:
    """One directory: `plan` lists the logs to read, `finish` takes what they hold."""

    directory: Path
    prefix: str
    names: Names
    problems: list[Problem] = field(default_factory=list)
    epochs: Epochs = NO_EPOCHS
    snapshots: dict[int, int] = field(default_factory=dict)
    """Producers, by the last offset of a batch of theirs."""

    @classmethod
    def of(cls, directory: Path, prefix: str, names: Iterable[str]) -> PartitionCheck:
        """Make ready to check the files `names` of a directory."""
        in_order = sorted(names)
        parsed = parse_file_names(in_order)
        known: Names = {name: parsed.get(name) for name in in_order}
        return cls(directory=directory, prefix=prefix, names=known)

    def plan(self) -> list[SegmentTask]:
        """Check the small files, and list what is to be read."""
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
        return tasks

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
        """Check an index by itself; say that it has no log, unless it is to go."""
        findings = findings_for(self.prefix, file)
        if name.suffix is None:
            message = "there is no log that it belongs to: a broker deletes it"
            findings.warn(Cause.ORPHAN, message, offset=name.base_offset)
        with reading(findings):
            check_lone_index(self.directory / file, name, findings)
        self.problems += findings.problems

    def finish(self, results: list[SegmentResult]) -> int | None:
        """Ask what takes all segments; answer where the log ends, if there is one."""
        for result in results:
            self.problems += result.problems
        read = [(one.task, one.facts, one) for one in results if one.facts is not None]
        plain = [one for one in read if one[0].plain]
        plain.sort(key=lambda one: one[0].limits.least)
        self._check_epochs_across([(task, facts) for task, facts, _ in plain])
        events = all_events([facts for _, facts, _ in plain])
        spans = spans_of(events)
        for task, facts, result in plain:
            file = task.indexes.get(
                "txnindex", file_name(task.limits.least, "txnindex")
            )
            findings = findings_for(self.prefix, file)
            events = all_events([facts])
            if facts.damaged_at is None and (len(events) or result.txn_index):
                check_transactions(result.txn_index, events, spans, findings)
            self.problems += findings.problems
        if not plain:
            return None
        end = plain[-1][1].last_offset + 1
        self._check_snapshots_behind(end)
        return end

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


def lone_log(path: Path, prefix: str = "") -> SegmentTask:
    """Make the task of a log that is looked at without neighbours and indexes.

    Offsets in a KRaft checkpoint begin at 0, and its epoch is in its name.
    """
    name = parse_file_name(path.name)
    raft = ".checkpoint" in path.suffixes
    epoch = None if name is None else name.epoch
    known = (np.zeros(1, np.int64), np.array([epoch])) if epoch is not None else None
    return SegmentTask(
        directory=path.parent,
        prefix=prefix,
        log=path.name,
        limits=Limits() if raft else LogSegment.of(path).limits,
        epochs=known or NO_EPOCHS,
        raft=raft,
    )


def check_lone_index(path: Path, name: SegmentFile, findings: Findings) -> None:
    """Check an index by itself, without its log."""
    if name.kind == "index":
        read_index(OffsetIndex, path, name.base_offset, findings)
    elif name.kind == "timeindex":
        read_index(TimeIndex, path, name.base_offset, findings)
    else:
        read_index(TransactionIndex, path, name.base_offset, findings)


def check_segment(
    task: SegmentTask, *, max_batch_bytes: int, advance: Advance
) -> SegmentResult:
    """Read one log with its indexes: these first, for a log may grow meanwhile."""
    result = SegmentResult(task=task, facts=None, problems=[])
    all_findings = [findings_for(task.prefix, task.log)]
    told = np.array(sorted(task.snapshots.items()), np.int64).reshape(-1, 2)
    snapshots = SnapshotCheck(told[:, 0].copy(), told[:, 1].copy(), all_findings[0])
    observers: list[Observer] = [snapshots]
    for kind, file in task.indexes.items():
        findings = findings_for(task.prefix, file)
        all_findings.append(findings)
        path, base, active = task.directory / file, task.limits.least, task.active
        with reading(findings):
            if kind == "index":
                offset_index, _ = read_index(
                    OffsetIndex, path, base, findings, active=active
                )
                observers.append(OffsetIndexCheck(offset_index, findings))
            elif kind == "timeindex":
                time_index, _ = read_index(
                    TimeIndex, path, base, findings, active=active
                )
                observers.append(TimeIndexCheck(time_index, findings))
            else:
                result.txn_index, _ = read_index(TransactionIndex, path, base, findings)
    with reading(all_findings[0]):
        result.facts = _read_log(
            task, all_findings[0], observers, max_batch_bytes, advance
        )
    for findings in all_findings:
        result.problems += findings.problems
    return result


def _read_log(
    task: SegmentTask,
    findings: Findings,
    observers: list[Observer],
    max_batch_bytes: int,
    advance: Advance,
) -> LogFacts:
    with FileSource(task.directory / task.log) as source:
        if source.size > MAX_FILE_BYTES and not task.raft:
            message = f"{source.size} bytes are more than a segment can have"
            findings.add(Cause.SEGMENT_SIZE, message, position=MAX_FILE_BYTES)
        facts = LogCheck(
            source=source,
            findings=findings,
            limits=task.limits,
            epochs=task.epochs,
            observers=observers,
            max_batch_bytes=max_batch_bytes,
            advance=advance,
        ).run()
    if task.raft:
        _check_bounds(facts, findings)
    return facts


def _check_bounds(facts: LogFacts, findings: Findings) -> None:
    """Ask for the header and the footer of a metadata snapshot."""
    if facts.first_type != ControlRecordType.SNAPSHOT_HEADER:
        findings.warn(Cause.INCOMPLETE, "it does not begin with a header", position=0)
    if facts.last_type != ControlRecordType.SNAPSHOT_FOOTER:
        message = "it does not end with a footer"
        findings.warn(Cause.INCOMPLETE, message, position=facts.end)
