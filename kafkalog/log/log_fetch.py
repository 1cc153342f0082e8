"""Reads of a writable log.

A read returns bytes of one segment, from the batch that holds the requested offset, or
the next one, up to the limit of its isolation level: the log end offset, the high
watermark or the last stable offset. A limit may be in the middle of a batch.

Source: ``UnifiedLog.read``, ``LocalLog.java`` (``read``, ``addAbortedTransactions``),
``FetchDataInfo.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kafkalog._speedups import Status
from kafkalog.array_types import Bytes
from kafkalog.decoding.record_batch import RecordBatch
from kafkalog.errors import OffsetOutOfRangeError
from kafkalog.formats.batch_headers import scan_headers, size_field
from kafkalog.formats.layout import LOG_OVERHEAD
from kafkalog.indexes.txn_index import AbortedTransaction
from kafkalog.log.offset_metadata import OffsetMetadata
from kafkalog.log.readable_log import LogRead
from kafkalog.log.state import LogState
from kafkalog.segment.growing_segment import GrowingSegment, SegmentRead
from kafkalog.storage.byte_source import FileSource


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFetch(LogRead):
    """Bytes read from a writable log, and their position.

    Attributes
    ----------
    data : bytes
        The batches.
    next_offset : int
        The offset from which to continue.
    aborted : tuple of (int, int)
        With ``read_committed``, the aborted transactions among the batches: producer id
        and first offset.
    place : OffsetMetadata
        Offset and position of the first batch; without a batch, those of the limit.
        The offset is the base offset of the batch that holds the requested offset, or
        of the next one: it may be below the requested offset, or above it.
    first_entry_incomplete : bool
        Whether the first batch is larger than the bytes requested.
    lists_aborted : bool
        Whether `aborted` was requested and looked up.
    """

    place: OffsetMetadata
    first_entry_incomplete: bool = False
    lists_aborted: bool = False

    def batches(self) -> Iterator[RecordBatch]:
        """Yield the complete batches one by one.

        No checksum covers the magic of a batch. As in Kafka, a magic above 2 does not
        end the iteration.
        """
        position = 0
        while _is_whole(self.data, position):
            batch = RecordBatch(self.data, position, any_magic=True)
            yield batch
            position += batch.size_in_bytes


def read_log(
    log: LogState,
    offset: int,
    max_bytes: int,
    limit: Callable[[LogState], OffsetMetadata],
    *,
    min_one_batch: bool,
    whole_batches: bool,
    aborted: bool,
) -> LogFetch:
    """Read from the batch that holds `offset` up to a limit.

    With `whole_batches` an incomplete batch at the end is cut off. `aborted` requests
    the aborted transactions. Raises `OffsetOutOfRangeError` outside
    of log start to log end offset.
    """
    fetched = _fetch_from_start(
        log, offset, max_bytes, limit, min_one_batch=min_one_batch, aborted=aborted
    )
    data = fetched.data()
    size, next_offset = _complete_batches(np.frombuffer(data, np.uint8), offset)
    transactions = fetched.aborted or ()
    return LogFetch(
        data=data[:size] if whole_batches else data,
        next_offset=next_offset,
        aborted=tuple((txn.producer_id, txn.first_offset) for txn in transactions),
        place=fetched.place,
        first_entry_incomplete=fetched.first_entry_incomplete,
        lists_aborted=fetched.aborted is not None,
    )


class StoredBatches(NamedTuple):
    """Complete batches of a segment, whose file is open as `source`."""

    source: FileSource
    position: int
    size_in_bytes: int


def open_batches(
    log: LogState,
    offset: int,
    max_bytes: int,
    limit: Callable[[LogState], OffsetMetadata],
) -> StoredBatches | None:
    """Open the file that a read from `offset` on reads, and return the batches in it.

    Returns None if a read returns nothing. Raises `OffsetOutOfRangeError` outside of
    log start to log end offset.
    """
    fetched = _fetch_from_start(log, offset, max_bytes, limit, min_one_batch=True)
    if fetched.segment is None or not fetched.length:
        return None
    source = FileSource(fetched.segment.path, links=False)
    position, length = fetched.place.position, fetched.length
    headers = source.read_headers(position, length, None)
    if headers is None:
        headers = source.read(position, length)
    size, _ = _complete_batches(headers, offset)
    if size:
        return StoredBatches(source, position, size)
    source.close()
    return None


@dataclass(frozen=True, slots=True)
class FetchedRange:
    """A range of bytes to read: `length` bytes of `segment` from `place` on.

    `aborted` has the aborted transactions among them; it is None if they were not
    requested, or if there is no batch at or after the offset.
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
) -> FetchedRange:
    """Return the range of bytes that a read from `offset` up to `limit` returns.

    Raises `OffsetOutOfRangeError` beyond the log end offset and before the first
    segment.
    """
    segment = log.segments.floor(offset)
    if segment is None or offset > log.log_end_offset:
        raise OffsetOutOfRangeError(
            f"offset {offset}, expected {log.segments.first.base_offset} to "
            f"{log.log_end_offset}, the log end offset"
        )
    nothing = () if aborted else None
    if offset == limit.offset:
        return FetchedRange(limit, aborted=nothing)
    if offset > limit.offset:
        return FetchedRange(place_of(log, offset), aborted=nothing)
    while segment is not None:
        end = _readable_end(segment, limit)
        read = segment.read(offset, max_bytes, end, min_one_batch=min_one_batch)
        if read is not None:
            place = OffsetMetadata(read.offset, segment.base_offset, read.position)
            transactions = _aborted_in(log, offset, segment, read) if aborted else None
            return FetchedRange(
                place,
                segment,
                read.length,
                read.first_entry_incomplete,
                transactions,
            )
        segment = log.segments.higher(segment.base_offset)
    return FetchedRange(log.end)


