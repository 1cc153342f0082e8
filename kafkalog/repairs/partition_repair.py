"""The repair of one partition, made in a temporary directory and verified there.

1. The damaged parts of its ``.log`` files are not copied, see `log_excerpt`.
2. A log is loaded from stand-ins of the files, without those that are damaged. Loading
   rebuilds them, as a broker does: indexes with their segment, snapshots at its end,
   leader epochs from the batches.
3. The result is verified. It is used only if it has fewer errors than the original.

Nothing in the partition's directory is changed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from kafkalog.config import BrokerConfig, LogConfig
from kafkalog.formats.checkpoint import EpochEntry
from kafkalog.formats.layout import MAX_OFFSET_DELTA
from kafkalog.integer_limits import MAX_INT64
from kafkalog.log.leader_epochs import read_epochs
from kafkalog.log.reading.cluster_metadata import METADATA_PARTITION
from kafkalog.log.reading.log_segments import segments_read
from kafkalog.log.topic_settings import PartitionSettings
from kafkalog.rehearsal.log_rehearsal import (
    CheckpointedOffsets,
    LogRehearsal,
    LogStartError,
    rehearse,
)
from kafkalog.rehearsal.rehearsal_disk import RehearsalDisk
from kafkalog.rehearsal.swap_losses import find_losses, read_swaps
from kafkalog.repairs.header_correction import correct_epochs
from kafkalog.repairs.log_excerpt import (
    LogExcerpt,
    LostBytes,
    excerpt_of,
    without_covered,
)
from kafkalog.repairs.repair_report import RepairAction, RepairKind
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.checkpoint_file import CHECKPOINTS, LEADER_EPOCHS
from kafkalog.storage.durable_file import UNSYNCED
from kafkalog.storage.file_names import (
    CLEAN_SHUTDOWN,
    INDEXES,
    MAX_OFFSET,
    PARTITION_METADATA,
    FileKind,
    PartitionDir,
    SegmentFile,
    file_name,
    parse_file_name,
)
from kafkalog.storage.leftover_names import offset_of, sort_leftovers
from kafkalog.storage.location import entries, is_file
from kafkalog.verification.partition_checks import TAILS
from kafkalog.verification.path_verification import verify_locked
from kafkalog.verification.recovery_outlook import STRAYS
from kafkalog.verification.verification_report import (
    Cause,
    Problem,
    Recovery,
    Severity,
)

LOG_CAUSES: Final = frozenset(
    {
        Cause.SIZE,
        Cause.MAGIC,
        Cause.CRC,
        Cause.OFFSET,
        Cause.COMPRESSION,
        Cause.RECORDS,
        Cause.CONTROL,
        Cause.INCOMPLETE,
        Cause.PREALLOCATED,
    }
)
"""Causes of errors for which bytes of a log are not kept."""

CORRUPT: Final = LOG_CAUSES - {Cause.OFFSET, Cause.PREALLOCATED}
"""Causes of errors of logs for which records are missing."""

RECORD_CAUSES: Final = frozenset({Cause.COMPRESSION, Cause.RECORDS, Cause.CONTROL})
"""Causes of errors of entries that a reader of headers accepts."""

BROKER_REPAIRS: Final = frozenset({Recovery.REBUILD, Recovery.TRUNCATE})
"""Actions of a broker that make a warning need no repair."""

_LEFTOVERS: Final = ("deleted", "cleaned")
"""Suffixes of files that a broker deletes when it starts."""

UNLOADED_CAUSES: Final = (Cause.FOREIGN, Cause.UNREADABLE, Cause.TOPIC_ID)
"""Causes for which a file is not part of the log that is loaded."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """The new content of a file, which is in `result`; None if it is removed.

    `path` is relative to the log directory.
    """

    path: str
    result: Path | None
    action: RepairAction

    @property
    def loses_data(self) -> bool:
        """Whether more than zeros is taken out of a log."""
        return self.action.first_offset is not None


@dataclass(kw_only=True)
class PartitionDamage:
    """A partition's directory, its problems, and the offsets in the checkpoints.

    `name` is None if the directory has another name than a partition's. The paths of
    problems are file names.
    """

    directory: Path
    name: PartitionDir | None
    problems: tuple[Problem, ...]
    offsets: CheckpointedOffsets
    config: LogConfig
    broker: BrokerConfig = field(default_factory=BrokerConfig)

    @cached_property
    def logs(self) -> list[int]:
        """The base offsets of the segments."""
        return sorted(
            name.base_offset
            for name in self.file_names.values()
            if name.kind == "log" and name.suffix is None
        )

    @cached_property
    def segments_read(self) -> dict[int, LogSegment]:
        """The segments that a reader reads, by base offset."""
        files = [(base, file_name(base, "log")) for base in self.logs]
        read = segments_read(self.directory, files)
        return {segment.base_offset: segment for segment in read}

    @cached_property
    def file_names(self) -> dict[str, SegmentFile]:
        """The files that are named by an offset."""
        parsed = {
            entry.name: parse_file_name(entry.name)
            for entry in entries(self.directory)
            if is_file(entry)
        }
        return {file: name for file, name in parsed.items() if name is not None}

    @property
    def errors(self) -> int:
        """The number of errors."""
        return sum(problem.severity == Severity.ERROR for problem in self.problems)

    def leader_epochs(self) -> list[EpochEntry]:
        """Return the entries of the checkpoint of leader epochs, none if it is bad."""
        if any(problem.path == LEADER_EPOCHS for problem in self.problems):
            return []
        return read_epochs(self.directory / LEADER_EPOCHS)

    def damaged_logs(
        self, causes: Collection[Cause] = LOG_CAUSES
    ) -> dict[int, list[Problem]]:
        """Return the errors of logs with these causes, by base offset."""
        found: dict[int, list[Problem]] = {}
        for problem in self.problems:
            name = parse_file_name(problem.path)
            if (
                name is not None
                and (name.kind, name.suffix) == ("log", None)
                and problem.severity == Severity.ERROR
                and problem.cause in causes
            ):
                found.setdefault(name.base_offset, []).append(problem)
        return found

    def damaged_files(self) -> dict[str, Problem]:
        """Return the files next to the logs that are to be rebuilt or removed.

        Each is returned with its first problem.
        """
        found: dict[str, Problem] = {}
        for problem in self.problems:
            for file in self._files_to_replace(problem):
                found.setdefault(file, problem)
        return found

    def _files_to_replace(self, problem: Problem) -> Iterator[str]:
        """Yield the files next to the logs for which a problem needs a repair."""
        name = parse_file_name(problem.path)
        if problem.cause == Cause.LEADER_EPOCH and problem.last_offset is not None:
            # Several batches agree on epochs that the checkpoint does not have.
            yield LEADER_EPOCHS
        if name is None:
            if problem.path == LEADER_EPOCHS and _needs_repair(problem):
                yield problem.path
        elif name.suffix is None:
            is_sidecar = name.kind in (*INDEXES, "snapshot")
            if is_sidecar and _needs_repair(problem):
                yield problem.path
        elif problem.severity != Severity.ERROR:
            return
        elif problem.cause == Cause.SWAP:
            if name.base_offset in self._needless_swaps:
                yield from self._swap_files(name.base_offset, ("log", *INDEXES))
        elif name.suffix == "swap" and name.kind in INDEXES:
            # Without any of its indexes, the segment gets new ones from a broker.
            yield from self._swap_files(name.base_offset, INDEXES)
        elif name.suffix in _LEFTOVERS and problem.recovery == Recovery.DELETE:
            yield problem.path

    def _swap_files(self, base: int, kinds: Iterable[FileKind]) -> Iterator[str]:
        """Yield the ``.swap`` files of a segment that exist."""
        names = {file_name(base, kind, "swap") for kind in kinds}
        yield from sorted(self.file_names.keys() & names)

    @cached_property
    def _needless_swaps(self) -> set[int]:
        """The damaged swaps without which the segments have all records."""
        swapped = sort_leftovers(self.file_names).swapped_logs
        compacts = self.config.compact or self.offsets.cleaned_to is not None
        swaps = read_swaps(
            self.directory, sorted(map(offset_of, swapped)), compacts=compacts
        )
        logs = [(self.directory / file_name(base, "log"), base) for base in self.logs]
        losses = find_losses(logs, swaps)
        return {each.content.base_offset for each in losses if each.is_covered}


def _needs_repair(problem: Problem) -> bool:
    """Return whether a problem of a file next to the logs needs a repair.

    A warning about a file that a broker rebuilds needs none.
    """
    if problem.cause in UNLOADED_CAUSES:
        return False
    by_broker = problem.recovery in BROKER_REPAIRS or problem.cause == Cause.VERSION
    return problem.severity != Severity.WARNING or not by_broker


def is_overlap(problem: Problem) -> bool:
    """Return whether a problem is a segment that continues past the next one."""
    return problem.cause == Cause.OFFSET and problem.position is None


def is_far(problem: Problem) -> bool:
    """Return whether a problem is of offsets too far above a segment's base offset."""
    name = parse_file_name(Path(problem.path).name)
    if name is None or problem.cause != Cause.OFFSET or problem.offset is None:
        return False
    return problem.offset - name.base_offset > MAX_OFFSET_DELTA


