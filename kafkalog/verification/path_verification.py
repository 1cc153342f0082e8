"""Verification of everything under a path: every file of Kafka's, batch and record.

Nothing is written. The directory of a running broker may be verified. No order of
reading is safe then: an index that is read before its log lacks what was appended in
between, and one that is read after it has more. So every file with a problem is read a
second time, with the files it depends on, and only problems found by both readings are
reported. Files deleted meanwhile are ignored.

A broker writes an abort marker before its entry in the transaction index, and both
readings may fall between the two. The second reading therefore waits for the time of a
write.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Final

from kafkalog.config import BrokerConfig
from kafkalog.errors import KafkaLogError, NotALogDirectoryError
from kafkalog.formats.layout import MAX_BATCH_BYTES
from kafkalog.indexes.index_table import base_offset_of
from kafkalog.log.reading.cluster_metadata import METADATA_PARTITION, ClusterSettings
from kafkalog.manager.identity import read_identity
from kafkalog.parallel import Map, mapping
from kafkalog.progress import Advance, Progress, note_begun
from kafkalog.storage.byte_source import read_regular
from kafkalog.storage.checkpoint_file import (
    CHECKPOINTS,
    CLEANED_TO,
    LEADER_EPOCHS,
    LOG_STARTS,
    read_offsets,
    read_offsets_or_none,
)
from kafkalog.storage.file_names import (
    BOOTSTRAP,
    CLEAN_SHUTDOWN,
    INDEXES,
    LOCK,
    META_PROPERTIES,
    METADATA_TOPIC,
    PARTITION_METADATA,
    PartitionDir,
    SegmentFile,
    parse_file_name,
    parse_partition_dir,
)
from kafkalog.storage.location import is_directory, is_file, local_path
from kafkalog.storage.log_directory import (
    EVERY_PARTITION,
    LINKED_FILE,
    REMOTE_INDEXES,
    ROOT_FILES,
    Numbers,
    PartitionSelection,
    Topics,
    is_loaded_name,
    is_partition,
    list_partitions,
    partitions_under,
)
from kafkalog.verification.name_checks import (
    check_directories,
    check_directory_id,
    check_topic_id,
    cluster_topics,
)
from kafkalog.verification.partition_checks import (
    PartitionCheck,
    PartitionContents,
    Surroundings,
)
from kafkalog.verification.recovery_outlook import add_recovery
from kafkalog.verification.segment_checks import (
    SegmentResult,
    SegmentTask,
    check_lone_index,
    check_segment,
    findings_for,
    lone_log,
)
from kafkalog.verification.sidecar_checks import (
    FORMS,
    Offsets,
    check_epochs,
    check_log_end,
    check_offsets,
    check_snapshot,
    parsed,
    reading,
)
from kafkalog.verification.translated_files import name_translated
from kafkalog.verification.verification_report import Cause, Findings, Problem, Report

SUFFIXES: Final = (".deleted", ".cleaned", ".swap", ".part", ".tmp")


def verify(
    path: str | os.PathLike[str],
    *,
    topics: Topics = None,
    exclude_topics: Topics = None,
    partitions: Numbers = None,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    broker: BrokerConfig | None = None,
    threads: int = 1,
    progress: Progress | None = None,
) -> Report:
    """Verify everything under `path`: every file, batch and record.

    Nothing is written. The directory of a running broker may be verified.

    Parameters
    ----------
    path : path
        A log directory, a partition's directory, or one file of a partition.
    topics, exclude_topics : str or iterable of str, optional
        Only these topics, and not these; ``*``, ``?`` and ``[...]`` match as in a
        shell.
    partitions : int or iterable of int, optional
        Only partitions with these numbers. The other files of a log directory
        are verified in any case.
    max_batch_bytes : int
        Maximum decompressed size of a batch. A larger one is a warning.
    broker : BrokerConfig, optional
        The settings in the broker's ``server.properties``, for the prediction of its
        actions; by default Kafka's. Settings of topics are those in the cluster's
        metadata, if it is in the log directory.
    threads : int
        Number of segments read at the same time. The threads end with the call.
    progress : callable, optional
        Called with the bytes verified so far, and the bytes of all files.

    Returns
    -------
    Report
        Counts, and problems ordered by path and position.

    Raises
    ------
    NotALogDirectoryError
        If `path` is not a file of Kafka's, or a directory without any.
    LogArgumentError
        If `path` is a URL other than a ``file:`` URL.
    OSError
        If `path` does not exist, or no topic or partition is as selected, or if a file
        may not be read.

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
    where = local_path(path)
    selection = PartitionSelection.of(topics, partitions, exclude_topics)
    if where.exists():
        selection.check([where])
    return verify_selected(
        where,
        selection,
        max_batch_bytes=max_batch_bytes,
        broker=broker,
        threads=threads,
        progress=progress,
    )


