"""Loading of one log as a broker loads it, without changing it.

`load_log` loads stand-ins of the log's files on a `RehearsalDisk`. Its report states
what was read, cut and deleted. The records that this loses are counted in the
originals. Compaction is tried in the same way: its output is discarded.

Source: ``LogManager.loadLog``, ``LogLoader.java``, ``Cleaner.java``.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from errno import EDQUOT, EMFILE, ENFILE, ENOSPC
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple, Self

from kafkalog.config import BrokerConfig
from kafkalog.errors import LocatedError
from kafkalog.log.clock import Clock, IdleScheduler
from kafkalog.log.ownership import Name
from kafkalog.log.recovery.log_loading import load_log
from kafkalog.log.recovery.recovery_report import RecoveredSegment, RecoveryReport
from kafkalog.log.runtime import DISK_FAILURES
from kafkalog.log.topic_settings import PartitionSettings
from kafkalog.log.writable_log import WritableLog
from kafkalog.rehearsal.rehearsal_disk import (
    FilesLeft,
    Original,
    RehearsalDirectory,
    RehearsalDisk,
)
from kafkalog.rehearsal.segment_contents import contents_from
from kafkalog.rehearsal.swap_losses import SwapLoss, find_losses, read_swaps
from kafkalog.storage.checkpoint_file import (
    CLEANED_TO,
    LEADER_EPOCHS,
    LOG_STARTS,
    RECOVERY_POINTS,
    Offsets,
    read_offsets_or_none,
)
from kafkalog.storage.file_names import (
    CLEAN_SHUTDOWN,
    MAX_OFFSET,
    METADATA_TOPIC,
    PARTITION_METADATA,
    file_name,
    parse_file_name,
)
from kafkalog.storage.leftover_names import offset_of
from kafkalog.storage.location import is_file

FATAL: Final = ("NullPointerException", "IllegalArgumentException")
"""Exceptions for a small file that end the broker, not only its directory."""

MAX_REHEARSALS: Final = 5
"""Number of times a log is loaded while a broker renames or removes its files."""

OUT_OF_SPACE: Final = (ENOSPC, EDQUOT, EMFILE, ENFILE)
"""Errors of the temporary directory, which say nothing of the log."""

READ_BY_PATH: Final = (PARTITION_METADATA, LEADER_EPOCHS)

Prepare = Callable[[Path, RehearsalDisk], None]
"""Function that changes the stand-ins in a directory before they are loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointedOffsets:
    """The offsets of a log in the checkpoints of its log directory.

    `clean` is whether the last shutdown was clean. `cleaned_to` is None if the log was
    never compacted.
    """

    clean: bool
    log_start_offset: int | None = None
    recovery_point: int = 0
    cleaned_to: int | None = None


class DirectoryOffsets(NamedTuple):
    """The offset checkpoints of a log directory, and whether its shutdown was clean."""

    clean: bool
    checkpoints: Mapping[str, Offsets]

    @classmethod
    def read(cls, root: Path) -> DirectoryOffsets:
        """Read the checkpoints; one that cannot be read has no offsets."""
        checkpoints: dict[str, Offsets] = {}
        for name in (LOG_STARTS, RECOVERY_POINTS, CLEANED_TO):
            checkpoints[name] = {}
            with suppress(OSError):
                checkpoints[name] = read_offsets_or_none(root, name)
        return cls(is_file(root / CLEAN_SHUTDOWN), checkpoints)

    def of(self, name: Name | None) -> CheckpointedOffsets:
        """Return the offsets of a partition, none if it has no `name`.

        The cluster's metadata is loaded as after a crash, without offsets.
        """
        if name is None:
            return CheckpointedOffsets(clean=self.clean)
        if name[0] == METADATA_TOPIC:
            return CheckpointedOffsets(clean=False)
        return CheckpointedOffsets(
            clean=self.clean,
            log_start_offset=self.checkpoints[LOG_STARTS].get(name),
            recovery_point=self.checkpoints[RECOVERY_POINTS].get(name, 0),
            cleaned_to=self.checkpoints[CLEANED_TO].get(name),
        )


class SegmentLoss(NamedTuple):
    """What is lost of a segment from byte `position` on.

    These are `records` with offsets from `first_offset` to before `end_offset`, and
    `size` bytes of the file.
    """

    base_offset: int
    position: int
    first_offset: int
    end_offset: int
    records: int
    size: int = 0


