"""Replicate a log by single fetches of a follower from its leader.

A follower fetches from its log end offset on, with the leader epoch of its last batch.
The offset and the epoch are compared with the leader's log:

    the epoch ends earlier at the leader      the logs diverge: truncate the follower
    the offset is not in the leader's log     truncate the follower, or restart it
    the leader has only earlier epochs        the logs cannot be joined: an error
    otherwise                                 append the fetched batches

A leader may have no records from the offset on up to its next batch, as after
compaction. A follower appends that batch all the same, and the result names the offsets
that are skipped.

A follower that ends before the first segment of a tiered leader is restarted at that
segment, with the log start offset and the leader epochs of the leader. A broker also
fetches the producer state from remote storage.

As in Kafka, a follower receives the high watermark from before its fetch. The high
watermark of the last batches therefore arrives with the next fetch.

Source: ``AbstractFetcherThread.scala``, ``ReplicaFetcherThread.scala``,
``Partition.scala`` (``readRecords``, ``updateFollowerFetchState``,
``appendRecordsToFollowerOrFutureReplica``), ``TierStateMachine.java``.
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
from kafkalog.log.appending import AppendResult
from kafkalog.log.leader_epochs import EpochEnd, end_offset_for
from kafkalog.log.readable_log import LogRead, ReadableLog
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
        The offset at which the follower was restarted: all its segments were deleted.
    lag : int
        Number of offsets that the follower lags behind the leader.
    skipped : tuple of int or None
        The first and last offset of those before the appended batches that the leader
        has no record of: it is compacted, or has lost them.
    """

    fetch_offset: int
    log_end_offset: int
    high_watermark: int
    bytes_appended: int = 0
    truncated_to: int | None = None
    restarted_at: int | None = None
    lag: int = 0
    skipped: tuple[int, int] | None = None

    @property
    def caught_up(self) -> bool:
        """Whether the fetch changed no offset, and the follower has no lag."""
        changed = (self.truncated_to, self.restarted_at) != (None, None)
        return not (changed or self.bytes_appended or self.lag)


def replicate(
    leader: ReadableLog,
    follower: WritableLog,
    *,
    max_bytes: int = FETCH_BYTES,
    in_sync: Iterable[int] = (),
) -> Replication:
    """Replicate one fetch of batches from a leader to a follower.

    A follower that diverges from the leader is truncated. Otherwise it appends batches
    with the leader's offsets and epochs, and takes over the leader's high watermark and
    log start offset. After calls until `caught_up`, both logs have the same batches.

    Parameters
    ----------
    leader : Log or WritableLog
        The log to fetch from. A fetch raises the high watermark of a `WritableLog`; a
        `Log` is not changed.
    follower : WritableLog
        The log to append to or truncate.
    max_bytes : int
        Maximum number of bytes to fetch. The first batch is always fetched whole.
    in_sync : iterable of int
        The last fetch offsets of the other followers that are in sync. The leader's
        high watermark is raised to the lowest fetch offset, including this follower's.

    Returns
    -------
    Replication
        The effects of the fetch, and the follower's offsets after it.

    Raises
    ------
    LogArgumentError
        If both are the same log, or `max_bytes` is negative.
    CorruptRecordError
        If the leader's log is corrupt at that offset.
    OffsetOutOfRangeError
        If the leader has only earlier leader epochs than the follower, so that it is
        not known where their logs diverge. Nothing is changed.

    Notes
    -----
    A follower without leader epochs, as with batches from before Kafka 0.11, is
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
    truncated_to = restarted_at = skipped = None
    appended = 0
    try:
        diverging = _diverging_epoch(leader, follower, offset)
        if diverging is not None:
            truncated_to = _truncation_offset(follower, diverging)
            follower.truncate_to(truncated_to)
        else:
            result = _fetch(leader, follower, offset, max_bytes, in_sync)
            if result is not None:
                appended, first = result.valid_bytes, result.first_offset
                skipped = (offset, first - 1) if first > offset else None
    except OffsetOutOfRangeError as error:
        truncated_to, restarted_at = _reset(leader, follower, error)
    end = follower.log_end_offset
    return Replication(
        offset,
        end,
        follower.high_watermark,
        bytes_appended=appended,
        truncated_to=truncated_to,
        restarted_at=restarted_at,
        lag=max(0, leader.log_end_offset - end),
        skipped=skipped,
    )


def _diverging_epoch(
    leader: ReadableLog, follower: WritableLog, offset: int
) -> EpochEnd | None:
    """Return the end of the leader's epoch if the follower's log extends beyond it.

    Raises `OffsetOutOfRangeError` if `offset` is before the leader's log, or if the
    leader has no epochs, or only earlier ones.
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
    """Return the offset at which to truncate a follower, by the leader's epoch end.

    A follower without that epoch is truncated to the end of the epoch before it, which
    the next fetch compares.
    """
    end = follower.log_end_offset
    known = end_offset_for(follower.leader_epochs, diverging.epoch, end)
    if known is None:
        return min(diverging.end_offset, end)
    if known.epoch != diverging.epoch:
        return min(known.end_offset, end)
    return min(known.end_offset, diverging.end_offset, end)


