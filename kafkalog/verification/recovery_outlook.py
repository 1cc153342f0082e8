"""Prediction of a broker's action on each problem when it starts.

The log of a partition with problems is loaded on a disk of its own, with the settings
of its topic, see `log_rehearsal`. The action on a problem is what loading did to its
file: it truncated it at a byte, rebuilt it, removed it, or did nothing. Where the log
cannot be loaded, it is the problem at which loading failed that the broker refuses. If
that is one of a small file, the others are predicted without the file.

A few actions do not depend on loading: those on files of the log directory, on topic
ids, and on files of the cluster's metadata that are read before or after its log.

Nothing in the partition's directory is changed.

Source: ``LogManager.scala``, ``KafkaRaftLog.java``, ``FileQuorumStateStore.java``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from kafkalog.config import BrokerConfig
from kafkalog.errors import KafkaLogError
from kafkalog.indexes.offset_index import OffsetIndex
from kafkalog.log.recovery.log_loader import UNFLUSHED
from kafkalog.log.recovery.log_loading import check_log
from kafkalog.log.topic_settings import TopicSettings
from kafkalog.rehearsal.log_rehearsal import (
    DirectoryOffsets,
    LogRehearsal,
    LogStartError,
    SegmentLoss,
    rehearse,
)
from kafkalog.rehearsal.rehearsal_disk import (
    FilesLeft,
    RehearsalDirectory,
    RehearsalDisk,
)
from kafkalog.reports import counted
from kafkalog.storage.checkpoint_file import (
    CLEANED_TO,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_STARTS,
    RECOVERY_POINTS,
)
from kafkalog.storage.file_names import (
    DELETED,
    INDEXES,
    METADATA_TOPIC,
    PartitionDir,
    SegmentFile,
    file_name,
    parse_file_name,
    parse_partition_dir,
)
from kafkalog.storage.log_directory import LINKED_FILE
from kafkalog.verification.partition_checks import TAILS
from kafkalog.verification.sidecar_checks import QUORUM_STATE
from kafkalog.verification.verification_report import (
    Cause,
    Problem,
    Recovery,
    Severity,
    as_error,
)

OFFSETS: Final = (RECOVERY_POINTS, HIGH_WATERMARKS, CLEANED_TO, LOG_STARTS)

OF_CAUSES: Final = {
    Cause.UNREADABLE: Recovery.REFUSE,
    Cause.GAP: Recovery.NOTHING,
    Cause.TIERED: Recovery.NOTHING,
}
"""Actions that follow from the cause alone."""

STRAYS: Final = (
    "partitions of topics that were created in them become unknown, and are renamed to "
    "-stray"
)
"""The effect of the loss of records of the cluster's metadata."""


def add_recovery(
    problems: Iterable[Problem], where: Path, broker: BrokerConfig | None = None
) -> list[Problem]:
    """Return the problems found below `where`, with the action of a broker.

    A problem that keeps a log from opening, or that loses records, becomes an error.
    `broker` are the settings of its ``server.properties``.
    """
    by_directory: dict[Path, list[Problem]] = defaultdict(list)
    predicted = []
    for problem in problems:
        place = where / problem.path if where.is_dir() else where
        if problem.message == LINKED_FILE:
            predicted.append(_with(problem, Recovery.NOTHING))  # a broker follows it
        elif _is_start_past_end(problem) and problem.topic_partition is not None:
            partition = PartitionDir(*problem.topic_partition)
            by_directory[where / partition.name].append(problem)
        else:
            by_directory[place.parent].append(problem)
    read: dict[Path, tuple[TopicSettings, DirectoryOffsets]] = {}
    with RehearsalDirectory() as within:
        for directory, here in by_directory.items():
            name = parse_partition_dir(directory.absolute().name)
            files = [parse_file_name(Path(listed.path).name) for listed in here]
            if name is None and not any(files):
                predicted += [_at_root(problem) for problem in here]
                continue
            root = directory.absolute().parent
            if root not in read:
                settings = TopicSettings([root], None, None, broker)
                read[root] = settings, DirectoryOffsets.read(root)
            outlook = PartitionOutlook(directory, name, *read[root], within)
            predicted += outlook.predict(here)
    return predicted


def _is_start_past_end(problem: Problem) -> bool:
    """Return whether a problem is a log start offset after the log end."""
    return problem.path == LOG_STARTS and problem.cause == Cause.LOG_END


def _with(problem: Problem, recovery: Recovery, position: int | None = None) -> Problem:
    is_error = recovery in (Recovery.REFUSE, Recovery.EXPIRE)
    return replace(
        problem,
        severity=Severity.ERROR if is_error else problem.severity,
        recovery=recovery,
        recovery_position=position,
    )


