"""Verification of everything under a path: every file of Kafka's, batch and record.

Nothing is written. The directory of a running broker may be verified. No order of
reading is safe then: an index that is read before its log lacks what was appended in
between, and one that is read after it has more. So every file with a problem is read a
second time, with the files it depends on, and only problems found by both readings are
reported. Files deleted meanwhile are ignored.

A broker writes an abort marker before its entry in the transaction index, and both
readings may fall between the two. The second reading therefore waits for the time of a
write.

Knows: the layout of log directories. Does not know: the checks, how a report is shown.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Final

from kafkalog.errors import KafkaLogError, NotALogDirectoryError
from kafkalog.formats.layout import MAX_BATCH_BYTES
from kafkalog.indexes.index_table import base_offset_of
from kafkalog.log.cluster_metadata import METADATA_PARTITION
from kafkalog.manager.found_logs import REMOTE_INDEXES
from kafkalog.storage.byte_source import read_plain
from kafkalog.storage.checkpoint_file import (
    CLEANED_TO,
    LEADER_EPOCHS,
    LOG_STARTS,
    known_offsets,
    read_offsets,
)
from kafkalog.storage.file_names import (
    CLEAN_SHUTDOWN,
    LOCK,
    METADATA_TOPIC,
    PARTITION_METADATA,
    PartitionDir,
    SegmentFile,
    parse_file_name,
    parse_partition_dir,
)
from kafkalog.storage.log_directory import (
    ROOT_FILES,
    is_partition,
    list_partitions,
    places_under,
)
from kafkalog.verification.log_checks import Advance
from kafkalog.verification.name_checks import (
    check_directories,
    check_topic_id,
    topic_ids,
)
from kafkalog.verification.partition_checks import PartitionCheck, Surroundings
from kafkalog.verification.recovery_effects import PartitionContents
from kafkalog.verification.recovery_outlook import foresee
from kafkalog.verification.segment_checks import (
    INDEXES,
    SegmentResult,
    SegmentTask,
    check_lone_index,
    check_segment,
    findings_for,
    lone_log,
)
from kafkalog.verification.sidecar_checks import (
    CHECKPOINTS,
    FORMS,
    Offsets,
    check_epochs,
    check_log_end,
    check_offsets,
    check_snapshot,
    parsed,
    reading,
)
from kafkalog.verification.verification_report import Cause, Findings, Problem, Report

BOOTSTRAP: Final = "bootstrap.checkpoint"
SUFFIXES: Final = (".deleted", ".cleaned", ".swap", ".part", ".tmp")

Progress = Callable[[int, int], None]
"""Is told of bytes done, and of bytes there are."""


def verify(
    path: str | os.PathLike[str],
    *,
    topics: Collection[str] = (),
    partitions: Collection[int] = (),
    max_batch_bytes: int = MAX_BATCH_BYTES,
    threads: int = 1,
    progress: Progress | None = None,
) -> Report:
    """Look at everything under `path`, and report what is wrong with it.

    Parameters
    ----------
    path : path
        A log directory, a partition's directory, or one file of one.
    topics, partitions : collection of str, of int
        Of partitions look at those only, where any are named; a log directory's own
        files are looked at all the same.
    max_batch_bytes : int
        How much a batch may take, unpacked; one that exceeds it is a warning.
    threads : int
        How many segments are read at a time.
    progress : callable, optional
        Called with the bytes done and the bytes there are.

    Returns
    -------
    Report
        Counts, and problems in the order of their paths and positions.

    Raises
    ------
    NotALogDirectoryError
        If `path` is a file that is none of Kafka's, or a directory that holds none.
    OSError
        If `path` is not there, or something under it may not be read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     log = Path(directory, "00000000000000000000.log")
    ...     _ = log.write_bytes(bytes(4096))
    ...     report = verify(log)
    >>> report.ok, report.problems[0].cause
    (True, <Cause.PREALLOCATED: 'preallocated'>)
    """
    where = Path(path)
    check = Verification(
        topics=topics,
        partitions=partitions,
        max_batch_bytes=max_batch_bytes,
        progress=progress,
    )
    if not stat.S_ISDIR(where.stat().st_mode):
        check.lone_file(where)
    elif threads == 1:
        check.directory(where, map)
    else:
        with ThreadPoolExecutor(threads) as pool:
            check.directory(where, pool.map)
    report = check.report(where)
    if progress is not None:
        progress(report.bytes, report.bytes)
    return report


def combine_reports(reports: Sequence[tuple[Path, Report]]) -> Report:
    """Make one report of several, each of a path.

    Counts add up; a problem's path begins with the one it was found under, as given.
    """
    problems = [
        replace(found, path=str(where / found.path if where.is_dir() else where))
        for where, report in reports
        for found in report.problems
    ]
    return Report(
        files=sum(report.files for _, report in reports),
        bytes=sum(report.bytes for _, report in reports),
        batches=sum(report.batches for _, report in reports),
        records=sum(report.records for _, report in reports),
        problems=tuple(problems),
    )


Map = Callable[
    [Callable[[SegmentTask], SegmentResult], Iterable[SegmentTask]],
    Iterator[SegmentResult],
]


@dataclass(slots=True, kw_only=True)
class Verification:
    """One run of `verify`: what was counted and found so far."""

    topics: Collection[str]
    partitions: Collection[int]
    max_batch_bytes: int
    progress: Progress | None
    sizes: dict[str, int] = field(default_factory=dict)
    batches: int = 0
    records: int = 0
    problems: list[Problem] = field(default_factory=list)
    contents: dict[str, PartitionContents] = field(default_factory=dict)
    _done: int = 0
    _lock: Lock = field(default_factory=Lock)

    def report(self, where: Path) -> Report:
        """Sum up; to what was found, what a broker would do about it is added."""
        told = foresee(self.problems, where, self.contents)
        return Report(
            files=len(self.sizes),
            bytes=sum(self.sizes.values()),
            batches=self.batches,
            records=self.records,
            problems=tuple(sorted(told, key=lambda found: found.order)),
        )

    def directory(self, where: Path, run: Map) -> None:
        """Check a partition's directory, or a log directory with all in it."""
        if is_partition(where):
            self._partition(where, run)
            return
        names = self._list(where, "")
        offsets = {
            name: check_offsets(data, findings)
            for name in CHECKPOINTS
            for data, findings in self._small(where, name, names)
        }
        for name in FORMS:
            for data, findings in self._small(where, name, names):
                parsed(FORMS[name], data, findings)
        clean = CLEAN_SHUTDOWN in names
        checks = [
            PartitionCheck.of(where / child.name, prefix, found, around)
            for name, child in list_partitions(where, marked=True)
            if self._is_wanted(name.topic, name.partition)
            for prefix in [f"{child.name}/"]
            for found in [self._list(where / child.name, prefix)]
            for around in [surroundings(name, offsets, clean=clean)]
        ]
        is_kafkas = ROOT_FILES.intersection(names) or self.topics or self.partitions
        if not is_kafkas and not any(check.is_kafkas for check in checks):
            raise NotALogDirectoryError(f"none of Kafka's files: {where}")
        findings = Findings("")
        check_directories(where, findings)
        self.problems += findings.problems
        if BOOTSTRAP in names:
            self._lone(where / BOOTSTRAP)
        self._remote_cache(where)
        self._run(checks, run)
        self._check_ends(where, offsets, checks, clean=clean)
        self._check_topic_ids(where, checks)

    def _partition(self, where: Path, run: Map) -> None:
        """Check a partition's directory by itself, with what lies beside it."""
        if not self._is_wanted(*places_under(where)[0]):
            return
        root, name = where.absolute().parent, parse_partition_dir(where.absolute().name)
        offsets: dict[str, Offsets] = {}
        for file in (LOG_STARTS, CLEANED_TO):
            with suppress(OSError):
                offsets[file] = known_offsets(root, file)
        clean = (root / CLEAN_SHUTDOWN).exists()
        around = surroundings(name, offsets, clean=clean)
        check = PartitionCheck.of(where, "", self._list(where, ""), around)
        if not check.is_kafkas:
            raise NotALogDirectoryError(f"none of Kafka's files: {where}")
        self._run([check], run)

    def _is_wanted(self, topic: str, partition: int) -> bool:
        return (not self.topics or topic in self.topics) and (
            not self.partitions or partition in self.partitions
        )

    def _run(self, checks: list[PartitionCheck], run: Map) -> None:
        """Read the logs of all partitions; keep what each holds, and what is wrong."""
        plans = [check.plan() for check in checks]
        results = iter(run(self._check_log, [task for plan in plans for task in plan]))
        for check, plan in zip(checks, plans, strict=True):
            taken = self._take(next(results) for _ in plan)
            self.contents[check.directory.name] = check.finish(taken)
            if check.problems:
                self.problems += settled(check, taken, self._check_log_again)

    def _check_log_again(self, task: SegmentTask) -> SegmentResult:
        return check_segment(
            task, max_batch_bytes=self.max_batch_bytes, advance=lambda _: None
        )

    def _take(self, results: Iterable[SegmentResult]) -> list[SegmentResult]:
        taken = list(results)
        for facts in (one.facts for one in taken if one.facts is not None):
            self.batches += facts.batches
            self.records += facts.records
        return taken

    def _check_log(self, task: SegmentTask) -> SegmentResult:
        return check_segment(
            task, max_batch_bytes=self.max_batch_bytes, advance=self._advancing()
        )

    def _advancing(self) -> Advance:
        """Make what is told how far one log is read, and tells of all of them."""
        told = 0

        def advance(position: int) -> None:
            nonlocal told
            if self.progress is None:
                return
            with self._lock:
                self._done += position - told
                told = position
                self.progress(self._done, sum(self.sizes.values()))

        return advance

    def _list(self, directory: Path, prefix: str) -> list[str]:
        """List the files of a directory, and count them."""
        names = []
        for entry in os.scandir(directory):
            with suppress(FileNotFoundError):
                if entry.is_file(follow_symlinks=False):
                    self.sizes[prefix + entry.name] = entry.stat().st_size
                    names.append(entry.name)
        return names

    def _small(
        self, directory: Path, name: str, names: list[str]
    ) -> Iterator[tuple[bytes, Findings]]:
        """Read a small file, if it is there; what is found of it is kept."""
        if name in names:
            findings = Findings(name)
            with reading(findings):
                yield read_plain(directory / name), findings
            self.problems += findings.problems

    def _remote_cache(self, where: Path) -> None:
        """Check the indexes that tiered storage has fetched, each by itself."""
        cache = where / REMOTE_INDEXES
        if not cache.is_dir():
            return
        for file in self._list(cache, f"{REMOTE_INDEXES}/"):
            kind = file.rsplit(".", 1)[-1]
            if kind not in INDEXES:
                continue
            findings = Findings(f"{REMOTE_INDEXES}/{file}")
            with suppress(ValueError), reading(findings):
                name = SegmentFile(base_offset_of(file), kind)
                check_lone_index(cache / file, name, findings)
            self.problems += findings.problems

    def _check_ends(
        self,
        where: Path,
        offsets: dict[str, Offsets],
        checks: list[PartitionCheck],
        *,
        clean: bool,
    ) -> None:
        """Hold the offset checkpoints to where the logs end; if need be, read again."""
        for check in checks:
            name = parse_partition_dir(check.directory.name)
            end = self.contents[check.directory.name].end
            if name is None or name.state is not None or end is None:
                continue
            key = name.topic, name.partition
            for file in CHECKPOINTS:
                offset = offsets.get(file, {}).get(key)
                if offset is None:
                    continue
                found = Findings(file)
                check_log_end(name.name, offset, end, found, clean=clean)
                if not found.problems:
                    continue
                found = Findings(file)
                with suppress(KafkaLogError, OSError):
                    offset = read_offsets(where, file).get(key)
                    now = log_end(check, self._check_log_again)
                    if offset is not None and now is not None:
                        check_log_end(name.name, offset, now, found, clean=clean)
                self.problems += found.problems

    def _check_topic_ids(self, where: Path, checks: list[PartitionCheck]) -> None:
        """Hold topic ids to the cluster's metadata, if it lies there and is whole."""
        metadata = where / METADATA_PARTITION
        if not metadata.is_dir() or (ids := topic_ids(metadata)) is None:
            return
        for check in checks:
            if not (found := self._topic_id(check, ids)):
                continue
            ids = topic_ids(metadata) or ids
            if check.directory.exists():
                found = self._topic_id(check, ids)
                self.problems += found

    def _topic_id(self, check: PartitionCheck, ids: dict[str, str]) -> list[Problem]:
        name = parse_partition_dir(check.directory.name)
        if name is None or name.state is not None or name.topic == METADATA_TOPIC:
            return []
        held = self.contents[check.directory.name].segments.values()
        findings = Findings(f"{check.prefix}{PARTITION_METADATA}")
        has_records = any(one.records for one in held)
        check_topic_id(check.directory, name, ids, findings, has_records=has_records)
        return findings.problems

    def _lone(self, path: Path) -> None:
        for result in self._take([self._check_log(lone_log(path))]):
            self.problems += result.problems

    def lone_file(self, path: Path) -> None:
        """Check one file by itself; raises where it is none of Kafka's."""
        if not self._is_wanted(*places_under(path)[0]):
            return
        self.sizes[path.name] = path.stat().st_size
        bare = path.name
        for suffix in SUFFIXES:
            bare = bare.removesuffix(suffix)
        kind = bare.rsplit(".", 1)[-1]
        findings = findings_for("", path.name)
        name = parse_file_name(path.name)
        if kind in ("log", "checkpoint"):
            self._lone(path)
        elif kind in INDEXES:
            name = name or SegmentFile(base_offset_of(path), kind)
            check_lone_index(path, name, findings)
        elif kind == "snapshot":
            offset = None if name is None else name.base_offset
            check_snapshot(read_plain(path, links=True), offset, findings)
        elif bare in CHECKPOINTS:
            check_offsets(read_plain(path, links=True), findings)
        elif bare == LEADER_EPOCHS:
            check_epochs(read_plain(path, links=True), findings)
        elif bare in FORMS:
            parsed(FORMS[bare], read_plain(path, links=True), findings)
        elif bare not in (LOCK, CLEAN_SHUTDOWN):  # these say something by being there
            raise NotALogDirectoryError(f"not a file of Kafka's: {path}")
        self.problems += findings.problems