def _fetch(
    leader: ReadableLog,
    follower: WritableLog,
    offset: int,
    max_bytes: int,
    in_sync: Iterable[int],
) -> AppendResult | None:
    """Append the leader's batches from `offset` on; return None if there are none."""
    start, high_watermark = leader.log_start_offset, leader.high_watermark
    # A fetch is one append, which must fit in a segment of the follower.
    most = min(max_bytes, follower.config.segment_size)
    read = leader.read(offset, max_bytes=most)
    if isinstance(leader, WritableLog):
        lowest = min(offset, leader.log_end_offset, *in_sync)
        leader.increment_high_watermark(max(lowest, leader.log_start_offset))
    appended = _append(leader, follower, read) if read.data else None
    follower.update_high_watermark(high_watermark)
    if start > follower.log_start_offset:
        follower.delete_records(start)
    return appended


def _append(leader: ReadableLog, follower: WritableLog, read: LogRead) -> AppendResult:
    """Append fetched batches; an empty follower may start at their first offset."""
    epochs = leader.leader_epochs
    epoch = epochs[-1].epoch if epochs else None
    try:
        return follower.append_as_follower(read.data, leader_epoch=epoch)
    except UnexpectedAppendOffsetError as error:
        end = follower.log_end_offset
        empty = end == follower.log_start_offset
        if not (empty and error.first_offset < end <= error.last_offset):
            raise
        follower.truncate_fully(error.first_offset)
        return follower.append_as_follower(read.data, leader_epoch=epoch)


def _reset(
    leader: ReadableLog, follower: WritableLog, error: OffsetOutOfRangeError
) -> tuple[int | None, int | None]:
    """Truncate or restart a follower whose fetch offset the leader does not have.

    Returns the offset of the truncation, and that of the restart; or None. Raises the
    error if the follower is within the leader's log: a broker would repeat its fetch.
    """
    end = follower.log_end_offset
    if leader.log_end_offset < end:
        follower.truncate_to(leader.log_end_offset)
        return leader.log_end_offset, None
    start, missing = leader.log_start_offset, leader.missing_start
    if (
        missing is not None
        and start <= missing.last_offset
        and end <= missing.last_offset
    ):
        return None, _restart_after_tier(leader, follower, missing.last_offset + 1)
    if start > end:
        follower.truncate_fully(start)
        return None, start
    raise error


def _restart_after_tier(leader: ReadableLog, follower: WritableLog, offset: int) -> int:
    """Restart a follower at the first segment of a tiered leader; return its offset."""
    follower.truncate_fully(offset, leader.log_start_offset)
    for epoch, start in leader.leader_epochs:
        if start <= offset:
            follower.assign_epoch(epoch, start)
    return offset
