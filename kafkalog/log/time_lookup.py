"""Lookup of offsets by timestamp, and Kafka's special timestamps.

Only the first segment whose greatest timestamp is not below the timestamp is searched.
If timestamps do not increase, a record in a later segment may be missed.

Source: ``UnifiedLog.fetchOffsetByTimestamp``, ``LogSegment.findOffsetByTimestamp``,
``FileRecords.searchForTimestamp``; for consumers ``Partition.fetchOffsetForTimestamp``.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import Final, NamedTuple

import numpy as np

from kafkalog._speedups import Status
from kafkalog.decoding.batch_decoder import decode, first_records
from kafkalog.decoding.read_policy import Bounds
from kafkalog.decoding.workspace import RecordSpans, Workspace
from kafkalog.errors import LocatedError, OffsetNotAvailableError
from kafkalog.formats.batch_headers import decode_error, find_invalid_size_or_magic
from kafkalog.formats.layout import MAX_BATCH_BYTES, NO_TIMESTAMP
from kafkalog.log.state import LogState
from kafkalog.log.watermarks import LogIsolation, read_limit_of
from kafkalog.segment.file_batches import Window, windows
from kafkalog.segment.growing_segment import GrowingSegment

LATEST: Final = -1
EARLIEST: Final = (-2, -4)
"""The log start, and the start of what is stored locally, which is the same here."""


class TimestampOffset(NamedTuple):
    """A record's timestamp, offset and leader epoch.

    `timestamp` is -1 for the log start or end, `leader_epoch` None if unknown.
    """

    timestamp: int
    offset: int
    leader_epoch: int | None


def find_visible_offset(
    log: LogState, timestamp: int, isolation: LogIsolation
) -> TimestampOffset | None:
    """Find an offset as `find_offset` does, below the limit of an isolation level."""
    end = read_limit_of(isolation).offset(log)
    result = find_offset(log, timestamp)
    if isolation == "log_end" or timestamp in EARLIEST:
        return result
    if timestamp == LATEST:
        _check_caught_up(log)
        return TimestampOffset(NO_TIMESTAMP, end, log.leader_epochs.latest_epoch)
    if result is None or result.offset >= end:
        _check_caught_up(log)
        return None
    return result


def _check_caught_up(log: LogState) -> None:
    """Raise if consumers of the previous leader may have read above this watermark."""
    latest, high = log.leader_epochs.latest, log.high_watermark.offset
    if latest is not None and latest.start_offset > high:
        raise OffsetNotAvailableError(
            f"high watermark {high}, expected at least {latest.start_offset}, the "
            f"start of leader epoch {latest.epoch}"
        )


def find_offset(log: LogState, timestamp: int) -> TimestampOffset | None:
    """Find the first record at or after a timestamp, or a special offset."""
    epochs = log.leader_epochs
    match timestamp:
        case -4 if log.missing_start is not None:
            start = log.local_log_start_offset
            return TimestampOffset(NO_TIMESTAMP, start, epochs.epoch_for_offset(start))
        case -2 | -4:
            first = epochs.earliest
            known = first is not None and first.start_offset <= log.log_start_offset
            epoch = first.epoch if first is not None and known else None
            return TimestampOffset(NO_TIMESTAMP, log.log_start_offset, epoch)
        case -1:
            return TimestampOffset(
                NO_TIMESTAMP, log.log_end_offset, epochs.latest_epoch
            )
        case -5 | -6:  # tiered storage, which a log does not have
            return TimestampOffset(NO_TIMESTAMP, -1, -1)
        case -3:  # greatest timestamp
            return _find_greatest(log)
    return find_record(log, timestamp, log.log_start_offset)


def find_record(log: LogState, timestamp: int, start: int) -> TimestampOffset | None:
    """Find the first record at or above both a timestamp and an offset."""
    for segment in log.segments:
        if segment.largest_timestamp >= timestamp:
            return _find_in(segment, timestamp, start)
    return None


def _find_greatest(log: LogState) -> TimestampOffset | None:
    """Find the first record with the greatest timestamp of the log."""
    segment = max(log.segments, key=lambda segment: segment.greatest_timestamp[0])
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
    """Find the first record of a segment at or above both timestamp and offset."""
    _, offset = segment.time_index.lookup(timestamp)
    _, position = segment.offset_index.lookup(max(offset, start))
    for window in windows(segment.file, position, segment.size):
        for place in np.flatnonzero(window.rows["max_timestamp"] >= timestamp):
            record = _first_record(segment, window, int(place), timestamp, start)
            if record is not None:
                return record
    return None


def _first_record(
    segment: GrowingSegment, window: Window, place: int, timestamp: int, start: int = 0
) -> TimestampOffset | None:
    """Find the first record of one batch at or above both timestamp and offset."""
    row = window.rows[place]
    epoch = int(row["leader_epoch"])
    try:
        # Closed here, and not when it is collected, where an interrupt would be lost.
        with closing(_records_of(window, row)) as decoded:
            for records in decoded:
                times, offsets = records["timestamp"], records["offset"]
                found = np.flatnonzero((times >= timestamp) & (offsets >= start))
                if len(found):
                    first = found[0]
                    return TimestampOffset(
                        int(times[first]),
                        int(offsets[first]),
                        epoch if epoch >= 0 else None,
                    )
    except LocatedError as error:
        error.kafka_name = error.as_rejection().kafka_name
        raise error.located(segment.path) from None
    return None


def _records_of(window: Window, row: np.void) -> Generator[RecordSpans]:
    """Yield the records of a batch; those before a corrupt one precede its error."""
    # As in Kafka, records are read with a magic above 2, but not with one below 0.
    position = int(row["position"])
    if row["magic"] < 2:
        invalid = find_invalid_size_or_magic(window.data[position - window.origin :])
        if invalid is not None:
            raise decode_error(Status.ENTRY_MAGIC, position, invalid.reason)
    try:
        yield from _decoded(window, row)
    except LocatedError:
        before = first_records(window.data, window.origin, row, int(row["count"]) - 1)
        if before["count"] < row["count"]:
            yield from _decoded(window, before)
        raise


def _decoded(window: Window, row: np.void) -> Generator[RecordSpans]:
    """Yield the records of a batch of valid records, else raise the error."""
    # A batch in memory may be as large as ``max.message.bytes`` allowed.
    limit = max(MAX_BATCH_BYTES, int(row["size_in_bytes"]))
    for views in decode(
        window.data,
        window.origin,
        np.array([row]),
        bounds=Bounds(),
        limit=limit,
        workspace=Workspace(),
        split_large=True,
    ):
        if isinstance(views, LocatedError):
            raise views
        yield views.records