def verify_selected(
    where: Path,
    selection: PartitionSelection,
    *,
    max_batch_bytes: int,
    broker: BrokerConfig | None,
    threads: int,
    progress: Progress | None,
) -> Report:
    """Verify what is selected of everything under a path; this may be nothing."""
    check = Verification(
        selection=selection,
        max_batch_bytes=max_batch_bytes,
        progress=progress,
        broker=broker,
    )
    if not stat.S_ISDIR(where.stat().st_mode):
        check.lone_file(where)
    else:
        with mapping(threads, "verify") as run:
            check.directory(where, run)
    report = check.report(where)
    if progress is not None:
        progress(report.bytes, report.bytes)
    return report


def verify_locked(directory: Path, *, links: bool = False, threads: int = 1) -> Report:
    """Verify a directory that no other process changes: no file is read twice.

    With `links`, files that are symbolic links are verified, too.
    """
    check = Verification(
        selection=EVERY_PARTITION,
        max_batch_bytes=MAX_BATCH_BYTES,
        progress=None,
        links=links,
        is_locked=True,
    )
    with mapping(threads, "verify") as run:
        check.directory(directory, run)
    return check.report(directory)


def combine_reports(reports: Sequence[tuple[Path, Report]]) -> Report:
    """Return one report for several paths: the sums of counts, and all problems.

    The path of a problem begins with the verified path.
    """
    problems = [
        replace(problem, path=str(where / problem.path if where.is_dir() else where))
        for where, report in reports
        for problem in report.problems
    ]
    return Report(
        files=sum(report.files for _, report in reports),
        bytes=sum(report.bytes for _, report in reports),
        batches=sum(report.batches for _, report in reports),
        records=sum(report.records for _, report in reports),
        problems=tuple(problems),
    )


