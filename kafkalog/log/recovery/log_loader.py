"""Loading of a log for appends.

Interrupted deletions, compactions and splits are finished, and the segments are loaded.
After a crash, the segments that were not flushed are recovered: their batches are
verified, and their indexes rebuilt.

After a clean shutdown only file names, sizes and the newest snapshot are read, and the
indexes are not verified.

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
from kafkalog.integer_limits import MAX_INT64
from kafkalog.log.deletion import delete_snapshots, remove_segments
from kafkalog.log.leader_epochs import LeaderEpochs
from kafkalog.log.offset_metadata import OffsetMetadata
from kafkalog.log.producers.producer_loading import rebuild_producers
from kafkalog.log.producers.producer_manager import ProducerStateManager
from kafkalog.log.reading.remote_offsets import log_start_of
from kafkalog.log.recovery.leftover_files import (
    Listing,
    clear_leftovers,
    list_files,
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
from kafkalog.storage.file_names import INDEXES, SWAP, file_name
from kafkalog.storage.leftover_names import OFFSET_DIGITS, is_offset, offset_of

INDEX_SUFFIXES: Final = tuple(f".{kind}" for kind in INDEXES)
FILES: Final = (".log", *INDEX_SUFFIXES)
NEEDED: Final = (".log", ".index", ".timeindex")
Loaded = TypeVar("Loaded")
UNFLUSHED: Final = "unflushed"


class LoadedOffsets(NamedTuple):
    """Log start offset, recovery point and log end offset of a loaded log.

    `keeps_log_start` is whether the log start offset is checkpointed even if it is not
    above the first segment.
    """

    log_start_offset: int
    recovery_point: int
    end: OffsetMetadata
    keeps_log_start: bool


class TooFarError(Exception):
    """A segment has offsets too far apart, and must be split."""

    def __init__(self, segment: GrowingSegment) -> None:
        super().__init__(segment)
        self.segment = segment


@dataclass(slots=True, kw_only=True)
class LogLoader:
    """Loader of the log in `directory` into `segments`, `producers` and `epochs`.

    `clean` states that the last shutdown was clean. `checkpointed_start` is the log
    start offset in the checkpoint, or None; `recovery_point` is the checkpointed one.
    `is_tiered` is whether the topic has remote storage, or None if only the
    checkpoint can say that. `new_producers` returns an empty
    producer state for recovery. `lower_recovery_point` writes a lower recovery point to
    the checkpoint.
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
    checkpointed_start: int | None
    is_tiered: bool | None
    recovery_point: int
    report: RecoveryReport = field(default_factory=RecoveryReport)
    _files: Listing | None = field(default=None, init=False)
    _opened: list[GrowingSegment] = field(default_factory=list, init=False)
    _began_ms: int = field(default=0, init=False)
    _recovers: bool = field(default=False, init=False)  # and writes snapshots

    def load(self) -> LoadedOffsets:
        """Load the log; `report` has what was found and done."""
        self.report.clean = self.clean
        disk = self.runtime.disk
        self._began_ms = self.runtime.now_ms()
        files = self._files = list_files(self.directory)
        self.producers.snapshots.set_listing(files)
        clear_leftovers(self.directory, files, disk, self._end_of_swap, self.report)
        if self.report.removed or self.report.renamed:
            self.producers.snapshots.reload()
        self._with_splits(self._load_segments)
        recovery_point, end = self._with_splits(self._recover)
        self.segments.active.resize_indexes()
        self.epochs.truncate_from_end(end)
        first_epoch = self.epochs.earliest
        start = log_start_of(
            self.checkpointed_start,
            self.segments.first.base_offset,
            is_tiered=self.is_tiered,
            clean=self.clean,
            first_epoch_start=first_epoch.start_offset if first_epoch else MAX_INT64,
        )
        self.epochs.truncate_from_start(self.log_start_offset)
        if not self.producers.is_empty:
            raise LogStateError("producer state is not empty before the log is loaded")
        if self._recovers or self.report.removed:
            self.producers.snapshots.reload()
        self.producers.snapshots.remove_strays(self.segments.base_offsets)
        self._rebuild(self.producers, start.offset, end, clean=self.clean)
        if not self.clean or self.report.recovered:
            disk.sync_directory(self.directory)  # removed and created files persist
        active = self.segments.active
        end_metadata = OffsetMetadata(end, active.base_offset, active.size)
        return LoadedOffsets(
            start.offset, recovery_point, end_metadata, keeps_log_start=start.is_kept
        )

    @property
    def log_start_offset(self) -> int:
        """The checkpointed log start offset, 0 without one."""
        return self.checkpointed_start or 0

    def _end_of_swap(self, base_offset: int) -> int:
        segment = self._open(base_offset, SWAP)
        if not segment.path.exists():  # the name of the file has another form
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
        """Close all files after loading failed."""
        for segment in (*self._opened, *self.segments.in_use):
            segment.close_handles()

    def _with_splits(self, load: Callable[[], Loaded]) -> Loaded:
        """Call `load` until no segment must be split before it."""
        while True:
            try:
                return load()
            except TooFarError as error:
                segment = error.segment
            self.report.split.append(segment.base_offset)
            try:
                removed = split_segment(
                    segment, self.segments, self.directory, self.config, self.runtime
                )
            finally:
                segment.close_handles()
            self._delete_snapshots(removed)

    def _load_segments(self) -> None:
        """Load each segment; recover those without an index."""
        for segment in self.segments.in_use:
            segment.close()
        self.segments.clear()
        files = self._listing()
        names = set().union(*(files[suffix] for suffix in FILES))
        complete = _complete(files)
        others = names.difference(*(_named(complete, kind) for kind in NEEDED))
        for name in sorted(complete | others):
            if name in complete:
                if int(name) not in self.segments:  # from a name of another form
                    self.segments.expect(int(name), self._listed)
            elif not name.endswith(INDEX_SUFFIXES):
                self._load_segment(offset_of(name), names)
            elif not (_is_in(name, names) or _log_name(offset_of(name)) in names):
                self.runtime.disk.remove_if_there(self.directory / name)
                self.report.removed.append(name)

    def _listed(self, base_offset: int) -> GrowingSegment:
        """Open a segment that has all files, and no transaction index."""
        segment = self._open(base_offset)
        segment.created_ms = self._began_ms
        segment.has_no_txn_index()
        return segment

    def _listing(self) -> Listing:
        """Return the files; list them again only after a change."""
        files, self._files = self._files, None
        if files is None or self.report.removed or self.report.renamed:
            files = list_files(self.directory)
        return files

    def _load_segment(self, base_offset: int, names: set[str]) -> None:
        """Load the segment of a ``.log`` whose name may have another form."""
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
        """Recover one segment to rebuild its index; keep the segments after it.

        Kafka does not open a log with corruption in an earlier segment. At or above the
        recovery point the corruption is found again later, and truncated.

        After an interruption the index exists, but is incomplete. Therefore the
        recovery point is lowered before.
        """
        self.lower_recovery_point(segment.base_offset)
        try:
            self._recover_segment(segment, why)
        except (CorruptRecordError, InvalidAppendError):
            if self.clean or segment.base_offset <= self.recovery_point:
                raise
        else:
            segment.flush()  # it may be below the recovery point

    def _recover_segment(
        self,
        segment: GrowingSegment,
        why: str,
        before_cut: Callable[[], None] = lambda: None,
    ) -> Cut:
        """Recover one segment, and write a snapshot at its end.

        `before_cut` is called before it is truncated.
        """
        self._recovers = True
        producers = self.new_producers()
        self._rebuild(producers, self.log_start_offset, segment.base_offset)
        try:
            cut = recover_segment(segment, producers, self.epochs, before_cut)
        except LogSegmentOffsetOverflowError:
            raise TooFarError(segment) from None
        producers.take_snapshot()
        recovered = RecoveredSegment(
            segment.base_offset,
            why,
            cut.bytes_cut,
            cut.damage,
            bytes_read=cut.size,
            end_offset=cut.end_offset,
        )
        self.report.recovered.append(recovered)
        return cut

    def _recover(self) -> tuple[int, int]:
        """Recover unflushed segments; return recovery point and log end offset."""
        if not self.clean:
            self._recover_unflushed()
        end = self._end_or_none()
        if not len(self.segments):
            segment = self._open(self.log_start_offset)
            segment.create(self.config.initial_file_size)
            self.segments.add(segment)
        was_emptied = end is None
        end = self.segments.active.next_offset() if end is None else end
        if self.recovery_point > end:
            # Otherwise appends up to it would be taken as flushed after a crash.
            self.lower_recovery_point(end)
        if self.clean and not was_emptied:
            return end, end
        return min(self.recovery_point, end), end

    def _recover_unflushed(self) -> None:
        unflushed = self.segments.between(self.recovery_point, MAX_INT64)
        for number, segment in enumerate(unflushed, 1):

            def drop_following(first: int = number) -> None:
                self._drop_files(unflushed[first:])

            try:
                cut = self._recover_segment(segment, UNFLUSHED, drop_following)
                is_cut = cut.is_cut
            except InvalidOffsetError as error:
                if segment.find(segment.base_offset) is not None:
                    drop_following()
                bytes_cut, size = count_data(segment, 0), segment.size
                is_cut = segment.truncate_to(segment.base_offset) > 0
                emptied = RecoveredSegment(
                    segment.base_offset,
                    UNFLUSHED,
                    bytes_cut,
                    str(error),
                    bytes_read=size,
                    end_offset=segment.base_offset,
                )
                self.report.recovered.append(emptied)
            if is_cut:
                if following := unflushed[number:]:
                    self._delete_snapshots(following)
                return

    def _end_or_none(self) -> int | None:
        """Return the log end offset, None if it is below the log start offset."""
        if not len(self.segments):
            return None
        active = self.segments.active
        end = active.next_offset()
        if end == active.base_offset and active.size:
            self.report.lost = _find_lost(active)
        if end >= self.log_start_offset:
            return end
        # All snapshots are removed at once, so none is left to mark as deleted.
        self._drop_files(list(self.segments))
        self._delete_snapshots(())
        self.epochs.clear_and_flush()
        self.producers.truncate_fully_and_start_at(self.log_start_offset)
        return None

    def _drop_files(self, segments: Sequence[GrowingSegment]) -> None:
        """Remove segments; flush the directory so that no power cut restores them."""
        if segments:
            self.report.dropped += [segment.base_offset for segment in segments]
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
        self.report.replayed += rebuild_producers(
            producers, self.segments, start, offset, now, clean=clean
        )


