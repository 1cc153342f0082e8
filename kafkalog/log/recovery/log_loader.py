"""Opening a log to write to it, after whatever happened to it.

What an interrupted task left is finished, segments are taken in, and after a crash
those that were not forced to disk are read through.

Of a log that was closed in order nothing is read but names, sizes and the newest
snapshot. The content of its indexes is taken as it is: after a crash, those that may be
wrong are made anew.

Knows: the order of all this. Does not know: what a running log does.
Source: ``LogLoader.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from kafkalog.config import LogConfig
from kafkalog.errors import (
    CorruptIndexError,
    CorruptRecordError,
    InvalidAppendError,
    InvalidOffsetError,
    LogSegmentOffsetOverflowError,
    LogStateError,
)
from kafkalog.log.deletion import delete_snapshots, remove_segments
from kafkalog.log.leader_epochs import LeaderEpochs
from kafkalog.log.offset_metadata import OffsetMetadata
from kafkalog.log.producers.producer_loading import rebuild_producers
from kafkalog.log.producers.producer_manager import ProducerStateManager
from kafkalog.log.recovery.leftover_files import (
    OFFSET_DIGITS,
    SWAP,
    Listing,
    clear_leftovers,
    is_offset,
    list_files,
    offset_of,
)
from kafkalog.log.recovery.recovery_report import (
    LostOffsets,
    RecoveredSegment,
    RecoveryReport,
)
from kafkalog.log.recovery.segment_recovery import Cut, count_data, recover_segment
from kafkalog.log.recovery.segment_splitting import split_segment
from kafkalog.log.rolling import open_segment
from kafkalog.log.runtime import Runtime
from kafkalog.log.segment_map import SegmentMap
from kafkalog.segment.file_batches import windows
from kafkalog.segment.growing_segment import GrowingSegment
from kafkalog.storage.file_names import file_name

INDEXES: Final = (".index", ".timeindex", ".txnindex")
FILES: Final = (".log", *INDEXES)
NEEDED: Final = (".log", ".index", ".timeindex")
Loaded = TypeVar("Loaded")
LAST_OFFSET: Final = 2**63 - 1
UNFLUSHED: Final = "unflushed"


class LoadedOffsets(NamedTuple):
    """Where a log that was loaded begins, is forced to disk, and ends."""

    log_start_offset: int
    recovery_point: int
    end: OffsetMetadata


class TooFarError(Exception):
    """A segment has offsets too far apart, and is to be split."""

    def __init__(self, segment: GrowingSegment) -> None:
        super().__init__(segment)
        self.segment = segment


@dataclass(slots=True, kw_only=True)
class LogLoader:
    """One loading of the log in `directory`, into `segments`, `producers`, `epochs`.

    `clean` says that it was closed in order; `log_start_offset` and `recovery_point`
    are as checkpointed. `new_producers` makes what recovery keeps its own count in, and
    `lower_recovery_point` checkpoints that from an offset on all is to be read through.
    """

    directory: Path
    config: LogConfig
    runtime: Runtime
    segments: SegmentMap
    producers: ProducerStateManager
    epochs: LeaderEpochs
    new_producers: Callable[[], ProducerStateManager]
    lower_recovery_point: Callable[[int], None]
    clean: bool
    log_start_offset: int
    recovery_point: int
    report: RecoveryReport = field(default_factory=RecoveryReport)
    _files: Listing | None = field(default=None, init=False)
    _opened: list[GrowingSegment] = field(default_factory=list, init=False)
    _began_ms: int = field(default=0, init=False)
    _recovers: bool = field(default=False, init=False)  # snapshots were taken

    def load(self) -> LoadedOffsets:
        """Load all; what was found and done is in `report`."""
        self.report.clean = self.clean
        disk = self.runtime.disk
        self._began_ms = self.runtime.now_ms()
        files = self._files = list_files(self.directory)
        self.producers.snapshots.note(files)
        clear_leftovers(self.directory, files, disk, self._end_of_swap, self.report)
        self._with_splits(self._load_segments)
        recovery_point, end = self._with_splits(self._recover)
        self.segments.active.resize_indexes()
        self.epochs.truncate_from_end(end)
        start = max(self.log_start_offset, self.segments.first.base_offset)
        self.epochs.truncate_from_start(self.log_start_offset)
        if not self.producers.is_empty:
            raise LogStateError("producers are known before the log is loaded")
        if self._recovers or self.report.removed:
            self.producers.snapshots.reload()
        self.producers.snapshots.remove_strays(self.segments.base_offsets)
        self._rebuild(self.producers, start, end, clean=self.clean)
        if not self.clean or self.report.recovered:
            disk.sync_directory(self.directory)  # what was removed, or made, stays so
        active = self.segments.active
        place = OffsetMetadata(end, active.base_offset, active.size)
        return LoadedOffsets(start, recovery_point, place)

    def _end_of_swap(self, base_offset: int) -> int:
        segment = self._open(base_offset, SWAP)
        if not segment.path.exists():  # its name was spelt otherwise
            segment.create()
        try:
            return segment.next_offset()
        finally:
            segment.close_handles()

    def _open(self, base_offset: int, suffix: str = "") -> GrowingSegment:
        segment = open_segment(
            self.directory, base_offset, self.config, self.runtime, suffix
        )
        self._opened.append(segment)
        return segment

    def abandon(self) -> None:
        """Close the files as they are, where loading has failed."""
        for segment in (*self._opened, *self.segments.in_use):
            segment.close_handles()

    def _with_splits(self, load: Callable[[], Loaded]) -> Loaded:
        """Load; a segment whose offsets are too far apart is split, and then again."""
        while True:
            try:
                return load()
            except TooFarError as error:
                far = error.segment
            self.report.split.append(far.base_offset)
            try:
                gone = split_segment(
                    far, self.segments, self.directory, self.config, self.runtime
                )
            finally:
                far.close_handles()
            self._delete_snapshots(gone)

    def _load_segments(self) -> None:
        """Take in each segment; read through those that lack an index."""
        for segment in self.segments.in_use:
            segment.close()
        self.segments.clear()
        files = self._listing()
        names = set().union(*(files[ending] for ending in FILES))
        complete = _complete(files)
        others = names.difference(*(_named(complete, kind) for kind in NEEDED))
        for name in sorted(complete | others):
            if name in complete:
                if int(name) not in self.segments:  # as by another spelling
                    self.segments.expect(int(name), self._listed)
            elif not name.endswith(INDEXES):
                self._load_segment(offset_of(name), names)
            elif not (_is_in(name, names) or _log_name(offset_of(name)) in names):
                self.runtime.disk.remove_if_there(self.directory / name)
                self.report.removed.append(name)

    def _listed(self, base_offset: int) -> GrowingSegment:
        """Give a segment of which all is there, and no transaction was aborted in."""
        segment = self._open(base_offset)
        segment.created_ms = self._began_ms
        segment.has_no_txn_index()
        return segment

    def _listing(self) -> Listing:
        """List the files; not again if nothing has changed since."""
        files, self._files = self._files, None
        if files is None or self.report.removed or self.report.renamed:
            files = list_files(self.directory)
        return files

    def _load_segment(self, base_offset: int, names: set[str]) -> None:
        """Take in the segment that a ``.log`` of whatever spelling is named for."""
        segment, name = self._open(base_offset), _log_name(base_offset)
        stem = name.removesuffix(".log")
        if name not in names:
            segment.create()
            names.add(name)
        elif f"{stem}.txnindex" not in names:
            segment.has_no_txn_index()
        self._check(segment, stem, names)
        self.segments.add(segment)

    def _check(self, segment: GrowingSegment, stem: str, names: Container[str]) -> None:
        if f"{stem}.index" not in names:
            self._recover_alone(segment, "index missing")
            return
        if f"{stem}.timeindex" not in names:
            segment.time_index.resize(0)
        if f"{stem}.txnindex" in names:
            try:
                segment.txn_index.check()
            except CorruptIndexError:
                self._recover_alone(segment, "index corrupt")

    def _recover_alone(self, segment: GrowingSegment, why: str) -> None:
        """Read a segment through for its index; what lies behind it stays.

        Kafka refuses to open a log in which a segment before it is not sound. Where all
        behind the recovery point is read through later, that is found again, and cut.

        Where this is interrupted, the index is not missing any more, nor whole.
        """
        self.lower_recovery_point(segment.base_offset)
        try:
            self._recover_segment(segment, why)
        except (CorruptRecordError, InvalidAppendError):
            if self.clean or segment.base_offset <= self.recovery_point:
                raise
        else:
            segment.flush()  # it may lie below the recovery point

    def _recover_segment(
        self,
        segment: GrowingSegment,
        why: str,
        behind: Sequence[GrowingSegment] = (),
    ) -> Cut:
        """Read one segment through, and take a snapshot behind it.

        If anything is cut from it, the segments `behind` it go first.
        """
        self._recovers = True
        producers = self.new_producers()
        self._rebuild(producers, self.log_start_offset, segment.base_offset)
        try:
            cut = recover_segment(
                segment, producers, self.epochs, lambda: self._drop_files(behind)
            )
        except LogSegmentOffsetOverflowError:
            raise TooFarError(segment) from None
        producers.take_snapshot()
        recovered = RecoveredSegment(
            segment.base_offset, why, cut.bytes_cut, cut.damage
        )
        self.report.recovered.append(recovered)
        return cut

    def _recover(self) -> tuple[int, int]:
        """Read through what may not be whole; answer recovery point and log end."""
        if not self.clean:
            self._recover_unflushed()
        end = self._end_or_none()
        if not len(self.segments):
            segment = self._open(self.log_start_offset)
            segment.create(self.config.initial_file_size)
            self.segments.add(segment)
        was_emptied = end is None
        end = self.segments.active.next_offset() if end is None else end
        if self.recovery_point > end:  # else what is appended there would count as
            self.lower_recovery_point(end)  # forced, after a crash
        if self.clean and not was_emptied:
            return end, end
        return min(self.recovery_point, end), end

    def _recover_unflushed(self) -> None:
        unflushed = self.segments.between(self.recovery_point, LAST_OFFSET)
        for place, segment in enumerate(unflushed):
            behind = unflushed[place + 1 :]
            try:
                is_cut = self._recover_segment(segment, UNFLUSHED, behind).is_cut
            except InvalidOffsetError as error:
                if segment.find(segment.base_offset) is not None:
                    self._drop_files(behind)
                bytes_cut = count_data(segment, 0)
                is_cut = segment.truncate_to(segment.base_offset) > 0
                emptied = (segment.base_offset, UNFLUSHED, bytes_cut, str(error))
                self.report.recovered.append(RecoveredSegment(*emptied))
            if is_cut:
                if behind:
                    self._delete_snapshots(behind)
                return

    def _end_or_none(self) -> int | None:
        """End of the log; None if there is none, or it lies before the log's start."""
        if not len(self.segments):
            return None
        active = self.segments.active
        end = active.next_offset()
        if end == active.base_offset and active.size:
            self.report.lost = _find_lost(active)
        if end >= self.log_start_offset:
            return end
        # Their snapshots go at once, with all others: there is none left to mark.
        self._drop_files(list(self.segments))
        self._delete_snapshots(())
        self.epochs.clear_and_flush()
        self.producers.truncate_fully_and_start_at(self.log_start_offset)
        return None

    def _drop_files(self, segments: Sequence[GrowingSegment]) -> None:
        """Let go of segments; no power cut brings them back behind what is left."""
        if segments:
            self.report.dropped += [one.base_offset for one in segments]
            delay = self.config.file_delete_delay_ms
            remove_segments(self.segments, segments, self.runtime, delay)
            self.runtime.disk.sync_directory(self.directory)

    def _delete_snapshots(self, segments: Sequence[GrowingSegment]) -> None:
        delay = self.config.file_delete_delay_ms
        delete_snapshots(segments, self.producers, self.runtime, delay)

    def _rebuild(
        self,
        producers: ProducerStateManager,
        start: int,
        offset: int,
        *,
        clean: bool = False,
    ) -> None:
        now = self.runtime.now_ms()
        rebuild_producers(producers, self.segments, start, offset, now, clean=clean)