@dataclass(slots=True, kw_only=True)
class PartitionResult:
    """The changes that repair a partition, and the report of verifying the result.

    `end_offset` is the log end offset then, None if logs stay damaged. `failures` are
    the errors of attempts.
    """

    changes: list[FileChange] = field(default_factory=list)
    problems: tuple[Problem, ...] = ()
    end_offset: int | None = None
    failures: list[str] = field(default_factory=list)

    @property
    def errors(self) -> int:
        """The number of errors that are left."""
        return sum(problem.severity == Severity.ERROR for problem in self.problems)

    @property
    def has_damaged_logs(self) -> bool:
        """Whether an error of the logs themselves is left, for which records are lost.

        No record is lost for segments that overlap, or with offsets too far apart.
        """
        return any(
            problem.severity == Severity.ERROR
            and problem.cause in LOG_CAUSES
            and not (is_far(problem) or is_overlap(problem))
            for problem in self.problems
            if problem.path.endswith(".log")
        )

    @property
    def loses_data(self) -> bool:
        """Whether more than zeros is taken out of the logs."""
        return any(change.loses_data for change in self.changes)

    @property
    def order(self) -> tuple[int, bool, int]:
        """Sort key: errors, whether logs are damaged, problems."""
        return self.errors, self.has_damaged_logs, len(self.problems)


