"""Verify what lies under a path: every file of Kafka's, every batch, every record.

Nothing is written. A live broker's directory may be verified: checkpoints are read
before indexes and indexes before logs, so what is appended meanwhile is not missed, and
what is deleted meanwhile is passed over.

Knows: what lies where. Does not know: what is asked of it, how findings are shown.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Final

from kafkalog.files.checkpoint_file import LEADER_EPOCHS
from kafkalog.files.naming import (
    CLEAN_SHUTDOWN,
    SegmentFile,
    parse_file_name,
    parse_partition_dir,
)
from kafkalog.files.reading import read_plain
from kafkalog.formats.layout import MAX_BATCH_BYTES
from kafkalog.indexes.table import base_offset_of
from kafkalog.manager.log_directory import (
    is_partition,
    list_partitions,
    places_under,
)
from kafkalog.manager.recovery_outlook import foresee
from kafkalog.manager.report import Findings, Problem, Report
from kafkalog.manager.verify_log import Advance
from kafkalog.manager.verify_partition import (
    INDEXES,
    PartitionCheck,
    SegmentResult,
    SegmentTask,
    check_lone_index,
    check_segment,
    findings_for,
    lone_log,
)
from kafkalog.manager.verify_sidecars import (
    CHECKPOINTS,
    FORMS,
    Offsets,
    check_epochs,
    check_log_ends,
    check_offsets,
    check_snapshot,
    parsed,
    reading,
)

BOOTSTRAP: Final = "bootstrap.checkpoint"
REMOTE_CACHE: Final = "remote-log-index-cache"
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
        If `path` is a directory that holds nothing of Kafka's.
    OSError
        If `path` is not there, or something under it may not be read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     log = Path(directory, "00000000000000000000.log")
    ...     _ = log.write_bytes(bytes(4096))
    ...     report = verify(log)
    >>> report.is_sound, report.problems[0].cause
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


def sum_up(reports: Sequence[tuple[Path, Report]]) -> Report:
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
    ends: dict[str, int | None] = field(default_factory=dict)
    _done: int = 0
    _lock: Lock = field(default_factory=Lock)

    def report(self, where: Path) -> Report:
        """Sum up; to what was found, what a broker would do about it is added."""
        told = foresee(self.problems, where, self.ends)
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
            if not self._is_wanted(*places_under(where)[0]):
                return
            check = PartitionCheck.of(where, "", self._list(where, ""))
            self._run([check], run)
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
        checks = [
            PartitionCheck.of(where / child.name, f"{child.name}/", found)
            for name, child in list_partitions(where, marked=True)
            if self._is_wanted(name.topic, name.partition)
            for found in [self._list(where / child.name, f"{child.name}/")]
        ]
        if BOOTSTRAP in names:
            self._lone(where / BOOTSTRAP)
        self._remote_cache(where)
        clean = CLEAN_SHUTDOWN in names
        self._check_ends(offsets, self._run(checks, run), clean=clean)

    def _is_wanted(self, topic: str, partition: int) -> bool:
        return (not self.topics or topic in self.topics) and (
            not self.partitions or partition in self.partitions
        )

    def _run(self, checks: list[PartitionCheck], run: Map) -> dict[str, int | None]:
        """Read the logs of all partitions; answer where each ends."""
        plans = [check.plan() for check in checks]
        results = iter(run(self._check_log, [task for plan in plans for task in plan]))
        for check, plan in zip(checks, plans, strict=True):
            self.ends[check.directory.name] = check.finish(
                self._take(next(results) for _ in plan)
            )
            self.problems += check.problems
        return self.ends

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
        cache = where / REMOTE_CACHE
        if not cache.is_dir():
            return
        for file in self._list(cache, f"{REMOTE_CACHE}/"):
            kind = file.rsplit(".", 1)[-1]
            if kind not in INDEXES:
                continue
            findings = Findings(f"{REMOTE_CACHE}/{file}")
            with suppress(ValueError), reading(findings):
                name = SegmentFile(base_offset_of(file), kind)
                check_lone_index(cache / file, name, findings)
            self.problems += findings.problems

    def _check_ends(
        self, offsets: dict[str, Offsets], ends: dict[str, int | None], *, clean: bool
    ) -> None:
        known = {}
        for directory, end in ends.items():
            name = parse_partition_dir(directory)
            if name is not None and name.state is None and end is not None:
                known[name.topic, name.partition] = end
        found: list[Findings] = []

        def findings_of(name: str) -> Findings:
            found.append(Findings(name))
            return found[-1]

        check_log_ends(offsets, known, findings_of, clean=clean)
        for findings in found:
            self.problems += findings.problems

    def _lone(self, path: Path) -> None:
        for result in self._take([self._check_log(lone_log(path))]):
            self.problems += result.problems

    def lone_file(self, path: Path) -> None:
        """Check one file by itself."""
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
        self.problems += findings.problems
