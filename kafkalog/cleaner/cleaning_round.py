"""One round of compaction of one log.

The offset map is built from the cleanable range, until the map is full or the range
ends. Then all segments up to that offset, clean ones included, are copied in groups.
Each group becomes one segment: it is written with the suffix ``.cleaned``, forced to
disk, and replaces the group. The log may be read and appended to during a round.

Source: ``Cleaner.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from kafkalog.cleaner.batch_chunks import Chunk, ChunkReader
from kafkalog.cleaner.batch_filter import (
    BatchFilter,
    FilterCounts,
    LastRecords,
    Observer,
)
from kafkalog.cleaner.cleanable_range import CleanableLog
from kafkalog.cleaner.corrupt_batches import CorruptBatches, OnCorruptBatch
from kafkalog.cleaner.segment_groups import SegmentSizes, group_segments
from kafkalog.cleaner.throttle import Throttle
from kafkalog.cleaner.transaction_tracker import TransactionTracker
from kafkalog.decoding.batch_decoder import RecordViews
from kafkalog.decoding.offset_map import NONE, OffsetMap
from kafkalog.decoding.workspace import Workspace
from kafkalog.encoding.record_columns import NULL, ByteColumn
from kafkalog.errors import (
    LogCleaningAbortedError,
    LogSegmentOffsetOverflowError,
)
from kafkalog.formats.batch_headers import have_flag
from kafkalog.formats.layout import CONTROL_FLAG, MAX_BATCH_BYTES
from kafkalog.segment.growing_segment import GrowingSegment

LEAST_CHUNK_BYTES: Final = 3 << 20
"""Minimum size of the read buffer, even if the I/O buffers are smaller."""

Check = Callable[[], None]
"""Raises `LogCleaningAbortedError` if the round must end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningResult:
    """The result of one round of compaction.

    Attributes
    ----------
    topic, partition : str, int
        The log.
    first_dirty_offset, first_uncleanable_offset : int
        The range that could be compacted.
    clean_bytes, cleanable_bytes : int
        Bytes of the segments before that range and in it.
    needs_compaction_now : bool
        Whether a record had waited for ``max.compaction.lag.ms``.
    end_offset : int
        End of the range that was compacted; the next round begins there.
    map_messages_read : int
        Records read for the offset map.
    messages_read, bytes_read, messages_written, bytes_written : int
        Records and bytes read from the old segments and written to the new ones.
    invalid_messages : int
        Records without a key, which were removed.
    map_utilization : float
        Share of the offset map that was in use.
    """

    topic: str
    partition: int
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    needs_compaction_now: bool
    end_offset: int
    map_messages_read: int
    messages_read: int
    bytes_read: int
    messages_written: int
    bytes_written: int
    invalid_messages: int
    map_utilization: float


@dataclass(slots=True)
class Cleaner:
    """Buffers for rounds of compaction; a cleaner runs one round at a time.

    `load_factor` is the share of the offset map that a round fills. `observer` is
    called with the records removed from each chunk of batches. A batch that is larger
    than `max_batch_bytes`, uncompressed, ends a round.
    """

    offsets: OffsetMap
    io_buffer_size: int
    load_factor: float
    throttle: Throttle
    observer: Observer | None = None
    on_corruption: OnCorruptBatch = "raise"
    check_crcs: bool = True
    max_batch_bytes: int = MAX_BATCH_BYTES
    _workspace: Workspace = field(default_factory=Workspace)

    def clean(
        self, cleanable: CleanableLog, check: Check, now_ms: int
    ) -> CleaningResult:
        """Compact a log; `check` is called before each chunk of it.

        Raises `LogCleaningAbortedError`, `CorruptRecordError`, `InvalidRecordError` and
        `BatchTooLargeError`.
        """
        return _Cleaning(self, cleanable, check, now_ms).run()

    def reader(self, check: Check, usual_bytes: int) -> ChunkReader:
        """Return a throttled reader that calls `check` before each chunk."""

        def pace(size: int) -> None:
            if size:
                self.throttle.count(size)
            else:
                check()

        size = max(self.io_buffer_size, LEAST_CHUNK_BYTES)
        return ChunkReader(
            size,
            pace,
            CorruptBatches(self.on_corruption, check_crcs=self.check_crcs),
            self.max_batch_bytes,
            usual_bytes,
        )


class _FullIn(NamedTuple):
    """The batch that filled the offset map, and whether a key of it was put."""

    position: int
    has_key: bool


