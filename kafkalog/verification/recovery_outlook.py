"""What a broker would do about findings, were it to start on what was verified.

Nothing is done: this foretells what opening the log would do, from names, checkpoints
and the findings themselves. Which segments are read through, and so cut and indexed
anew, hangs on whether the stop was clean, and on the recovery point. Where neither is
known, as in a directory that was copied by itself, none was clean and all is read.

    log        cut before the first batch whose frame or checksum is wrong; segments
               behind it go
    indexes    made anew with their segment, and else taken as they are
    snapshots  the newest is read, and deleted if it is damaged; those in what is read
               through are made anew
    small      those that cannot be read keep the log from opening

Knows: order and rules of loading. Does not know: how findings were made.
Source: ``LogLoader.java``, ``LogSegment.java``, ``ProducerStateManager.java``,
``KafkaRaftLog.java``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from kafkalog.storage.checkpoint_file import (
    CLEANED_TO,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_STARTS,
    RECOVERY_POINTS,
    known_offsets,
)
from kafkalog.storage.file_names import (
    CLEAN_SHUTDOWN,
    METADATA_TOPIC,
    SegmentFile,
    file_name,
    parse_file_name,
    parse_partition_dir,
)
from kafkalog.storage.location import entries
from kafkalog.verification.recovery_effects import (
    Cut,
    FramedEnd,
    PartitionContents,
    SegmentContents,
    contents_from,
    describe_loss,
    ends_too_early,
    find_cut,
    framed_end,
)
from kafkalog.verification.verification_report import Cause, Problem, Recovery, Severity

OFFSETS: Final = (RECOVERY_POINTS, HIGH_WATERMARKS, CLEANED_TO, LOG_STARTS)
GOES: Final = ("deleted", "cleaned", "part")
"""Marks of files that a broker removes."""

UNREAD: Final = frozenset(
    {Cause.CRC, Cause.COUNT, Cause.VERSION, Cause.TRUNCATED, Cause.FORMAT}
)
"""Causes for which a snapshot is not read at all."""


def foresee(
    problems: Iterable[Problem], where: Path, contents: Mapping[str, PartitionContents]
) -> list[Problem]:
    """Add to each of `problems`, found below `where`, what a broker would do.

    `contents` has what was read of each partition, by the name of its directory. What
    keeps a log from opening, and what costs records, becomes an error.
    """
    by_directory: dict[Path, list[Problem]] = defaultdict(list)
    for problem in problems:
        place = where / problem.path if where.is_dir() else where
        by_directory[place.parent].append(problem)
    told = []
    for directory, here in by_directory.items():
        name = parse_partition_dir(directory.absolute().name)
        lone = all(parse_file_name(Path(one.path).name) is None for one in here)
        if name is None and lone:
            told += [_at_root(one) for one in here]
        else:
            read = contents.get(directory.name, PartitionContents())
            told += PartitionOutlook.of(directory, read).foresee(here)
    return told


def _offset(root: Path, name: str, key: tuple[str, int]) -> int:
    """Read an offset of a partition; 0 where that cannot be read."""
    with suppress(OSError):
        if (root / name).is_file():
            return known_offsets(root, name).get(key, 0)
    return 0


def _with(problem: Problem, recovery: Recovery, position: int | None = None) -> Problem:
    refused = recovery == Recovery.REFUSE
    return replace(
        problem,
        severity=Severity.ERROR if refused else problem.severity,
        recovery=recovery,
        recovery_position=position,
    )


def _at_root(problem: Problem) -> Problem:
    """Return what is done about what lies in no partition: a checkpoint, a directory.

    A checkpoint of offsets without its form fails the log directory, and a broker that
    has no other ends; a negative offset in it is taken for the nearest that can be.
    """
    name = Path(problem.path).name
    if name == LOG_STARTS and problem.cause == Cause.LOG_END:
        return _with(problem, Recovery.DELETE_LOG)
    if problem.cause == Cause.UNREADABLE:
        return _with(problem, Recovery.REFUSE)
    formless = problem.cause == Cause.FORMAT and problem.offset is None
    if name in OFFSETS and not formless:
        return _with(problem, Recovery.RESET)
    if name.endswith((".index", ".timeindex", ".txnindex")):
        return _with(problem, Recovery.REBUILD)
    return _with(problem, Recovery.REFUSE)


@dataclass(slots=True, kw_only=True)
class PartitionOutlook:
    """How one partition's directory would be loaded; `bases` are its segments'.

    Those `unflushed`, that may not have reached the disk, are read through, and those
    `alone` that lack a sound index. `cuts` says what comes of it, `dropped` are those
    that go for what was cut before them. `framed` is where the last segment is taken to
    end, if it is not read through.
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
    alone: set[int] = field(default_factory=set)
    read_through: set[int] = field(default_factory=set)
    cuts: dict[int, Cut] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, directory: Path, contents: PartitionContents) -> PartitionOutlook:
        """Return the outlook for a directory, by its names and checkpoints."""
        place = directory.absolute()
        name, root = parse_partition_dir(place.name), place.parent
        key = ("", -1) if name is None else (name.topic, name.partition)
        raft = key[0] == METADATA_TOPIC  # it is read through at every start
        files = (
            one for one in entries(directory) if one.is_file(follow_symlinks=False)
        )
        found = ((one.name, parse_file_name(one.name)) for one in files)
        made = cls(
            directory=directory,
            names={file: parsed for file, parsed in found if parsed is not None},
            state=None if name is None else name.state,
            clean=(root / CLEAN_SHUTDOWN).exists() and not raft,
            recovery_point=0 if raft else _offset(root, RECOVERY_POINTS, key),
            log_start_offset=_offset(root, LOG_STARTS, key),
            contents=contents,
            is_metadata=raft,
        )
        kept = [one for file, one in made.names.items() if not made._goes(file)]
        made.bases = sorted({one.base_offset for one in kept if one.kind == "log"})
        if not made.clean and made.state != "delete":
            first = bisect_right(made.bases, made.recovery_point) - 1
            made.unflushed = made.bases[max(0, first) :]
        made.alone = {base for base in made.bases if made._is_read_alone(base)}
        made.read_through = made.alone.union(made.unflushed)
        if made.bases and made.state != "delete":
            last = made.bases[-1]
            if last not in made.read_through:
                with suppress(FileNotFoundError):
                    made.framed = framed_end(directory / file_name(last, "log"), last)
        return made

    def foresee(self, problems: list[Problem]) -> list[Problem]:
        """Add to each problem what would be done about it, and what would be lost."""
        self._find_cuts(problems)
        told, cut = [], set()
        for problem in sorted(problems, key=lambda one: one.order):
            found = _with(problem, *self._judge(problem))
            if found.recovery == Recovery.TRUNCATE and found.path not in cut:
                cut.add(found.path)
                found = self._with_loss(found)
            told.append(self._with_stuck_tail(found))
        return self._with_overwritten(told)

    @property
    def end(self) -> int | None:
        """Offset after the last batch that was read."""
        return self.contents.end

    def _segment(self, base: int) -> SegmentContents:
        """Return what a segment holds, read now if it was not."""
        if base not in self.contents.segments:
            path = self.directory / file_name(base, "log")
            self.contents.segments[base] = contents_from(path, base)
        return self.contents.segments[base]

    def _with_loss(self, problem: Problem) -> Problem:
        """Add to what cuts a log first which records go with it: those are an error."""
        name = self.names[Path(problem.path).name]
        base, position = name.base_offset, problem.recovery_position or 0
        here = contents_from(self.directory / file_name(base, "log"), base, position)
        dropped = [] if base in self.alone else sorted(self.dropped)
        lost = [here, *map(self._segment, dropped)]
        records = sum(one.records for one in lost)
        first = base if position == 0 or problem.offset is None else problem.offset
        return describe_loss(
            problem,
            first=first,
            end=max(one.end for one in lost),
            records=records,
            segments=len(dropped),
            is_metadata=self.is_metadata,
        )

    def _with_stuck_tail(self, problem: Problem) -> Problem:
        """Make an error of what stays at the end of a log that is not read through."""
        name = self.names.get(Path(problem.path).name)
        if (
            problem.cause not in (Cause.INCOMPLETE, Cause.PREALLOCATED)
            or problem.recovery != Recovery.NOTHING
            or self.framed is None
            or name != SegmentFile(self.bases[-1], "log")
        ):
            return problem
        text = (
            "after a clean stop a broker appends after them, and cannot read on there"
        )
        return replace(
            problem, severity=Severity.ERROR, message=f"{problem.message}; {text}"
        )

    def _with_overwritten(self, problems: list[Problem]) -> list[Problem]:
        """Add what lies after the end that a broker finds, to be written over."""
        if self.framed is None or self.framed.is_refused:
            return problems
        base = self.bases[-1]
        file = file_name(base, "log")
        names = (self.names.get(Path(one.path).name) for one in problems)
        if not any(name is not None and name.base_offset == base for name in names):
            return problems
        end = self._segment(base).end
        if self.framed.offset >= end:
            return problems
        past_index = self.framed.beyond_log is not None
        if past_index:
            file = file_name(base, "index")
        at = self.framed.beyond_log if past_index else self.framed.position
        matching = [
            one
            for one in problems
            if Path(one.path).name == file and one.position == at
        ]
        path = problems[0].path.rpartition("/")[0]
        found = Problem(
            path=f"{path}/{file}" if path else file,
            position=at,
            offset=self.framed.offset,
            cause=Cause.OFFSET_INDEX if past_index else Cause.SIZE,
            severity=Severity.ERROR,
            message="the last entry points past the end of the log",
        )
        found = matching[0] if matching else found
        here = contents_from(
            self.directory / file_name(base, "log"), base, self.framed.position
        )
        remedy = f": remove this {file} before a broker starts" if past_index else ""
        told = describe_loss(
            replace(found, recovery=Recovery.OVERWRITE),
            first=self.framed.offset,
            end=end,
            records=here.records,
            segments=0,
            is_metadata=False,
            remedy=remedy,
        )
        return [one for one in problems if one not in matching[:1]] + [told]

    def _find_cuts(self, problems: list[Problem]) -> None:
        """Find where each segment that is read through would be cut first."""
        for problem in sorted(problems, key=lambda one: one.order):
            file = Path(problem.path).name
            name = self.names.get(file)
            if name is None or name.kind != "log" or self._goes(file):
                continue
            base, path = name.base_offset, self.directory / file
            if base in self.cuts:
                continue
            if base not in self.read_through:
                continue
            with suppress(FileNotFoundError):
                if (cut := find_cut(path, base, problem)) is not None:
                    self.cuts[base] = cut
        if self.framed is not None and self.framed.is_refused:
            self.cuts[self.bases[-1]] = Cut(Recovery.REFUSE, self.framed.position)
        for base in self.unflushed:
            # One that is read for its index alone is cut then, and is whole later.
            cut = self.cuts.get(base)
            if cut is None or cut.recovery != Recovery.TRUNCATE:
                continue
            if base not in self.alone:
                self.dropped = {one for one in self.bases if one > base}
                break

    def _is_read_alone(self, base: int) -> bool:
        """Whether a segment is read through for want of a sound index."""
        index, swapped = file_name(base, "index"), file_name(base, "index", "swap")
        if index not in self.names and swapped not in self.names:
            return True
        aborted = file_name(base, "txnindex")
        with suppress(FileNotFoundError):
            if aborted in self.names:
                return ends_too_early(self.directory / aborted, base)
        return False

    def _goes(self, file: str) -> bool:
        """Whether a file is removed whatever is in it, or another takes its place."""
        name = self.names[file]
        if self.state == "delete" or name.suffix in GOES:
            return True
        if name.suffix == "swap":
            cleaned = (
                one.base_offset
                for one in self.names.values()
                if one.suffix == "cleaned"
            )
            return any(least <= name.base_offset for least in cleaned)
        swapped = replace(name, suffix="swap").name
        return swapped in self.names and not self._goes(swapped)

    def _judge(self, problem: Problem) -> tuple[Recovery, int | None]:
        file = Path(problem.path).name
        name = self.names.get(file) or parse_file_name(file)
        if problem.cause in (Cause.UNREADABLE, Cause.FOREIGN):
            return Recovery.REFUSE, None
        if problem.cause == Cause.TOPIC_ID:
            return Recovery.STRAY, None
        if problem.cause == Cause.GAP:
            return Recovery.NOTHING, None
        if self.state == "delete":
            return Recovery.DELETE, None
        if name is None:
            return self._small(file, problem), None
        if file in self.names and self._goes(file):
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
        """Tell of a log: what lies at or behind a cut goes with it."""
        if problem.cause == Cause.SEGMENT_SIZE:
            return Recovery.REFUSE, None
        cut, at = self.cuts.get(base), problem.position
        if cut is not None and at is not None and at >= cut.begins:
            return cut.recovery, cut.position
        return Recovery.NOTHING, None

    def _index(self, name: SegmentFile, problem: Problem) -> Recovery:
        """Tell of an index: it is made anew with its segment, or is not looked at."""
        cut = self.cuts.get(name.base_offset)
        if cut is not None and cut.recovery == Recovery.REFUSE:
            return Recovery.REFUSE
        if name.base_offset in self.read_through:
            return Recovery.REBUILD
        missing = problem.cause == Cause.MISSING
        return Recovery.RESET if missing else Recovery.NOTHING

    def _snapshot(self, offset: int, problem: Problem) -> Recovery:
        """Tell of a producer snapshot."""
        unflushed = self.unflushed
        kept = [one for one in self.bases if one not in self.dropped]
        if problem.cause == Cause.LOG_END:
            return Recovery.DELETE if offset > self._end() else Recovery.NOTHING
        if unflushed and offset > unflushed[0]:
            whole = not self.cuts and offset == self.end
            return Recovery.REBUILD if offset in kept or whole else Recovery.DELETE
        if problem.cause in UNREAD and self._is_wanted(offset, unflushed):
            anew = offset in kept[-2:] or offset in (self.end, *unflushed[:1])
            return Recovery.REBUILD if anew else Recovery.DELETE
        stray = offset not in kept and offset < max(kept, default=0)
        return Recovery.DELETE if stray else Recovery.NOTHING

    def _end(self) -> int:
        """Return the offset after the log, as a broker finds it."""
        return (self.end or 0) if self.framed is None else self.framed.offset

    def _is_wanted(self, offset: int, unflushed: list[int]) -> bool:
        """Whether a snapshot is the newest below where producers are rebuilt."""
        until = unflushed[0] if unflushed else self.end
        there = (
            one.base_offset
            for one in self.names.values()
            if one.kind == "snapshot" and one.suffix is None
        )
        newer = (one for one in there if until is None or one <= until)
        return offset > self.log_start_offset and offset >= max(newer, default=0)

    def _metadata_snapshot(self, offset: int) -> Recovery:
        there = (
            one.base_offset
            for one in self.names.values()
            if one.kind == "checkpoint" and one.suffix is None
        )
        newest = max(there, default=offset)  # none, where a link was named
        return Recovery.REFUSE if offset == newest else Recovery.NOTHING

    def _small(self, file: str, problem: Problem) -> Recovery:
        """Tell of a file that every start reads."""
        if file != LEADER_EPOCHS or problem.cause == Cause.FORMAT:
            return Recovery.REFUSE
        if problem.cause == Cause.LEADER_EPOCH:
            return Recovery.REBUILD if self.unflushed else Recovery.NOTHING
        return Recovery.RESET
