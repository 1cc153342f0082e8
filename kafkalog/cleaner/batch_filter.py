"""Filter a chunk of batches: copy, rewrite, empty or drop each of them.

    copied      magic 2, all records are kept, and no delete horizon must be set
    rewritten   other batches with records that are kept; they become magic 2
    emptied     no record is kept, but the header must be
    dropped     all other batches

A rewritten batch keeps its first and last offset, its producer fields, its flags and
its codec, at the default level. Its records keep their offsets, timestamps and headers.

The delete horizon of a batch is the time from which its tombstones or its marker may be
removed. It is stored in place of the base timestamp.

Source: ``MemoryRecords.filterTo``, ``Cleaner.cleanInto``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkalog.array_types import Bools, Bytes, Int64s
from kafkalog.cleaner.batch_chunks import Chunk, ChunkReader
from kafkalog.cleaner.retention_decision import (
    BatchDecision,
    BatchInputs,
    RetentionReason,
    decide_batches,
    decide_records,
    sums_of_batches,
)
from kafkalog.cleaner.transaction_tracker import TransactionTracker
from kafkalog.decoding.batch_decoder import DecodedRecords, RecordViews
from kafkalog.decoding.offset_map import OffsetMap
from kafkalog.decoding.workspace import RecordSpans, Workspace
from kafkalog.encoding.batch_encoder import encode
from kafkalog.encoding.record_columns import ByteColumn, RecordColumns
from kafkalog.errors import (
    InvalidRecordError,
    LogArgumentError,
    LogStateError,
)
from kafkalog.formats.batch_headers import BatchHeaders, have_flag, scan_headers
from kafkalog.formats.layout import (
    BATCH,
    CODEC_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    LOG_APPEND_TIME_FLAG,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
    TRANSACTIONAL_FLAG,
)
from kafkalog.integer_limits import MAX_INT64
from kafkalog.log.producers.producer_entry import ProducerStateEntry
from kafkalog.validation.batch_conversion import read_headers

KEPT_FLAGS: Final = LOG_APPEND_TIME_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG

REMOVING: Final = tuple(reason for reason in RetentionReason if not reason.is_kept)

DROP, COPY, REWRITE, EMPTY = range(4)


class LastRecords(NamedTuple):
    """The last batch of each producer of a log, by ascending producer id.

    `offset` is the last offset of its last data batch; -1 if none of its current epoch
    is known, as after a marker that raised the epoch.
    """

    producer_id: Int64s
    offset: Int64s
    epoch: Int64s

    @classmethod
    def of(cls, producers: dict[int, ProducerStateEntry]) -> LastRecords:
        """Return the last batches in the producer state of a log."""
        rows = [
            (producer_id, entry.last_offset, entry.producer_epoch)
            for producer_id, entry in sorted(producers.items())
        ]
        return cls(*np.array(rows, np.int64).reshape(-1, 3).T)

    def are_in(self, rows: BatchHeaders) -> Bools:
        """Return which batches are the last of their producer."""
        if not len(self.producer_id):
            return np.zeros(len(rows), np.bool_)
        places = np.searchsorted(self.producer_id, rows["producer_id"])
        places = np.minimum(places, len(self.producer_id) - 1)
        is_known = self.producer_id[places] == rows["producer_id"]
        is_known &= rows["producer_id"] > NO_PRODUCER_ID
        has_data = self.offset[places] >= 0
        is_last_data = rows["last_offset"] == self.offset[places]
        is_marker = have_flag(rows, CONTROL_FLAG)
        is_marker &= rows["producer_epoch"] == self.epoch[places]
        result: Bools = is_known & np.where(has_data, is_last_data, is_marker)
        return result


@dataclass(slots=True)
class FilterCounts:
    """The records and bytes that a filter has read and kept."""

    messages_read: int = 0
    bytes_read: int = 0
    messages_written: int = 0
    bytes_written: int = 0
    invalid_messages: int = 0


class Filtered(NamedTuple):
    """The batches of a chunk that are kept: their bytes and headers.

    `max_offset` is the greatest offset of them. For a rewritten batch, the last offset
    of its records counts, not that of its header.
    """

    data: Bytes
    rows: BatchHeaders
    max_offset: int


class RemovedRecords(NamedTuple):
    """Records and bytes that a filter removes from the batches of a chunk.

    `records` has a row for each batch, and a column for each `RetentionReason` below 0,
    in the order -1, -2 and so on. `bytes` has the decrease in size of each batch.
    """

    rows: BatchHeaders
    records: Int64s
    bytes: Int64s


Observer = Callable[[RemovedRecords], None]
"""Called after each chunk of a round with the records removed from it."""


@dataclass(slots=True, kw_only=True)
class BatchFilter:
    """The filter of one round of compaction.

    `reader` reads the records of chunks. `bound` is the first offset that is not
    cleanable. `keeps_corrupt` is whether corrupt batches are copied, instead of
    dropped. `keeps_old_tombstones` is whether
    tombstones of magic 0 and 1 are kept in the segment that is being filtered.
    `observer` is called with the records removed from each chunk.
    """

    reader: ChunkReader
    offsets: OffsetMap
    tracker: TransactionTracker
    last_records: LastRecords
    bound: int
    now_ms: int
    delete_retention_ms: int
    keeps_corrupt: bool = False
    keeps_old_tombstones: bool = True
    observer: Observer | None = None
    counts: FilterCounts = field(default_factory=FilterCounts)
    _workspace: Workspace = field(default_factory=Workspace)

    def filter(self, chunk: Chunk) -> Filtered | None:
        """Return the batches of a chunk that are kept; None if there are none."""
        rows = chunk.rows
        filtered = FilteredChunk(rows, chunk.data, chunk.origin, self._decide(chunk))
        decision = filtered.decision
        superseded = decision.is_read & self._are_superseded(rows)
        counts = np.where(superseded, rows["count"], 0)
        filtered.removed_records[:, -RetentionReason.SUPERSEDED - 1] = counts
        self.counts.messages_read += int(counts.sum())
        is_read = decision.is_read & ~superseded
        for views in self.reader.read_records(chunk, rows[is_read], self._workspace):
            self._filter_records(filtered, views)
        emptied = decision.drops_records & decision.is_kept_empty
        self.counts.messages_read += int(rows["count"][emptied].sum())
        filtered.outcome[chunk.is_corrupt] = COPY if self.keeps_corrupt else DROP
        if (rows["magic"][filtered.outcome == EMPTY] < 2).any():
            raise LogStateError("batch of magic 0 or 1 that is kept without records")
        kept = filtered.assemble()
        self.counts.bytes_read += int(rows["size_in_bytes"].sum())
        self.counts.bytes_written += 0 if kept is None else len(kept.data)
        if self.observer is not None:
            self.observer(filtered.removed())
        return kept

    def _decide(self, chunk: Chunk) -> BatchDecision[Bools]:
        """Return the decisions about batches; corrupt ones are not read."""
        rows, valid = chunk.rows, ~chunk.is_corrupt
        is_discardable = np.zeros(len(rows), np.bool_)
        is_discardable[valid] = self.tracker.discardable(
            chunk.data, chunk.origin, rows[valid]
        )
        decision = decide_batches(
            BatchInputs(
                is_control=have_flag(rows, CONTROL_FLAG),
                is_discardable=is_discardable,
                is_horizon_passed=have_flag(rows, DELETE_HORIZON_FLAG)
                & (rows["base_timestamp"] <= self.now_ms),
                is_last_of_producer=self.last_records.are_in(rows),
                ends_round=rows["last_offset"] + 1 == self.bound,
            )
        )
        return BatchDecision(*(column & valid for column in decision))

    def _are_superseded(self, rows: BatchHeaders) -> Bools:
        """Return in which batches each record is known to be superseded.

        These batches need not be decompressed. Their records were put in the offset
        map: each offset has a mark, and there are as many offsets as records.
        """
        first, last = rows["base_offset"], rows["last_offset"]
        result = self.offsets.are_superseded(first, last)
        result &= (rows["magic"] == 2) & ~have_flag(rows, CONTROL_FLAG)
        result &= rows["count"] == last - first + 1
        result &= last <= self.offsets.latest_offset
        return result

    def _filter_records(self, chunk: FilteredChunk, views: RecordViews) -> None:
        """Decide which records of some batches are kept, and the batches' outcome."""
        rows, counts, records = views.rows, views.counts, views.records
        numbers = chunk.numbers_of(rows)
        reasons, kept, tombstones = decide_records(
            records,
            counts,
            have_flag(rows, CONTROL_FLAG),
            self._protects_tombstones(rows),
            self.offsets.are_latest(_column(views, "key"), records["offset"]),
            self.offsets.latest_offset,
        )
        if self.observer is not None:
            for reason in REMOVING:
                chunk.removed_records[numbers, -reason - 1] = sums_of_batches(
                    reasons == reason, counts
                )
        self.counts.messages_read += len(reasons)
        self.counts.messages_written += int(kept.sum())
        self.counts.invalid_messages += int(
            (reasons == RetentionReason.WITHOUT_KEY).sum()
        )
        has_horizon = have_flag(rows, DELETE_HORIZON_FLAG)
        needs_horizon = (tombstones > 0) & ~has_horizon
        needs_horizon |= chunk.decision.needs_horizon[numbers] & ~has_horizon
        horizon = np.where(has_horizon, rows["base_timestamp"], NO_TIMESTAMP)
        horizon[needs_horizon] = self._new_horizon()
        can_be_copied = (rows["magic"] == 2) & ~needs_horizon
        chunk.keep(views, reasons >= 0, kept, can_be_copied, horizon)

    def _new_horizon(self) -> int:
        """Return the delete horizon for a batch without one.

        A horizon beyond the range of timestamps is not set: in Kafka it overflows, and
        a negative horizon is not stored.
        """
        horizon = self.now_ms + self.delete_retention_ms
        return horizon if horizon <= MAX_INT64 else NO_TIMESTAMP

    def _protects_tombstones(self, rows: BatchHeaders) -> Bools:
        """Return in which batches tombstones may not be removed yet."""
        has_horizon = have_flag(rows, DELETE_HORIZON_FLAG)
        protects: Bools = ~has_horizon | (self.now_ms < rows["base_timestamp"])
        if not self.keeps_old_tombstones:
            protects &= rows["magic"] == 2
        return protects


