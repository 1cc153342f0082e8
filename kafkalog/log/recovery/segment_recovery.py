"""Recovery of one segment after a crash.

All batches are verified. The segment is truncated after the last valid batch, and its
indexes are rebuilt.

Recovery counts the bytes between index entries from the start of the segment, a running
log from when it was opened. Therefore the indexes differ, and both are valid. Recovery
may make one more entry for each time the log was opened, and more than the index can
hold. Those are skipped, so that every log can be opened again; Kafka does not open such
a log. As in Kafka, `IndexFullError` is raised if a running log could not have made the
entries either.

Source: ``LogSegment.recover``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kafkalog.decoding.workspace import Workspace
from kafkalog.errors import (
    CorruptRecordError,
    InvalidRecordError,
    KafkaLogError,
    LogArgumentError,
    LogSegmentOffsetOverflowError,
    LogStateError,
)
from kafkalog.formats.batch_headers import BatchHeaders, crc_error, find_crc_mismatches
from kafkalog.formats.layout import (
    BATCH,
    CONTROL_FLAG,
    MAX_OFFSET_DELTA,
    NO_PRODUCER_ID,
)
from kafkalog.indexes.offset_index import OffsetIndex
from kafkalog.indexes.time_index import TimeIndex
from kafkalog.log.leader_epochs import LeaderEpochs
from kafkalog.log.markers import Markers, read_markers
from kafkalog.log.producers.producer_manager import ProducerStateManager
from kafkalog.log.producers.producer_updates import replay
from kafkalog.segment.file_batches import Window, windows
from kafkalog.segment.growing_segment import GrowingSegment

RECOVERY_STEP_BYTES = 1 << 20  # fits the processor's cache, for reading and verifying
MAX_PENDING_ROWS = 4096
SECTOR_BYTES = 512
OFFSET_BYTES, SIZE_BYTES = 8, 4
NO_BYTES = Window(np.empty(0, BATCH), np.empty(0, np.uint8), 0)


class Cut(NamedTuple):
    """Truncated bytes, and the reason; `is_cut` is set if only zeros were, too.

    `size` and `end_offset` are those of the segment then.
    """

    bytes_cut: int
    damage: str | None
    is_cut: bool
    size: int
    end_offset: int


def recover_segment(
    segment: GrowingSegment,
    producers: ProducerStateManager,
    epochs: LeaderEpochs,
    before_cut: Callable[[], None],
) -> Cut:
    """Verify a segment from its start, and truncate it after the last valid batch.

    `producers` must have the state at the start of the segment, and is updated to its
    end. `before_cut` is called before the segment is truncated. Raises
    `LogSegmentOffsetOverflowError` for an offset too far from the base offset.
    """
    since_entry = segment.bytes_since_index_entry  # of a running log, otherwise 0
    pass_ = _Pass(segment, producers, epochs)
    damage = None
    try:
        pass_.add_all(_windows(segment))
    except CorruptRecordError as error:
        damage = error.reason
    except InvalidRecordError as error:
        damage = str(error)
    is_cut = pass_.valid_bytes < segment.size
    bytes_cut = count_data(segment, pass_.valid_bytes)
    if is_cut:
        before_cut()
    segment.cut_for_good(pass_.valid_bytes)
    segment.offset_index.trim()
    segment.time_index.maybe_append(*segment.greatest_timestamp, skip_full=True)
    segment.time_index.trim()
    segment.bytes_since_index_entry = since_entry
    damage = damage if bytes_cut else None
    return Cut(bytes_cut, damage, is_cut, pass_.valid_bytes, pass_.end_offset)


def count_data(segment: GrowingSegment, start: int) -> int:
    """Return the number of bytes from `start` on, without zeros at the end."""
    end = segment.size
    while start < end:
        length = min(RECOVERY_STEP_BYTES, end - start)
        data = np.frombuffer(segment.file.read(end - length, length), np.uint8)
        nonzero = np.flatnonzero(data)
        if len(nonzero):
            return end - length + int(nonzero[-1]) + 1 - start
        end -= length
    return 0


def _windows(segment: GrowingSegment) -> Iterator[Window]:
    step, buffer = RECOVERY_STEP_BYTES, Workspace()
    return windows(segment.file, 0, segment.size, step, step, buffer)


class _Pass:
    """One pass over a segment; all before `valid_bytes` is valid and indexed."""

    def __init__(
        self,
        segment: GrowingSegment,
        producers: ProducerStateManager,
        epochs: LeaderEpochs,
    ) -> None:
        self._skip_full = _had_slots(segment)
        segment.forget_entries()
        self.valid_bytes = 0
        self._segment = segment
        self._producers = producers
        self._epochs = epochs
        self._pending: list[BatchHeaders] = []
        self._pending_rows = 0
        self._last_offset = segment.base_offset - 1
        self.end_offset = segment.base_offset

    def add_all(self, window_iterator: Iterator[Window]) -> None:
        """Add the batches of all windows, up to the first invalid one."""
        try:
            for window in window_iterator:
                self._add(window)
        finally:
            self._add_pending()

    def _add(self, window: Window) -> None:
        """Add the batches of a window.

        Without control batches the records are not needed: the headers of several
        windows are collected, and processed together.
        """
        mismatches = find_crc_mismatches(window.data, window.origin, window.rows)
        rows = window.rows[: mismatches[0]] if len(mismatches) else window.rows
        if (rows["attributes"] & CONTROL_FLAG).any():
            self._add_pending()
            self._add_valid(window, rows)
        else:
            self._pending.append(rows)
            self._pending_rows += len(rows)
            if self._pending_rows >= MAX_PENDING_ROWS:
                self._add_pending()
        if len(mismatches):
            raise crc_error(window.data, window.origin, window.rows[mismatches[0]])

    def _add_pending(self) -> None:
        if self._pending_rows:
            # As bytes, because comparing structured dtypes takes longer.
            rows = np.concatenate([rows.view(np.uint8) for rows in self._pending])
            self._pending, self._pending_rows = [], 0
            self._add_valid(NO_BYTES, rows.view(BATCH))

    def _add_valid(self, window: Window, rows: BatchHeaders) -> None:
        """Add batches with valid checksums, up to the first with an invalid offset."""
        torn = _find_torn(rows, self._last_offset)
        valid = rows[: torn[0]] if len(torn) else rows
        distance = valid["last_offset"] - self._segment.base_offset
        far = np.flatnonzero((distance < 0) | (distance > MAX_OFFSET_DELTA))
        for run in _runs(valid[: far[0]] if len(far) else valid):
            self._add_run(window, run)
        if len(far):
            raise LogSegmentOffsetOverflowError(
                f"last offset {int(valid['last_offset'][far[0]])}, expected "
                f"{self._segment.base_offset} to "
                f"{self._segment.base_offset + MAX_OFFSET_DELTA}: {self._segment.path}"
            )
        if len(torn):
            position = int(rows["position"][torn[0]])
            reason = "the disk sector with the offset of a batch was lost"
            raise CorruptRecordError(reason, position=position)
        if len(rows):
            self._last_offset = int(rows["last_offset"][-1])

    def _add_run(self, window: Window, rows: BatchHeaders) -> None:
        """Add batches of which only the last may end a transaction."""
        try:
            self._segment.make_entries(
                rows, int(rows["position"][0]), skip_full=self._skip_full
            )
        except LogStateError:
            failed_position = self._segment.tried_position
            self._note(window, rows[rows["position"] < failed_position])
            raise
        last = rows[-1]
        self.valid_bytes = int(last["position"] + last["size_in_bytes"])
        self.end_offset = int(last["last_offset"]) + 1
        self._note(window, rows)

    def _note(self, window: Window, rows: BatchHeaders) -> None:
        """Add leader epochs and producers of batches, and the marker of the last."""
        has_fields = rows["magic"] >= 2
        modern = rows if has_fields.all() else rows[has_fields]
        if not len(modern):
            return
        self._note_epochs(modern)
        try:
            markers = read_markers(window.data, _of_producers(modern), window.origin)
        except KafkaLogError:
            self._note_producers(modern[:-1], {})
            raise
        self._note_producers(modern, markers)

    def _note_epochs(self, rows: BatchHeaders) -> None:
        """Assign each leader epoch that is above all before it."""
        latest = self._epochs.latest_epoch
        epochs = rows["leader_epoch"]
        known = -1 if latest is None else latest
        for i in _new_maxima(epochs, known):
            row = rows[i]
            self._epochs.assign(int(row["leader_epoch"]), int(row["base_offset"]))

    def _note_producers(self, rows: BatchHeaders, markers: Markers) -> None:
        producers, produced = self._producers, _of_producers(rows)
        for completed in replay(producers, produced, markers) if len(produced) else ():
            producers.write_completed_txn(completed, self._segment.txn_index)
        if len(rows):
            producers.map_end_offset = int(rows["last_offset"][-1]) + 1


def _had_slots(segment: GrowingSegment) -> bool:
    """Return whether the indexes of the running log had slots for all entries.

    They had if the segment is too small for more entries than slots; or if the existing
    indexes are not larger than allowed, and complete: no batch after the last entry is
    due an entry. After an append without a free slot, such a batch exists.
    """
    base, interval = segment.base_offset, segment.settings.index_interval_bytes
    max_bytes = segment.settings.segment_index_bytes
    slots = (
        max_bytes // OffsetIndex.ENTRY.itemsize,
        max_bytes // TimeIndex.ENTRY.itemsize,
    )
    if segment.size // (interval + 1) <= min(slots[0], slots[1] - 1):
        return True
    try:
        offsets = OffsetIndex.read_live(segment.content_path("index"), base)
        times = TimeIndex.read_live(segment.content_path("timeindex"), base)
        if len(offsets) > slots[0] or len(times) > slots[1]:
            return False
        last = int(offsets.entries["position"][-1]) if len(offsets) else 0
        rest = windows(segment.file, last, segment.size)
        return all((rows["position"] - last <= interval).all() for rows, _, _ in rest)
    except (FileNotFoundError, CorruptRecordError, LogArgumentError):
        return False  # no index, or an entry that leads to no batch


def _of_producers(rows: BatchHeaders) -> BatchHeaders:
    produced: BatchHeaders = rows[rows["producer_id"] != NO_PRODUCER_ID]
    return produced


def _find_torn(rows: BatchHeaders, last_offset: int) -> npt.NDArray[np.int64]:
    """Return the batches of which a power cut lost the first bytes of the offset.

    The checksum does not cover the offset of a batch. If a disk sector ends within the
    offset, or within leading zeros of the size after it, the batch may be complete
    except for its offset: this then begins with zeros, and is not above that of the
    batch before it, or `last_offset`.
    """
    before = np.concatenate(([last_offset], rows["last_offset"][:-1]))
    descending = rows["base_offset"] <= before
    if not descending.any():
        return np.flatnonzero(descending)
    inside = SECTOR_BYTES - rows["position"].astype(np.int64) % SECTOR_BYTES
    lost_bits = 8 * np.minimum(inside, OFFSET_BYTES)
    torn = (inside < OFFSET_BYTES + SIZE_BYTES) & descending
    torn &= (rows["base_offset"] >> (64 - lost_bits)) == 0
    return np.flatnonzero(torn & (rows["magic"] >= 2))


def _runs(rows: BatchHeaders) -> Iterator[BatchHeaders]:
    """Split batches after each that may end a transaction."""
    control = (rows["attributes"] & CONTROL_FLAG > 0) & (rows["magic"] >= 2)
    start = 0
    for i in np.flatnonzero(control & (rows["producer_id"] != NO_PRODUCER_ID)):
        yield rows[start : i + 1]
        start = int(i) + 1
    if start < len(rows):
        yield rows[start:]


def _new_maxima(values: npt.NDArray[np.int32], known: int) -> list[int]:
    """Return the indexes of values above all before them, and above `known`."""
    before = np.maximum.accumulate(np.concatenate(([known], values)))[:-1]
    return np.flatnonzero(values > before).tolist()