def _find_lost(segment: GrowingSegment) -> LostOffsets | None:
    """Return the offsets of a segment in which the offset index leads to no batch."""
    base, last = segment.base_offset, segment.base_offset - 1
    with suppress(CorruptRecordError):
        for rows, _, _ in windows(segment.file, 0, segment.size):
            last = int(rows["last_offset"][-1])
    if last < base:
        return None
    _, position = segment.offset_index.lookup(segment.offset_index.last_offset)
    return LostOffsets(base, base, last, position, segment.size)


def _log_name(base_offset: int) -> str:
    """Return the name of a ``.log`` in Kafka's form."""
    return file_name(base_offset, "log")


def _is_in(index_name: str, names: Container[str]) -> bool:
    """Return whether the ``.log`` of an index exists under a name of Kafka's form."""
    stem = index_name[:OFFSET_DIGITS]
    has_offset = stem.isdigit() and index_name.startswith(".", OFFSET_DIGITS)
    return has_offset and f"{stem}.log" in names


def _complete(files: Listing) -> set[str]:
    """Return the segments with all required files, and no transaction index to check.

    A segment is returned as the offset in its file names, in Kafka's form.
    """
    stems = {name.removesuffix(".log") for name in files[".log"]}
    complete = {stem for stem in stems if is_offset(stem)}
    for index in (".index", ".timeindex"):
        complete &= {name.removesuffix(index) for name in files[index]}
    return complete - {name.removesuffix(".txnindex") for name in files[".txnindex"]}


def _named(stems: set[str], suffix: str) -> set[str]:
    return {stem + suffix for stem in stems}