def _at_root(problem: Problem) -> Problem:
    """Return the action on a problem outside of partitions, such as in a checkpoint.

    An offset checkpoint that cannot be parsed fails the log directory. A broker without
    another one stops. A negative offset is replaced by the nearest valid one.
    """
    name = Path(problem.path).name
    if problem.cause == Cause.UNREADABLE:
        return _with(problem, Recovery.REFUSE)
    if parse_partition_dir(name) is not None:  # a link to a partition's directory
        return _with(problem, Recovery.NOTHING)
    if problem.cause == Cause.DIRECTORY_ID:
        return _with(problem, Recovery.UNSERVED)
    if problem.recovery == Recovery.RESET and name in (RECOVERY_POINTS, LOG_STARTS):
        return _with(problem, Recovery.RESET)
    unparsable = problem.cause == Cause.FORMAT and problem.offset is None
    if name in OFFSETS and not unparsable:
        return _with(problem, Recovery.RESET)
    if name.endswith((".index", ".timeindex", ".txnindex")):
        return _with(problem, Recovery.REBUILD)
    return _with(problem, Recovery.REFUSE)


@dataclass(frozen=True, slots=True)
class PartitionOutlook:
    """The prediction for the problems of one partition; `name` is of its directory.

    The log is loaded with `settings` and `offsets`, on stand-ins `within` a directory.
    """

    directory: Path
    name: PartitionDir | None
    settings: TopicSettings
    offsets: DirectoryOffsets
    within: RehearsalDirectory

    def predict(self, problems: Iterable[Problem]) -> list[Problem]:
        """Return the problems with the action of a broker and the loss of records."""
        predicted, loaded = [], []
        for problem in sorted(problems, key=lambda problem: problem.order):
            recovery = self._without_loading(problem)
            if recovery is None:
                loaded.append(problem)
            else:
                predicted.append(_with(problem, recovery))
        aside: set[str] = set()
        while loaded and self.directory.is_dir():  # else deleted since
            try:
                with self._rehearsed(aside) as rehearsal:
                    return predicted + _Loaded(rehearsal).predict(loaded)
            except LogStartError as error:
                refused = [each for each in loaded if _is_small(each, error.name)]
                if not refused:
                    return predicted + _refused(loaded, error)
            predicted += [_with(problem, Recovery.REFUSE) for problem in refused]
            loaded = [problem for problem in loaded if problem not in refused]
            aside.add(Path(refused[0].path).name)
        return predicted

    def _without_loading(self, problem: Problem) -> Recovery | None:
        """Return the action if it does not depend on loading the log, else None."""
        file = Path(problem.path).name
        name = parse_file_name(file)
        if problem.cause in OF_CAUSES:
            return OF_CAUSES[problem.cause]
        if problem.cause == Cause.FOREIGN:
            return Recovery.REFUSE if name is None else Recovery.NOTHING
        if problem.cause == Cause.TOPIC_ID:
            is_loaded = problem.recovery == Recovery.UNSERVED
            return Recovery.UNSERVED if is_loaded else Recovery.STRAY
        if self.name is not None and self.name.state == "delete":
            return Recovery.DELETE
        if file == QUORUM_STATE:
            return Recovery.REFUSE
        if name is not None and name.kind == "checkpoint":
            if name.suffix is not None:
                return Recovery.DELETE
            # There is none if the verified path is a link.
            newest = max(self._metadata_snapshots(), default=name.base_offset)
            is_read = name.base_offset == newest
            return Recovery.REFUSE if is_read else Recovery.NOTHING
        return None

    def _metadata_snapshots(self) -> Iterator[int]:
        """Yield the offsets of the snapshots of the cluster's metadata."""
        for path in self.directory.glob("*.checkpoint"):
            name = parse_file_name(path.name)
            if name is not None and path.is_file():
                yield name.base_offset

    @contextmanager
    def _rehearsed(self, aside: Collection[str]) -> Iterator[LogRehearsal]:
        """Load the log as a broker does, without the files `aside`."""
        key = None if self.name is None else (self.name.topic, self.name.partition)
        topic, topic_id = "" if key is None else key[0], None
        try:
            topic_id = check_log(self.directory)
        except (KafkaLogError, OSError) as error:
            failure = LogStartError.of(error, self.directory, self.directory)
            if failure.name not in aside:
                raise failure from error

        def remove(copy: Path, disk: RehearsalDisk) -> None:
            for name in aside:
                disk.remove_if_there(copy / name)

        with rehearse(
            self.directory,
            self.offsets.of(key),
            self.settings.of(topic, topic_id),
            self.settings.broker,
            remove,
            within=self.within,
        ) as rehearsal:
            yield rehearsal


def _is_small(problem: Problem, name: str | None) -> bool:
    """Return whether a problem is one of a file with a name, which has no offset."""
    file = Path(problem.path).name
    return file == name and parse_file_name(file) is None


