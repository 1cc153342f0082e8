"""Prediction of a broker's action on each problem when it starts.

Nothing is changed. The prediction follows from file names, checkpoints and the
problems. Which segments recovery reads depends on the clean shutdown marker and the
recovery point. Without a log directory, as for a copied partition, recovery reads all
of them.

    log        truncated before the first batch with an invalid size or checksum; later
               segments are deleted
    indexes    rebuilt with their segment, otherwise used unchanged
    snapshots  the newest is read, and deleted if it is corrupt; those of segments that
               recovery reads are rebuilt
    other      a small file that cannot be parsed keeps the log from opening

Source: ``LogLoader.java``, ``LogSegment.java``, ``ProducerStateManager.java``,
``KafkaRaftLog.java``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from kafkalog.rehearsal.segment_contents import SegmentContents, contents_from
from kafkalog.rehearsal.swap_losses import FramedEnd, framed_end
from kafkalog.storage.checkpoint_file import (
    CLEANED_TO,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_STARTS,
    RECOVERY_POINTS,
    read_offsets_or_none,
)
from kafkalog.storage.file_names import (
    CLEAN_SHUTDOWN,
    METADATA_TOPIC,
    FileKind,
    PartitionDir,
    SegmentFile,
    file_name,
    parse_file_name,
    parse_partition_dir,
)
from kafkalog.storage.location import entries, is_file
from kafkalog.storage.log_directory import LINKED_FILE
from kafkalog.verification.recovery_effects import (
    PartitionContents,
    RecoveryEffect,
    describe_loss,
    ends_too_early,
    find_effect,
)
from kafkalog.verification.verification_report import (
    Cause,
    Problem,
    Recovery,
    Severity,
    as_error,
)

OFFSETS: Final = (RECOVERY_POINTS, HIGH_WATERMARKS, CLEANED_TO, LOG_STARTS)
REMOVED: Final = ("deleted", "cleaned", "part")
"""Suffixes of files that a broker removes."""

UNREAD: Final = frozenset(
    {Cause.CRC, Cause.COUNT, Cause.VERSION, Cause.TRUNCATED, Cause.FORMAT}
)
"""Causes for which a snapshot cannot be read."""


def add_recovery(
    problems: Iterable[Problem],
    where: Path,
    contents: Mapping[str, PartitionContents],
    *,
    links: bool = False,
) -> list[Problem]:
    """Return the problems found below `where`, with the action of a broker.

    `contents` are those of the partitions, by the name of their directory. A problem
    that keeps a log from opening, or that loses records, becomes an error.

    With `links`, symbolic links count as the files that they lead to.
    """
    by_directory: dict[Path, list[Problem]] = defaultdict(list)
    predicted = []
    for problem in problems:
        place = where / problem.path if where.is_dir() else where
        if problem.message == LINKED_FILE:
            predicted.append(_with(problem, Recovery.NOTHING))  # a broker follows it
        else:
            by_directory[place.parent].append(problem)
    for directory, here in by_directory.items():
        name = parse_partition_dir(directory.absolute().name)
        lone = all(parse_file_name(Path(listed.path).name) is None for listed in here)
        if name is None and lone:
            predicted += [_at_root(problem) for problem in here]
        else:
            read = contents.get(directory.name, PartitionContents())
            predicted += PartitionOutlook.of(directory, read, links=links).add_recovery(
                here
            )
    return [_with_deleted_log(problem, predicted, contents) for problem in predicted]


def _with_deleted_log(
    problem: Problem,
    predicted: Iterable[Problem],
    contents: Mapping[str, PartitionContents],
) -> Problem:
    """Add the records of a log that is deleted, without those that others list."""
    if problem.recovery != Recovery.DELETE_LOG or problem.topic_partition is None:
        return problem
    directory = PartitionDir(*problem.topic_partition).name
    segments = contents.get(directory, PartitionContents()).segments
    records = sum(segment.records for segment in segments.values())
    for other in predicted:
        if other.path.startswith(f"{directory}/"):
            records -= other.lost_records
    if records <= 0:
        return problem
    return describe_loss(
        problem,
        first=min(segments),
        end=max(segment.end for segment in segments.values()),
        records=records,
        segments=len(segments),
        is_metadata=False,
    )


def _offset(root: Path, name: str, key: tuple[str, int]) -> int:
    """Return a partition's offset in a checkpoint; 0 if that cannot be read."""
    with suppress(OSError):
        if is_file(root / name):
            return read_offsets_or_none(root, name).get(key, 0)
    return 0


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
    if name == LOG_STARTS and problem.cause == Cause.LOG_END:
        topic, _ = problem.topic_partition or ("", -1)
        is_raft = topic == METADATA_TOPIC  # loaded without its checkpointed offsets
        return _with(problem, Recovery.NOTHING if is_raft else Recovery.DELETE_LOG)
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


