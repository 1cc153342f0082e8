"""Runs of plain appends: written at once where nothing happens in between.

Of the appends of a call, most go into the same segment, in the same leader epoch, and
no producer's state stands in their way. How many of them that are, and which index
entries they make, a kernel says; they are one write. Whatever is special (a roll, a
new epoch, a transaction, a refusal) ends the run and goes the long way, `appending`.

Knows: what makes an append plain. Does not know: what is done with one that is not.
Source: ``UnifiedLog.append``, ``LogSegment.append``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from kafkalog import _speedups
from kafkalog.codecs.compression import decompress
from kafkalog.config import LogConfig
from kafkalog.errors import KafkaLogError
from kafkalog.formats.checkpoint import EpochEntry
from kafkalog.formats.layout import BATCH, CODECS, NO_PRODUCER_ID
from kafkalog.log.append_result import AppendResult
from kafkalog.log.flushing import flush
from kafkalog.log.offset_metadata import OffsetMetadata
from kafkalog.log.plain_appends import PlainAppends, run_with
from kafkalog.log.state import LogState
from kafkalog.log.watermarks import find_first_unstable
from kafkalog.segment.growing_segment import GrowingSegment
from kafkalog.validation.append_policy import AppendRules, Leadership
from kafkalog.validation.appends import AppendOrigin, Appends

ROOM_BYTES: Final = 4 << 20
"""Bytes of a run that a leader is given: more are two."""

HEADERS: Final = 1024
"""Batches that a follower is given at once: more go the long way."""

Made: TypeAlias = tuple[tuple[int, int, int], int, tuple[int, int], bytes, bytes]


class RunWriter:
    """Writes runs of plain appends to one log.

    What a run must know of the log is settled once, in the kernel's `Tail`, and again
    when another has changed the log; `_is_settled` tells.
    """

    __slots__ = (
        "_asked",
        "_config",
        "_end",
        "_epoch",
        "_flush_at",
        "_log",
        "_recovery_point",
        "_room",
        "_segment",
        "_size",
        "_tail",
        "_watermark",
    )

    def __init__(self, log: LogState) -> None:
        self._log = log
        # Never touched as long as it is not used, unlike a bytearray.
        self._room = np.empty(ROOM_BYTES, np.uint8).data
        headers = np.empty(HEADERS * BATCH.itemsize, np.uint8)
        self._tail = _speedups.Tail(self._room, headers, CODECS, _unpack)
        self._asked: tuple[AppendRules, AppendOrigin, int, int] | None = None
        self._end: OffsetMetadata | None = None
        self._watermark: OffsetMetadata | None = None  # known not to be above it
        self._segment = log.segments.active
        self._size = 0
        self._flush_at = 0
        self._epoch: EpochEntry | None = None
        self._config: LogConfig | None = None
        self._recovery_point = 0

    def write(
        self, appends: Appends, first: int, origin: AppendOrigin, *, assigns: bool
    ) -> list[AppendResult]:
        """Append those from `first` on that are plain; answers their results.

        With `assigns` they get their offsets here. Nothing is done where the first of
        them is not plain.
        """
        if not self._is_settled():
            return []
        if assigns:
            appends.place(self._log.end.offset, first)
        told = self._take(appends, first, 0)
        if not told and origin is AppendOrigin.CLIENT:
            told = self._take_produced(appends, first)
        return told

    def _take_produced(self, appends: Appends, first: int) -> list[AppendResult]:
        """Take appends of producers whose sequences just go on."""
        row = int(appends.row_bounds[first])
        rows = appends.rows[row:]
        if not len(rows) or rows["producer_id"][0] == NO_PRODUCER_ID:
            return []
        plain = PlainAppends(self._log.producers, rows)
        if not plain.count:
            return []
        told = self._take(appends, first, row + plain.count)
        if told:
            plain.apply(int(appends.row_bounds[first + len(told)]) - row)
        return told

    def _take(
        self, appends: Appends, first: int, plain_rows: int
    ) -> list[AppendResult]:
        """Plan a run, and write it."""
        log = self._log
        self._end = None  # until all is done
        told, made = self._tail.plan(
            [appends.rows, appends.row_bounds, appends.byte_bounds, appends.info],
            first,
            plain_rows,
            log.log_start_offset,
            log.runtime.now_ms(),
        )
        if told:
            bounds = appends.byte_bounds
            written = appends.data[bounds[first] : bounds[first + len(told)]]
            self._extend(written.data, made)
        else:
            self._end = log.end
        return list(map(AppendResult._make, told))

    def lead(
        self,
        pieces: list[Any],
        rules: AppendRules,
        origin: AppendOrigin,
        leader_epoch: int,
    ) -> list[AppendResult]:
        """Append those of `pieces` that are plain, as a leader; answers their results.

        From the first on, up to the first that is not one plain batch. Each is looked
        at while it lies in the processor's first cache.
        """
        log = self._log
        if not self._is_settled():
            return []
        asked = (rules, origin, leader_epoch, log.runtime.clock.now_ms())
        if asked != self._asked:
            self._lead_by(asked)
        told = self._lead(pieces, owned=False)
        if not told and len(pieces) == 1 and origin is AppendOrigin.CLIENT:
            run = run_with(log.producers, pieces[0])
            told = [] if run is None else self._lead(pieces, owned=True)
            if told and run is not None:
                run.apply(*told[0][:3])
        return told

    def _lead(self, pieces: list[Any], *, owned: bool) -> list[AppendResult]:
        """Append as `lead` does; those of producers, or those of none."""
        log = self._log
        self._end = None  # until all is done
        told, size, made = self._tail.lead(pieces, log.log_start_offset, owned)
        if told:
            self._extend(self._room[:size], made)
        else:
            self._end = log.end
        return list(map(AppendResult._make, told))

    def follow(self, piece: Any, leader_epoch: int | None) -> AppendResult | None:
        """Append what is plain, as a follower; answers its result, None if it is not.

        What a follower writes is what it was given, so nothing is copied. An epoch of
        None is the latest.
        """
        if type(piece) is not bytes or not self._is_settled():
            return None
        log = self._log
        self._end = None  # until all is done
        taken = self._tail.follow(
            piece, leader_epoch, log.log_start_offset, log.runtime.clock.now_ms()
        )
        if taken is None:
            self._end = log.end
            return None
        told, made = taken
        self._extend(piece, made)
        return AppendResult._make(told)

    def follow_all(
        self, pieces: Sequence[Any], leader_epoch: int
    ) -> list[AppendResult]:
        """Do `follow` for each, from the first on, up to one that is not plain."""
        results = []
        for piece in pieces:
            told = self.follow(piece, leader_epoch)
            if told is None:
                break
            results.append(told)
        return results

    def _extend(self, data: bytes | memoryview, made: Made) -> None:
        """Write a run, and let the log end behind it."""
        log, segment, producers = self._log, self._segment, self._log.producers
        fields, since, greatest, index_entries, time_entries = made
        end = OffsetMetadata._make(fields)
        segment.extend(data, index_entries, time_entries, since, greatest)
        self._end = log.end = end
        producers.map_end_offset = offset = end.offset
        self._size = end.position
        if log.first_unstable or producers.ongoing or producers.unreplicated:
            find_first_unstable(log)
        if offset >= self._flush_at:
            flush(log, offset)

    def _lead_by(self, asked: tuple[AppendRules, AppendOrigin, int, int]) -> None:
        """Tell the kernel how a leader takes appends, from here on."""
        by = Leadership._make(asked)
        self._tail.lead_by(
            (by.rules.max_message_bytes, by.origin is AppendOrigin.CLIENT),
            by.as_tuple(),
            by.rules.max_unpacked_bytes,
            (by.at_append, by.leader_epoch, by.now_ms),
        )
        self._asked = asked

    def _is_settled(self) -> bool:
        """Whether the kernel knows the log's end as it is, and runs may go there."""
        log, watermark = self._log, self._log.high_watermark
        segment = log.segments.active
        is_known = (
            log.end is self._end
            and segment is self._segment
            and segment.size == self._size
            and log.leader_epochs.latest is self._epoch
            and log.config is self._config
            and log.recovery_point == self._recovery_point
        )
        if is_known and watermark is self._watermark:
            return True
        if watermark.offset > log.end.offset:  # each append brings it down
            return False
        self._watermark = watermark
        return is_known or self._settle(segment)

    def _settle(self, segment: GrowingSegment) -> bool:
        log = self._log
        log.topic_id_file.flush()
        log.leader_epochs.flush()
        epoch = log.leader_epochs.latest
        if epoch is None or not segment.has_indexes_to(log.end.offset):
            return False
        self._tail.settle(self._limits(segment, epoch), self._state(segment))
        self._end, self._segment, self._size = log.end, segment, segment.size
        self._epoch, self._config = epoch, log.config
        self._recovery_point = log.recovery_point
        self._flush_at = log.recovery_point + log.config.flush_messages
        return True

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
        self, segment: GrowingSegment, epoch: EpochEntry
    ) -> tuple[int, int, int, int, int, int, int, int, int, int]:
        """Say how far a run may go."""
        log, config = self._log, self._log.config
        offsets, times = segment.offset_index, segment.time_index
        return (
            *epoch,
            segment.base_offset,
            config.segment_size,
            config.max_segment_ms - segment.settings.roll_jitter_ms,
            segment.created_ms,
            segment.settings.index_interval_bytes,
            offsets.max_entries - offsets.entry_count,
            times.max_entries - 1 - times.entry_count,
            min(log.recovery_point + config.flush_messages, 2**63 - 1),
        )


def _unpack(codec: int, records: memoryview, limit: int) -> bytes | None:
    """Unpack the records of a batch; None where they are not sound, or too large."""
    try:
        return b"".join(decompress(codec, records, limit=limit))
    except KafkaLogError:
        return None
