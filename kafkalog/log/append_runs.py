"""Runs of plain appends: written at once where nothing happens in between.

Of the appends of a call, most go into the same segment, in the same leader epoch, and
no producer's state stands in their way. How many of them that are, and which index
entries they make, a kernel says; they are one write. Whatever is special (a roll, a
new epoch, a transaction, a refusal) ends the run and goes the long way, `appending`.

Knows: what makes an append plain. Does not know: what is done with one that is not.
Source: ``UnifiedLog.append``, ``LogSegment.append``.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np

from kafkalog import _speedups
from kafkalog.formats.append_rules import Leadership
from kafkalog.formats.appends import AppendOrigin, Appends
from kafkalog.formats.headers import Bytes
from kafkalog.formats.layout import BATCH, NO_PRODUCER_ID
from kafkalog.log.offset_metadata import OffsetMetadata
from kafkalog.log.plain_appends import PlainAppends
from kafkalog.log.state import LogState
from kafkalog.log.watermarks import find_first_unstable
from kafkalog.segment.growing_segment import GrowingSegment

ROOM_BYTES: Final = 4 << 20
"""Bytes of a run that a leader is given: more are two."""

HEADERS: Final = 1024
"""Batches that a follower is given at once: more go the long way."""

Made: TypeAlias = tuple[int, int, tuple[int, int], bytes, bytes]


class RunWriter:
    """Writes runs of plain appends to one log."""

    def __init__(self, log: LogState) -> None:
        self._log = log
        self._room = np.empty(ROOM_BYTES, np.uint8)
        self._headers = np.empty(HEADERS * BATCH.itemsize, np.uint8)

    def write(
        self, appends: Appends, first: int, origin: AppendOrigin, *, assigns: bool
    ) -> int:
        """Append those from `first` on that are plain; answers how many.

        With `assigns` they get their offsets here. Nothing is done where the first of
        them is not plain.
        """
        log = self._log
        segment = log.segments.active
        epoch = log.leader_epochs.latest
        if epoch is None or not segment.has_indexes_to(log.end.offset):
            return 0
        if assigns:
            appends.place(log.end.offset, first)
        count = self._take(appends, segment, epoch, first, 0)
        if not count and origin is AppendOrigin.CLIENT:
            count = self._take_produced(appends, segment, epoch, first)
        return count

    def _take_produced(
        self,
        appends: Appends,
        segment: GrowingSegment,
        epoch: tuple[int, int],
        first: int,
    ) -> int:
        """Take appends of producers whose sequences just go on."""
        row = int(appends.row_bounds[first])
        rows = appends.rows[row:]
        if not len(rows) or rows["producer_id"][0] == NO_PRODUCER_ID:
            return 0
        plain = PlainAppends(self._log.producers, rows)
        if not plain.count:
            return 0
        count = self._take(appends, segment, epoch, first, row + plain.count)
        if count:
            plain.apply(int(appends.row_bounds[first + count]) - row)
        return count

    def _take(
        self,
        appends: Appends,
        segment: GrowingSegment,
        epoch: tuple[int, int],
        first: int,
        plain_rows: int,
    ) -> int:
        """Plan a run, and write it."""
        count, made = _speedups.plan_run(
            [appends.rows, appends.row_bounds, appends.byte_bounds, appends.info],
            self._limits(segment, epoch, plain_rows),
            self._state(segment),
            first,
        )
        if count:
            start, stop = appends.byte_bounds[first], appends.byte_bounds[first + count]
            self._extend(segment, appends.data[start:stop], made)
        return count

    def lead(self, pieces: list[Any], leadership: Leadership) -> list[tuple[Any, ...]]:
        """Append those of `pieces` that are plain, as a leader; answers their results.

        From the first on, up to the first that is not one plain batch. Each is looked
        at while it lies in the processor's first cache.
        """
        log = self._log
        segment = log.segments.active
        epoch = log.leader_epochs.latest
        if epoch is None or epoch.epoch != leadership.leader_epoch:
            return []
        if (
            not segment.has_indexes_to(log.end.offset)
            or not pieces
            or type(pieces[0]) is not bytes
        ):
            return []
        told, size, made = _speedups.lead_run(
            pieces,
            (
                leadership.rules.max_message_bytes,
                leadership.origin is AppendOrigin.CLIENT,
            ),
            leadership.as_tuple(),
            (leadership.at_append, leadership.leader_epoch, leadership.now_ms),
            self._limits(segment, epoch, 0),
            self._state(segment),
            self._room,
            log.log_start_offset,
        )
        if told:
            self._extend(segment, self._room[:size], made)
        return told

    def follow(
        self, piece: Any, leader_epoch: int
    ) -> tuple[int, int, int, int, int, int, int] | None:
        """Append `piece` as a follower, if it is plain; answers what it says, or None.

        What a follower writes is what it was given, so nothing is copied.
        """
        log = self._log
        segment = log.segments.active
        epoch = log.leader_epochs.latest
        if (
            epoch is None
            or not segment.has_indexes_to(log.end.offset)
            or type(piece) is not bytes
        ):
            return None
        told, made = _speedups.follow_run(
            piece,
            leader_epoch,
            self._limits(segment, epoch, 0),
            self._state(segment),
            self._headers,
        )
        if told is not None:
            self._extend(segment, piece, made)
        return told

    def _extend(self, segment: GrowingSegment, data: Bytes | bytes, made: Made) -> None:
        """Write a run, and let the log end behind it."""
        log = self._log
        end, since, greatest_timestamp, *entries = made
        segment.extend(data, entries, since, greatest_timestamp)
        log.end = OffsetMetadata(end, segment.base_offset, segment.size)
        log.producers.map_end_offset = end
        find_first_unstable(log)

    def _state(
        self, segment: GrowingSegment
    ) -> tuple[int, int, int, int, int, int, int]:
        """Say where a run begins."""
        return (
            self._log.end.offset,
            segment.size,
            segment.rolling_timestamp,
            segment.time_index.last_entry[0],
            segment.bytes_since_index_entry,
            *segment.greatest_timestamp,
        )

    def _limits(
        self, segment: GrowingSegment, epoch: tuple[int, int], plain_rows: int
    ) -> tuple[int, int, int, int, int, bool, int, int, int, int, int]:
        """Say how far a run may go."""
        log, config = self._log, self._log.config
        offsets, times = segment.offset_index, segment.time_index
        most_ms = config.max_segment_ms - segment.settings.roll_jitter_ms
        return (
            *epoch,
            segment.base_offset,
            config.segment_size,
            most_ms,
            log.runtime.now_ms() - segment.created_ms > most_ms,
            segment.settings.index_interval_bytes,
            offsets.max_entries - offsets.entry_count,
            times.max_entries - 1 - times.entry_count,
            min(log.recovery_point + config.flush_messages, 2**63 - 1),
            plain_rows,
        )