@dataclass(slots=True, kw_only=True)
class Verification:
    """One run of `verify`: the counts and problems so far.

    With `links`, files that are symbolic links are verified, too. If the directory
    `is_locked`, no other process changes it, and problems are found once only.
    """

    selection: PartitionSelection
    max_batch_bytes: int
    progress: Progress | None
    broker: BrokerConfig | None = None
    links: bool = False
    is_locked: bool = False
    sizes: dict[str, int] = field(default_factory=dict)
    batches: int = 0
    records: int = 0
    problems: list[Problem] = field(default_factory=list)
    contents: dict[str, PartitionContents] = field(default_factory=dict)
    _node_id: int | None = None
    _done: int = 0
    _lock: Lock = field(default_factory=Lock)

    def report(self, where: Path) -> Report:
        """Return the report, with the action of a broker for each problem."""
        problems = add_recovery(
            name_translated(self.problems, where), where, self.broker
        )
        return Report(
            files=len(self.sizes),
            bytes=sum(self.sizes.values()),
            batches=self.batches,
            records=self.records,
            problems=tuple(sorted(problems, key=lambda problem: problem.order)),
        )

    def directory(self, where: Path, run: Map) -> None:
        """Check a partition's directory, or a log directory and its partitions."""
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
            PartitionCheck.of(where / child.name, prefix, files, surroundings)
            for name, child in list_partitions(where, marked=True)
            if self.selection.has(name.topic, name.partition)
            for prefix in [f"{child.name}/"]
            for files in [self._list(where / child.name, prefix)]
            for surroundings in [surroundings_of(name, offsets, clean=clean)]
        ]
        is_kafkas = bool(ROOT_FILES.intersection(names))
        is_kafkas |= self.selection != EVERY_PARTITION
        if not is_kafkas and not any(check.is_kafkas for check in checks):
            raise NotALogDirectoryError(f"no files of Kafka's: {where}")
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
        """Check a partition's directory, with the checkpoints in its parent."""
        if not self.selection.has(*partitions_under(where)[0]):
            return
        root, name = where.absolute().parent, parse_partition_dir(where.absolute().name)
        offsets: dict[str, Offsets] = {}
        for file in (LOG_STARTS, CLEANED_TO):
            with suppress(OSError):
                offsets[file] = read_offsets_or_none(root, file)
        clean = is_file(root / CLEAN_SHUTDOWN)
        surroundings = surroundings_of(name, offsets, clean=clean)
        check = PartitionCheck.of(where, "", self._list(where, ""), surroundings)
        if not (check.is_kafkas or self.problems):
            raise NotALogDirectoryError(f"no files of Kafka's: {where}")
        self._run([check], run)

    def _run(self, checks: list[PartitionCheck], run: Map) -> None:
        """Read the logs of all partitions; store their contents and their problems."""
        plans = [check.plan() for check in checks]
        results = iter(run(self._check_log, [task for plan in plans for task in plan]))
        for check, plan in zip(checks, plans, strict=True):
            taken = self._take(next(results) for _ in plan)
            self.contents[check.directory.name] = check.finish(taken)
            if self.is_locked:
                self.problems += check.problems
            elif check.problems:
                self.problems += confirmed_problems(
                    check, taken, self._check_log_again, links=self.links
                )

    def _check_log_again(self, task: SegmentTask) -> SegmentResult:
        return check_segment(
            task, max_batch_bytes=self.max_batch_bytes, advance=lambda _: None
        )

    def _take(self, results: Iterable[SegmentResult]) -> list[SegmentResult]:
        taken = list(results)
        for result in taken:
            if result.facts is not None:
                self.batches += result.facts.batches
                self.records += result.facts.records
        return taken

    def _check_log(self, task: SegmentTask) -> SegmentResult:
        note_begun(task.directory / task.log)
        return check_segment(
            task, max_batch_bytes=self.max_batch_bytes, advance=self._advancing()
        )

    def _advancing(self) -> Advance:
        """Return a callback for the progress of one log, which reports that of all."""
        last = 0

        def advance(position: int) -> None:
            nonlocal last
            if self.progress is None:
                return
            with self._lock:
                self._done += position - last
                last = position
                self.progress(self._done, sum(self.sizes.values()))

        return advance

    def _list(self, directory: Path, prefix: str) -> list[str]:
        """List the files of a directory, and count them."""
        names = []
        for entry in os.scandir(directory):
            with suppress(FileNotFoundError):
                if entry.is_file(follow_symlinks=self.links):
                    self.sizes[prefix + entry.name] = entry.stat().st_size
                    names.append(entry.name)
                elif is_loaded_name(entry.name) and Path(entry.path).is_file():
                    findings = Findings(prefix + entry.name)
                    findings.add(Cause.FOREIGN, LINKED_FILE)
                    self.problems += findings.problems
        return names

    def _small(
        self, directory: Path, name: str, names: list[str]
    ) -> Iterator[tuple[bytes, Findings]]:
        """Yield a small file's content and findings, if it exists; add its problems."""
        if name in names:
            findings = Findings(name)
            with reading(findings):
                yield read_regular(directory / name), findings
            self.problems += findings.problems

    def _remote_cache(self, where: Path) -> None:
        """Check the indexes in the cache of tiered storage, each without its log."""
        cache = where / REMOTE_INDEXES
        if not is_directory(cache):
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
        """Compare offset checkpoints with log end offsets, twice if they differ."""
        for check in checks:
            name = parse_partition_dir(check.directory.name)
            end = self.contents[check.directory.name].end
            if end is None:
                end = check.end_without_log
            if name is None or name.state is not None or end is None:
                continue
            key = name.topic, name.partition
            for file in CHECKPOINTS:
                offset = offsets.get(file, {}).get(key)
                if offset is None:
                    continue
                findings = Findings(file)
                check_log_end(key, offset, end, findings, clean=clean)
                if not findings.problems:
                    continue
                findings = Findings(file)
                with suppress(KafkaLogError, OSError):
                    offset = read_offsets(where, file).get(key)
                    now = log_end(check, self._check_log_again)
                    if offset is not None and now is not None:
                        check_log_end(key, offset, now, findings, clean=clean)
                self.problems += findings.problems

    def _check_topic_ids(self, where: Path, checks: list[PartitionCheck]) -> None:
        """Compare topic ids with the cluster's metadata, if it is here and valid."""
        metadata = where / METADATA_PARTITION
        if not is_directory(metadata):
            return
        if (cluster := cluster_topics(metadata)) is None:
            return
        with suppress(KafkaLogError, OSError):
            identity = read_identity(where)
            if identity is not None:
                self._node_id = identity.node_id
                findings = Findings(META_PROPERTIES)
                check_directory_id(identity, cluster, findings)
                self.problems += findings.problems
        for check in checks:
            if not (problems := self._topic_id(check, cluster)):
                continue
            cluster = cluster_topics(metadata) or cluster
            if check.directory.exists():
                problems = self._topic_id(check, cluster)
                self.problems += problems

    def _topic_id(
        self, check: PartitionCheck, cluster: ClusterSettings
    ) -> list[Problem]:
        name = parse_partition_dir(check.directory.name)
        if name is None or name.state is not None or name.topic == METADATA_TOPIC:
            return []
        segments = self.contents[check.directory.name].segments.values()
        findings = Findings(f"{check.prefix}{PARTITION_METADATA}")
        has_records = any(segment.records for segment in segments)
        check_topic_id(
            check.directory,
            name,
            cluster,
            self._node_id,
            findings,
            has_records=has_records,
        )
        return findings.problems

    def _lone(self, path: Path) -> None:
        for result in self._take([self._check_log(lone_log(path))]):
            self.problems += result.problems

    def lone_file(self, path: Path) -> None:
        """Check one file; raise `NotALogDirectoryError` if it is not Kafka's."""
        if not self.selection.has(*partitions_under(path)[0]):
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
            check_snapshot(read_regular(path, links=True), offset, findings)
        elif bare in CHECKPOINTS:
            check_offsets(read_regular(path, links=True), findings)
        elif bare == LEADER_EPOCHS:
            check_epochs(read_regular(path, links=True), findings)
        elif bare in FORMS:
            parsed(FORMS[bare], read_regular(path, links=True), findings)
        elif bare not in (LOCK, CLEAN_SHUTDOWN):  # only their presence matters
            raise NotALogDirectoryError(f"not a file of Kafka's: {path}")
        self.problems += findings.problems