def surroundings(
    name: PartitionDir | None, offsets: dict[str, Offsets], *, clean: bool
) -> Surroundings:
    """Return what a log directory's checkpoints and marker say of a partition."""
    if name is None:
        return Surroundings()
    key = name.topic, name.partition
    raft = name.topic == METADATA_TOPIC
    return Surroundings(
        log_start_offset=offsets.get(LOG_STARTS, {}).get(key, 0),
        is_compacted=key in offsets.get(CLEANED_TO, {}),
        clean=clean and not raft,
        is_metadata=raft,
    )


WRITE_SECONDS: Final = 0.02
CheckLog = Callable[[SegmentTask], SegmentResult]


def file_names(directory: Path) -> list[str]:
    """List the files in a directory, no links, and none that goes meanwhile."""
    names = []
    for entry in os.scandir(directory):
        with suppress(FileNotFoundError):
            if entry.is_file(follow_symlinks=False):
                names.append(entry.name)
    return names


def settled(
    check: PartitionCheck, results: list[SegmentResult], check_log: CheckLog
) -> list[Problem]:
    """Return what a second reading of a partition finds, too.

    Of segments without a finding the first reading, `results`, is taken.
    """
    read = (parse_file_name(Path(one.path).name) for one in check.problems)
    suspects = {name.base_offset for name in read if name is not None}
    known = {
        one.task.log: one
        for one in results
        if one.task.limits.least not in suspects and not one.problems
    }
    lacks_entry = any(one.cause == Cause.TXN_INDEX for one in check.problems)
    if lacks_entry and not check.around.clean:
        time.sleep(WRITE_SECONDS)
    try:
        names = file_names(check.directory)
    except FileNotFoundError:
        return []
    again = PartitionCheck.of(check.directory, check.prefix, names, check.around)
    again.finish([known.get(task.log) or check_log(task) for task in again.plan()])
    found = set(map(_place, check.problems))
    return [one for one in again.problems if _place(one) in found]


def log_end(check: PartitionCheck, check_log: CheckLog) -> int | None:
    """Return where a partition's log ends now; None where it has none any more."""
    with suppress(FileNotFoundError):
        names = file_names(check.directory)
        again = PartitionCheck.of(check.directory, check.prefix, names, check.around)
        active = [task for task in again.plan() if task.active]
        for result in map(check_log, active):
            if result.facts is not None:
                return result.facts.last_offset + 1
    return None


def _place(problem: Problem) -> tuple[str, int | None, int | None, Cause]:
    return problem.path, problem.position, problem.offset, problem.cause
