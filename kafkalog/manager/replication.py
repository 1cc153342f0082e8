"""One fetch of a follower: it truncates where its log diverges, else it appends.

A follower asks its leader for what follows its own log end, and names the leader epoch
of its last batch. The leader compares both with its own epochs:

    the follower's epoch ends earlier at the leader   the logs diverge: truncate
    the offset is not in the leader's log             truncate, or begin anew
    otherwise                                         append what was read

The high watermark that a follower receives is the one from before its fetch, as in
Kafka, so it reaches a follower that has everything one fetch later.

Source: ``AbstractFetcherThread.scala``, ``ReplicaFetcherThread.scala``,
``Partition.scala`` (``readRecords``, ``updateFollowerFetchState``,
``appendRecordsToFollowerOrFutureReplica``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kafkalog.errors import (
    LogArgumentError,
    OffsetOutOfRangeError,
    UnexpectedAppendOffsetError,
)
from kafkalog.log.leader_epochs import EpochEnd, end_offset_for
from kafkalog.log.log import Log, LogRead
from kafkalog.log.writable_log import WritableLog

FETCH_BYTES: Final = 1 << 20
"""``replica.fetch.max.bytes``."""


@dataclass(frozen=True, slots=True)
class Replication:
    """The effects of one fetch on a follower.

    Attributes
    ----------
    fetch_offset : int
        The follower's log end offset before the fetch.
    log_end_offset : int
        The follower's log end offset after it.
    high_watermark : int
        The follower's high watermark after it.
    bytes_appended : int
        Size of the batches appended.
    truncated_to : int or None
        The offset at which the follower was truncated.
    restarted_at : int or None
        The offset at which the follower began anew, all its segments removed.
    lag : int
        Offsets that the follower is behind the leader.
    """

    fetch_offset: int
    log_end_offset: int
    high_watermark: int
    bytes_appended: int = 0
    truncated_to: int | None = None
    restarted_at: int | None = None
    lag: int = 0

    @property
    def caught_up(self) -> bool:
        """Whether the fetch changed no offset, and the follower has no lag."""
        changed = (self.truncated_to, self.restarted_at) != (None, None)
        return not (changed or self.bytes_appended or self.lag)


def replicate(
    leader: Log | WritableLog,
    follower: WritableLog,
    *,
    max_bytes: int = FETCH_BYTES,
    in_sync: Iterable[int] = (),
) -> Replication:
    """Do one fetch of a follower from its leader, and return its effects.

    The follower is truncated to where it agrees with the leader, or appends batches
    with the leader's offsets and epochs; never both in one fetch. Then it takes over
    the leader's high watermark and log start offset. Repeated until `caught_up`, the
    two logs hold the same batches.

    Parameters
    ----------
    leader : Log or WritableLog
        The log to fetch from. A `WritableLog` learns from the fetch how far the
        follower is, and raises its high watermark; a `Log` is not changed.
    follower : WritableLog
        The log to bring into step.
    max_bytes : int
        How many bytes to fetch at most; the first batch is fetched whole in any case.
    in_sync : iterable of int
        Offsets from which the other followers that are in sync fetched last. The
        leader's high watermark is raised to the lowest one, this follower's included.

    Returns
    -------
    Replication
        What was appended or truncated, and the follower's offsets after it.

    Raises
    ------
    LogArgumentError
        If both are the same log, or `max_bytes` is negative.
    CorruptRecordError
        If the leader's log is corrupt at that offset.

    Notes
    -----
    A follower without leader epochs, whose batches are older than Kafka 0.11, is
    compared by its log end offset alone.

    Examples
    --------
    >>> import tempfile, kafkalog
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as root:
    ...     leader = kafkalog.open(Path(root, "a", "orders-0"), "a")
    ...     follower = kafkalog.open(Path(root, "b", "orders-0"), "a")
    ...     with leader, follower:
    ...         _ = leader.append_records([{"value": "one"}, {"value": "two"}])
    ...         first = kafkalog.replicate(leader, follower)
    ...         second = kafkalog.replicate(leader, follower)
    ...         first.log_end_offset, second.caught_up, leader.high_watermark
    (2, True, 2)
    """
    if leader is follower or leader.path == follower.path:
        raise LogArgumentError(f"one log as leader and follower: {leader.path}")
    if max_bytes < 0:
        raise LogArgumentError(f"max_bytes {max_bytes}, expected at least 0")
    offset = follower.log_end_offset
    truncated_to = restarted_at = None
    appended = 0
    try:
        diverging = _diverging_epoch(leader, follower, offset)
        if diverging is not None:
            truncated_to = _truncation_offset(follower, diverging)
            follower.truncate_to(truncated_to)
        else:
            appended = _fetch(leader, follower, offset, max_bytes, in_sync)
    except OffsetOutOfRangeError:
        truncated_to, restarted_at = _reset(leader, follower)
    end = follower.log_end_offset
    return Replication(
        offset,
        end,
        follower.high_watermark,
        bytes_appended=appended,
        truncated_to=truncated_to,
        restarted_at=restarted_at,
        lag=max(0, leader.log_end_offset - end),
    )


def _diverging_epoch(
    leader: Log | WritableLog, follower: WritableLog, offset: int
) -> EpochEnd | None:
    """Return where the leader's epoch ends, if the follower's log goes beyond it.

    Raises `OffsetOutOfRangeError` where `offset` is before the leader's log, or the
    leader does not know the follower's epoch.
    """
    epochs = follower.leader_epochs
    if not epochs:
        return None
    fetched_epoch = epochs[-1].epoch
    start, end = leader.log_start_offset, leader.log_end_offset
    found = end_offset_for(leader.leader_epochs, fetched_epoch, end)
    if offset < start:
        raise OffsetOutOfRangeError(f"offset {offset}, expected at least {start}")
    if found is None:
        raise OffsetOutOfRangeError(
            f"leader epoch {fetched_epoch}, which the leader does not have"
        )
    if found.epoch < fetched_epoch or found.end_offset < offset:
        return found
    return None


def _truncation_offset(follower: WritableLog, diverging: EpochEnd) -> int:
    """Return where to truncate a follower, from where the leader's epoch ends.

    A follower without that epoch truncates to the end of the epoch before it, and the
    next fetch compares that one.
    """
    end = follower.log_end_offset
    known = end_offset_for(follower.leader_epochs, diverging.epoch, end)
    if known is None:
        return min(diverging.end_offset, end)
    if known.epoch != diverging.epoch:
        return min(known.end_offset, end)
    return min(known.end_offset, diverging.end_offset, end)


def _fetch(
    leader: Log | WritableLog,
    follower: WritableLog,
    offset: int,
    max_bytes: int,
    in_sync: Iterable[int],
) -> int:
    """Append what the leader has from `offset` on; return its size in bytes."""
    start, high_watermark = leader.log_start_offset, leader.high_watermark
    # What is fetched is one append, which a segment of the follower must hold.
    most = min(max_bytes, follower.config.segment_size)
    read = leader.read(offset, max_bytes=most)
    if isinstance(leader, WritableLog):
        lowest = min(offset, leader.log_end_offset, *in_sync)
        leader.increment_high_watermark(max(lowest, leader.log_start_offset))
    appended = _append(leader, follower, read) if read.data else 0
    follower.update_high_watermark(high_watermark)
    if start > follower.log_start_offset:
        follower.delete_records(start)
    return appended


def _append(leader: Log | WritableLog, follower: WritableLog, read: LogRead) -> int:
    """Append what was read; an empty follower may begin at its first offset."""
    epochs = leader.leader_epochs
    epoch = epochs[-1].epoch if epochs else None
    try:
        return follower.append_as_follower(read.data, leader_epoch=epoch).valid_bytes
    except UnexpectedAppendOffsetError as error:
        end = follower.log_end_offset
        empty = end == follower.log_start_offset
        if not (empty and error.first_offset < end <= error.last_offset):
            raise
        follower.truncate_fully(error.first_offset)
        return follower.append_as_follower(read.data, leader_epoch=epoch).valid_bytes


def _reset(
    leader: Log | WritableLog, follower: WritableLog
) -> tuple[int | None, int | None]:
    """Bring a follower whose fetch offset the leader does not have within its range.

    Returns the offset it was truncated to, and the one at which it began anew.
    """
    end = follower.log_end_offset
    if leader.log_end_offset < end:
        follower.truncate_to(leader.log_end_offset)
        return leader.log_end_offset, None
    start = leader.log_start_offset
    if start > end:
        follower.truncate_fully(start)
        return None, start
    return None, None