def surroundings_of(
    name: PartitionDir | None, offsets: dict[str, Offsets], *, clean: bool
) -> Surroundings:
    """Return the facts in a log directory's checkpoints and marker on a partition."""
    if name is None:
        return Surroundings()
    key = name.topic, name.partition
    raft = name.topic == METADATA_TOPIC
    return Surroundings(
        checkpointed_start=offsets.get(LOG_STARTS, {}).get(key),
        is_compacted=key in offsets.get(CLEANED_TO, {}),
        clean=clean and not raft,
        is_metadata=raft,
    )


WRITE_SECONDS: Final = 0.02
CheckLog = Callable[[SegmentTask], SegmentResult]


def file_names(directory: Path, *, links: bool = False) -> list[str]:
    """Return the regular files in a directory, without those removed meanwhile.

    With `links`, symbolic links to files are returned as well.
    """
    names = []
    for entry in os.scandir(directory):
        with suppress(FileNotFoundError):
            if entry.is_file(follow_symlinks=links):
                names.append(entry.name)
    return names


def confirmed_problems(
    check: PartitionCheck,
    results: list[SegmentResult],
    check_log: CheckLog,
    *,
    links: bool = False,
) -> list[Problem]:
    """Return the problems of a partition that a second reading finds, too.

    Segments without a problem are not read again: `results` has their first reading.
    """
    names_read = (
        parse_file_name(Path(first_problem.path).name)
        for first_problem in check.problems
    )
    suspects = {name.base_offset for name in names_read if name is not None}
    known = {
        result.task.log: result
        for result in results
        if result.task.limits.least not in suspects and not result.problems
    }
    may_be_written = any(
        first_problem.cause == Cause.TXN_INDEX for first_problem in check.problems
    )
    if may_be_written and not check.surroundings.clean:
        time.sleep(WRITE_SECONDS)
    try:
        names = file_names(check.directory, links=links)
    except FileNotFoundError:
        return []
    second = check.on_files(names)
    second.finish([known.get(task.log) or check_log(task) for task in second.plan()])
    first_problems = set(map(_identity, check.problems))
    return [
        problem for problem in second.problems if _identity(problem) in first_problems
    ]


def log_end(check: PartitionCheck, check_log: CheckLog) -> int | None:
    """Return the log end offset of a partition now; None if it was removed."""
    with suppress(FileNotFoundError):
        second = check.on_files(file_names(check.directory))
        active = [task for task in second.plan() if task.active]
        for result in map(check_log, active):
            if result.facts is not None:
                return result.facts.last_offset + 1
        return second.end_without_log
    return None


def _identity(problem: Problem) -> tuple[str, int | None, int | None, Cause]:
    return problem.path, problem.position, problem.offset, problem.cause
