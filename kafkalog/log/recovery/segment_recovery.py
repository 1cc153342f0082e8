"""One segment read through after a crash.

It is cut behind its last sound batch, and its indexes are made anew.

Bytes between index entries are counted from the beginning here, by a running log from
when it was opened. So the indexes differ, and both are right. There may be entries more
here than a running log made, one for each time that it was opened, and more than fit:
those are skipped, so that whatever was appended can be opened. Kafka refuses to open
such a log. As in Kafka, `IndexFullError` is raised where a running log could not have
made its entries either.

Knows: one segment, and producers up to its beginning. Does not know: its neighbours.
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
from kafkalog.indexes.txn_index import AbortedTransaction
from kafkalog.log.leader_epochs import LeaderEpochs
from kafkalog.log.markers import Markers, read_markers
from kafkalog.log.producers.producer_manager import ProducerStateManager
from kafkalog.log.producers.producer_updates import replay
from kafkalog.segment.file_batches import Window, windows
from kafkalog.segment.growing_segment import GrowingSegment
from kafkalog.validation.appends import as_bytes

STEP_BYTES = 1 << 20  # so much is still in the processor's cache when it is checked
ROWS_HELD = 4096
SECTOR_BYTES = 512
OFFSET_BYTES, SIZE_BYTES = 8, 4
NO_BYTES = Window(np.empty(0, BATCH), np.empty(0, np.uint8), 0)


class Cut(NamedTuple):
    """What was cut: bytes, and because of what damage; `is_cut` if only zeros, too."""

    bytes_cut: int
    damage: str | None
    is_cut: bool


def recover_segment(
    segment: GrowingSegment,
    producers: ProducerStateManager,
    epochs: LeaderEpochs,
    before_cut: Callable[[], None],
) -> Cut:
    """Read a segment through, from its beginning, and cut it where it is not sound.

    `producers` are as they were at its beginning, and follow it to its end;
    `before_cut` is called if anything is to be cut.
    Raises `LogSegmentOffsetOverflowError` where an offset is too far from the base.
    """
    since_entry = segment.bytes_since_index_entry  # of a running log; 0 if just loaded
    pass_ = _Pass(segment, producers, epochs)
    damage = None
    try:
        pass_.take_all(_windows(segment))
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
    return Cut(bytes_cut, damage if bytes_cut else None, is_cut)


def count_data(segment: GrowingSegment, start: int) -> int:
    """Count the bytes of a ``.log`` from `start` on, but for zeros up to its end."""
    end = segment.size
    while start < end:
        length = min(STEP_BYTES, end - start)
        data = np.frombuffer(segment.file.read(end - length, length), np.uint8)
        held = np.flatnonzero(data)
        if len(held):
            return end - length + int(held[-1]) + 1 - start
        end -= length
    return 0


def _windows(segment: GrowingSegment) -> Iterator[Window]:
    step, room = STEP_BYTES, Workspace()
    return windows(segment.file, 0, segment.size, step, step, room)


class _Pass:
    """One pass over a segment: how far it is sound, and where its last entry is."""

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
        self._held: list[BatchHeaders] = []
        self._rows_held = 0
        self._last_offset = segment.base_offset - 1

    def take_all(self, found: Iterator[Window]) -> None:
        """Take the batches of all windows, up to the first that is not sound."""
        try:
            for window in found:
                self._take(window)
        finally:
            self._take_held()

    def _take(self, window: Window) -> None:
        """Take the batches of a window; those of which headers suffice, many at once.

        What stands in headers is looked at later, batch after batch all the same.
        """
        unsound = find_crc_mismatches(window.data, window.origin, window.rows)
        rows = window.rows[: unsound[0]] if len(unsound) else window.rows
        if (rows["attributes"] & CONTROL_FLAG).any():
            self._take_held()
            self._take_sound(window, rows)
        else:
            self._held.append(rows)
            self._rows_held += len(rows)
            if self._rows_held >= ROWS_HELD:
                self._take_held()
        if len(unsound):
            raise crc_error(window.data, window.origin, window.rows[unsound[0]])

    def _take_held(self) -> None:
        if self._rows_held:
            # As bytes: to hold the fields of each against the others' takes longer.
            rows = np.concatenate([as_bytes(one) for one in self._held]).view(BATCH)
            self._held, self._rows_held = [], 0
            self._take_sound(NO_BYTES, rows)

    def _take_sound(self, window: Window, rows: BatchHeaders) -> None:
        """Take batches whose checksums are right, up to one that cannot stand there."""
        torn = _find_torn(rows, self._last_offset)
        whole = rows[: torn[0]] if len(torn) else rows
        distance = whole["last_offset"] - self._segment.base_offset
        far = np.flatnonzero((distance < 0) | (distance > MAX_OFFSET_DELTA))
        for run in _runs(whole[: far[0]] if len(far) else whole):
            self._take_run(window, run)
        if len(far):
            raise LogSegmentOffsetOverflowError(
                f"offset {int(whole['last_offset'][far[0]])} is too far from the base "
                f"of {self._segment.path}"
            )
        if len(torn):
            position = int(rows["position"][torn[0]])
            reason = "the sector with a batch's offset was lost"
            raise CorruptRecordError(reason, position=position)
        if len(rows):
            self._last_offset = int(rows["last_offset"][-1])

    def _take_run(self, window: Window, rows: BatchHeaders) -> None:
        """Take batches of which none but the last ends a transaction."""
        try:
            self._segment.make_entries(
                rows, int(rows["position"][0]), skip_full=self._skip_full
            )
        except LogStateError:
            tried = self._segment.tried_position
            self._note(window, rows[rows["position"] < tried])
            raise
        last = rows[-1]
        self.valid_bytes = int(last["position"] + last["size_in_bytes"])
        self._note(window, rows)

    def _note(self, window: Window, rows: BatchHeaders) -> None:
        """Take note of what headers of batches say, and the last one's marker."""
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
        """Enter each leader epoch that is above all known."""
        latest = self._epochs.latest_epoch
        epochs = rows["leader_epoch"]
        known = -1 if latest is None else latest
        for place in _records_of(epochs, known):
            row = rows[place]
            self._epochs.assign(int(row["leader_epoch"]), int(row["base_offset"]))

    def _note_producers(self, rows: BatchHeaders, markers: Markers) -> None:
        producers, held = self._producers, _of_producers(rows)
        for completed in replay(producers, held, markers) if len(held) else ():
            stable = producers.last_stable_offset(completed)
            if completed.is_aborted:
                entry = AbortedTransaction(*completed[:3], stable)
                self._segment.txn_index.append(entry)
            producers.complete_txn(completed)
        if len(rows):
            producers.map_end_offset = int(rows["last_offset"][-1]) + 1