class FilteredChunk:
    """The batches of a chunk, the outcome of each, and the bytes of rewritten ones."""

    def __init__(
        self,
        rows: BatchHeaders,
        data: Bytes,
        origin: int,
        decision: BatchDecision[Bools],
    ) -> None:
        self.rows = rows
        self.decision = decision
        self.outcome = np.where(decision.is_kept_empty, EMPTY, DROP)
        self.removed_records = np.zeros((len(rows), len(REMOVING)), np.int64)
        self._data = data
        self._origin = origin
        self._rewritten: list[Bytes] = []
        self._max_offset = -1

    def numbers_of(self, rows: BatchHeaders) -> npt.NDArray[np.intp]:
        """Return the numbers of some of the chunk's batches."""
        return np.searchsorted(self.rows["position"], rows["position"])

    def keep(
        self,
        views: RecordViews,
        is_kept: Bools,
        kept: Int64s,
        can_be_copied: Bools,
        horizon: Int64s,
    ) -> None:
        """Set the outcome of batches by which of their records are kept.

        `kept` is the number of records of each batch that are. Without any, the batch
        is emptied or dropped. With all, it is copied if it can be. `horizon` is the
        delete horizon of a batch that is rewritten, negative for none.
        """
        numbers, counts = self.numbers_of(views.rows), views.counts
        outcome = np.where((kept == counts) & can_be_copied, COPY, REWRITE)
        is_kept_empty = self.decision.is_kept_empty[numbers]
        outcome = np.where(kept > 0, outcome, np.where(is_kept_empty, EMPTY, DROP))
        self.outcome[numbers] = outcome
        rewritten = outcome == REWRITE
        if rewritten.any():
            chosen = np.flatnonzero(is_kept & np.repeat(rewritten, counts))
            self._rewrite(
                _select(views, chosen),
                self.rows[numbers[rewritten]],
                kept[rewritten],
                horizon[rewritten],
            )

    def _rewrite(
        self,
        views: RecordViews,
        rows: BatchHeaders,
        counts: Int64s,
        horizon: Int64s,
    ) -> None:
        """Encode the records in `views` as batches with `counts` records each.

        A negative `horizon` is not stored.
        """
        has_horizon = horizon >= 0
        records = views.records
        offset, timestamp = records["offset"], records["timestamp"]
        if timestamp.min() < NO_TIMESTAMP:
            raise LogArgumentError(f"timestamp {timestamp.min()}, expected at least -1")
        is_first = np.zeros(len(offset), np.bool_)
        is_first[np.cumsum(counts) - counts] = True
        if (falls := (np.diff(offset) <= 0) & ~is_first[1:]).any():
            row = int(falls.argmax())
            reason = f"offset {offset[row + 1]}, expected above {offset[row]}"
            raise LogArgumentError(reason)
        columns = RecordColumns(
            offset,
            timestamp,
            _column(views, "key"),
            _column(views, "value"),
            read_headers(views) if records["header_count"].any() else None,
        )
        bounds = np.concatenate(([0], np.cumsum(counts)))
        first, last = bounds[:-1], bounds[1:] - 1
        new = _headers_of(rows)
        old = rows["magic"] < 2
        new["base_offset"] = np.where(old, offset[first], rows["base_offset"])
        new["last_offset"] = np.where(old, offset[last], rows["last_offset"])
        new["attributes"] |= rows["attributes"] & CODEC_MASK
        new["attributes"][has_horizon] |= DELETE_HORIZON_FLAG
        new["base_timestamp"] = np.where(has_horizon, horizon, timestamp[first])
        at_append = new["attributes"] & LOG_APPEND_TIME_FLAG > 0
        greatest = np.maximum.reduceat(timestamp, first)
        new["max_timestamp"] = np.where(at_append, rows["max_timestamp"], greatest)
        try:
            encoded = encode(columns, new, bounds, is_checked=True)
        except InvalidRecordError as error:
            raise LogArgumentError(str(error)) from error
        self._rewritten.append(np.frombuffer(encoded, np.uint8))
        self._max_offset = max(self._max_offset, int(offset.max()))

    def removed(self) -> RemovedRecords:
        """Return the records and bytes that are removed from each batch."""
        outcome, rows = self.outcome, self.rows
        records = self.removed_records.copy()
        dropped = self.decision.drops_records
        whole = -RetentionReason.DROPPED_WITH_BATCH - 1
        records[dropped, whole] = rows["count"][dropped]
        starts, ends = self._rewritten_bounds()[1]
        sizes = rows["size_in_bytes"].astype(np.int64)
        left = np.select(
            [outcome == COPY, outcome == EMPTY, outcome == REWRITE],
            [sizes, np.int64(RECORD_BATCH_OVERHEAD), ends - starts],
            np.int64(0),
        )
        return RemovedRecords(rows, records, sizes - left)

    def assemble(self) -> Filtered | None:
        """Return the batches that are kept, in order; None if there are none."""
        outcome = self.outcome
        if (outcome == COPY).all():
            last = int(self.rows["last_offset"].max())
            end = int(self.rows["size_in_bytes"].sum())
            rows = self.rows.copy()
            return Filtered(self._data[:end], rows, last)
        same = self.rows["last_offset"][(outcome == COPY) | (outcome == EMPTY)]
        self._max_offset = max(self._max_offset, int(same.max(initial=-1)))
        sources = {
            COPY: self._copied_bounds,
            EMPTY: self._emptied,
            REWRITE: self._rewritten_bounds,
        }
        outcomes = set(outcome.tolist()) - {DROP}
        kept = {number: sources[number]() for number in outcomes}
        parts = []
        edges = np.flatnonzero(np.diff(outcome)) + 1
        starts = [0, *edges.tolist()]
        for first, end in zip(starts, [*starts[1:], len(outcome)], strict=True):
            if outcome[first] == DROP:
                continue
            source, bounds = kept[int(outcome[first])]
            parts.append(source[bounds[0][first] : bounds[1][end - 1]])
        if not parts:
            return None
        data = _joined(parts)
        rows, _, _ = scan_headers(data)
        return Filtered(data, rows, self._max_offset)

    def _copied_bounds(self) -> tuple[Bytes, tuple[Int64s, Int64s]]:
        """Return the bytes of the chunk, and the bounds of each row in them."""
        starts = self.rows["position"] - self._origin
        return self._data, (starts, starts + self.rows["size_in_bytes"])

    def _emptied(self) -> tuple[Bytes, tuple[Int64s, Int64s]]:
        """Return the headers of emptied batches, and the bounds of each row in them."""
        chosen = self.outcome == EMPTY
        new = _headers_of(self.rows[chosen])
        new["base_timestamp"] = NO_TIMESTAMP
        new["max_timestamp"] = self.rows["max_timestamp"][chosen]
        none = np.empty(0, np.int64)
        nulls = ByteColumn.nulls(0)
        columns = RecordColumns(none, none, nulls, nulls)
        bounds = np.zeros(len(new) + 1, np.int64)
        data = np.frombuffer(encode(columns, new, bounds), np.uint8)
        ends = np.cumsum(chosen) * RECORD_BATCH_OVERHEAD
        return data, (ends - RECORD_BATCH_OVERHEAD, ends)

    def _rewritten_bounds(self) -> tuple[Bytes, tuple[Int64s, Int64s]]:
        """Return the rewritten batches, and the bounds of each row in them."""
        chosen = self.outcome == REWRITE
        data = _joined(self._rewritten)
        sizes = np.zeros(len(chosen), np.int64)
        rows, _, _ = scan_headers(data, capacity=int(chosen.sum()) + 1)
        sizes[chosen] = rows["size_in_bytes"]
        ends = np.cumsum(sizes)
        return data, (ends - sizes, ends)