def repair_partition(
    damage: PartitionDamage, place: Path, *, allow_data_loss: bool
) -> PartitionResult:
    """Return the changes that leave the fewest errors, none if none leaves fewer.

    A log is only cut if an error in a log is left when the damage is skipped. New files
    are written to `place`. Without `allow_data_loss` logs lose at most zeros at their
    end.
    """
    best = PartitionResult(problems=damage.problems)
    failures = []
    skipping = sorted(
        [*_without_covered(damage), *_skipping(damage)],
        key=lambda each: each.base_offset,
    )
    ways: Iterator[list[LogExcerpt]] = _ways(damage, skipping)
    if not allow_data_loss:
        ways = iter([[each for each in skipping if not each.loses_data]])
    for number, excerpts in enumerate(ways):
        attempt = _Attempt(damage, place / str(number), excerpts)
        result = attempt.result()
        if attempt.failure is not None:
            failures.append(attempt.failure)
        if result is None or result.order >= best.order:
            continue
        if result.errors < damage.errors or not result.loses_data:
            best = result
        if not best.has_damaged_logs:
            break
    best.failures = failures
    return best


def _without_covered(damage: PartitionDamage) -> list[LogExcerpt]:
    """Return what is left of the segments that an earlier one covers, in order.

    There is nothing to do if a record is only in a segment that is not read. If the
    covering segment is damaged, the old ones may have what is missing there.
    """
    excerpts: list[LogExcerpt] = []
    damaged = damage.damaged_logs(CORRUPT)
    covered_to, may_be_needed = -1, False
    for base in damage.logs:
        segment = damage.segments_read.get(base)
        if base < covered_to:
            path = damage.directory / file_name(base, "log")
            excerpt = without_covered(
                LogSegment(path, base), covered_to, may_be_needed=may_be_needed
            )
            if excerpt is None or (segment is None and not excerpt.is_dropped):
                return []
            excerpts.append(excerpt)
        elif segment is not None and segment.covers_others:
            may_be_needed = base in damaged
            covered_to = segment.most + 1
    return excerpts


