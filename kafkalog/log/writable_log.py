"""`WritableLog`: one partition's log, written to as Kafka's broker writes.

Every call is done alone, under the log's lock, by the module that knows how. One during
which the disk fails raises that `OSError`, and closes the log to all but closing; so
does one that an interrupt, or anything else but a `KafkaLogError`, cuts off.

Knows: what may be asked of a log. Does not know: how it is done; other partitions.
Source: ``UnifiedLog.java``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
import numpy.typing as npt

from kafkalog.config import LogConfig
from kafkalog.errors import KafkaLogError
from kafkalog.formats.batch_headers import BytesLike
from kafkalog.formats.checkpoint import EpochEntry
from kafkalog.formats.timestamps import Times
from kafkalog.indexes.txn_index import AbortedTransaction
from kafkalog.log import deletion, retention, truncation, watermarks
from kafkalog.log import fetch_data as reading
from kafkalog.log.append_result import AppendResult
from kafkalog.log.appending import Appender, Outcome
from kafkalog.log.clock import Task
from kafkalog.log.closing import close_in_order
from kafkalog.log.flushing import flush_beside
from kafkalog.log.leader_epochs import EpochEnd
from kafkalog.log.log import (
    MAX_READ_BYTES,
    NOT_FOUND,
    aborted_between,
    for_each_time,
    producer_states_at,
    segments_html,
)
from kafkalog.log.log_fetch import LogFetch, read_log
from kafkalog.log.log_segments import list_segments
from kafkalog.log.offset_metadata import OffsetMetadata
from kafkalog.log.ownership import OwnedDirectory
from kafkalog.log.producers.producer_append import TV_UNKNOWN
from kafkalog.log.producers.producer_entry import NO_GUARD, ProducerStateEntry
from kafkalog.log.record_appends import RecordAppends
from kafkalog.log.recovery import segment_splitting
from kafkalog.log.recovery.recovery_report import RecoveryReport
from kafkalog.log.rolling import roll
from kafkalog.log.runtime import guarded
from kafkalog.log.state import LogState
from kafkalog.log.time_lookup import TimestampOffset, find_record, tell_offset
from kafkalog.log.topic_settings import warn_not_compacted
from kafkalog.log.watermarks import LogIsolation
from kafkalog.segment.growing_segment import GrowingSegment
from kafkalog.segment.log_segment import LogSegment
from kafkalog.segment.open_files import OpenFiles
from kafkalog.storage.file_names import MAX_OFFSET, parse_partition_dir
from kafkalog.storage.location import locate
from kafkalog.validation.append_analysis import as_view, as_views
from kafkalog.validation.appends import Origin


def _only(outcomes: list[Outcome]) -> AppendResult:
    """Return the result of the only append; raise its error where it was refused."""
    [outcome] = outcomes
    if isinstance(outcome, KafkaLogError):
        raise outcome
    return outcome


class WritableLog(RecordAppends):
    """A partition's log, for writing; made by ``kafkalog.open(path, "a")``.

    `report` says what opening it found and did; `runtime` has its clock, scheduler,
    disk and lock.
    """

    def __init__(self, state: LogState, report: RecoveryReport, expiry: Task) -> None:
        self._log = state
        self.runtime = state.runtime
        self._expiry = expiry
        self._appender = Appender(state)
        self.owner: OwnedDirectory | None = None
        self.report = report
        self._was_compacted = state.config.compact  # whoever opened it has warned
        self.path = locate(state.directory)
        name = parse_partition_dir(state.directory.absolute().name)
        self.topic, self.partition = (name.topic, name.partition) if name else ("", -1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<WritableLog {self.path}>"

    def _repr_html_(self) -> str:
        """Return the form that notebooks show: the segments' names and sizes."""
        return segments_html(f"WritableLog {self.path}", self.segments)

    # What it is

    @property
    def segments(self) -> tuple[LogSegment, ...]:
        """The segments there are now, as files, the lowest base offset first."""
        return tuple(list_segments(self.path))

    @property
    def config(self) -> LogConfig:
        """The settings it has now."""
        return self._log.config

    @property
    def log_start_offset(self) -> int:
        """First offset that may be read."""
        return self._log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """Offset that the next record will have."""
        return self._log.log_end_offset

    @property
    def log_start_to_checkpoint(self) -> int | None:
        """Offset that the checkpoint has to tell; None where the files tell it."""
        with self.runtime.lock:
            return self._log.log_start_to_checkpoint

    @property
    def high_watermark(self) -> int:
        """First offset not known to be replicated: as far as the caller has said."""
        return self._log.high_watermark.offset

    @property
    def last_stable_offset(self) -> int:
        """First offset not replicated, or of which it is not decided whether it is."""
        return watermarks.last_stable_offset(self._log)

    @property
    def recovery_point(self) -> int:
        """First offset not known to be forced to disk."""
        return self._log.recovery_point

    @property
    def last_flushed_ms(self) -> int:
        """When it was last forced to disk, or loaded, in ms since 1970."""
        return self._log.last_flushed_ms

    @property
    def leader_epochs(self) -> list[EpochEntry]:
        """Each leader epoch and its start offset."""
        return self._log.leader_epochs.entries

    @property
    def topic_id(self) -> str | None:
        """The topic's id, in Kafka's text form; None if it has none."""
        return self._log.topic_id_file.topic_id

    @property
    def growing_segments(self) -> tuple[GrowingSegment, ...]:
        """The segments, as they are written to, the lowest base offset first."""
        with self.runtime.lock:
            return tuple(self._log.segments)

    @property
    def producers(self) -> Mapping[int, ProducerStateEntry]:
        """What is known now of each producer, by its id."""
        with self.runtime.lock:
            return self._log.producers.copied()

    # Appending: what is not bytes is refused before the log is touched

    def append(
        self,
        batches: BytesLike,
        *,
        leader_epoch: int | None = None,
        origin: Origin = "client",
        guard: int = NO_GUARD,
        transaction_version: int = TV_UNKNOWN,
    ) -> AppendResult:
        """Append batches as a leader does: judge them, give them offsets, write them.

        `batches` are bytes. `leader_epoch` is by default the latest known, or 0.
        `origin` is ``client``, ``coordinator`` (transaction markers; they need a
        `transaction_version`), ``replication`` or ``raft_leader``; `guard` is what
        `start_verification` gave.

        Raises `InvalidAppendError` in its kinds, and `CorruptRecordError`.
        """
        asked = origin, leader_epoch, guard, transaction_version
        return _only(self._append_many([as_view(batches)], asked))

    def append_many(
        self,
        appends: Sequence[BytesLike],
        *,
        leader_epoch: int | None = None,
        origin: Origin = "client",
        guard: int = NO_GUARD,
        transaction_version: int = TV_UNKNOWN,
    ) -> list[Outcome]:
        """Append many, with the outcome of an `append` of each, in one call.

        Of those refused the error comes in place of the result.
        """
        asked = origin, leader_epoch, guard, transaction_version
        return self._append_many(as_views(appends), asked)

    @guarded
    def _append_many(
        self, pieces: list[BytesLike], asked: tuple[Origin, int | None, int, int]
    ) -> list[Outcome]:
        return self._appender.append(pieces, self._appender.terms(*asked))

    def append_as_follower(
        self, batches: BytesLike, *, leader_epoch: int | None = None
    ) -> AppendResult:
        """Append batches as they came from a leader, with its offsets and epochs.

        Batches of an epoch above `leader_epoch` are left out, and all that follow.
        """
        return _only(self._append_many_as_follower([as_view(batches)], leader_epoch))

    def append_many_as_follower(
        self, appends: Sequence[BytesLike], *, leader_epoch: int | None = None
    ) -> list[Outcome]:
        """Append many, with the outcome of an `append_as_follower` of each."""
        return self._append_many_as_follower(as_views(appends), leader_epoch)

    @guarded
    def _append_many_as_follower(
        self, pieces: list[BytesLike], epoch: int | None
    ) -> list[Outcome]:
        appender = self._appender
        if epoch is not None:
            return appender.append(pieces, appender.terms_of_follower(epoch))
        outcomes: list[Outcome] = []  # each may leave another epoch as the latest
        for one in pieces:
            outcomes += appender.append([one], appender.terms_of_follower(None))
        return outcomes

    @guarded
    def start_verification(
        self,
        producer_id: int,
        sequence: int,
        epoch: int,
        *,
        supports_epoch_bump: bool = False,
    ) -> int:
        """Begin to verify a transaction; answers the guard to append with.

        0 where it is open already, and needs none.
        """
        return self._log.producers.start_verification(
            producer_id, sequence, epoch, supports_epoch_bump
        )

    # Leadership and replication

    @guarded
    def assign_epoch(self, epoch: int, offset: int | None = None) -> None:
        """Let a leader epoch start at `offset`, by default at the log's end."""
        start = self._log.log_end_offset if offset is None else offset
        self._log.leader_epochs.assign(epoch, start)

    @guarded
    def end_offset_for_epoch(self, epoch: int) -> EpochEnd | None:
        """Return the greatest epoch known up to `epoch`, and where it ends.

        None where the log does not say.
        """
        return self._log.leader_epochs.end_offset_for(epoch, self._log.log_end_offset)

    @guarded
    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, as near as the log has it; answers what it is."""
        return watermarks.update_high_watermark(self._log, OffsetMetadata(offset))

    @guarded
    def increment_high_watermark(self, offset: int) -> bool:
        """Raise the high watermark, as a leader does; whether it moved."""
        place = watermarks.place_or_offset(self._log, offset)
        return watermarks.increment_high_watermark(self._log, place)

    # Keeping

    @guarded
    def roll(self, offset: int = 0) -> int:
        """Begin a segment at the log's end, or beyond at `offset`; answers where."""
        return roll(self._log, offset).base_offset

    def flush(self, offset: int | None = None, *, include_active: bool = False) -> None:
        """Force what is below `offset` to disk, by default all.

        With `include_active`, also the files of an active segment that is empty. The
        log may be read and appended to meanwhile.
        """
        self.runtime.run_beside(
            lambda: flush_beside(self._log, offset, inclusive=include_active)
        )

    @guarded
    def delete_old_segments(self) -> int:
        """Delete what the settings no longer keep; answers how many segments."""
        return retention.delete_old_segments(self._log)

    @guarded
    def delete_records(self, offset: int) -> bool:
        """Let the log begin at `offset`; whether it began before.

        Raises `OffsetOutOfRangeError` beyond the high watermark.
        """
        return watermarks.raise_log_start(self._log, offset)

    @guarded
    def truncate_to(self, offset: int) -> bool:
        """Cut off `offset` and all behind it; whether there was anything."""
        name = self.topic, self.partition
        return truncation.truncate_to(self._log, offset, self.owner, name)

    @guarded
    def truncate_fully(self, offset: int, log_start_offset: int | None = None) -> None:
        """Delete all, and go on at `offset`."""
        owner, name = self.owner, (self.topic, self.partition)
        truncation.truncate_fully(self._log, offset, owner, name, log_start_offset)

    def update_config(self, config: LogConfig) -> None:
        """Take other settings; segments there are keep those of their indexes."""
        self._update_config(config)
        if config.compact and not self._was_compacted:
            self._was_compacted = True
            warn_not_compacted(self.path.name, stacklevel=3)

    @guarded
    def _update_config(self, config: LogConfig) -> None:
        self._log.config = config

    # Compaction

    @guarded
    def segments_between(self, start: int, end: int) -> list[GrowingSegment]:
        """Return the segments that may hold offsets from `start` to below `end`."""
        return self._log.segments.between(start, end)

    @guarded
    def begin_cleaned_segment(self, base_offset: int) -> GrowingSegment:
        """Create the segment that a cleaner writes to; it is no part of the log yet."""
        state = self._log
        return segment_splitting.begin_cleaned_segment(
            state.directory, base_offset, state.config, self.runtime, OpenFiles()
        )

    @guarded
    def replace_segments(
        self, new: Sequence[GrowingSegment], old: Sequence[GrowingSegment]
    ) -> None:
        """Put cleaned segments, which are synced, in place of the log's own."""
        for segment in new:
            segment.share_open_files(self.runtime.open_files)
        self._replaced(
            segment_splitting.replace_segments(
                self._log.segments,
                new,
                old,
                self._log.directory,
                self._log.config,
                self.runtime,
            )
        )

    @guarded
    def split_segment(self, segment: GrowingSegment) -> None:
        """Split a segment whose offsets are too far apart for its indexes."""
        self._replaced(
            segment_splitting.split_segment(
                segment,
                self._log.segments,
                self._log.directory,
                self._log.config,
                self.runtime,
            )
        )

    def _replaced(self, segments: Sequence[GrowingSegment]) -> None:
        delay_ms = self._log.config.file_delete_delay_ms
        deletion.delete_snapshots(segments, self._log.producers, self.runtime, delay_ms)

    @guarded
    def take_producer_snapshot(self) -> None:
        """Write down what is known of producers now."""
        self._log.producers.take_snapshot()

    # Reading

    @guarded
    def read(
        self,
        offset: int,
        *,
        max_bytes: int = MAX_READ_BYTES,
        isolation: LogIsolation = "log_end",
        min_one_batch: bool = True,
    ) -> LogFetch:
        """Read bytes from the batch on that holds `offset`, or the next one.

        As far as `isolation` lets see: ``log_end``, ``high_watermark`` (or
        ``read_uncommitted``), or ``read_committed``, the last stable offset.

        Raises `OffsetOutOfRangeError` outside log start to log end.
        """
        return read_log(
            self._log, offset, max_bytes, isolation, min_one_batch=min_one_batch
        )

    @guarded
    def find_offset(
        self, timestamp: int, *, isolation: LogIsolation = "log_end"
    ) -> TimestampOffset | None:
        """Find the first record at or after a timestamp, or a place by a special one.

        -1 is the log's end, -2 and -4 its start, -3 the record of the greatest
        timestamp; -5 and -6 are of tiered storage. To a consumer, with an `isolation`
        as for `read`, the end is that of what it sees, and no record behind is told.

        Raises `OffsetNotAvailableError` if it is not known yet what a consumer sees.
        """
        return tell_offset(self._log, timestamp, isolation)

    def offsets_for_times(self, timestamps: Times) -> npt.NDArray[np.int64]:
        """Return the first offset with a timestamp at or above each of many.

        As `Log.offsets_for_times` does; each is found with the lock of the log held.
        """
        start = self.log_start_offset
        return for_each_time(timestamps, lambda one: self._offset_for_time(one, start))

    @guarded
    def _offset_for_time(self, timestamp: int, start: int) -> int:
        found = find_record(self._log, timestamp, start)
        return NOT_FOUND if found is None else found.offset

    def producer_states(self) -> npt.NDArray[np.void]:
        """Return what the files say of each producer, as `Log.producer_states` does."""
        return producer_states_at(self.path, self.log_end_offset)

    def aborted_transactions(
        self, start: int | None = None, end: int | None = None
    ) -> npt.NDArray[np.void]:
        """Return the aborted transactions that records in ``[start, end)`` belong to.

        A structured array with the fields of a ``.txnindex``, where it is from.
        """
        first = self.log_start_offset if start is None else start
        return aborted_between(self.path, first, MAX_OFFSET if end is None else end)

    @guarded
    def find_aborted(self, start: int, end: int) -> list[AbortedTransaction]:
        """Transactions aborted between two offsets, as the transaction indexes say."""
        return reading.aborted_between(self._log, start, end)

    # The end

    def close(self) -> None:
        """Close the log in order; twice is once.

        Producers are written down, the files cut to what is used, and what was opened
        by ``kafkalog.open`` is forced to disk and checkpointed. If that fails, or had
        failed untold in the background, it raises, and closes as `abandon` does. Where
        it is interrupted, it may be called again, and closes as `abandon` does.
        """
        runtime = self.runtime
        try:
            with runtime.lock:
                try:
                    untold = runtime.failure is not None and not runtime.told
                    if not runtime.closed and (runtime.failure is None or untold):
                        runtime.run(self._close_in_order)
                finally:
                    self._abandon()
        finally:
            runtime.stop()

    def _close_in_order(self) -> None:
        close_in_order(self._log, self.owner, (self.topic, self.partition))
        self._release(in_order=True)

    def _release(self, *, in_order: bool) -> None:
        if self.owner is not None:
            self.owner.release((self.topic, self.partition), in_order=in_order)
            self.owner = None

    def abandon(self) -> None:
        """Close the files as they are, as when the process dies, and end the thread.

        May be called again, also after an interrupt.
        """
        try:
            with self.runtime.lock:
                self._abandon()
        finally:
            self.runtime.stop()

    def _abandon(self) -> None:
        self.runtime.closed = True
        self._expiry.cancel()
        for segment in self._log.segments.in_use:
            segment.close_handles()
        self._release(in_order=False)

    def delete(self) -> None:
        """Remove the log with its directory, at once, and close it."""
        self._delete()
        self.runtime.stop()

    @guarded
    def _delete(self) -> None:
        deletion.delete_log(self._log, self.owner, (self.topic, self.partition))
        self._release(in_order=True)
        self._abandon()
