"""The high watermark, the last stable offset and the log start offset.

The high watermark is set by the caller, within the log. It may be an offset without a
position. When a read needs its position, the batch that holds it is looked up, and the
high watermark becomes the base offset of that batch.

Source: ``UnifiedLog.java``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeAlias

from kafkalog.errors import LogArgumentError, OffsetOutOfRangeError
from kafkalog.log.flushing import force_segments_before
from kafkalog.log.log_fetch import place_of
from kafkalog.log.offset_metadata import OffsetMetadata
from kafkalog.log.state import LogState


def offset_metadata_or_unknown(log: LogState, offset: int) -> OffsetMetadata:
    """Return an offset with its position, or without one if it is not in the log."""
    try:
        return place_of(log, offset)
    except OffsetOutOfRangeError:
        return OffsetMetadata(offset)


def update_high_watermark(log: LogState, place: OffsetMetadata) -> int:
    """Set the high watermark, limited to log start and log end; return what was set."""
    if place.offset < log.log_start_offset:
        place = OffsetMetadata(log.log_start_offset)
    elif place.offset >= log.log_end_offset:
        place = log.end
    _set_high_watermark(log, place)
    return place.offset


def increment_high_watermark(log: LogState, place: OffsetMetadata) -> bool:
    """Raise the high watermark, as a leader does; return whether it has moved.

    The same offset is also set if it is now the start of a later segment, after a roll.
    """
    if place.offset > log.log_end_offset:
        raise LogArgumentError(
            f"high watermark {place.offset}, expected at most {log.log_end_offset}, "
            "the log end offset"
        )
    current = high_watermark_place(log)
    is_later = (
        current.offset == place.offset and current.segment_base < place.segment_base
    )
    if current.offset < place.offset or is_later:
        _set_high_watermark(log, place)
        return True
    return False


def raise_to_log_end(log: LogState) -> None:
    """Set a high watermark at or above the log end offset to the log's end."""
    if log.high_watermark.offset >= log.log_end_offset:
        _set_high_watermark(log, log.end)


def high_watermark_place(log: LogState) -> OffsetMetadata:
    """Return the high watermark with its position; this may lower it to its batch."""
    if log.high_watermark.is_bare:
        _set_high_watermark(
            log, offset_metadata_or_unknown(log, log.high_watermark.offset)
        )
    return log.high_watermark


def last_stable_offset(log: LogState) -> int:
    """Return the offset below which all is replicated and every transaction decided."""
    unstable = log.first_unstable
    if unstable is not None and unstable.offset < log.high_watermark.offset:
        return unstable.offset
    return log.high_watermark.offset


def last_stable_place(log: LogState) -> OffsetMetadata:
    """Return the last stable offset with its position; this may lower it."""
    high = high_watermark_place(log)
    unstable = log.first_unstable
    if unstable is None or unstable.offset >= high.offset:
        return high
    if unstable.is_bare:
        log.first_unstable = unstable = offset_metadata_or_unknown(log, unstable.offset)
    return unstable


class ReadLimit(NamedTuple):
    """The limit of an isolation level: its offset, and the offset with its position.

    Looking up the position may lower the offset.
    """

    offset: Callable[[LogState], int]
    place: Callable[[LogState], OffsetMetadata]


LogIsolation: TypeAlias = Literal[
    "log_end", "high_watermark", "read_uncommitted", "read_committed"
]

_REPLICATED: Final = ReadLimit(
    lambda log: log.high_watermark.offset, high_watermark_place
)
_READ_LIMITS: Final[dict[LogIsolation, ReadLimit]] = {
    "log_end": ReadLimit(lambda log: log.log_end_offset, lambda log: log.end),
    "high_watermark": _REPLICATED,
    "read_uncommitted": _REPLICATED,
    "read_committed": ReadLimit(last_stable_offset, last_stable_place),
}


def read_limit_of(isolation: LogIsolation) -> ReadLimit:
    """Return the read limit of an isolation level."""
    if isolation not in _READ_LIMITS:
        names = ", ".join(_READ_LIMITS)
        raise LogArgumentError(f"isolation {isolation!r}, expected one of {names}")
    return _READ_LIMITS[isolation]


def find_first_unstable(log: LogState) -> None:
    """Set the first unstable offset from the open transactions of the producers."""
    first = log.producers.first_unstable_offset()
    if first is not None and (first.is_bare or first.offset < log.log_start_offset):
        first = offset_metadata_or_unknown(log, max(first.offset, log.log_start_offset))
    log.first_unstable = first


def raise_log_start(log: LogState, offset: int) -> bool:
    """Raise the log start offset to `offset`; return whether it has moved.

    Raises `OffsetOutOfRangeError` above the high watermark.
    """
    if offset > log.high_watermark.offset:
        raise OffsetOutOfRangeError(
            f"log start offset {offset}, expected at most "
            f"{log.high_watermark.offset}, the high watermark"
        )
    if offset <= log.log_start_offset:
        return False
    set_log_start(log, offset)
    log.leader_epochs.truncate_from_start(offset)
    log.producers.on_log_start_offset_incremented(offset)
    find_first_unstable(log)
    return True


def set_log_start(log: LogState, offset: int) -> None:
    """Set the log start offset, and raise high watermark and recovery point to it.

    The records below it are forced to disk first, though they are about to be deleted.
    Kafka omits this: if a power failure damaged them, recovery would truncate the log
    before records that were flushed since.
    """
    log.log_start_offset = offset
    if log.high_watermark.offset < offset:
        update_high_watermark(log, OffsetMetadata(offset))
    if log.recovery_point < offset:
        force_segments_before(log, offset)
        log.recovery_point = offset


def _set_high_watermark(log: LogState, place: OffsetMetadata) -> None:
    if place.offset < 0:
        raise LogArgumentError(f"high watermark {place.offset}, expected at least 0")
    log.high_watermark = place
    log.producers.on_high_watermark_updated(place.offset)
    find_first_unstable(log)