@dataclass(slots=True)
class LossCount:
    """What recovery cuts, deletes or hides of a log.

    `cut` and `dropped` are by base offset. `hidden` is what is in the last segment
    after the log end offset, in `trailing` bytes. `ignored` are the files whose name is
    that of no segment. `segments` is the number of dropped segments, with those that
    `swaps` replace.
    """

    cut: dict[int, SegmentLoss] = field(default_factory=dict)
    dropped: dict[int, SegmentLoss] = field(default_factory=dict)
    hidden: SegmentLoss | None = None
    ignored: dict[str, SegmentLoss] = field(default_factory=dict)
    swaps: list[SwapLoss] = field(default_factory=list)
    segments: int = 0
    trailing: int = 0

    def _all(self) -> list[SegmentLoss | SwapLoss]:
        hidden = [] if self.hidden is None else [self.hidden]
        parts = (self.cut.values(), self.dropped.values(), self.ignored.values())
        return [*chain.from_iterable(parts), *hidden, *self.swaps]

    @property
    def first_offset(self) -> int | None:
        """The first offset that is lost, None if none is."""
        return min((loss.first_offset for loss in self._all()), default=None)

    @property
    def size(self) -> int:
        """The bytes that are cut or deleted."""
        return sum(loss.size for loss in self._all())

    @property
    def records(self) -> int:
        """The readable records that are lost."""
        return sum(loss.records for loss in self._all())


