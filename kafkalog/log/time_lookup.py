"""Offsets by timestamp, and the special timestamps that stand for places of a log.

A timestamp is looked for in the first segment whose greatest is not before it, and in
no other: with times that go back and forth, an older record may be passed over.

Knows: what each timestamp asks for. Does not know: who asks.
Source: ``UnifiedLog.fetchOffsetByTimestamp``, ``LogSegment.findOffsetByTimestamp``,
``FileRecords.searchForTimestamp``; for consumers ``Partition.fetchOffsetForTimestamp``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from kafkalog.decoding.batch_decoder import truncate_header
from kafkalog.decoding.record_batch import Record, RecordBatch
from kafkalog.errors import LocatedError, OffsetNotAvailableError
from kafkalog.formats.batch_headers import RECORDS_COUNT
from kafkalog.formats.layout import LOG_OVERHEAD, NO_TIMESTAMP, SIZE_OFFSET
from kafkalog.log.state import LogState
from kafkalog.log.watermarks import LogIsolation, sight_of
from kafkalog.segment.file_batches import Window, windows
from kafkalog.segment.growing_segment import GrowingSegment

LATEST: Final = -1
EARLIEST: Final = (-2, -4)
"""The log's start, and that of what is stored here: all of it."""


class TimestampOffset(NamedTuple):
    """A record's timestamp and offset, and the epoch of the leader it came by.

    `timestamp` is -1 where a place was asked for; `leader_epoch` None if unknown.
    """

    timestamp: int
    offset: int
    leader_epoch: int | None


def tell_offset(
    log: LogState, timestamp: int, isolation: LogIsolation
) -> TimestampOffset | None:
    """Find an offset as `find_offset`, and tell no more of it than a reader may see."""
    end = sight_of(isolation).offset(log)
    found = find_offset(log, timestamp)
    if isolation == "log_end" or timestamp in EARLIEST:
        return found
    if timestamp == LATEST:
        _check_caught_up(log)
        return TimestampOffset(NO_TIMESTAMP, end, log.leader_epochs.latest_epoch)
    if found is None or found.offset >= end:
        _check_caught_up(log)
        return None
    return found


def _check_caught_up(log: LogState) -> None:
    """Raise if consumers may have seen more, of the leader before, than they would."""
    latest, high = log.leader_epochs.latest, log.high_watermark.offset
    if latest is not None and latest.start_offset > high:
        raise OffsetNotAvailableError(
            f"the high watermark, {high}, is behind the start of leader epoch "
            f"{latest.epoch}, {latest.start_offset}"
        )


def find_offset(log: LogState, timestamp: int) -> TimestampOffset | None:
    """Find the first record at or after a timestamp, or what a special one means."""
    epochs = log.leader_epochs
    match timestamp:
        case -2 | -4:
            first = epochs.earliest
            known = first is not None and first.start_offset <= log.log_start_offset
            epoch = first.epoch if first is not None and known else None
            return TimestampOffset(NO_TIMESTAMP, log.log_start_offset, epoch)
        case -1:
            return TimestampOffset(
                NO_TIMESTAMP, log.log_end_offset, epochs.latest_epoch
            )
        case -5 | -6:  # of tiered storage, which there is none of
            return TimestampOffset(NO_TIMESTAMP, -1, -1)
        case -3:  # of the greatest timestamp
            return _find_greatest(log)
    return find_record(log, timestamp, log.log_start_offset)


def find_record(log: LogState, timestamp: int, start: int) -> TimestampOffset | None:
    """Find the first record at or above a timestamp and an offset."""
    for segment in log.segments:
        if segment.largest_timestamp >= timestamp:
            return _find_in(segment, timestamp, start)
    return None


def _find_greatest(log: LogState) -> TimestampOffset | None:
    """Find the first record with the greatest timestamp of the log."""
    segment = max(log.segments, key=lambda one: one.greatest_timestamp[0])
    timestamp, offset = segment.greatest_timestamp
    _, position = segment.offset_index.lookup(offset)
    for window in windows(segment.file, position, segment.size):
        hits = np.flatnonzero(window.rows["max_timestamp"] == timestamp)
        if len(hits):
            if window.rows["magic"][hits[0]] == 0:
                return None
            return _first_record(segment, window, int(hits[0]), timestamp)
    return None


def _find_in(
    segment: GrowingSegment, timestamp: int, start: int
) -> TimestampOffset | None:
    """Find the first record of a segment at or above both."""
    _, offset = segment.time_index.lookup(timestamp)
    _, position = segment.offset_index.lookup(max(offset, start))
    for window in windows(segment.file, position, segment.size):
        for place in np.flatnonzero(window.rows["max_timestamp"] >= timestamp):
            found = _first_record(segment, window, int(place), timestamp, start)
            if found is not None:
                return found
    return None


def _first_record(
    segment: GrowingSegment, window: Window, place: int, timestamp: int, start: int = 0
) -> TimestampOffset | None:
    """Find the first record of one batch at or above both."""
    row = window.rows[place]
    epoch = int(row["leader_epoch"])
    try:
        for record in _records_of(window, row):
            if record.timestamp >= timestamp and record.offset >= start:
                known = epoch if epoch >= 0 else None
                return TimestampOffset(record.timestamp, record.offset, known)
    except LocatedError as error:
        error.kafka_name = error.as_rejection().kafka_name
        raise error.located(segment.path, int(row["position"])) from None
    return None


def _records_of(window: Window, row: np.void) -> Iterator[Record]:
    """Yield the records of a batch; those before a broken one come before its error."""
    start = int(row["position"]) - window.origin
    # Of a magic above 2 records are read all the same, and of one below 0 they are not.
    any_magic = bool(row["magic"] == 2)
    try:
        yield from RecordBatch(window.data, start, any_magic=any_magic)
    except LocatedError:
        for most in range(1, int(row["count"])):
            cut = truncate_header(window.data, window.origin, row, most)
            size = int(cut["size_in_bytes"])
            if cut == row:
                break
            part = window.data[start : start + size].copy()
            part[SIZE_OFFSET:LOG_OVERHEAD].view(">i4")[:] = size - LOG_OVERHEAD
            part[RECORDS_COUNT].view(">i4")[:] = most
            *_, record = RecordBatch(part, any_magic=any_magic)
            yield record
        raise
