"""What a read gives: which bytes of which segment, and where they begin.

Bytes come from one segment, from the batch on that holds the offset asked for, and end
where the reader's right to see does: at the log's end, the high watermark, or the last
stable offset. That may be in the middle of a batch.

Knows: places in a log. Does not know: how far a reader may see.
Source: ``LocalLog.java`` (``read``, ``addAbortedTransactions``).
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkalog.errors import OffsetOutOfRangeError
from kafkalog.indexes.txn_index import AbortedTransaction
from kafkalog.log.offset_metadata import OffsetMetadata
from kafkalog.log.state import LogState
from kafkalog.segment.growing_segment import GrowingSegment, SegmentRead


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a read gives: `length` bytes of `segment`, from where `place` says.

    `aborted` are the transactions aborted among them, where they were asked for; None
    also where the log ended before there was anything.
    """

    place: OffsetMetadata
    segment: GrowingSegment | None = None
    length: int = 0
    first_entry_incomplete: bool = False
    aborted: tuple[AbortedTransaction, ...] | None = None

    def data(self) -> bytes:
        """Read the bytes."""
        if self.segment is None or not self.length:
            return b""
        return self.segment.file.read(self.place.position, self.length)


def fetch(
    log: LogState,
    offset: int,
    max_bytes: int,
    limit: OffsetMetadata,
    *,
    min_one_batch: bool = False,
    aborted: bool = False,
) -> Fetched:
    """Find what a read from `offset` on gives, that lies before `limit`.

    Raises `OffsetOutOfRangeError` beyond the log's end and before its first segment.
    """
    segment = log.segments.floor(offset)
    if segment is None or offset > log.log_end_offset:
        raise OffsetOutOfRangeError(
            f"offset {offset} is not in the log, which ends at {log.log_end_offset}"
        )
    nothing = () if aborted else None
    if offset == limit.offset:
        return Fetched(limit, aborted=nothing)
    if offset > limit.offset:
        return Fetched(place_of(log, offset), aborted=nothing)
    while segment is not None:
        end = _readable_end(segment, limit)
        read = segment.read(offset, max_bytes, end, min_one_batch=min_one_batch)
        if read is not None:
            place = OffsetMetadata(read.offset, segment.base_offset, read.position)
            hits = _aborted_in(log, offset, segment, read) if aborted else None
            return Fetched(
                place, segment, read.length, read.first_entry_incomplete, hits
            )
        segment = log.segments.higher(segment.base_offset)
    return Fetched(log.end)


def place_of(log: LogState, offset: int) -> OffsetMetadata:
    """Look up the batch that holds an offset, or the next one: its offset and place.

    Raises `OffsetOutOfRangeError` outside of the log.
    """
    return fetch(log, offset, 1, log.end).place


def aborted_between(log: LogState, start: int, end: int) -> list[AbortedTransaction]:
    """Transactions aborted, any part of which lies below `end`, as the indexes say.

    From the segment on that `start` is in; those that ended before the log's start are
    left out.
    """
    segment = log.segments.floor(start)
    if segment is None:
        return []
    return _collect_aborted(log, log.log_start_offset, end, segment)


def _readable_end(segment: GrowingSegment, limit: OffsetMetadata) -> int | None:
    """Position at which a reader must stop; None where that is not known."""
    if segment.base_offset < limit.segment_base:
        return segment.size
    if segment.base_offset == limit.segment_base and not limit.is_bare:
        return limit.position
    return None


def _aborted_in(
    log: LogState, offset: int, segment: GrowingSegment, read: SegmentRead
) -> tuple[AbortedTransaction, ...]:
    """Transactions aborted among the bytes of a read, or so near that they may be."""
    end = segment.offset_index.fetch_upper_bound(read.position, read.length)
    if end is None:
        following = log.segments.higher(segment.base_offset)
        end = log.log_end_offset if following is None else following.base_offset
    return tuple(_collect_aborted(log, offset, end, segment))


def _collect_aborted(
    log: LogState, start: int, end: int, segment: GrowingSegment
) -> list[AbortedTransaction]:
    found: list[AbortedTransaction] = []
    for one in [segment, *log.segments.above(segment.base_offset)]:
        hits, complete = one.txn_index.collect_aborted(start, end)
        found += hits
        if complete:
            break
    return found