def _had_slots(segment: GrowingSegment) -> bool:
    """Whether a running log had slots for the entries of all that was appended.

    It had if there cannot be too many; or if the indexes, as they were left, are no
    larger than they may be and lead to the end: no batch that was due an entry lies
    after the last one. Behind an append that an index had no slot for one does.
    """
    base, interval = segment.base_offset, segment.settings.index_interval_bytes
    most = segment.settings.segment_index_bytes
    slots = most // OffsetIndex.ENTRY.itemsize, most // TimeIndex.ENTRY.itemsize
    if segment.size // (interval + 1) <= min(slots[0], slots[1] - 1):
        return True
    try:
        offsets = OffsetIndex.read_live(segment.offset_index.path, base)
        times = TimeIndex.read_live(segment.time_index.path, base)
        if len(offsets) > slots[0] or len(times) > slots[1]:
            return False
        last = int(offsets.entries["position"][-1]) if len(offsets) else 0
        rest = windows(segment.file, last, segment.size)
        return all((rows["position"] - last <= interval).all() for rows, _, _ in rest)
    except (FileNotFoundError, CorruptRecordError, LogArgumentError):
        return False  # none, or none that leads to a batch


def _of_producers(rows: BatchHeaders) -> BatchHeaders:
    held: BatchHeaders = rows[rows["producer_id"] != NO_PRODUCER_ID]
    return held


def _find_torn(rows: BatchHeaders, last_offset: int) -> npt.NDArray[np.int64]:
    """Find batches that a power cut tore where no checksum tells.

    A batch's offset lies outside of its checksum. Where a sector of the disk ends in
    it, or behind it in leading zeros of the size, the batch may be whole but for an
    offset that begins with zeros, and does not rise above `last_offset`.
    """
    before = np.concatenate(([last_offset], rows["last_offset"][:-1]))
    falls = rows["base_offset"] <= before
    if not falls.any():
        return np.flatnonzero(falls)
    inside = SECTOR_BYTES - rows["position"].astype(np.int64) % SECTOR_BYTES
    lost_bits = 8 * np.minimum(inside, OFFSET_BYTES)
    torn = (inside < OFFSET_BYTES + SIZE_BYTES) & falls
    torn &= (rows["base_offset"] >> (64 - lost_bits)) == 0
    return np.flatnonzero(torn & (rows["magic"] >= 2))


def _runs(rows: BatchHeaders) -> Iterator[BatchHeaders]:
    """Part batches behind each that may end a transaction."""
    control = (rows["attributes"] & CONTROL_FLAG > 0) & (rows["magic"] >= 2)
    start = 0
    for place in np.flatnonzero(control & (rows["producer_id"] != NO_PRODUCER_ID)):
        yield rows[start : place + 1]
        start = int(place) + 1
    if start < len(rows):
        yield rows[start:]


def _records_of(values: npt.NDArray[np.int32], known: int) -> list[int]:
    """Places of the values that are greater than all before them, and than `known`."""
    before = np.maximum.accumulate(np.concatenate(([known], values)))[:-1]
    return np.flatnonzero(values > before).tolist()