class LogRehearsal:
    """A log that was loaded on a disk of its own.

    `directory` is the log's, `log` is open in a temporary directory. `seconds` is the
    time that loading took. `is_compacted` is whether the log was ever compacted.
    """

    def __init__(
        self,
        directory: Path,
        log: WritableLog,
        disk: RehearsalDisk,
        seconds: float,
        *,
        is_compacted: bool,
    ) -> None:
        self.directory = directory
        self.log = log
        self._compacts = log.config.compact or is_compacted
        self.disk = disk
        self.seconds = seconds
        self.copy = Path(str(log.path))

    @property
    def report(self) -> RecoveryReport:
        """What loading found and did."""
        return self.log.report

    @property
    def read(self) -> list[tuple[int, int]]:
        """The base offsets of the segments that were read through, with the bytes."""
        recovered = [(each.base_offset, each.bytes_read) for each in self._recovered]
        return [*recovered, *((base, size) for base, size in self.report.replayed)]

    @property
    def bytes_added(self) -> int:
        """Bytes by which the files are larger than before."""
        return self.disk.added_bytes(self.copy)

    @property
    def bytes_written(self) -> int:
        """Bytes that loading has written, without the unused parts of indexes."""
        return self.disk.bytes_written

    @property
    def files(self) -> FilesLeft:
        """The files that are left."""
        return self.disk.files_left(self.copy)

    @property
    def _recovered(self) -> list[RecoveredSegment]:
        return self.report.recovered

    def count_losses(self) -> LossCount:
        """Count the records that are lost."""
        losses, report = LossCount(segments=len(self.report.dropped)), self.report
        swapped = self._count_swapped(losses)
        for segment in self._recovered:
            base = segment.base_offset
            if segment.bytes_cut and base not in (*report.dropped, *swapped):
                loss = self._loss(base, _cut_position(segment), segment.bytes_cut)
                losses.cut[base] = loss._replace(first_offset=segment.end_offset)
        losses.dropped = {
            base: self._loss(base) for base in report.dropped if base not in swapped
        }
        self._count_hidden(losses, is_swapped=self.last_base in swapped)
        for path, base in self._ignored():
            records, end = contents_from(path, base)
            losses.ignored[path.name] = SegmentLoss(base, 0, base, end, records)
        return losses

    def _loss(self, base: int, position: int = 0, size: int = 0) -> SegmentLoss:
        """Return what is lost of a segment from `position` on.

        That are `size` bytes of a segment that loading made, as by a split.
        """
        original = self._original(base)
        if original is None:
            return SegmentLoss(base, position, base, base, 0, size)
        records, end = contents_from(original.path, base, position)
        size = original.size - position
        return SegmentLoss(base, position, base, end, records, size)

    def _ignored(self) -> Iterator[tuple[Path, int]]:
        """Yield each ``.log`` whose name has an offset, but not in 20 digits.

        A broker opens the ``.log`` whose name is the offset in 20 digits instead.
        """
        for path in sorted(self.directory.glob("*.log")):
            base = offset_of(path.name)
            if path.name != file_name(base, "log") and path.is_file():
                yield path, base

    @property
    def last_base(self) -> int:
        """The base offset of the last segment."""
        return self.log.growing_segments[-1].base_offset

    def _count_swapped(self, losses: LossCount) -> set[int]:
        """Count what replaced segments lose; return the swaps that replace any."""
        replaced = list(self._replaced())
        if not replaced:
            return set()
        cut = {each.base_offset: each for each in self._recovered if each.bytes_cut}
        bases = sorted(
            name.base_offset
            for file in self.report.renamed
            if (name := parse_file_name(file)) is not None and name.kind == "log"
        )
        swaps = read_swaps(self.directory, bases, compacts=self._compacts)
        for content in swaps:
            base = content.base_offset
            if base in self.report.dropped:
                content.lacks(base, MAX_OFFSET, 0, "deleted by recovery")
            elif base in cut:
                end = cut[base].end_offset
                content.lacks(end, MAX_OFFSET, _cut_position(cut[base]), "cut")
        losses.swaps += find_losses(replaced, swaps)
        return set(bases)

    def _replaced(self) -> Iterator[tuple[Path, int]]:
        """Yield the ``.log`` files that were replaced, with their base offsets."""
        if not self.report.renamed:
            return
        left = {
            original.path
            for path in self.copy.iterdir()
            if path.is_file() and (original := self.disk.original_of(path)) is not None
        }
        for path in sorted(self.directory.glob("*.log")):
            name = parse_file_name(path.name)
            is_log = name is not None and path.is_file() and not path.is_symlink()
            if name is not None and is_log and path not in left:
                yield path, name.base_offset

    def _count_hidden(self, losses: LossCount, *, is_swapped: bool) -> None:
        """Count what is after the end of a last segment that is not recovered.

        Its records are already counted if it `is_swapped`.
        """
        base = self.last_base
        original = self._original(base)
        if original is None or any(
            base == each.base_offset for each in self._recovered
        ):
            return
        end = self.log.growing_segments[-1].find_end()
        losses.trailing = original.size - end.position
        if losses.trailing and not is_swapped:
            loss = self._loss(base, end.position)
            if loss.records:
                losses.hidden = loss._replace(first_offset=end.offset, size=0)

    def count_records(self, base: int, position: int = 0) -> int:
        """Return the number of readable records of a segment from a byte on."""
        return self._loss(base, position).records

    def _original(self, base: int) -> Original | None:
        """Return the original of a ``.log``, which may be marked as deleted by now."""
        name = file_name(base, "log")
        for path in (self.copy / name, self.copy / f"{name}.deleted"):
            if path.is_file():
                return self.disk.original_of(path)
        return None

    def notes(self, losses: LossCount) -> Iterator[str]:
        """Yield what recovery does to the files of the log."""
        report = self.report
        for name in report.removed:
            yield f"{name}: removed"
        for name in report.renamed:
            yield f"{name}: renamed, its compaction or split was complete"
        for name in losses.ignored:
            yield (
                f"{name}: ignored, its name has no offset of 20 digits; the broker "
                f"opens {file_name(offset_of(name), 'log')}, which it creates if it is "
                "missing"
            )
        for loss in losses.swaps:
            yield f"{loss.content.path.name}: {loss.message}; move it away before"
        for base in report.split:
            yield f"{file_name(base, 'log')}: split, its offsets are too far apart"
        for segment in self._recovered:
            name = file_name(segment.base_offset, "log")
            if segment.why != "unflushed":
                yield f"{name}: read to rebuild its indexes: {segment.why}"
            if segment.bytes_cut:
                place = f"byte {_cut_position(segment)}, offset {segment.end_offset}"
                reason = segment.damage or "the last batch is incomplete"
                yield f"{name}: cut at {place}: {reason}"
        if report.dropped:
            first, count = min(report.dropped), len(report.dropped)
            text = f"{count} segments" if count > 1 else "1 segment"
            yield f"{text} from offset {first} on: deleted as a whole"
        recovered = {each.base_offset for each in self._recovered}
        replayed = {base for base, _ in report.replayed} - recovered
        if replayed:
            count = len(replayed)
            text = f"{count} segments are" if count > 1 else "1 segment is"
            yield f"{text} read for the state of producers: no snapshot covers them"
        if losses.trailing:
            name = file_name(self.log.growing_segments[-1].base_offset, "log")
            yield (
                f"{name}: {losses.trailing} bytes after the last batch stay, as the "
                f"last shutdown was clean; the broker appends after them at offset "
                f"{self.log.log_end_offset}, and cannot read what it appends"
            )

    def describe(self, error: Exception) -> str:
        """Return the message of an error, about the log instead of its stand-ins."""
        return describe_error(error).replace(str(self.copy), str(self.directory))


