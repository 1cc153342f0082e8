"""An active segment: a ``.log`` that is appended to, and its indexes.

Its files are created as Kafka creates them: the ``.log`` at once, the indexes when they
are first used, by a lookup or by the check whether to roll. An index entry is appended
for a batch if more than ``index.interval.bytes`` were appended since the last entry.

Source: ``LogSegment.java``, ``LazyIndex.java``, ``FileRecords.java``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from kafkalog import _speedups
from kafkalog._speedups import IndexFault
from kafkalog.array_types import Bytes
from kafkalog.errors import (
    KafkaLogError,
    LogArgumentError,
    LogSegmentOffsetOverflowError,
)
from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.formats.layout import MAX_FILE_BYTES, MAX_OFFSET_DELTA
from kafkalog.segment.file_batches import (
    BatchPosition,
    LogEnd,
    find_end,
    greatest_timestamp,
    position_of,
    windows,
)
from kafkalog.segment.open_files import OpenFiles
from kafkalog.segment.segment_files import SegmentFiles, SegmentSettings
from kafkalog.storage.durable_file import Disk, Write

NowMs = Callable[[], int]
Filling: TypeAlias = tuple[int, int, int]
"""Bytes since the last index entry, greatest timestamp, last offset of its batch."""

FIRST_BATCH_BYTES: Final = 128


class SegmentRead(NamedTuple):
    """The result of a read of a segment: `length` bytes from `position` on.

    `offset` is that of the first batch, from its header.
    """

    offset: int
    position: int
    length: int
    first_entry_incomplete: bool


class GrowingSegment(SegmentFiles):
    """One segment, open for appending."""

    # Initial values; class attributes, as a log has thousands of segments.
    bytes_since_index_entry = 0
    tried_position = 0  # of the batch whose entry an index rejected last
    _rolling_timestamp: int | None = None
    _greatest: tuple[int, int] | None = None

    def __init__(
        self,
        directory: Path,
        base_offset: int,
        settings: SegmentSettings,
        now_ms: NowMs,
        disk: Disk,
        open_files: OpenFiles,
        suffix: str = "",
    ) -> None:
        super().__init__(directory, base_offset, settings, disk, open_files, suffix)
        self.created_ms = now_ms()
        self._now_ms = now_ms

    @property
    def greatest_timestamp(self) -> tuple[int, int]:
        """Greatest timestamp so far, and the last offset of its first batch.

        After opening this is the last entry of the time index, until an append.
        """
        if self._greatest is None:
            self._greatest = self.time_index.last_entry
        return self._greatest

    @property
    def largest_timestamp(self) -> int:
        """Greatest timestamp, or the modification time if there is none."""
        timestamp = self.greatest_timestamp[0]
        return timestamp if timestamp >= 0 else self.modified_ms

    @property
    def rolling_timestamp(self) -> int:
        """Greatest timestamp of the first batch; -1 if there is none."""
        if self._rolling_timestamp is None:
            for rows, _, _ in windows(self.file, 0, self.size, FIRST_BATCH_BYTES):
                self._rolling_timestamp = int(rows["max_timestamp"][0])
                break
            else:
                return -1
        return self._rolling_timestamp

    def can_hold(self, offset: int) -> bool:
        """Return whether an offset fits relative to the base; loads the index."""
        self.offset_index.load()
        return self.offset_index.holds_offset(offset)

    def append(self, data: Bytes, rows: BatchHeaders, last_offset: int) -> None:
        """Append batches, and the entries of the indexes for them.

        `rows` are their headers. Raises `LogSegmentOffsetOverflowError` if the last
        offset does not fit, and `IndexFullError`; the batches are then written, as by
        Kafka.
        """
        if not len(data):
            return
        position, size = self.size, self.size + len(data)
        self._check_offset(last_offset)
        if size > MAX_FILE_BYTES:
            raise LogArgumentError(
                f"segment of {size} bytes, expected at most {MAX_FILE_BYTES}: "
                f"{self.path}"
            )
        if not self._is_named:
            self._force_names()
        self.file.write(data.data, position)
        self._is_forced = False
        self._size = size
        self.make_entries(rows, position)

    def extend(
        self,
        data: bytes | memoryview,
        index_entries: bytes,
        time_entries: bytes,
        filling: Filling,
    ) -> None:
        """Append batches, and the index entries that the caller made for them."""
        if not self._is_named:
            self._force_names()
        file = self._file
        if file is None or self._open_files.last is not self:
            file = self.file
        write = file, data, self._size
        self._write([write], index_entries, time_entries, filling)
        self._is_forced = False
        self._size += len(data)

    def make_entries(
        self, rows: BatchHeaders, position: int, *, skip_full: bool = False
    ) -> None:
        """Append the index entries of batches, which begin at `position`.

        If an index rejects an entry, those before it stay, and `tried_position` is the
        position of its batch. With `skip_full` no entries are appended to a full index.
        """
        done = 0
        offsets, times, _ = self._all_indexes()
        while done < len(rows):
            done, position, fault, index_entries, time_entries, filling = (
                _speedups.make_entries(
                    rows,
                    done,
                    position,
                    self.base_offset,
                    self.settings.index_interval_bytes,
                    (self.bytes_since_index_entry, *self.greatest_timestamp),
                    offsets.end,
                    times.end,
                    skip_full,
                )
            )
            self._write([], index_entries, time_entries, filling)
            if fault:
                self.tried_position = position
                if fault < IndexFault.TIMES_FULL:
                    raise offsets.rejection(fault, int(rows["last_offset"][done]))
                raise times.rejection(fault, *self.greatest_timestamp)

    def _write(
        self,
        writes: list[Write],
        index_entries: bytes,
        time_entries: bytes,
        filling: Filling,
    ) -> None:
        """Do `writes`, and append entries of the indexes after them."""
        if index_entries:
            offsets, times, _ = self._all_indexes()
            with offsets.writing, times.writing:
                writes.append(offsets.place(index_entries))
                if time_entries:
                    writes.append(times.place(time_entries))
                self._disk.write_each(writes)
                offsets.count_written(index_entries)
                if time_entries:
                    times.count_written(time_entries)
        elif writes:
            self._disk.write_each(writes)
        self.bytes_since_index_entry, timestamp, offset = filling
        self._greatest = timestamp, offset

    def _check_offset(self, offset: int) -> None:
        if not self.can_hold(offset):
            raise LogSegmentOffsetOverflowError(
                f"offset {offset}, expected at most {MAX_OFFSET_DELTA} above the base: "
                f"{self.path}"
            )

    def find(self, offset: int) -> BatchPosition | None:
        """Return the first batch whose last offset is >= `offset`."""
        _, position = self.offset_index.lookup(offset)
        return position_of(self.file, offset, max(position, 0), self.size)

    def read(
        self,
        offset: int,
        max_bytes: int,
        max_position: int | None,
        *,
        min_one_batch: bool = False,
    ) -> SegmentRead | None:
        """Return the bytes of a read from `offset` on, up to `max_position`.

        Returns None if all batches end before `offset`. If `max_position` is None no
        byte is readable, and the result has the position and no bytes.
        """
        if max_bytes < 0:
            raise LogArgumentError(
                f"read of {max_bytes} bytes, expected at least 0: {self.path}"
            )
        batch = self.find(offset)
        if batch is None:
            return None
        most = max(max_bytes, batch.size_in_bytes) if min_one_batch else max_bytes
        if most == 0 or max_position is None:
            return SegmentRead(batch.offset, batch.position, 0, False)
        length = min(max_position - batch.position, most)
        if length < 0:
            raise LogArgumentError(
                f"end {max_position} of a read, expected at least {batch.position}: "
                f"{self.path}"
            )
        length = min(length, self.size - batch.position)
        incomplete = most < batch.size_in_bytes
        return SegmentRead(batch.offset, batch.position, length, incomplete)

    def next_offset(self) -> int:
        """Return the last offset + 1, or the base offset of an empty segment."""
        return self.find_end().offset

    def find_end(self) -> LogEnd:
        """Return the end, read from the last entry of the offset index on.

        It is the start if no batch is where that entry points.
        """
        indexed = self.offset_index.last_offset
        _, position = self.offset_index.lookup(indexed)
        end = find_end(self.file, indexed, position, self.size)
        return LogEnd(self.base_offset, 0) if end is None else end

    def truncate_to(self, offset: int) -> int:
        """Remove the batch with `offset` and all after it; return the bytes removed."""
        batch = self.find(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        self.offset_index.resize(self.settings.segment_index_bytes)
        self.time_index.resize(self.settings.segment_index_bytes)
        cut = 0 if batch is None else self.cut_for_good(batch.position)
        if self.size == 0:
            self.created_ms = self._now_ms()
            self._rolling_timestamp = None
        self.bytes_since_index_entry = 0
        if self.greatest_timestamp[0] >= 0:
            self._greatest = self._find_greatest_timestamp()
        return cut

    def _find_greatest_timestamp(self) -> tuple[int, int]:
        """Return the greatest timestamp of the time index and the batches after it."""
        last = self.time_index.last_entry
        _, position = self.offset_index.lookup(last[1])
        after = greatest_timestamp(self.file, position, self.size)
        return after if after[0] > last[0] else last

    def forget_entries(self) -> None:
        """Empty the indexes, before they are rebuilt."""
        self.offset_index.reset()
        self.time_index.reset()
        self.txn_index.reset()
        self._greatest = None
        self.bytes_since_index_entry = 0

    def become_inactive(self) -> None:
        """Append the last entry of the time index, and trim all files."""
        self.time_index.maybe_append(*self.greatest_timestamp, skip_full=True)
        self.offset_index.trim()
        self.time_index.trim()
        self.cut(self.size)

    def close(self) -> None:
        """Append the last entry of the time index; trim, sync and close the files."""
        if self._greatest is not None:
            with suppress(KafkaLogError):
                self.time_index.maybe_append(*self._greatest, skip_full=True)
        self.offset_index.close()
        self.time_index.close()
        self.finish_log()
        self.txn_index.close()