class _Cleaning:
    """One round of compaction of one log."""

    def __init__(
        self, cleaner: Cleaner, cleanable: CleanableLog, check: Check, now_ms: int
    ) -> None:
        self._cleaner = cleaner
        self._cleanable = cleanable
        self._log = cleanable.log
        self._check = check
        self._now_ms = now_ms
        self._reader = cleaner.reader(check, self._log.config.max_message_bytes)
        self._map_messages = 0

    def run(self) -> CleaningResult:
        """Build the offset map, then copy the segments that the map covers."""
        cleanable, offsets = self._cleanable, self._cleaner.offsets
        old_horizon = self._old_horizon()
        self._build_map()
        end = offsets.latest_offset + 1
        tracker, counts = TransactionTracker(), FilterCounts()
        for group in self._groups(end):
            self._clean_group(group, tracker, counts, old_horizon)
        return CleaningResult(
            topic=self._log.topic,
            partition=self._log.partition,
            first_dirty_offset=cleanable.first_dirty_offset,
            first_uncleanable_offset=cleanable.first_uncleanable_offset,
            clean_bytes=cleanable.clean_bytes,
            cleanable_bytes=cleanable.cleanable_bytes,
            needs_compaction_now=cleanable.needs_compaction_now,
            end_offset=end,
            map_messages_read=self._map_messages,
            messages_read=counts.messages_read,
            bytes_read=counts.bytes_read,
            messages_written=counts.messages_written,
            bytes_written=counts.bytes_written,
            invalid_messages=counts.invalid_messages,
            map_utilization=offsets.utilization,
        )

    def _old_horizon(self) -> int:
        """Return the time up to which tombstones of magic 0 and 1 are removed.

        They have no delete horizon; the modification time of their segment is used.
        """
        clean = self._log.replaceable_segments.between(
            0, self._cleanable.first_dirty_offset
        )
        if not clean:
            return 0
        return clean[-1].modified_ms - self._log.config.delete_retention_ms

    # The offset map

    def _build_map(self) -> None:
        start = self._cleanable.first_dirty_offset
        end = self._cleanable.first_uncleanable_offset
        offsets = self._cleaner.offsets
        offsets.clear(start)
        dirty = self._log.replaceable_segments.between(start, end)
        tracker = TransactionTracker()
        tracker.expect(self._log.find_aborted(start, end))
        bases = [segment.base_offset for segment in dirty]
        for segment, next_base in zip(dirty, [*bases[1:], end], strict=True):
            self._check()
            for chunk in self._chunks(segment, start, next_base):
                if self._is_filled_by(chunk, tracker, start):
                    return
            offsets.latest_offset = next_base - 1  # gaps included

    def _chunks(
        self, segment: GrowingSegment, start: int, end_offset: int
    ) -> Iterator[Chunk]:
        """Yield the batches of a segment, from the index entry before `start` on."""
        runtime = self._log.runtime
        with runtime.lock, runtime.guard():
            position = max(0, segment.offset_index.lookup(start)[1])
            end = segment.size
        base = segment.base_offset
        with runtime.disk.open(segment.path) as file:
            yield from self._reader.read(file, position, end, base, end_offset)

    def _is_filled_by(
        self, chunk: Chunk, tracker: TransactionTracker, start: int
    ) -> bool:
        """Put the records of a chunk in the map; return whether the map is full."""
        rows = chunk.rows[~chunk.is_corrupt]
        offsets = self._cleaner.offsets
        is_aborted = tracker.discardable(chunk.data, chunk.origin, rows)
        is_control = have_flag(rows, CONTROL_FLAG)
        is_data = ~is_control & ~is_aborted
        # Markers and aborted records are counted, but not put in the map.
        others = np.where(is_control, 1, np.where(is_aborted, rows["count"], 0))
        covered = np.where(rows["last_offset"] >= start, rows["last_offset"], NONE)
        workspace = self._cleaner._workspace
        for views in self._reader.read_records(chunk, rows[is_data], workspace):
            done, full_in = self._put(views, start)
            self._map_messages += done
            if full_in is not None:
                number = int(np.searchsorted(rows["position"], full_in.position))
                self._map_messages += int(others[:number].sum())
                complete = covered[:number][covered[:number] >= 0]
                if not full_in.has_key and len(complete):
                    offsets.latest_offset = int(complete[-1])
                return True
        self._map_messages += int(others.sum())
        if (covered := covered[covered >= 0]).size:
            offsets.latest_offset = int(covered[-1])
        return False

    def _put(self, views: RecordViews, start: int) -> tuple[int, _FullIn | None]:
        """Put records in the map; return their number, and the batch that filled it."""
        offsets, records = self._cleaner.offsets, views.records
        most = int(offsets.slots * self._cleaner.load_factor)
        lengths = records["key_length"]
        if len(records) and records["offset"][0] < start:
            lengths = np.where(records["offset"] < start, NULL, lengths)
        keys = ByteColumn(views.data, records["key_start"].astype(np.int64), lengths)
        done = offsets.put(keys, records["offset"], most)
        if done == len(lengths):
            return done, None
        ends = np.cumsum(views.counts)
        batch = int(np.searchsorted(ends, done, side="right"))
        first = int(ends[batch] - views.counts[batch])
        has_key = bool((lengths[first:done] >= 0).any())
        return done, _FullIn(int(views.rows["position"][batch]), has_key)

    # Copying

    def _groups(self, end: int) -> list[list[GrowingSegment]]:
        config = self._log.config
        runtime = self._log.runtime
        with runtime.lock, runtime.guard():
            segments = self._log.replaceable_segments.between(0, end)
            segment_sizes = [_sizes_of(segment) for segment in segments]
        groups = group_segments(
            segment_sizes,
            config.segment_size,
            config.segment_index_bytes,
            self._cleanable.first_uncleanable_offset,
        )
        return [[segments[number] for number in group] for group in groups]

    def _clean_group(
        self,
        group: Sequence[GrowingSegment],
        tracker: TransactionTracker,
        counts: FilterCounts,
        old_horizon: int,
    ) -> None:
        log = self._log
        cleaned = log.replaceable_segments.begin_cleaned(group[0].base_offset)
        tracker.keep_aborted = cleaned.txn_index.append
        batch_filter = BatchFilter(
            reader=self._reader,
            offsets=self._cleaner.offsets,
            tracker=tracker,
            last_records=LastRecords.of(dict(log.producers)),
            bound=self._cleanable.first_uncleanable_offset,
            now_ms=self._now_ms,
            delete_retention_ms=log.config.delete_retention_ms,
            keeps_corrupt=self._cleaner.on_corruption == "keep",
            observer=self._cleaner.observer,
            counts=counts,
        )
        try:
            for segment, following in zip(group, [*group[1:], None], strict=True):
                modified_ms = segment.modified_ms
                batch_filter.keeps_old_tombstones = modified_ms > old_horizon
                end = self._end_of(segment, following)
                tracker.expect(log.find_aborted(segment.base_offset, end))
                self._copy(segment, cleaned, batch_filter)
            cleaned.become_inactive()
            cleaned.flush()
            cleaned.set_modified(modified_ms)
        except LogCleaningAbortedError:
            cleaned.close_handles()
            cleaned.delete()
            raise
        except BaseException:
            cleaned.close_handles()
            raise
        log.replaceable_segments.replace([cleaned], group)

    def _end_of(self, segment: GrowingSegment, following: GrowingSegment | None) -> int:
        if following is not None:
            return following.base_offset
        runtime = self._log.runtime
        with runtime.lock, runtime.guard():
            return segment.next_offset()

    def _copy(
        self, segment: GrowingSegment, cleaned: GrowingSegment, batches: BatchFilter
    ) -> None:
        """Append the records of a segment that are kept to a cleaned segment."""
        base, size = segment.base_offset, segment.size
        later = (each.base_offset for each in self._log.growing_segments)
        end_offset = min(
            (offset for offset in later if offset > base),
            default=self._log.log_end_offset,
        )
        with self._log.runtime.disk.open(segment.path) as file:
            for chunk in self._reader.read(file, 0, size, base, end_offset):
                kept = batches.filter(chunk)
                if kept is None:
                    continue
                try:
                    cleaned.append(kept.data, kept.rows, kept.max_offset)
                except LogSegmentOffsetOverflowError as error:
                    self._log.replaceable_segments.split(segment)
                    reason = f"the segment was split: {segment.path}"
                    raise LogCleaningAbortedError(reason) from error
                self._cleaner.throttle.count(len(kept.data))


def _sizes_of(segment: GrowingSegment) -> SegmentSizes:
    offsets, times = segment.offset_index, segment.time_index
    offsets.load()
    times.load()
    return SegmentSizes(
        segment.base_offset,
        segment.size,
        offsets.entry_count * offsets.ENTRY_BYTES,
        times.entry_count * times.ENTRY_BYTES,
    )
