"""`repair`: repair of a log directory's files, without or with a loss of data.

1. `verify` finds the problems.
2. Each partition with problems is repaired in a temporary directory, and the result
   is verified there.
3. The offset checkpoints are rewritten for the log ends that result.
4. With ``apply``, the originals are kept, and the files are replaced.

Source: ``LogManager.scala``, ``LogLoader.java``, ``OffsetCheckpointFile.java``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from kafkalog.errors import LogArgumentError
from kafkalog.formats.checkpoint import format_offsets, salvage_offsets
from kafkalog.log.ownership import ALL_LOGS, own_directory
from kafkalog.log.reading.log_segments import list_first
from kafkalog.log.topic_settings import TopicSettings
from kafkalog.rehearsal.log_rehearsal import CheckpointedOffsets
from kafkalog.repairs.id_repair import find_id_changes
from kafkalog.repairs.partition_repair import (
    FileChange,
    PartitionDamage,
    is_far,
    repair_partition,
)
from kafkalog.repairs.repair_backup import RepairBackup
from kafkalog.repairs.repair_report import RepairAction, RepairKind, RepairReport
from kafkalog.reports import counted
from kafkalog.storage.byte_source import read_regular
from kafkalog.storage.checkpoint_file import (
    CHECKPOINTS,
    CLEANED_TO,
    LOG_STARTS,
    RECOVERY_POINTS,
    Offsets,
)
from kafkalog.storage.durable_file import DISK, UNSYNCED, Disk
from kafkalog.storage.file_names import PartitionDir, parse_partition_dir
from kafkalog.storage.location import AnyPath, local_path
from kafkalog.storage.log_directory import is_partition
from kafkalog.verification.path_verification import verify, verify_locked
from kafkalog.verification.verification_report import (
    Cause,
    Problem,
    Recovery,
    Report,
    Severity,
)


def repair(
    path: AnyPath,
    *,
    apply: bool = False,
    allow_data_loss: bool = False,
    undo: bool = False,
    backup: AnyPath | None = None,
    threads: int = 1,
) -> RepairReport:
    """Repair the files of a log directory, or return what a repair would change.

    By default nothing is changed. A file is only replaced if the result, which was
    verified, has fewer errors.

    Parameters
    ----------
    path : path
        A log directory, or a partition's directory. No broker may be running on it.
    apply : bool
        Whether to change the files. The originals are kept in a directory
        ``.kafkalog-repair-<time>`` next to the log directory.
    allow_data_loss : bool
        Whether damaged parts of a log may be taken out.
    undo : bool
        Whether to restore the originals of the last repair.
    backup : path, optional
        The directory for the originals; by default the parent of the log directory.
    threads : int
        Number of segments that are verified at the same time.

    Returns
    -------
    RepairReport
        The changes, what they lose, and the errors that are left.

    Raises
    ------
    FileNotFoundError
        If `path` does not exist, or if there is no repair to undo.
    NotALogDirectoryError
        If `path` has no files of Kafka's.
    LogArgumentError
        If `undo` is combined with another option, or if `backup` is in the log
        directory: a broker would not start with it.
    LogLockedError
        If a broker, or kafkalog, has the log directory open for writing.
    LogStateError
        If a file was changed after the repair that is to be undone.
    DiskSpaceError
        If there is not enough free space for the originals and the changed files. No
        file is changed.

    Examples
    --------
    >>> import tempfile, kafkalog
    >>> with tempfile.TemporaryDirectory() as root:
    ...     with kafkalog.open(f"{root}/logs/orders-0", "a") as log:
    ...         _ = log.append_records({"value": [b"one", b"two"]})
    ...     index = Path(f"{root}/logs/orders-0/00000000000000000000.timeindex")
    ...     _ = index.write_bytes(b"damaged")
    ...     plan = kafkalog.repair(f"{root}/logs")
    ...     done = kafkalog.repair(f"{root}/logs", apply=True)
    ...     kafkalog.verify(f"{root}/logs").ok
    True
    >>> plan
    <RepairReport: 1 change planned: 1 rebuild>
    >>> done
    <RepairReport: 1 change made: 1 rebuild>
    """
    if undo and (apply or allow_data_loss):
        raise LogArgumentError("undo together with apply, expected one of them")
    where = local_path(path).absolute()
    place = None if backup is None else local_path(backup).absolute()
    task = DirectoryRepair(where, place, threads)
    if undo:
        return task.undo()
    return task.apply(allow_data_loss) if apply else task.plan(allow_data_loss)


@dataclass(slots=True)
class _Plan:
    """Changes to make, changes that would lose data, and errors that are left."""

    changes: list[FileChange] = field(default_factory=list)
    losing: list[FileChange] = field(default_factory=list)
    unrepaired: list[Problem] = field(default_factory=list)
    left_to_broker: list[Problem] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


class DirectoryRepair:
    """A repair of a log directory, or of one partition of it.

    `disk` makes all changes.
    """

    def __init__(
        self, where: Path, backup: Path | None, threads: int, disk: Disk = DISK
    ) -> None:
        self._is_partition = is_partition(where)
        self._where = where
        self._root = (where.parent if self._is_partition else where).resolve()
        self._backup = self._root.parent if backup is None else backup.resolve()
        if self._backup.is_relative_to(self._root):
            raise LogArgumentError(
                f"originals in the log directory, expected another place: {backup}"
            )
        self._threads = threads
        self._disk = disk

    def plan(self, allow_data_loss: bool) -> RepairReport:
        """Return what `apply` would change."""
        with TemporaryDirectory(prefix="kafkalog-repair-") as place:
            report = verify(self._where, threads=self._threads)
            plan = self._make_plan(report, Path(place).resolve(), allow_data_loss)
            planned = self._report(plan, [*plan.changes, *plan.losing])
            return self._unchanged(planned, report, plan)

    def apply(self, allow_data_loss: bool) -> RepairReport:
        """Change the files, and keep the originals."""
        owned = own_directory(self._root, ALL_LOGS, self._disk)
        try:
            self._finish_interrupted()
            with TemporaryDirectory(prefix="kafkalog-repair-") as place:
                found = verify_locked(self._where, threads=self._threads)
                plan = self._make_plan(found, Path(place).resolve(), allow_data_loss)
                report = self._report(plan, plan.changes, plan.losing)
                if not plan.changes:
                    return self._unchanged(report, found, plan)
                kept = RepairBackup.create(
                    self._backup, self._root, plan.changes, self._disk
                )
                try:
                    kept.apply()
                except BaseException as error:
                    error.add_note("Restore the originals: kafkalog repair PATH --undo")
                    raise
            return replace(report, applied=True, backup=str(kept.directory))
        finally:
            owned.release(ALL_LOGS, in_order=True)

    def undo(self) -> RepairReport:
        """Restore the originals of the last repair."""
        owned = own_directory(self._root, ALL_LOGS, self._disk)
        try:
            kept = self._newest_backup()
            if kept is None:
                raise FileNotFoundError(
                    2, "No repair to undo", str(self._backup / ".kafkalog-repair-*")
                )
            actions = kept.actions
            kept.undo()
        finally:
            owned.release(ALL_LOGS, in_order=True)
        return RepairReport(
            applied=True,
            undone=True,
            actions=tuple(self._located(action) for action in actions),
        )

    def _newest_backup(self) -> RepairBackup | None:
        linked = self._where.name if self._is_partition else None
        return RepairBackup.newest(self._backup, self._root, self._disk, linked)

    def _finish_interrupted(self) -> None:
        """Undo a repair that was interrupted before all files were changed."""
        kept = self._newest_backup()
        if kept is not None and not kept.is_complete:
            kept.undo()

    def _report(
        self, plan: _Plan, changes: list[FileChange], skipped: Sequence[FileChange] = ()
    ) -> RepairReport:
        return RepairReport(
            actions=tuple(self._located(each.action) for each in changes),
            skipped=tuple(self._located(each.action) for each in skipped),
            unrepaired=tuple(plan.unrepaired),
            left_to_broker=tuple(plan.left_to_broker),
            failures=tuple(plan.failures),
        )

    def _unchanged(
        self, report: RepairReport, found: Report, plan: _Plan
    ) -> RepairReport:
        """Return the report of a repair that changes nothing, with the reasons."""
        reasons = []
        if plan.changes:
            reasons.append(
                f"apply: it is not set, and {_changes(plan.changes)} planned"
            )
        if plan.losing:
            losing = f"{_changes(plan.losing)} would lose data"
            reasons.append(f"allow_data_loss: it is not set, and {losing}")
        if plan.unrepaired:
            errors = counted(len(plan.unrepaired), "error")
            reasons.append(f"{errors} without a repair")
        if not reasons and found.problems:
            warnings = counted(len(found.problems), "problem")
            reasons.append(f"{warnings} found, of which none is to be repaired")
        elif not reasons:
            files = counted(found.files, "file")
            reasons.append(f"no problem found in {files}")
        return replace(report, unchanged_because=tuple(reasons))

    def _located(self, action: RepairAction) -> RepairAction:
        """Return an action whose path is relative to the path of the call."""
        if not self._is_partition:
            return action
        path = PurePosixPath(action.path)
        inside = path.parts[0] == self._where.name
        shown = path.relative_to(self._where.name) if inside else f"../{path}"
        return replace(action, path=str(shown))

    # The plan

    def _make_plan(self, report: Report, place: Path, allow_data_loss: bool) -> _Plan:
        checkpoints = _read_checkpoints(self._root)
        settings = TopicSettings([self._root], None, None, None)
        plan, ends = _Plan(), dict[tuple[str, int], int]()
        for number, (directory, problems) in enumerate(self._by_partition(report)):
            name = parse_partition_dir(directory.name)
            if name is not None and name.state == "delete":
                continue
            damage = PartitionDamage(
                directory=directory,
                name=name,
                problems=problems,
                offsets=_offsets_of(name, checkpoints, report),
                config=settings.of("" if name is None else name.topic).config,
            )
            end = self._add(plan, damage, place / str(number), allow_data_loss)
            if end is not None and name is not None and name.state is None:
                ends[name.topic, name.partition] = end
        self._add_ids(plan, report, place)
        for file in CHECKPOINTS:
            self._rewrite(plan, file, checkpoints, ends, report, place)
        plan.unrepaired += self._elsewhere(report, {each.path for each in plan.changes})
        return plan

    def _add_ids(self, plan: _Plan, report: Report, place: Path) -> None:
        """Add the ids that the cluster's metadata has, where they are wrong or missing.

        A ``partition.metadata`` with the id of another topic stays: the directory may
        be the other topic's.
        """
        changes = list(find_id_changes(self._root, report, place, self._where))
        made = {change.path for change in changes}
        plan.changes += changes
        plan.unrepaired = [
            problem
            for problem in plan.unrepaired
            if self._path_at_root(problem) not in made
        ]

    def _path_at_root(self, problem: Problem) -> str:
        """Return the path of a problem relative to the log directory."""
        if not self._is_partition:
            return problem.path
        return f"{self._where.name}/{problem.path}"

    def _elsewhere(self, report: Report, changed: Collection[str]) -> Iterator[Problem]:
        """Yield the errors outside of the partitions that are repaired."""
        for problem in report.problems:
            first, _, rest = problem.path.partition("/")
            name = parse_partition_dir(first) if rest else None  # else maybe a link
            is_deleted = name is not None and name.state == "delete"
            if self._is_partition or problem.severity != Severity.ERROR:
                continue
            is_left = problem.path not in changed or self._has_no_log(problem)
            if is_deleted or (name is None and is_left):
                yield problem

    def _has_no_log(self, problem: Problem) -> bool:
        """Return whether a problem is that of a checkpointed offset without a log.

        The line is all that states what the log had, and stays as it is.
        """
        if problem.topic_partition is None:
            return False
        directory = self._root / PartitionDir(*problem.topic_partition).name
        return directory.is_dir() and not list_first(directory)

    def _by_partition(
        self, report: Report
    ) -> Iterator[tuple[Path, tuple[Problem, ...]]]:
        """Yield the directories with problems, which are named by file."""
        found: dict[Path, list[Problem]] = {}
        for problem in report.problems:
            path = PurePosixPath(problem.path)
            if self._is_partition:
                found.setdefault(self._where, []).append(problem)
            elif len(path.parts) == 2 and parse_partition_dir(path.parts[0]):
                directory = self._where / path.parts[0]
                found.setdefault(directory, []).append(replace(problem, path=path.name))
        for directory, problems in found.items():
            yield directory, tuple(problems)

    def _add(
        self, plan: _Plan, damage: PartitionDamage, place: Path, allow_data_loss: bool
    ) -> int | None:
        """Add the changes of a partition; return its log end, if that may be lower."""
        result = repair_partition(damage, place / "whole", allow_data_loss=True)
        plan.unrepaired += [
            self._named(damage.directory, problem)
            for problem in result.problems
            if problem.severity == Severity.ERROR and not _is_left_to_broker(problem)
        ]
        plan.left_to_broker += [
            self._named(damage.directory, problem)
            for problem in result.problems
            if _is_left_to_broker(problem)
        ]
        plan.failures += result.failures
        if allow_data_loss or not result.loses_data:
            plan.changes += result.changes
            return result.end_offset
        safe = repair_partition(damage, place / "safe", allow_data_loss=False)
        made = {(each.path, each.action.position) for each in safe.changes}
        plan.changes += safe.changes
        plan.losing += [
            replace(each, action=replace(each.action, needs_data_loss=True))
            for each in result.changes
            if (each.path, each.action.position) not in made
        ]
        return safe.end_offset

    def _named(self, directory: Path, problem: Problem) -> Problem:
        if self._is_partition:
            return problem
        return replace(problem, path=f"{directory.name}/{problem.path}")

    def _rewrite(
        self,
        plan: _Plan,
        file: str,
        checkpoints: dict[str, Offsets],
        ends: dict[tuple[str, int], int],
        report: Report,
        place: Path,
    ) -> None:
        """Add the change of an offset checkpoint, if it is damaged or an end moves."""
        problems = [
            each
            for each in report.problems
            if each.path == file and not self._has_no_log(each)
        ]
        offsets = dict(checkpoints[file])
        reasons = [f"{each.cause}: {each.message}" for each in problems]
        for key, end in _past_end(problems, file).items():
            if file == LOG_STARTS:
                offsets.pop(key, None)
            elif key in offsets:
                offsets[key] = end
        for key, end in ends.items():
            if offsets.get(key, 0) > end:
                offsets[key] = end
                reasons.append(f"the log of {key[0]}-{key[1]} ends at {end}")
        data = format_offsets(offsets)
        with suppress(FileNotFoundError):
            if not reasons or data == read_regular(self._root / file):
                return
            UNSYNCED.replace(place / file, data)
            action = RepairAction(
                path=file, action=RepairKind.REWRITE, reason="; ".join(reasons)
            )
            plan.changes.append(FileChange(file, place / file, action))


def _changes(changes: Sequence[FileChange]) -> str:
    return counted(len(changes), "change")


def _is_left_to_broker(problem: Problem) -> bool:
    """Return whether a broker loses nothing by a problem, which is read as it is."""
    if problem.recovery == Recovery.REFUSE:
        return False
    is_swap = problem.cause == Cause.SWAP and problem.severity == Severity.WARNING
    return is_swap or is_far(problem)


def _read_checkpoints(root: Path) -> dict[str, Offsets]:
    """Return the valid lines of the offset checkpoints."""
    checkpoints: dict[str, Offsets] = {}
    for file in CHECKPOINTS:
        checkpoints[file] = {}
        with suppress(FileNotFoundError):
            checkpoints[file] = salvage_offsets(read_regular(root / file))
    return checkpoints


def _offsets_of(
    name: PartitionDir | None, checkpoints: dict[str, Offsets], report: Report
) -> CheckpointedOffsets:
    """Return the offsets of a partition; a log start offset past the end is ignored."""
    if name is None:
        return CheckpointedOffsets(clean=True)
    key = name.topic, name.partition
    is_ignored = key in _past_end(report.problems, LOG_STARTS)
    return CheckpointedOffsets(
        clean=True,
        log_start_offset=None if is_ignored else checkpoints[LOG_STARTS].get(key),
        recovery_point=checkpoints[RECOVERY_POINTS].get(key, 0),
        cleaned_to=checkpoints[CLEANED_TO].get(key),
    )


def _past_end(problems: Iterable[Problem], file: str) -> Offsets:
    """Return the log ends that differ from a checkpoint's offsets, by partition."""
    ends: Offsets = {}
    for problem in problems:
        key, end = problem.topic_partition, problem.offset
        if (problem.path, problem.cause) != (file, Cause.LOG_END):
            continue
        if key is not None and end is not None:
            ends[key] = end
    return ends