def _skipping(damage: PartitionDamage) -> list[LogExcerpt]:
    """Return the valid parts of the damaged segments, in order.

    Segments that an earlier one covers are not read, and are left out.
    """
    skipping = []
    found = damage.damaged_logs(LOG_CAUSES | {Cause.LEADER_EPOCH})
    for base, problems in sorted(found.items()):
        segment = damage.segments_read.get(base)
        if segment is None or segment.covered_to is not None:
            continue
        most = segment.most
        path = damage.directory / file_name(base, "log")
        positions = [
            problem.position
            for problem in problems
            if problem.cause in RECORD_CAUSES and problem.position is not None
        ]
        excerpt = excerpt_of(path, base, most, positions)
        epochs = [
            problem.position
            for problem in problems
            if problem.cause == Cause.LEADER_EPOCH
            and problem.position is not None
            and problem.last_offset is None
        ]
        if epochs:
            excerpt.corrections += correct_epochs(
                path, base, most, epochs, damage.leader_epochs()
            )
        if excerpt.lost or excerpt.corrections:
            skipping.append(excerpt)
    return skipping


def _ways(
    damage: PartitionDamage, skipping: list[LogExcerpt]
) -> Iterator[list[LogExcerpt]]:
    """Yield the excerpts to try: without the damaged batches, then up to the first.

    A gap in the cluster's metadata would make it inconsistent: it is only cut.
    """
    is_losing = any(each.lost for each in skipping)
    if not is_losing or damage.directory.name != METADATA_PARTITION:
        yield skipping
    if is_losing:
        yield _cutting(damage, skipping)


def _cutting(damage: PartitionDamage, skipping: list[LogExcerpt]) -> list[LogExcerpt]:
    """Return the excerpts of a log that ends where `skipping` first loses bytes."""
    place = next(i for i, each in enumerate(skipping) if each.lost)
    first = skipping[place]
    later = [base for base in damage.logs if base > first.base_offset]
    excerpts = [
        excerpt_of(damage.directory / file_name(base, "log"), base, MAX_INT64, ())
        for base in later
    ]
    ends = [(each.base_offset, each.end_offset) for each in excerpts]
    cutting = [*skipping[:place], first.up_to_first_loss(ends)]
    for each in excerpts:
        base, end = each.base_offset, each.end_offset
        lost = LostBytes(
            0,
            each.size,
            base,
            end - 1 if end > base else None,
            is_tail=True,
            known_records=each.records_from(0),
        )
        cutting.append(LogExcerpt(each.path, base, each.size, [], [lost], base, True))
    return cutting