@dataclass(slots=True, kw_only=True)
class PartitionOutlook:
    """The predicted loading of one partition; segments are named by base offset.

    `bases` are all segments. Recovery reads the `unflushed` ones, which are at or above
    the recovery point, and those `without_index`: together, `recovered`. `effects` are
    the effects on them. `dropped` are deleted because of a truncation before them.
    `framed` is the end of the last segment if recovery does not read it.
    """

    directory: Path
    names: dict[str, SegmentFile]
    state: str | None
    clean: bool
    recovery_point: int
    log_start_offset: int
    contents: PartitionContents
    is_metadata: bool = False
    framed: FramedEnd | None = None
    bases: list[int] = field(default_factory=list)
    unflushed: list[int] = field(default_factory=list)
    without_index: set[int] = field(default_factory=set)
    recovered: set[int] = field(default_factory=set)
    effects: dict[int, RecoveryEffect] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)

    @classmethod
    def of(
        cls, directory: Path, contents: PartitionContents, *, links: bool = False
    ) -> PartitionOutlook:
        """Return the prediction for a directory, from its names and checkpoints."""
        absolute = directory.absolute()
        name, root = parse_partition_dir(absolute.name), absolute.parent
        key = ("", -1) if name is None else (name.topic, name.partition)
        raft = key[0] == METADATA_TOPIC  # recovered at every start
        files = [
            (entry.name, parse_file_name(entry.name))
            for entry in entries(directory)
            if entry.is_file(follow_symlinks=links)
        ]
        outlook = cls(
            directory=directory,
            names={file: parsed for file, parsed in files if parsed is not None},
            state=None if name is None else name.state,
            clean=is_file(root / CLEAN_SHUTDOWN) and not raft,
            recovery_point=0 if raft else _offset(root, RECOVERY_POINTS, key),
            log_start_offset=_offset(root, LOG_STARTS, key),
            contents=contents,
            is_metadata=raft,
        )
        bases = {
            name.base_offset
            for file, name in outlook.names.items()
            if name.kind == "log" and not outlook._is_removed(file)
        }
        outlook.bases = sorted(bases)
        if not outlook.clean and outlook.state != "delete":
            first = bisect_right(outlook.bases, outlook.recovery_point) - 1
            outlook.unflushed = outlook.bases[max(0, first) :]
        outlook.without_index = set(filter(outlook._lacks_index, bases))
        outlook.recovered = outlook.without_index.union(outlook.unflushed)
        if outlook.bases and outlook.state != "delete":
            last = outlook.bases[-1]
            if last not in outlook.recovered:
                with suppress(FileNotFoundError):
                    log = directory / file_name(last, "log")
                    outlook.framed = framed_end(log, last)
        return outlook

    def add_recovery(self, problems: list[Problem]) -> list[Problem]:
        """Return the problems with the action of a broker and the loss of records."""
        problems = sorted(problems, key=lambda problem: problem.order)
        self._find_effects(problems)
        predicted, truncated = [], set()
        for original in problems:
            problem = _with(original, *self._recovery_of(original))
            if problem.recovery == Recovery.TRUNCATE and problem.path not in truncated:
                truncated.add(problem.path)
                problem = self._with_loss(problem)
            predicted.append(self._with_stuck_tail(problem))
        return self._with_overwritten(predicted)

    @property
    def end(self) -> int | None:
        """The offset after the last batch that was read."""
        return self.contents.end

    def _segment(self, base: int) -> SegmentContents:
        """Return the contents of a segment, which is read if it was not yet."""
        if base not in self.contents.segments:
            path = self.directory / file_name(base, "log")
            self.contents.segments[base] = contents_from(path, base)
        return self.contents.segments[base]

    def _with_loss(self, problem: Problem) -> Problem:
        """Add the loss of records to the first problem that truncates a log."""
        name = self.names[Path(problem.path).name]
        base, position = name.base_offset, problem.recovery_position or 0
        here = contents_from(self.directory / file_name(base, "log"), base, position)
        dropped = [] if base in self.without_index else sorted(self.dropped)
        lost = [here, *map(self._segment, dropped)]
        records = sum(segment.records for segment in lost)
        first = base if position == 0 or problem.offset is None else problem.offset
        return describe_loss(
            problem,
            first=first,
            end=max(segment.end for segment in lost),
            records=records,
            segments=len(dropped),
            is_metadata=self.is_metadata,
        )

    def _with_stuck_tail(self, problem: Problem) -> Problem:
        """Raise the severity of trailing bytes of a log that are not truncated."""
        name = self.names.get(Path(problem.path).name)
        if (
            problem.cause not in (Cause.INCOMPLETE, Cause.PREALLOCATED)
            or problem.recovery != Recovery.NOTHING
            or self.framed is None
            or name != SegmentFile(self.bases[-1], "log")
        ):
            return problem
        text = (
            "after a clean shutdown a broker appends after them, and cannot read what "
            "it appends"
        )
        return as_error(problem, text)

    def _with_overwritten(self, problems: list[Problem]) -> list[Problem]:
        """Add the problem of records after the end that a broker finds."""
        framed = self.framed
        if framed is None or framed.is_refused:
            return problems
        base = self.bases[-1]
        names = (self.names.get(Path(other.path).name) for other in problems)
        if not any(name is not None and name.base_offset == base for name in names):
            return problems
        end = self._segment(base).end
        if framed.offset >= end:
            return problems
        at_end = self._problem_at(framed, problems)
        log = self.directory / file_name(base, "log")
        remedy = ""
        if framed.beyond_log is not None:
            index = file_name(base, "index")
            remedy = f": remove this {index} before a broker starts"
        overwritten = describe_loss(
            replace(at_end, recovery=Recovery.OVERWRITE),
            first=framed.offset,
            end=end,
            records=contents_from(log, base, framed.position).records,
            segments=0,
            is_metadata=False,
            remedy=remedy,
        )
        return [*(other for other in problems if other != at_end), overwritten]

    def _problem_at(self, framed: FramedEnd, problems: list[Problem]) -> Problem:
        """Return the problem of the entry that a broker takes the end from.

        It is the one found there, if there is one.
        """
        past_log = framed.beyond_log is not None
        file = file_name(self.bases[-1], "index" if past_log else "log")
        position = framed.beyond_log if past_log else framed.position
        for problem in problems:
            if Path(problem.path).name == file and problem.position == position:
                return problem
        folder = problems[0].path.rpartition("/")[0]
        return Problem(
            path=f"{folder}/{file}" if folder else file,
            position=position,
            offset=framed.offset,
            cause=Cause.OFFSET_INDEX if past_log else Cause.SIZE,
            severity=Severity.ERROR,
            message="the last entry points past the end of the log",
        )

    def _find_effects(self, problems: list[Problem]) -> None:
        """Find the first effect on each recovered segment, and what is dropped."""
        for problem in problems:
            file = Path(problem.path).name
            name = self.names.get(file)
            if name is None or name.kind != "log" or self._is_removed(file):
                continue
            base, path = name.base_offset, self.directory / file
            if base in self.effects or base not in self.recovered:
                continue
            with suppress(FileNotFoundError):
                if (effect := find_effect(path, base, problem)) is not None:
                    self.effects[base] = effect
        if self.framed is not None and self.framed.is_refused:
            refused = RecoveryEffect(Recovery.REFUSE, self.framed.position)
            self.effects[self.bases[-1]] = refused
        for base in self.unflushed:
            # A segment without an index is truncated before recovery, so it is
            # complete.
            if base in self.without_index or base not in self.effects:
                continue
            if self.effects[base].recovery == Recovery.TRUNCATE:
                self.dropped = {other for other in self.bases if other > base}
                break

    def _lacks_index(self, base: int) -> bool:
        """Return whether a segment is recovered for a missing or invalid index.

        A broker reads the last offset of a ``.log.swap`` with its index, which it
        creates if it is missing.
        """
        swaps = file_name(base, "index", "swap"), file_name(base, "log", "swap")
        given = any(file in self.names and not self._is_removed(file) for file in swaps)
        if file_name(base, "index") not in self.names and not given:
            return True
        aborted = file_name(base, "txnindex")
        with suppress(FileNotFoundError):
            if aborted in self.names:
                return ends_too_early(self.directory / aborted, base)
        return False

    def _is_removed(self, file: str) -> bool:
        """Return whether a file is removed or replaced, whatever its content."""
        name = self.names[file]
        if self.state == "delete" or name.suffix in REMOVED:
            return True
        if name.suffix == "swap":
            cleaned = (
                other.base_offset
                for other in self.names.values()
                if other.suffix == "cleaned"
            )
            return any(base <= name.base_offset for base in cleaned)
        swapped = replace(name, suffix="swap").name
        return swapped in self.names and not self._is_removed(swapped)

    def _recovery_of(self, problem: Problem) -> tuple[Recovery, int | None]:
        file = Path(problem.path).name
        name = self.names.get(file) or parse_file_name(file)
        if problem.cause in (Cause.UNREADABLE, Cause.FOREIGN):
            is_ignored = problem.cause == Cause.FOREIGN and name is not None
            return Recovery.NOTHING if is_ignored else Recovery.REFUSE, None
        if problem.cause == Cause.TOPIC_ID:
            is_loaded = problem.recovery == Recovery.UNSERVED
            return Recovery.UNSERVED if is_loaded else Recovery.STRAY, None
        if problem.cause == Cause.GAP:
            return Recovery.NOTHING, None
        if self.state == "delete":
            return Recovery.DELETE, None
        if problem.cause == Cause.SWAP:
            return problem.recovery, None
        if name is None:
            return self._small(file, problem), None
        if file in self.names and self._is_removed(file):
            return Recovery.DELETE, None
        if name.kind == "snapshot":
            return self._snapshot(name.base_offset, problem), None
        if name.kind == "checkpoint":
            return self._metadata_snapshot(name.base_offset), None
        if name.base_offset in self.dropped or name.base_offset not in self.bases:
            return Recovery.DELETE, None
        if name.kind == "log":
            return self._log(name.base_offset, problem)
        return self._index(name, problem), None

    def _log(self, base: int, problem: Problem) -> tuple[Recovery, int | None]:
        """Return the action on a log, and the position at which it is truncated."""
        if problem.cause == Cause.SEGMENT_SIZE:
            return Recovery.REFUSE, None
        effect, at = self.effects.get(base), problem.position
        if effect is not None and at is not None and at >= effect.begins:
            return effect.recovery, effect.position
        return Recovery.NOTHING, None

    def _index(self, name: SegmentFile, problem: Problem) -> Recovery:
        """Return the action on an index, which is rebuilt only with its segment."""
        effect = self.effects.get(name.base_offset)
        if effect is not None and effect.recovery == Recovery.REFUSE:
            return Recovery.REFUSE
        if name.base_offset in self.recovered:
            return Recovery.REBUILD
        if problem.recovery == Recovery.EXPIRE:
            return Recovery.EXPIRE
        missing = problem.cause == Cause.MISSING
        return Recovery.RESET if missing else Recovery.NOTHING

    def _snapshot(self, offset: int, problem: Problem) -> Recovery:
        """Return the action on a producer snapshot."""
        unflushed = self.unflushed
        kept = [base for base in self.bases if base not in self.dropped]
        if problem.cause == Cause.LOG_END:
            return Recovery.DELETE if offset > self._end() else Recovery.NOTHING
        if unflushed and offset > unflushed[0]:
            whole = not self.effects and offset == self.end
            return Recovery.REBUILD if offset in kept or whole else Recovery.DELETE
        if problem.cause in UNREAD and self._is_read(offset, unflushed):
            rebuilt = offset in kept[-2:] or offset in (self.end, *unflushed[:1])
            return Recovery.REBUILD if rebuilt else Recovery.DELETE
        stray = offset not in kept and offset < max(kept, default=0)
        return Recovery.DELETE if stray else Recovery.NOTHING

    def _end(self) -> int:
        """Return the log end offset that a broker finds."""
        return (self.end or 0) if self.framed is None else self.framed.offset

    def _is_read(self, offset: int, unflushed: list[int]) -> bool:
        """Return whether a snapshot is the newest up to the first recovered offset."""
        until = unflushed[0] if unflushed else self.end
        snapshots = self._offsets_of("snapshot")
        usable = (
            snapshot for snapshot in snapshots if until is None or snapshot <= until
        )
        return offset > self.log_start_offset and offset >= max(usable, default=0)

    def _offsets_of(self, kind: FileKind) -> Iterator[int]:
        """Yield the offsets in the names of the files of a kind."""
        for name in self.names.values():
            if name.kind == kind and name.suffix is None:
                yield name.base_offset

    def _metadata_snapshot(self, offset: int) -> Recovery:
        # There is none if the verified path is a link.
        newest = max(self._offsets_of("checkpoint"), default=offset)
        return Recovery.REFUSE if offset == newest else Recovery.NOTHING

    def _small(self, file: str, problem: Problem) -> Recovery:
        """Return the action on a file that is read at every start."""
        if file != LEADER_EPOCHS or problem.cause == Cause.FORMAT:
            return Recovery.REFUSE
        if problem.cause == Cause.LEADER_EPOCH:
            return Recovery.REBUILD if self.unflushed else Recovery.NOTHING
        return Recovery.RESET