def _cut_position(segment: RecoveredSegment) -> int:
    """Return the byte at which recovery cuts a segment."""
    is_emptied = segment.end_offset == segment.base_offset
    return 0 if is_emptied else segment.bytes_read


class LogStartError(Exception):
    """A log cannot be loaded; `is_disk` states whether only its directory fails.

    The error is one of the file `name` of the log, at byte `position`, if these are
    known. `files` are those that were left then, if loading had begun.
    """

    def __init__(self, message: str, *, is_disk: bool) -> None:
        super().__init__(message)
        self.is_disk = is_disk
        self.name: str | None = None
        self.position: int | None = None
        self.files: FilesLeft | None = None

    @classmethod
    def of(cls, error: Exception, copy: Path, directory: Path) -> LogStartError:
        """Return the error for one about the files of a copy of the directory."""
        text = describe_error(error)
        is_fatal = getattr(error, "kafka_name", None) in FATAL
        is_disk = isinstance(error, DISK_FAILURES) and not is_fatal
        found = cls(text.replace(str(copy), str(directory)), is_disk=is_disk)
        _, is_in_copy, rest = text.partition(f"{copy}{os.sep}")
        if is_in_copy:
            found.name = re.split(r"[\s,;:]", rest, maxsplit=1)[0]
        if isinstance(error, LocatedError):
            found.position = error.position
        return found

    def left(self, files: FilesLeft) -> Self:
        """Return the error, with the files that are left."""
        self.files = files
        return self


def describe_error(error: Exception) -> str:
    """Return the message of an error."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.strerror}: {error.filename}"
    return str(error) or type(error).__name__


@contextmanager
def rehearse(
    directory: Path,
    offsets: CheckpointedOffsets,
    settings: PartitionSettings,
    broker: BrokerConfig,
    prepare: Prepare | None = None,
    clock: Clock | None = None,
    within: RehearsalDirectory | None = None,
) -> Iterator[LogRehearsal]:
    """Load the log in a directory on a disk of its own, which is removed afterwards.

    The stand-ins are `within` a directory that the caller has, or else in a new one.
    `prepare` is called with them before they are loaded. If a file goes meanwhile, as a
    broker is running, all is done again. Raises `LogStartError`.
    """
    log_name = directory.name
    if log_name in ("", ".."):  # the path is relative, and ends above its last name
        log_name = directory.resolve().name
    for number in range(MAX_REHEARSALS):
        with ExitStack() as stack:
            root = within or stack.enter_context(RehearsalDirectory())
            copy, disk = stack.enter_context(root.of(log_name)), RehearsalDisk()
            disk.stand_in(directory, copy)
            if prepare is not None:
                prepare(copy, disk)
            for name in READ_BY_PATH:
                if (copy / name).is_file():
                    disk.copy_content(copy / name)
            began = time.perf_counter()
            try:
                log = load_log(
                    copy,
                    settings.config,
                    broker=broker,
                    log_start_offset=offsets.log_start_offset,
                    is_tiered=settings.is_tiered,
                    recovery_point=offsets.recovery_point,
                    clean=offsets.clean,
                    clock=clock,
                    scheduler=IdleScheduler(),
                    disk=disk,
                )
            except Exception as error:
                if isinstance(error, OSError) and error.errno in OUT_OF_SPACE:
                    raise
                if number < MAX_REHEARSALS - 1 and disk.has_lost_original():
                    continue
                failure = LogStartError.of(error, copy, directory)
                raise failure.left(disk.files_left(copy)) from error
            seconds = time.perf_counter() - began
            try:
                is_compacted = offsets.cleaned_to is not None
                yield LogRehearsal(
                    directory, log, disk, seconds, is_compacted=is_compacted
                )
            finally:
                log.abandon()
            return