class _Attempt:
    """One way to repair a partition: with these excerpts of its logs."""

    def __init__(
        self, damage: PartitionDamage, place: Path, excerpts: Sequence[LogExcerpt]
    ) -> None:
        self._damage = damage
        self._place = place
        self.failure: str | None = None
        self._excerpts = {each.base_offset: each for each in excerpts}
        self._files = damage.damaged_files()
        self._names = damage.file_names
        losing = [each.base_offset for each in excerpts if each.loses_data]
        self._first_loss = min(losing, default=MAX_OFFSET)
        self._dropped = {
            each.base_offset
            for each in excerpts
            if each.is_dropped or each.new_base_offset is not None
        }
        renamed = {
            each.new_base_offset
            for each in excerpts
            if each.new_base_offset is not None
        }
        self._bases = sorted((set(damage.logs) - self._dropped) | renamed)

    def result(self) -> PartitionResult | None:
        """Return the changes and the remaining problems; None if there are none.

        If loading fails, `failure` has the reason.
        """
        damaged = set(self._damage.damaged_logs()) - set(self._excerpts)
        if damaged:
            # What depends on a log that stays damaged cannot be rebuilt.
            self._files = {
                file: problem
                for file, problem in self._files.items()
                if file in self._names
                and self._names[file].kind != "snapshot"
                and self._names[file].base_offset not in damaged
            }
        if not self._bases:  # without a log there is nothing to rebuild files from
            return None
        if not self._files and not self._excerpts:
            return None
        UNSYNCED.make_directories(self._place)
        damage = self._damage
        try:
            with rehearse(
                damage.directory,
                self._offsets(),
                PartitionSettings(damage.config, is_tiered=None),
                damage.broker,
                self._prepare,
            ) as rehearsal:
                report = rehearsal.report
                cut = {each.base_offset for each in report.recovered if each.bytes_cut}
                # Loading loses or moves records that the excerpts do not account for.
                if cut - damaged or report.dropped or report.split:
                    return None
                rehearsal.log.close()
                end = rehearsal.log.log_end_offset
                changes = list(self._changes(rehearsal))
        except LogStartError as error:
            self.failure = str(error)
            return None
        problems = self._verify(changes)
        return PartitionResult(
            changes=changes,
            problems=problems,
            end_offset=None if damaged else end,
        )

    def _offsets(self) -> CheckpointedOffsets:
        """Return the checkpointed offsets, none after the end of a log that is cut."""
        offsets, last = self._damage.offsets, self._excerpts.get(self._bases[-1])
        if last is None or last.end_offset >= (offsets.log_start_offset or 0):
            return offsets
        return replace(offsets, log_start_offset=last.end_offset)

    def _prepare(self, copy: Path, disk: RehearsalDisk) -> None:
        """Remove from the stand-ins what is damaged, so that loading rebuilds it."""
        for base, excerpt in self._excerpts.items():
            disk.remove(copy / file_name(base, "log"))
            if excerpt.new_name is not None:
                kept = self._place / excerpt.new_name
                excerpt.write(kept, UNSYNCED)
                # Loading changes no byte of it.
                disk.make_hard_link(kept, copy / excerpt.new_name)
        for file, position in self._tails().items():
            with disk.open(copy / file) as log_file:
                log_file.truncate(position)
        for file in self._not_loaded():
            if not (copy / file).is_dir():  # stays, and keeps the log from loading
                disk.remove_if_there(copy / file)

    def _not_loaded(self) -> set[str]:
        """Return the files that are not loaded: damaged, foreign, or of lost bytes."""
        bases = {base for base, each in self._excerpts.items() if each.changes_entries}
        not_loaded = {
            problem.path
            for problem in self._damage.problems
            if problem.cause in UNLOADED_CAUSES or problem.path == PARTITION_METADATA
        }
        for file in self._files:
            name = self._names.get(file) or parse_file_name(file)
            if name is not None and name.suffix is not None:
                continue
            if file == LEADER_EPOCHS:
                not_loaded.add(file)
                bases.update(self._bases)
            elif name is not None and name.kind == "snapshot":
                not_loaded.add(file)
                before = [base for base in self._bases if base < name.base_offset]
                bases.update(before[-1:])
            elif name is not None:
                bases.add(name.base_offset)
        for base in bases:
            if base in self._bases or base in self._dropped:
                not_loaded.update(file_name(base, kind) for kind in INDEXES)
        not_loaded.update(
            file
            for file, name in self._names.items()
            if name.kind == "snapshot" and name.base_offset > self._first_loss
        )
        not_loaded.update(file for file, name in self._names.items() if name.suffix)
        return not_loaded

    def _tails(self) -> dict[str, int]:
        """Return where the entries of segments end that have other bytes after them."""
        return {
            problem.path: problem.position
            for problem in self._damage.problems
            if problem.cause in TAILS
            and problem.position is not None
            and (name := self._names.get(problem.path)) is not None
            and (name.kind, name.suffix) == ("log", None)
            and name.base_offset not in self._excerpts
        }

    def _changes(self, rehearsal: LogRehearsal) -> list[FileChange]:
        """Return the files that differ, and keep their new content."""
        changes = []
        for base in sorted(self._excerpts, reverse=True):
            changes += self._log_changes(base)
        wanted = self._wanted(rehearsal)
        for file in sorted(wanted):
            before, after = self._damage.directory / file, rehearsal.copy / file
            reason = wanted[file]
            if os.path.lexists(before) and not is_file(before):
                continue  # a link or a directory is not Kafka's, and stays
            if not after.is_file():
                if is_file(before):
                    changes.append(self._change(file, RepairKind.REMOVE, reason))
                continue
            rehearsal.disk.copy_content(after)
            data = after.read_bytes()
            if is_file(before) and before.read_bytes() == data:
                continue
            UNSYNCED.replace(self._place / file, data)
            changes.append(
                self._change(file, RepairKind.REBUILD, reason, self._place / file)
            )
        return changes

    def _wanted(self, rehearsal: LogRehearsal) -> dict[str, str]:
        """Return the files to take from the loaded log, and the reason of each."""
        wanted = {
            file: f"{problem.cause}: {problem.reason}"
            for file, problem in self._files.items()
        }
        for base, excerpt in self._excerpts.items():
            if not excerpt.changes_entries:
                continue
            reason = f"{file_name(base, 'log')} is changed"
            for kind in INDEXES:
                wanted.setdefault(file_name(base, kind), reason)
                if excerpt.new_base_offset is not None:
                    new = file_name(excerpt.new_base_offset, kind)
                    wanted.setdefault(new, reason)
        if any(each.loses_data for each in self._excerpts.values()):
            reason = "bytes of the log are removed"
            found = set(self._names)
            if is_file(self._damage.directory.parent / CLEAN_SHUTDOWN):
                found.update(path.name for path in rehearsal.copy.glob("*.snapshot"))
            for file in found:
                name = parse_file_name(file)
                if (
                    name is not None
                    and (name.kind, name.suffix) == ("snapshot", None)
                    and name.base_offset > self._first_loss
                ):
                    wanted.setdefault(file, reason)
            if is_file(self._damage.directory / LEADER_EPOCHS):
                wanted.setdefault(LEADER_EPOCHS, reason)
        return wanted

    def _log_changes(self, base: int) -> list[FileChange]:
        excerpt = self._excerpts[base]
        file = excerpt.path.name
        if any(lost.is_covered for lost in excerpt.lost):
            return self._covered_changes(excerpt)
        result = None if base in self._dropped else self._place / file
        changes = []
        for lost in excerpt.lost:
            is_last = base >= self._bases[-1]
            is_cut = lost.is_tail and (is_last or lost.is_zeros)
            kind = RepairKind.CUT if is_cut else RepairKind.SKIP
            reason = self._reason(file, lost.position, lost.end)
            action = RepairAction(
                path=self._path(file),
                action=kind,
                position=lost.position,
                reason=reason,
                records_lost=lost.records,
                topic=self._topic,
                partition=self._partition,
                first_offset=None if lost.is_zeros else lost.first_offset,
                last_offset=None if lost.is_zeros else lost.last_offset,
                bytes_lost=lost.end - lost.position,
            )
            changes.append(FileChange(self._path(file), result, action))
        for correction in excerpt.corrections:
            action = RepairAction(
                path=self._path(file),
                action=RepairKind.REWRITE,
                position=correction.position,
                reason=f"batch header: {correction.description}",
                topic=self._topic,
                partition=self._partition,
            )
            changes.append(FileChange(self._path(file), result, action))
        return changes

    def _covered_changes(self, excerpt: LogExcerpt) -> list[FileChange]:
        """Return the removal of a segment, and the new one with what is kept of it."""
        [lost] = excerpt.lost
        reason = (
            f"offset: an earlier segment has the offsets to {lost.last_offset}, "
            "compacted later"
        )
        removal = self._change(excerpt.path.name, RepairKind.REMOVE, reason)
        if lost.may_be_needed:
            action = replace(
                removal.action,
                reason=f"{reason}, and is damaged",
                first_offset=lost.first_offset,
                last_offset=lost.last_offset,
            )
            removal = replace(removal, action=action)
        changes = [removal]
        if excerpt.new_name is not None:
            reason = f"{excerpt.path.name} from offset {excerpt.new_base_offset} on"
            result = self._place / excerpt.new_name
            changes.append(
                self._change(excerpt.new_name, RepairKind.REBUILD, reason, result)
            )
        return changes

    def _reason(self, file: str, position: int, end: int) -> str:
        """Return the first problem of bytes of a log."""
        effect = ""
        if self._damage.directory.name == METADATA_PARTITION:
            effect = f"; {STRAYS}"
        for problem in self._damage.problems:
            if problem.path == file and position <= (problem.position or 0) < end:
                return f"{problem.cause}: {problem.reason}{effect}"
        return f"the log is cut before this segment{effect}"

    @property
    def _topic(self) -> str | None:
        return None if self._damage.name is None else self._damage.name.topic

    @property
    def _partition(self) -> int | None:
        return None if self._damage.name is None else self._damage.name.partition

    def _path(self, file: str) -> str:
        return f"{self._damage.directory.name}/{file}"

    def _change(
        self, file: str, kind: RepairKind, reason: str, result: Path | None = None
    ) -> FileChange:
        action = RepairAction(
            path=self._path(file),
            action=kind,
            reason=reason,
            topic=self._topic,
            partition=self._partition,
        )
        return FileChange(self._path(file), result, action)

    def _verify(self, changes: Iterable[FileChange]) -> tuple[Problem, ...]:
        """Verify the partition with its changes; logs and indexes are links.

        The topic id stays as it is, and so does its problem, which is found with the
        cluster's metadata.
        """
        source, root = self._damage.directory, self._place / "result"
        results = {Path(each.path).name: each.result for each in changes}
        directory = root / source.name
        UNSYNCED.make_directories(directory)
        for name in (*CHECKPOINTS, CLEAN_SHUTDOWN):
            if is_file(source.parent / name):
                UNSYNCED.copy_file(source.parent / name, root / name)
        for path in source.iterdir():
            if not is_file(path):
                continue
            result = results.pop(path.name, path)
            if result is not None:
                _stand_in(result, directory / path.name)
        for file, result in results.items():
            if result is not None:
                _stand_in(result, directory / file)
        found = verify_locked(directory, links=True).problems
        kept = [each for each in self._damage.problems if each.cause == Cause.TOPIC_ID]
        return (*found, *kept)


def _stand_in(path: Path, target: Path) -> None:
    """Put a file at `target`: a link for logs and indexes, a copy for small files."""
    if path.name.endswith((".log", *INDEXES)):
        UNSYNCED.make_symbolic_link(path.absolute(), target)
    else:
        UNSYNCED.copy_file(path, target)
