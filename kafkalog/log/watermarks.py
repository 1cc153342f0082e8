"""Up to where a log is replicated and decided, and from where on it is kept.

The high watermark is set by the caller, within the log. As an offset alone it becomes a
place when a read first needs one: the batch that holds it is looked up, and *that*
batch's first offset is the high watermark from then on.

Knows: how these offsets move, and what moves with them. Does not know: who moves them.
Source: ``UnifiedLog.java``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeAlias

from kafkalog.errors import LogArgumentError, OffsetOutOfRangeError
from kafkalog.log.fetch_data import place_of
from kafkalog.log.flushing import force_segments_before
from kafkalog.log.offset_metadata import OffsetMetadata
from kafkalog.log.state import LogState


def place_or_offset(log: LogState, offset: int) -> OffsetMetadata:
    """Look up where an offset lies; the offset alone where the log has none such."""
    try:
        return place_of(log, offset)
    except OffsetOutOfRangeError:
        return OffsetMetadata(offset)


def update_high_watermark(log: LogState, wanted: OffsetMetadata) -> int:
    """Set the high watermark, within log start and log end; answers what it is then."""
    if wanted.offset < log.log_start_offset:
        wanted = OffsetMetadata(log.log_start_offset)
    elif wanted.offset >= log.log_end_offset:
        wanted = log.end
    _set_high_watermark(log, wanted)
    return wanted.offset


def increment_high_watermark(log: LogState, wanted: OffsetMetadata) -> bool:
    """Raise the high watermark, as a leader does; whether it moved.

    It moves, too, to the same offset in a later segment.
    """
    if wanted.offset > log.log_end_offset:
        raise LogArgumentError(
            f"a high watermark of {wanted.offset} is beyond the log's end, "
            f"{log.log_end_offset}"
        )
    known = high_watermark_place(log)
    later = known.offset == wanted.offset and known.segment_base < wanted.segment_base
    if known.offset < wanted.offset or later:
        _set_high_watermark(log, wanted)
        return True
    return False


def raise_to_log_end(log: LogState) -> None:
    """Let a high watermark at the log's end, or beyond it, be the log's end."""
    if log.high_watermark.offset >= log.log_end_offset:
        _set_high_watermark(log, log.end)


def high_watermark_place(log: LogState) -> OffsetMetadata:
    """Return the high watermark with its place, which may move it to its batch."""
    if log.high_watermark.is_bare:
        _set_high_watermark(log, place_or_offset(log, log.high_watermark.offset))
    return log.high_watermark


def last_stable_offset(log: LogState) -> int:
    """Offset below which all is replicated, and all transactions are decided."""
    unstable = log.first_unstable
    if unstable is not None and unstable.offset < log.high_watermark.offset:
        return unstable.offset
    return log.high_watermark.offset


def last_stable_place(log: LogState) -> OffsetMetadata:
    """Return the last stable offset with its place, which may move it."""
    high = high_watermark_place(log)
    unstable = log.first_unstable
    if unstable is None or unstable.offset >= high.offset:
        return high
    if unstable.is_bare:
        log.first_unstable = unstable = place_or_offset(log, unstable.offset)
    return unstable


class Sight(NamedTuple):
    """Up to where a reader sees: the offset, and its place, which may move it."""

    offset: Callable[[LogState], int]
    place: Callable[[LogState], OffsetMetadata]


LogIsolation: TypeAlias = Literal[
    "log_end", "high_watermark", "read_uncommitted", "read_committed"
]

_REPLICATED: Final = Sight(lambda log: log.high_watermark.offset, high_watermark_place)
_SIGHTS: Final[dict[LogIsolation, Sight]] = {
    "log_end": Sight(lambda log: log.log_end_offset, lambda log: log.end),
    "high_watermark": _REPLICATED,
    "read_uncommitted": _REPLICATED,
    "read_committed": Sight(last_stable_offset, last_stable_place),
}


def sight_of(isolation: LogIsolation) -> Sight:
    """Say up to where a reader of an isolation sees."""
    if isolation not in _SIGHTS:
        raise LogArgumentError(f"no such isolation: {isolation!r}")
    return _SIGHTS[isolation]


def find_first_unstable(log: LogState) -> None:
    """Ask the producers anew from where on transactions are not decided."""
    first = log.producers.first_unstable_offset()
    if first is not None and (first.is_bare or first.offset < log.log_start_offset):
        first = place_or_offset(log, max(first.offset, log.log_start_offset))
    log.first_unstable = first


def raise_log_start(log: LogState, offset: int) -> bool:
    """Let the log begin at `offset`, if it begins before; whether it did.

    Raises `OffsetOutOfRangeError` beyond the high watermark.
    """
    if offset > log.high_watermark.offset:
        raise OffsetOutOfRangeError(
            f"a log start of {offset} is beyond the high watermark, "
            f"{log.high_watermark.offset}"
        )
    if offset <= log.log_start_offset:
        return False
    set_log_start(log, offset)
    log.leader_epochs.truncate_from_start(offset)
    log.producers.on_log_start_offset_incremented(offset)
    find_first_unstable(log)
    return True


def set_log_start(log: LogState, offset: int) -> None:
    """Set the log's start; the high watermark and recovery point do not stay behind.

    For the recovery point what lies before is forced to disk, though it is to go. Kafka
    leaves that out: damaged by a power cut, it would take along what was flushed since.
    """
    log.log_start_offset = offset
    if log.high_watermark.offset < offset:
        update_high_watermark(log, OffsetMetadata(offset))
    if log.recovery_point < offset:
        force_segments_before(log, offset)
        log.recovery_point = offset


def _set_high_watermark(log: LogState, place: OffsetMetadata) -> None:
    if place.offset < 0:
        raise LogArgumentError(f"a high watermark of {place.offset} is negative")
    log.high_watermark = place
    log.producers.on_high_watermark_updated(place.offset)
    find_first_unstable(log)