def _fetch_from_start(
    log: LogState,
    offset: int,
    max_bytes: int,
    limit: Callable[[LogState], OffsetMetadata],
    *,
    min_one_batch: bool,
    aborted: bool = False,
) -> FetchedRange:
    """Return the range of a read; raise if it begins before the log start offset."""
    if offset < log.log_start_offset:
        raise OffsetOutOfRangeError(
            f"offset {offset}, expected at least {log.log_start_offset}, the log start "
            "offset"
        )
    return fetch(
        log,
        offset,
        max_bytes,
        limit(log),
        min_one_batch=min_one_batch,
        aborted=aborted,
    )


def place_of(log: LogState, offset: int) -> OffsetMetadata:
    """Return offset and position of the batch that holds `offset`, or the next one.

    Raises `OffsetOutOfRangeError` outside of the log.
    """
    return fetch(log, offset, 1, log.end).place


def aborted_in_indexes(log: LogState, start: int, end: int) -> list[AbortedTransaction]:
    """Return the transactions in the indexes that overlap the offsets up to `end`.

    The search begins with the segment that holds `start`. Transactions that ended
    before the log start offset are skipped.
    """
    segment = log.segments.floor(start)
    if segment is None:
        return []
    return _collect_aborted(log, log.log_start_offset, end, segment)


def _readable_end(segment: GrowingSegment, limit: OffsetMetadata) -> int | None:
    """Return the position at which a read must stop, None if it is unknown."""
    if segment.base_offset < limit.segment_base:
        return segment.size
    if segment.base_offset == limit.segment_base and not limit.is_bare:
        return limit.position
    return None


def _aborted_in(
    log: LogState, offset: int, segment: GrowingSegment, read: SegmentRead
) -> tuple[AbortedTransaction, ...]:
    """Return the transactions that may have records among the bytes of a read."""
    end = segment.offset_index.fetch_upper_bound(read.position, read.length)
    if end is None:
        following = log.segments.higher(segment.base_offset)
        end = log.log_end_offset if following is None else following.base_offset
    return tuple(_collect_aborted(log, offset, end, segment))


def _collect_aborted(
    log: LogState, start: int, end: int, segment: GrowingSegment
) -> list[AbortedTransaction]:
    transactions: list[AbortedTransaction] = []
    for holder in [segment, *log.segments.above(segment.base_offset)]:
        aborted, complete = holder.txn_index.collect_aborted(start, end)
        transactions += aborted
        if complete:
            break
    return transactions


def _is_whole(data: bytes, position: int) -> bool:
    """Return whether `data` holds all bytes of the batch at `position`."""
    rest = len(data) - position
    return rest >= LOG_OVERHEAD and rest >= LOG_OVERHEAD + size_field(data, position)


def _complete_batches(data: Bytes, offset: int) -> tuple[int, int]:
    """Return size and next offset of the complete batches in `data`.

    Without a batch the next offset is `offset`.
    """
    place, size, status = 0, 0, int(Status.OK)
    while status == Status.OK and place < len(data):
        rows, status, place = scan_headers(data, place, any_magic=True)
        if len(rows):
            size = place
            offset = int(rows["last_offset"][-1]) + 1
    return size, offset