def _find_lost(segment: GrowingSegment) -> LostOffsets | None:
    """Find the records of a segment that has no next offset by its offset index."""
    base, last = segment.base_offset, segment.base_offset - 1
    with suppress(CorruptRecordError):
        for rows, _, _ in windows(segment.file, 0, segment.size):
            last = int(rows["last_offset"][-1])
    if last < base:
        return None
    _, position = segment.offset_index.lookup(segment.offset_index.last_offset)
    return LostOffsets(base, base, last, position, segment.size)


def _log_name(base_offset: int) -> str:
    """Spell the name of a ``.log`` as Kafka does."""
    return file_name(base_offset, "log")


def _is_in(index_name: str, names: Container[str]) -> bool:
    """Whether the ``.log`` of an index is there, its name spelt as Kafka spells it."""
    stem = index_name[:OFFSET_DIGITS]
    spelt = stem.isdigit() and index_name.startswith(".", OFFSET_DIGITS)
    return spelt and f"{stem}.log" in names


def _complete(files: Listing) -> set[str]:
    """Say which segments have all files that each has, and nothing to be checked.

    By the offset in their names, where it is spelt as Kafka spells it.
    """
    stems = {name.removesuffix(".log") for name in files[".log"]}
    complete = {stem for stem in stems if is_offset(stem)}
    for index in (".index", ".timeindex"):
        complete &= {name.removesuffix(index) for name in files[index]}
    return complete - {name.removesuffix(".txnindex") for name in files[".txnindex"]}


def _named(stems: set[str], ending: str) -> set[str]:
    return {stem + ending for stem in stems}
