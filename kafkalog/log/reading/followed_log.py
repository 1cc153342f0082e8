"""A log that stays open for reading, and follows what a broker writes to it.

`Log` reads anew at each call, and a server would list the directory for each fetch.
This keeps the listing, the open files and the end of the log, and looks at two times of
modification to know whether they are still right.

Source: ``UnifiedLog.java`` (``read``), ``LocalLog.java`` (``read``),
``LogSegment.java`` (``read``).
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkalog.decoding.read_policy import ReadPolicy
from kafkalog.errors import OffsetOutOfRangeError
from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.formats.checkpoint import EpochEntry, parse_epochs
from kafkalog.log.producers.producer_state import producer_states_at
from kafkalog.log.reading.log_segments import (
    OpenSegment,
    from_offset,
    list_directory,
    read_on,
    rows_within,
)
from kafkalog.log.reading.offset_lookup import (
    NO_RECORD,
    NOT_FOUND,
    RecordPlace,
    find_end,
    find_records_for_times,
)
from kafkalog.log.reading.remote_offsets import log_start_in
from kafkalog.log.reading.transactions import (
    Transactions,
    aborted_between,
    find_stable,
    replay_partition,
)
from kafkalog.segment.file_records import Skipped
from kafkalog.segment.log_segment import LogSegment
from kafkalog.segment.open_files import OpenFiles
from kafkalog.storage.checkpoint_file import LEADER_EPOCHS, read_if_exists
from kafkalog.storage.location import Location, OpenedSource

HEADERS: Final = ReadPolicy(needs="headers", check_crcs="never")
"""Only headers are read: whoever gets the batches checks their CRCs."""

KEPT_PLACES: Final = 64
"""Ends of fetches whose position is remembered, one for each reader of a log."""


class SharedFile:
    """An open segment, which is closed when it is released and nobody uses it."""

    def __init__(self, segment: LogSegment) -> None:
        self.segment = segment
        self.source: OpenedSource = segment.open()
        self._users = 0
        self.is_released = False

    def use(self) -> None:
        """Keep the file open until `done`."""
        self._users += 1

    def done(self) -> None:
        """End a use."""
        self._users -= 1
        self._close_unused()

    def release(self) -> None:
        """Close the file, once nobody uses it."""
        self.is_released = True
        self._close_unused()

    def _close_unused(self) -> None:
        if self.is_released and not self._users:
            self.source.close()


class StoredRange(NamedTuple):
    """Whole batches in an open file, from a position on; `next_offset` follows them.

    The file stays open until `done` is called.
    """

    file: SharedFile
    position: int
    size: int
    next_offset: int

    @property
    def source(self) -> OpenedSource:
        """The open file."""
        return self.file.source

    def done(self) -> None:
        """Let the file be closed."""
        self.file.done()


class _State(NamedTuple):
    """Times of modification of a directory and its last segment."""

    directory_ns: int
    last_ns: int
    last_size: int


@dataclass(slots=True)
class FollowedLog:
    """The log of a partition's directory, which another process may be writing to.

    `log_start_offset` and `log_end_offset` are those of the last `refresh`.

    >>> import tempfile, kafkalog
    >>> from pathlib import Path
    >>> batch = kafkalog.RecordBatchBuilder(base_offset=5)
    >>> batch.append(b"k", b"v", timestamp=1700000000000)
    >>> with tempfile.TemporaryDirectory(suffix="-0") as directory:
    ...     path = Path(directory, "00000000000000000005.log")
    ...     _ = path.write_bytes(batch.build())
    ...     log = FollowedLog(Path(directory))
    ...     log.refresh()
    ...     found = log.fetch(5, 1 << 20, log.log_end_offset)
    ...     found.position, found.size, found.next_offset
    ...     found.done()
    ...     log.close()
    True
    (0, 70, 6)
    """

    directory: Location
    checkpointed_start: int | None = None
    open_files: OpenFiles = field(default_factory=OpenFiles)
    segments: list[LogSegment] = field(default_factory=list)
    log_start_offset: int = 0
    log_end_offset: int = 0
    leader_epochs: list[EpochEntry] = field(default_factory=list)
    _state: _State | None = None
    _files: dict[int, SharedFile] = field(default_factory=dict)
    _places: OrderedDict[int, tuple[int, int]] = field(default_factory=OrderedDict)
    _transactions: Transactions | None = None
    _stable: int | None = None
    _has_snapshots: bool = False

    def refresh(self) -> bool:
        """Read what has changed since the last call; return whether anything has."""
        state = self._current_state()
        if state is not None and state == self._state:
            return False
        was = None if self._state is None else self._state.directory_ns
        if state is None or state.directory_ns != was:
            self._list()
        # Taken before what it describes, so that a change meanwhile is seen next time.
        self._state = state
        if self.segments:  # its size is that of when it was opened
            self._close(self.segments[-1].base_offset)
        self.log_start_offset = log_start_in(
            self.directory, self.segments, self.checkpointed_start
        )
        end = find_end(self.directory, self.segments, self.log_start_offset)
        self.log_end_offset = max(end, self.log_start_offset)
        self.leader_epochs = (
            read_if_exists(self.directory / LEADER_EPOCHS, parse_epochs) or []
        )
        self._transactions = self._stable = None
        return True

    def fetch(self, offset: int, max_bytes: int, end: int) -> StoredRange | None:
        """Return whole batches from the one that holds `offset` on, below `end`.

        The first batch is returned even if it is larger than `max_bytes`. No batch of
        the next segment is. Returns None at the end.

        Raises `OffsetOutOfRangeError` outside of log start to log end offset, and
        `CorruptRecordError` for a damaged header.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            expected = f"{self.log_start_offset} to {self.log_end_offset}"
            raise OffsetOutOfRangeError(f"offset {offset}, expected {expected}")
        if offset >= end:
            return None

        def reaching(rows: BatchHeaders) -> tuple[npt.NDArray[np.bool_], bool]:
            selected = (rows["last_offset"] >= offset) & (rows["base_offset"] < end)
            return selected, bool((rows["base_offset"] >= end).any())

        for segment in from_offset(self.segments, offset):
            file = self._open(segment)
            opened = OpenSegment(segment, file.source)
            records = opened.records(
                self._position(opened, offset),
                end_offset=end,
                select=reaching,
                policy=HEADERS,
                first_bytes=max(max_bytes, 1 << 12),
            )
            for step in records:
                assert not isinstance(step, Skipped)  # damage is raised
                return self._range(file, step.rows, max_bytes)
        return None

    def _range(
        self, file: SharedFile, rows: BatchHeaders, max_bytes: int
    ) -> StoredRange:
        rows = rows_within(rows, max_bytes)
        ends = rows["position"] + rows["size_in_bytes"]
        # Batches between them that are not selected end the range.
        gaps = np.flatnonzero(rows["position"][1:] != ends[:-1])
        last = int(gaps[0]) if len(gaps) else len(rows) - 1
        position, end = int(rows["position"][0]), int(ends[last])
        following = int(rows["last_offset"][last]) + 1
        self._places[following] = file.segment.base_offset, end
        while len(self._places) > KEPT_PLACES:
            self._places.popitem(last=False)
        file.use()
        return StoredRange(file, position, end - position, following)

    def _position(self, opened: OpenSegment, offset: int) -> int:
        base, position = self._places.pop(offset, (None, 0))
        if base == opened.segment.base_offset and position < opened.source.size:
            return position
        return opened.position_for(offset)

    @property
    def last_stable_offset(self) -> int:
        """The first offset of the first undecided transaction, else the log end."""
        if self._stable is None:
            self._stable = find_stable(
                self.directory,
                self.segments,
                self.log_start_offset,
                self.log_end_offset,
            )
        return self._stable

    def aborted(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return producers and first offsets of aborted transactions, by their ends.

        A broker keeps them in transaction indexes. In a directory that lacks its other
        files, too, they are found by reading the headers of the whole log once.
        """
        if self._has_snapshots:
            found = aborted_between(self.segments, start, end)
        else:
            found = self._replayed().aborted
            overlaps = found["last_offset"] >= start
            found = found[overlaps & (found["first_offset"] < end)]
            found = found[np.argsort(found["last_offset"], kind="stable")]
        producers, firsts = found["producer_id"], found["first_offset"]
        return list(zip(producers.tolist(), firsts.tolist(), strict=True))

    def _replayed(self) -> Transactions:
        if self._transactions is None:
            self._transactions = replay_partition(
                self.directory,
                self.segments,
                self.log_start_offset,
                self.log_end_offset,
            )
        return self._transactions

    def producer_states(self) -> npt.NDArray[np.void]:
        """Return the state of each producer at the log's end, as `Log` does."""
        return producer_states_at(self.directory, self.segments, self.log_end_offset)

    def record_at(self, timestamp: int) -> RecordPlace:
        """Return the first record with a timestamp at or above this one."""
        [record] = find_records_for_times(
            self.directory, self.segments, [timestamp], self.log_start_offset
        )
        return record

    def latest_record(self) -> RecordPlace:
        """Return the first record with the greatest timestamp of the log."""
        greatest = NOT_FOUND
        for opened in read_on(self.directory, list(self.segments)):
            for step in opened.records(policy=HEADERS):
                assert not isinstance(step, Skipped)  # damage is raised
                greatest = max(greatest, int(step.rows["max_timestamp"].max()))
        return NO_RECORD if greatest == NOT_FOUND else self.record_at(greatest)

    def close(self) -> None:
        """Close all files."""
        for base_offset in list(self._files):
            self._close(base_offset)

    def _current_state(self) -> _State | None:
        """Return what changes with the log; None if it changes right now."""
        if not isinstance(self.directory, Path):
            return _State(0, 0, 0)  # what is behind a URL is read once
        last = self.segments[-1].path if self.segments else self.directory
        try:
            directory, file = self.directory.stat(), last.stat()
        except FileNotFoundError:
            return None
        return _State(directory.st_mtime_ns, file.st_mtime_ns, file.st_size)

    def _list(self) -> None:
        self.close()
        self._places.clear()
        listed = list_directory(self.directory)
        self.segments = listed.segments
        names = (entry.name for entry in listed.entries)
        self._has_snapshots = any(name.endswith(".snapshot") for name in names)

    def _close(self, base_offset: int) -> None:
        file = self._files.pop(base_offset, None)
        if file is not None:
            self.open_files.forget(file)
            file.release()

    def _open(self, segment: LogSegment) -> SharedFile:
        file = self._files.get(segment.base_offset)
        if file is None or file.is_released:
            file = self._files[segment.base_offset] = SharedFile(segment)
        self.open_files.use(file)
        return file