def _joined(parts: list[Bytes]) -> Bytes:
    """Return the bytes of all parts; those of a single part are not copied."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([np.empty(0, np.uint8), *parts])


def _headers_of(rows: BatchHeaders) -> BatchHeaders:
    """Return headers of magic 2 with the fields that batches keep, without codec."""
    new = np.zeros(len(rows), BATCH)
    new["magic"] = 2
    for name in ("base_offset", "last_offset"):
        new[name] = rows[name]
    old = rows["magic"] < 2
    for name, none in (
        ("leader_epoch", NO_LEADER_EPOCH),
        ("producer_id", NO_PRODUCER_ID),
        ("producer_epoch", NO_PRODUCER_EPOCH),
        ("base_sequence", NO_SEQUENCE),
    ):
        new[name] = np.where(old, none, rows[name])
    flags = np.where(old, LOG_APPEND_TIME_FLAG, KEPT_FLAGS)
    flags[rows["magic"] == 0] = 0
    new["attributes"] = rows["attributes"] & flags
    return new


def _column(views: RecordViews, name: str) -> ByteColumn:
    starts = views.records[f"{name}_start"].astype(np.int64)
    return ByteColumn(views.data, starts, views.records[f"{name}_length"])


def _select(views: RecordViews, chosen: npt.NDArray[np.intp]) -> RecordViews:
    """Return some of the records."""
    longs, ints = views.records.longs, views.records.ints
    records = RecordSpans(longs.take(chosen, axis=1), ints.take(chosen, axis=1))
    return DecodedRecords(views.data, views.rows, records, views.counts)
