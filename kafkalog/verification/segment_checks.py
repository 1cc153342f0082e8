"""Checks of one segment: its ``.log``, and the indexes that belong to it.

Source: ``LogSegment.java``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from kafkalog.formats.control_keys import ControlRecordType
from kafkalog.formats.layout import MAX_FILE_BYTES
from kafkalog.indexes.offset_index import OffsetIndex
from kafkalog.indexes.time_index import TimeIndex, last_slot_timestamp
from kafkalog.indexes.txn_index import TransactionIndex
from kafkalog.progress import Advance
from kafkalog.segment.entry_order import Limits
from kafkalog.segment.log_segment import LogSegment
from kafkalog.segment.segment_files import oversize
from kafkalog.storage.byte_source import FileSource
from kafkalog.storage.file_names import INDEXES, SegmentFile, parse_file_name
from kafkalog.verification.index_checks import (
    OffsetIndexCheck,
    SnapshotCheck,
    TimeIndexCheck,
    read_index,
)
from kafkalog.verification.log_checks import (
    Epochs,
    LogCheck,
    LogFacts,
    Observer,
)
from kafkalog.verification.sidecar_checks import NO_EPOCHS, reading
from kafkalog.verification.verification_report import Cause, Findings, Problem

HALF_WRITTEN: Final = ("cleaned", "part")


@dataclass(slots=True, kw_only=True)
class SegmentTask:
    """A log to read, and the file names of its indexes by kind.

    `expires` is whether a broker deletes segments of the partition by age.
    """

    directory: Path
    prefix: str
    log: str
    live: bool = False
    limits: Limits
    epochs: Epochs
    snapshots: dict[int, int] = field(default_factory=dict)
    active: bool = False
    clean: bool = False
    expires: bool = False
    raft: bool = False
    indexes: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class SegmentResult:
    """The result of a task; `facts` is None if the log was deleted meanwhile."""

    task: SegmentTask
    facts: LogFacts | None
    problems: list[Problem]
    txn_index: TransactionIndex | None = None


def findings_for(prefix: str, name: str) -> Findings:
    """Return an empty list of problems for one file.

    A broker renames and removes the files of a deleted segment one by one, and may have
    truncated them before. So an index may be left of another state than its log.
    """
    parts = name.rsplit(".", 1)
    is_deleted_index = name.endswith(tuple(f".{kind}.deleted" for kind in INDEXES))
    lenient = parts[-1] in HALF_WRITTEN or is_deleted_index
    return Findings(prefix + name, lenient=lenient)


def lone_log(path: Path, prefix: str = "") -> SegmentTask:
    """Return the task of a log that is checked without its indexes.

    Offsets in a KRaft snapshot begin at 0, and its epoch is in its name.
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


def check_lone_index(path: Path, name: SegmentFile, findings: Findings) -> int:
    """Check an index without its log; return the number of its entries."""
    base = name.base_offset
    if name.kind == "index":
        return len(read_index(OffsetIndex, path, base, findings)[0])
    if name.kind == "timeindex":
        return len(read_index(TimeIndex, path, base, findings)[0])
    return len(read_index(TransactionIndex, path, base, findings)[0])


def check_segment(
    task: SegmentTask, *, max_batch_bytes: int, advance: Advance
) -> SegmentResult:
    """Check a log and its indexes, which are read first: the log may grow meanwhile."""
    result = SegmentResult(task=task, facts=None, problems=[])
    all_findings = [findings_for(task.prefix, task.log)]
    producers = np.array(sorted(task.snapshots.items()), np.int64).reshape(-1, 2)
    offsets, producer_ids = producers.T.copy()
    observers: list[Observer] = [SnapshotCheck(offsets, producer_ids, all_findings[0])]
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
                grows = active and not task.clean
                reads = task.expires and not grows
                loaded = last_slot_timestamp(path) if reads else None
                observers.append(TimeIndexCheck(time_index, findings, loaded))
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
        if (message := oversize(source.size)) and not task.raft:
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
    """Check that a metadata snapshot has a header and a footer."""
    if facts.first_type != ControlRecordType.SNAPSHOT_HEADER:
        message = "first record, expected a snapshot header"
        findings.warn(Cause.INCOMPLETE, message, position=0)
    if facts.last_type != ControlRecordType.SNAPSHOT_FOOTER:
        message = "last record, expected a snapshot footer"
        findings.warn(Cause.INCOMPLETE, message, position=facts.end)