def _refused(problems: Sequence[Problem], error: LogStartError) -> list[Problem]:
    """Return the problems of a log that cannot be loaded, with the action on each.

    The broker refuses those that are nearest to where loading fails.
    """
    nearest = min(_distance(problem, error) for problem in problems)
    predicted = []
    for problem in problems:
        recovery = Recovery.NOTHING
        if _distance(problem, error) == nearest:
            recovery = Recovery.REFUSE
        elif error.files is not None and _is_removed(problem, error.files):
            recovery = Recovery.DELETE
        predicted.append(_with(problem, recovery))
    return predicted


def _distance(problem: Problem, error: LogStartError) -> int:
    """Return how far a problem is from where loading fails.

    0 is in the file from that byte on, 1 in the file, 2 in its segment, 3 elsewhere.
    """
    file = Path(problem.path).name
    if file == error.name:
        if problem.position is None or error.position is None:
            return 0
        return int(problem.position < error.position)
    name, failed = parse_file_name(file), parse_file_name(error.name or "")
    if name is not None and failed is not None:
        return 2 if name.base_offset == failed.base_offset else 3
    return 3


def _is_removed(problem: Problem, files: FilesLeft) -> bool:
    """Return whether the file of a problem was removed, or is marked as deleted."""
    left = files.kept.get(Path(problem.path).name)
    if left is None:
        return problem.cause != Cause.MISSING
    return left.name.endswith(DELETED)


class _Loaded:
    """A log that was loaded, and what became of its files."""

    def __init__(self, rehearsal: LogRehearsal) -> None:
        self._rehearsal = rehearsal
        self._report = rehearsal.report
        self._recovered = {each.base_offset for each in self._report.recovered}
        self._files = rehearsal.files
        self._losses = rehearsal.count_losses()

    def predict(self, problems: Sequence[Problem]) -> list[Problem]:
        """Return the problems with the action of a broker and the loss of records."""
        predicted, truncated = [], set()
        for original in problems:
            problem = _with(original, *self._recovery_of(original))
            if problem.recovery == Recovery.TRUNCATE and problem.path not in truncated:
                truncated.add(problem.path)
                problem = self._with_cut(problem)
            elif problem.recovery == Recovery.DELETE_LOG:
                problem = describe_loss(problem, self._losses.dropped.values())
            elif problem.cause == Cause.SWAP:
                problem = self._with_swap(problem)
            predicted.append(self._with_untruncated_tail(problem))
        return self._with_overwritten(predicted)

    def _recovery_of(self, problem: Problem) -> tuple[Recovery, int | None]:
        """Return the action on a problem, and the byte at which a log is truncated."""
        file = Path(problem.path).name
        name = parse_file_name(file)
        if _is_start_past_end(problem):
            return self._of_start(), None
        if name is None:
            return self._of_small(file, problem), None
        if problem.cause == Cause.SWAP:
            return Recovery.NOTHING, None
        if name.kind == "log" and name.base_offset in self._report.split:
            is_split = problem.cause == Cause.OFFSET
            return Recovery.SPLIT if is_split else Recovery.NOTHING, None
        if name.kind != "log" and file in self._files.new:
            is_empty = problem.cause == Cause.MISSING and not self._is_recovered(name)
            return Recovery.RESET if is_empty else Recovery.REBUILD, None
        if _is_removed(problem, self._files):
            return Recovery.DELETE, None
        if name.kind == "log":
            left, at = self._files.kept[file], problem.position
            if at is not None and left.size <= at < left.size_before:
                return Recovery.TRUNCATE, left.size
        elif name.kind in INDEXES:
            if self._is_recovered(name):
                return Recovery.REBUILD, None
            if problem.recovery == Recovery.EXPIRE:
                return Recovery.EXPIRE, None
        return Recovery.NOTHING, None

    def _is_recovered(self, name: SegmentFile) -> bool:
        """Return whether recovery reads a file's segment, and rebuilds its indexes."""
        return name.base_offset in self._recovered

    def _of_start(self) -> Recovery:
        """Return the action on a log start offset after the log end."""
        has_logs = any(left.name.endswith(".log") for left in self._files.kept.values())
        return Recovery.NOTHING if has_logs else Recovery.DELETE_LOG

    def _of_small(self, file: str, problem: Problem) -> Recovery:
        """Return the action on a file that is read at every start."""
        if file != LEADER_EPOCHS:
            return Recovery.NOTHING
        if problem.cause == Cause.LEADER_EPOCH:
            is_same = file in self._files.kept
            return Recovery.NOTHING if is_same else Recovery.REBUILD
        return Recovery.RESET

    def _with_cut(self, problem: Problem) -> Problem:
        """Add the loss of records to the first problem that truncates a log."""
        base = _base_of(problem)
        lost = [loss for cut, loss in self._losses.cut.items() if cut == base]
        ends_log = any(
            segment.base_offset == base and segment.why == UNFLUSHED
            for segment in self._report.recovered
        )
        dropped = list(self._losses.dropped.values()) if ends_log else []
        return describe_loss(
            problem,
            [*lost, *dropped],
            segments=len(dropped),
            is_metadata=self._rehearsal.log.topic == METADATA_TOPIC,
        )

    def _with_swap(self, problem: Problem) -> Problem:
        """Return the problem of a ``.log.swap``, with the records that it loses."""
        for loss in self._losses.swaps:
            if loss.content.path.name == Path(problem.path).name:
                return replace(
                    problem,
                    position=loss.content.position,
                    offset=loss.first_offset,
                    last_offset=loss.last_offset,
                    severity=Severity.ERROR,
                    message=loss.message,
                    reason=loss.content.reason,
                    recovery=Recovery.REPLACE,
                    lost_from=loss.first_offset,
                    lost_to=loss.last_offset,
                    lost_records=loss.records,
                )
        return problem

    def _with_untruncated_tail(self, problem: Problem) -> Problem:
        """Raise the severity of trailing bytes of a log that are not truncated."""
        if (
            problem.cause not in TAILS
            or problem.recovery != Recovery.NOTHING
            or not self._losses.trailing
            or not self._is_last(problem)
        ):
            return problem
        text = (
            "after a clean shutdown a broker appends after them, and cannot read what "
            "it appends"
        )
        return as_error(problem, text)

    def _is_last(self, problem: Problem) -> bool:
        """Return whether a problem is one of the last ``.log``."""
        left = self._files.kept.get(Path(problem.path).name)
        last = file_name(self._rehearsal.last_base, "log")
        return left is not None and left.name == last

    def _with_overwritten(self, problems: list[Problem]) -> list[Problem]:
        """Add the problem of records after the end that a broker finds."""
        hidden = self._losses.hidden
        if hidden is None or hidden.base_offset not in map(_base_of, problems):
            return problems
        at_end = self._problem_at(hidden, problems)
        remedy = ""
        if self._report.lost is not None:
            index = file_name(hidden.base_offset, "index")
            remedy = f": remove this {index} before a broker starts"
        overwritten = describe_loss(
            replace(at_end, recovery=Recovery.OVERWRITE), [hidden], remedy=remedy
        )
        return [*(other for other in problems if other != at_end), overwritten]

    def _problem_at(self, hidden: SegmentLoss, problems: Sequence[Problem]) -> Problem:
        """Return the problem of the entry that a broker takes the end from.

        It is the one found there, if there is one.
        """
        past_log = self._report.lost is not None
        file = file_name(hidden.base_offset, "index" if past_log else "log")
        position = hidden.position
        if past_log:
            width = OffsetIndex.ENTRY.itemsize
            size = self._files.kept[file].size_before
            position = size // width * width - width
        for problem in problems:
            if Path(problem.path).name == file and problem.position == position:
                return problem
        folder = problems[0].path.rpartition("/")[0]
        return Problem(
            path=f"{folder}/{file}" if folder else file,
            position=position,
            offset=hidden.first_offset,
            cause=Cause.OFFSET_INDEX if past_log else Cause.SIZE,
            severity=Severity.ERROR,
            message="the last entry points past the end of the log",
        )


