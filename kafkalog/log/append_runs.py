"""Runs of plain appends: written at once where nothing happens in between.

Of the appends of a call, most go into the same segment, in the same leader epoch, and
no producer's state stands in their way. How many of them that are, and which index
entries they make, a kernel says; they are one write. Whatever is special (a roll, a
new epoch, a transaction, a refusal) ends the run and goes the long way, `appending`.

Knows: what makes an append plain. Does not know: what is done with one that is not.
Source: ``UnifiedLog.append``, ``LogSegment.append``.
"""

from __future__ import annotations

from kafkalog import _speedups
from kafkalog.formats.appends import AppendOrigin, Appends
from kafkalog.formats.layout import NO_PRODUCER_ID
from kafkalog.log.offset_metadata import OffsetMetadata
from kafkalog.log.plain_appends import PlainAppends
from kafkalog.log.state import LogState
from kafkalog.log.watermarks import find_first_unstable
from kafkalog.segment.growing_segment import GrowingSegment


class RunWriter:
    """Writes runs of plain appends to one log."""

    def __init__(self, log: LogState) -> None:
        self._log = log

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
        if not segment.has_indexes or epoch is None:
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
        log = self._log
        plan = _speedups.plan_run(
            [appends.rows, appends.row_bounds, appends.byte_bounds, appends.info],
            self._limits(segment, epoch, plain_rows),
            (
                log.end.offset,
                segment.size,
                segment.rolling_timestamp,
                segment.time_index.last_entry[0],
                segment.bytes_since_index_entry,
                *segment.greatest_timestamp,
            ),
            first,
        )
        count, end, since, timestamp, timestamp_offset, *entries = plan
        if not count:
            return 0
        start, stop = appends.byte_bounds[first], appends.byte_bounds[first + count]
        segment.extend(
            appends.data[start:stop],
            entries,
            since,
            (timestamp, timestamp_offset),
        )
        log.end = OffsetMetadata(end, segment.base_offset, segment.size)
        log.producers.map_end_offset = end
        find_first_unstable(log)
        return count

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