def _base_of(problem: Problem) -> int | None:
    """Return the offset in the name of the file of a problem."""
    name = parse_file_name(Path(problem.path).name)
    return None if name is None else name.base_offset


def describe_loss(
    problem: Problem,
    losses: Iterable[SegmentLoss],
    *,
    segments: int = 0,
    is_metadata: bool = False,
    remedy: str = "",
) -> Problem:
    """Add to a problem the loss of records of some segments.

    `segments` is the number of whole segments after this one. The reason of the problem
    stays.
    """
    lost = list(losses)
    records = sum(loss.records for loss in lost)
    if not records:
        return problem
    first = min(loss.first_offset for loss in lost)
    last = max(loss.end_offset for loss in lost) - 1
    text = f"offsets {first} to {last}, {counted(records, 'readable record')}"
    if segments:
        text += f", and {counted(segments, 'whole segment')} after this one"
    if problem.recovery == Recovery.OVERWRITE:
        text = f"a broker appends at offset {first} and overwrites {text}{remedy}"
    elif problem.recovery == Recovery.DELETE_LOG:
        text = f"a broker deletes {text}"
        segments = len(lost)
    else:
        text = f"recovery truncates {text}"
    if is_metadata:
        text += f"; {STRAYS}"
    return replace(
        problem,
        severity=Severity.ERROR,
        message=f"{problem.message}; {text}",
        lost_from=first,
        lost_to=last,
        lost_records=records,
        lost_segments=segments,
    )
