"""`Log`: one partition's log, opened for reading.

A log that is open for reading changes no file, and a broker may be writing to it. Each
call reads the files as they are at that time.

Source: ``UnifiedLog.java``, ``LocalLog.java``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self, get_args

import numpy as np
import numpy.typing as npt

from kafkalog.decoding.batch_decoder import decode
from kafkalog.decoding.read_policy import (
    SKIPPING,
    STRICT,
    Bounds,
    Isolation,
    ReadPolicy,
)
from kafkalog.decoding.record_batch import RecordBatch
from kafkalog.decoding.workspace import Workspace
from kafkalog.errors import (
    LocatedError,
    NotALogDirectoryError,
    OffsetOutOfRangeError,
    ReadOnlyLogError,
)
from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.formats.checkpoint import EpochEntry, parse_epochs
from kafkalog.formats.layout import MAX_BATCH_BYTES
from kafkalog.formats.producer_snapshot import ENTRY
from kafkalog.formats.timestamps import Times, all_as_ms
from kafkalog.indexes.txn_index import TransactionIndex
from kafkalog.log.log_segments import (
    find_lost_tail,
    from_offset,
    list_first,
    list_segments,
    read_on,
)
from kafkalog.log.producers.newest_snapshot import newest_snapshot
from kafkalog.log.producers.producer_state import apply, as_entries, from_entries
from kafkalog.log.remote_offsets import (
    MissingStart,
    find_missing_start,
    log_start_in,
)
from kafkalog.log.transactions import Transactions, replay_partition
from kafkalog.reports import counted, html_table
from kafkalog.segment.file_records import (
    FIRST_STEP_BYTES,
    Skipped,
    Step,
)
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.checkpoint_file import (
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_STARTS,
    read_if_exists,
    read_offsets_or_none,
)
from kafkalog.storage.file_names import MAX_OFFSET, parse_partition_dir
from kafkalog.storage.location import AnyPath, Location, OpenedSource, locate

if TYPE_CHECKING:
    from socket import socket

MAX_READ_BYTES: Final = 1 << 20
NOT_FOUND: Final = -1
HEADERS: Final = ReadPolicy(needs="headers", check_crcs="never")
"""Only headers are read, and no CRC is checked."""
LISTED_SEGMENTS: Final = 20
"""Maximum number of segments in the HTML of a log."""

WRITING: Final = (
    "append",
    "append_many",
    "append_as_follower",
    "append_many_as_follower",
    "append_records",
    "start_verification",
    "assign_epoch",
    "start_high_watermark",
    "update_high_watermark",
    "increment_high_watermark",
    "rename_directory",
    "roll",
    "flush",
    "delete_old_segments",
    "delete_records",
    "truncate_to",
    "truncate_fully",
    "update_config",
    "take_producer_snapshot",
    "delete",
)
"""Methods of `WritableLog` that a log open for reading does not have."""


@dataclass(frozen=True, slots=True)
class LogRead:
    """Whole batches of a log, starting with the one that holds the requested offset.

    Attributes
    ----------
    data : bytes
        The batches.
    next_offset : int
        The offset from which to continue.
    aborted : tuple of (int, int)
        With ``read_committed``, the aborted transactions among the batches: producer id
        and first offset.
    """

    data: bytes
    next_offset: int
    aborted: tuple[tuple[int, int], ...] = ()

    def batches(self) -> Iterator[RecordBatch]:
        """Yield the batches one by one.

        Yields
        ------
        RecordBatch
            A batch, whose records are decoded on request.
        """
        position = 0
        while position < len(self.data):
            batch = RecordBatch(self.data, position)
            yield batch
            position += batch.size_in_bytes


class ReadableLog(Protocol):
    """What `Log` and `WritableLog` have in common: a partition's log that can be read.

    The methods are described at `Log`.
    """

    @property
    def path(self) -> Location:
        """The directory of the partition."""

    @property
    def segments(self) -> tuple[LogSegment, ...]:
        """The segments, in order of their base offsets."""

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""

    @property
    def missing_start(self) -> MissingStart | None:
        """The offsets before the first segment, in remote storage or lost, or None."""

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""

    @property
    def high_watermark(self) -> int:
        """The offset up to which records are replicated."""

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which transactions are decided."""

    @property
    def leader_epochs(self) -> list[EpochEntry]:
        """The leader epochs, and their first offsets."""

    def producer_states(self) -> npt.NDArray[np.void]:
        """Return the producers' last batches."""

    def aborted_transactions(
        self, start: int | None = None, end: int | None = None
    ) -> npt.NDArray[np.void]:
        """Return the aborted transactions with records in an interval of offsets."""

    def read(
        self,
        offset: int,
        *,
        max_bytes: int = MAX_READ_BYTES,
        isolation: Literal["log_end"] | Isolation = "log_end",
    ) -> LogRead:
        """Return batches from an offset on."""

    def send_to(
        self,
        socket: socket,
        offset: int,
        max_bytes: int = MAX_READ_BYTES,
        *,
        isolation: Literal["log_end"] | Isolation = "log_end",
    ) -> int:
        """Send batches from an offset on to a socket; return their size in bytes."""

    def offsets_for_times(self, timestamps: Times) -> npt.NDArray[np.int64]:
        """Return the first offset at or after each time."""

    def close(self) -> None:
        """Close the log."""


class Log:
    """A partition's log, opened for reading; made by ``kafkalog.open``.

    Parameters
    ----------
    path : str, path-like or URL
        The directory of a partition.

    Attributes
    ----------
    path : Path
        The directory.
    topic : str
        The topic, empty if the directory's name has none.
    partition : int
        The partition, -1 if the directory's name has none.

    Raises
    ------
    FileNotFoundError
        If there is no such directory.
    NotALogDirectoryError
        If it is not a partition's directory.

    Examples
    --------
    >>> import tempfile, kafkalog
    >>> from pathlib import Path
    >>> batch = kafkalog.RecordBatchBuilder(base_offset=5)
    >>> batch.append(b"k", b"v", timestamp=1700000000000)
    >>> with tempfile.TemporaryDirectory() as root:
    ...     directory = Path(root, "orders-0")
    ...     directory.mkdir()
    ...     file = directory / "00000000000000000005.log"
    ...     _ = file.write_bytes(batch.build())
    ...     with kafkalog.open(directory) as log:
    ...         log.topic, log.log_start_offset, log.log_end_offset
    ('orders', 5, 6)
    """

    def __init__(self, path: AnyPath) -> None:
        self.path = locate(path)
        if not self.path.is_dir():
            if self.path.exists():
                raise NotALogDirectoryError(f"not a partition's directory: {self.path}")
            raise FileNotFoundError(2, os.strerror(2), str(self.path))
        name = parse_partition_dir(self.path.absolute().name)
        if name is None and not list_first(self.path):
            raise NotALogDirectoryError(f"not a partition's directory: {self.path}")
        self.topic = "" if name is None else name.topic
        self.partition = -1 if name is None else name.partition

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the log, which holds no file open between calls.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> with tempfile.TemporaryDirectory(suffix="-0") as directory:
        ...     kafkalog.open(directory).close()
        """

    def __repr__(self) -> str:
        return f"<Log {self.path}>"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the segments' names and sizes."""
        return segments_html(f"Log {self.path}", self.segments)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in WRITING:
                raise ReadOnlyLogError(
                    f"{name}: the log is open for reading, expected mode 'a': "
                    f"{self.path}"
                )
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    @property
    def segments(self) -> tuple[LogSegment, ...]:
        """The segments, in order of their base offsets."""
        return tuple(list_segments(self.path))

    @property
    def log_start_offset(self) -> int:
        """The first offset: as checkpointed, else that of the first segment.

        That of a tiered partition is in remote storage; see `missing_start`.
        """
        return log_start_in(self.path, list_first(self.path), self._log_start)

    @property
    def missing_start(self) -> MissingStart | None:
        """The offsets before the first segment, in remote storage or lost, or None."""
        first = list_first(self.path)
        return find_missing_start(self.path, first, self._log_start)

    @property
    def _log_start(self) -> int | None:
        """The log start offset in the checkpoint, or None."""
        starts = read_offsets_or_none(self.path.absolute().parent, LOG_STARTS)
        return starts.get((self.topic, self.partition))

    @property
    def log_end_offset(self) -> int:
        """The offset after the last valid batch, which the next record will have."""
        return find_end(self.path, self._checkpointed(LOG_STARTS, 0))

    @property
    def high_watermark(self) -> int:
        """The first offset not known to be replicated, as checkpointed.

        Without a checkpoint, and if it is beyond the end, that is the log end offset.
        """
        end = self.log_end_offset
        high = self._checkpointed(HIGH_WATERMARKS, end)
        return min(max(high, self.log_start_offset), end)

    @property
    def last_stable_offset(self) -> int:
        """The first offset of the first undecided transaction, else the log end.

        It is not below the log start offset, even if the transaction began there.
        """
        return find_stable(self.path, self.log_start_offset, self.log_end_offset)

    @property
    def leader_epochs(self) -> list[EpochEntry]:
        """Each leader epoch and its start offset, as checkpointed."""
        return read_if_exists(self.path / LEADER_EPOCHS, parse_epochs) or []

    def producer_states(self) -> npt.NDArray[np.void]:
        """Return the state of each producer at the log's end.

        It is computed from the newest producer snapshot and the batches after it.

        Returns
        -------
        ndarray
            A structured array with the fields of a snapshot's entries, a row for each
            producer, sorted by producer id.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> from pathlib import Path
        >>> batch = kafkalog.RecordBatchBuilder(base_offset=5)
        >>> batch.append(b"k", b"v", timestamp=1700000000000)
        >>> with tempfile.TemporaryDirectory(suffix="-0") as directory:
        ...     file = Path(directory, "00000000000000000005.log")
        ...     _ = file.write_bytes(batch.build())
        ...     kafkalog.Log(directory).producer_states().size
        0
        """
        return producer_states_at(self.path, self.log_end_offset)

    def aborted_transactions(
        self, start: int | None = None, end: int | None = None
    ) -> npt.NDArray[np.void]:
        """Return the aborted transactions with records in an interval of offsets.

        Parameters
        ----------
        start, end : int, optional
            The interval ``[start, end)``, by default the whole log.

        Returns
        -------
        ndarray
            A structured array with the fields of a ``.txnindex``.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> from pathlib import Path
        >>> batch = kafkalog.RecordBatchBuilder(base_offset=5)
        >>> batch.append(b"k", b"v", timestamp=1700000000000)
        >>> with tempfile.TemporaryDirectory(suffix="-0") as directory:
        ...     file = Path(directory, "00000000000000000005.log")
        ...     _ = file.write_bytes(batch.build())
        ...     kafkalog.Log(directory).aborted_transactions().size
        0
        """
        first = self.log_start_offset if start is None else start
        last = MAX_OFFSET if end is None else end
        return aborted_between(self.path, first, last)

    def read(
        self,
        offset: int,
        *,
        max_bytes: int = MAX_READ_BYTES,
        isolation: Literal["log_end"] | Isolation = "log_end",
    ) -> LogRead:
        """Read whole batches, starting with the one that holds `offset`, or the next.

        Parameters
        ----------
        offset : int
            An offset of the log, or its end.
        max_bytes : int
            Maximum number of bytes to read. The first batch is returned in any case,
            others while they fit and are in the same segment.
        isolation : {"log_end", "read_uncommitted", "read_committed"}
            With ``read_committed``, the log is read up to the last stable offset, and
            the aborted transactions are listed; else up to the log end offset.

        Returns
        -------
        LogRead
            The batches, and where to continue.

        Raises
        ------
        OffsetOutOfRangeError
            If `offset` is below the log start offset or above the log end offset.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> from pathlib import Path
        >>> batch = kafkalog.RecordBatchBuilder(base_offset=5)
        >>> batch.append(b"k", b"v", timestamp=1700000000000)
        >>> with tempfile.TemporaryDirectory(suffix="-0") as directory:
        ...     file = Path(directory, "00000000000000000005.log")
        ...     _ = file.write_bytes(batch.build())
        ...     [read] = kafkalog.Log(directory).read(5).batches()
        >>> read.base_offset
        5
        """
        limit, transactions = self._limit_of_read(offset, isolation)
        first_bytes = max(max_bytes, FIRST_STEP_BYTES)
        for step in entry_steps(self.path, offset, limit, first_bytes):
            rows = _within(step.rows, max_bytes)
            first = int(rows["position"][0]) - step.origin
            size = int(rows["size_in_bytes"].sum())
            following = int(rows["last_offset"][-1]) + 1
            aborted: tuple[tuple[int, int], ...] = ()
            if transactions is not None:
                overlapping = transactions.aborted
                overlapping = overlapping[
                    (overlapping["last_offset"] >= offset)
                    & (overlapping["first_offset"] < following)
                ]
                aborted = tuple((int(txn[0]), int(txn[1])) for txn in overlapping)
            data = step.data[first : first + size].tobytes()
            return LogRead(data, following, aborted)
        return LogRead(b"", offset)

    def send_to(
        self,
        socket: socket,
        offset: int,
        max_bytes: int = MAX_READ_BYTES,
        *,
        isolation: Literal["log_end"] | Isolation = "log_end",
    ) -> int:
        """Send whole batches to a socket, starting with the one that holds `offset`.

        The bytes are those of `read`. They go from the page cache to the socket by
        ``sendfile``, without being copied into this process, and their CRCs are not
        checked.

        Parameters
        ----------
        socket : socket.socket
            A connected stream socket that blocks, or has a timeout.
        offset : int
            An offset of the log, or its end.
        max_bytes : int
            Maximum number of bytes to send. The first batch is sent in any case, others
            while they fit and are in the same segment.
        isolation : {"log_end", "read_uncommitted", "read_committed"}
            With ``read_committed``, batches up to the last stable offset are sent; else
            up to the log end offset.

        Returns
        -------
        int
            Number of bytes sent; 0 at the end of the log.

        Raises
        ------
        OffsetOutOfRangeError
            If `offset` is below the log start offset or above the log end offset.
        OSError
            If the socket fails, or the file was truncated meanwhile.

        Examples
        --------
        >>> import socket, tempfile, kafkalog
        >>> from pathlib import Path
        >>> batch = kafkalog.RecordBatchBuilder(base_offset=5)
        >>> batch.append(b"k", b"v", timestamp=1700000000000)
        >>> sender, receiver = socket.socketpair()
        >>> with tempfile.TemporaryDirectory(suffix="-0") as root, sender, receiver:
        ...     file = Path(root, "00000000000000000005.log")
        ...     _ = file.write_bytes(batch.build())
        ...     sent = kafkalog.Log(root).send_to(sender, 5)
        ...     receiver.recv(100) == batch.build(), sent
        (True, 70)
        """
        limit, _ = self._limit_of_read(offset, isolation)
        steps = open_entry_steps(
            self.path, offset, limit, max(max_bytes, FIRST_STEP_BYTES), HEADERS
        )
        for source, step in steps:
            rows = _within(step.rows, max_bytes)
            size = int(rows["size_in_bytes"].sum())
            return source.send_to(socket, int(rows["position"][0]), size)
        return 0

    def _limit_of_read(
        self, offset: int, isolation: str
    ) -> tuple[int, Transactions | None]:
        """Return the end of a read, and the transactions for ``read_committed``."""
        if isolation not in ("log_end", *get_args(Isolation)):
            names = ", ".join(("log_end", *get_args(Isolation)))
            raise ValueError(f"isolation {isolation!r}, expected one of {names}")
        start, end = self.log_start_offset, self.log_end_offset
        if not start <= offset <= end:
            raise OffsetOutOfRangeError(f"offset {offset}, expected {start} to {end}")
        if isolation != "read_committed":
            return end, None
        transactions = replay_partition(self.path, start, end)
        return min(end, transactions.last_stable_offset), transactions

    def offsets_for_times(self, timestamps: Times) -> npt.NDArray[np.int64]:
        """Return the first offset at or after each of many timestamps.

        Parameters
        ----------
        timestamps : array_like of int, datetime or datetime64
            Times, in ms since 1970 or as aware datetimes, of any shape. Negative
            numbers are times before 1970; Kafka's special timestamps, -1 to -6, are for
            `WritableLog.find_offset`.

        Returns
        -------
        ndarray of int64
            The offsets, in the same shape; -1 if no record is that late.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> from pathlib import Path
        >>> batch = kafkalog.RecordBatchBuilder(base_offset=5)
        >>> batch.append(b"k", b"v", timestamp=1700000000000)
        >>> with tempfile.TemporaryDirectory(suffix="-0") as directory:
        ...     file = Path(directory, "00000000000000000005.log")
        ...     _ = file.write_bytes(batch.build())
        ...     kafkalog.Log(directory).offsets_for_times([0, 1800000000000])
        array([ 5, -1])
        """
        start = self.log_start_offset
        return for_each_time(
            timestamps, lambda ms: find_offset_for_time(self.path, ms, start)
        )

    def _checkpointed(self, name: str, default: int) -> int:
        """Return this partition's offset in a checkpoint of the log directory."""
        offsets = read_offsets_or_none(self.path.absolute().parent, name)
        return offsets.get((self.topic, self.partition), default)


def entry_steps(
    path: Location,
    offset: int,
    end: int = MAX_OFFSET,
    first_bytes: int = FIRST_STEP_BYTES,
    errors: list[LocatedError] | None = None,
) -> Iterator[Step]:
    """Yield the batches that reach `offset` and begin before `end`.

    With a list for errors, corrupt batches are skipped and their errors appended; else
    the first one is raised.
    """
    policy = STRICT if errors is None else SKIPPING
    for _, step in open_entry_steps(path, offset, end, first_bytes, policy, errors):
        yield step


def open_entry_steps(
    path: Location,
    offset: int,
    end: int,
    first_bytes: int,
    policy: ReadPolicy = STRICT,
    errors: list[LocatedError] | None = None,
) -> Iterator[tuple[OpenedSource, Step]]:
    """Yield the same batches, each step with the open file that it is from."""

    def in_interval(rows: BatchHeaders) -> tuple[npt.NDArray[np.bool_], bool]:
        following = rows["last_offset"] >= offset
        return following & (rows["base_offset"] < end), False

    segments = from_offset(list_segments(path), offset)
    for segment, source in read_on(path, segments):
        start = segment.position_for(source, offset)
        records = segment.records(source, start, in_interval, first_bytes, policy)
        for step in records:
            if isinstance(step, Step):
                yield source, step
                offset = int(step.rows["last_offset"][-1]) + 1
            elif errors is not None:
                errors.append(step.error)
        lost = find_lost_tail(path, segment, records)
        if lost is not None and lost.first_offset < end:
            if errors is None:
                raise lost.error
            errors.append(lost.error)


def _within(rows: BatchHeaders, max_bytes: int) -> BatchHeaders:
    """Return the first of `rows`, and those that fit into `max_bytes` with it."""
    ends = np.cumsum(rows["size_in_bytes"])
    return rows[: max(1, int(np.searchsorted(ends, max_bytes, side="right")))]


def producer_states_at(
    path: Location, end: int, errors: list[LocatedError] | None = None
) -> npt.NDArray[np.void]:
    """Return the state of each producer at the log's end, as `Log` does.

    With a list for errors, corrupt batches are skipped as by `entry_steps`.
    """
    segments = list_segments(path)
    first = segments[0].base_offset if segments else 0
    none = np.empty(0, ENTRY), first
    entries, offset = newest_snapshot(path, end, first) or none
    producers = from_entries(entries)
    for step in entry_steps(path, offset, errors=errors):
        apply(producers, step)
    return as_entries(producers)


def aborted_between(path: Location, first: int, last: int) -> npt.NDArray[np.void]:
    """Return the aborted transactions of records in ``[first, last)``."""
    parts = [np.empty(0, TransactionIndex.ENTRY)]
    for segment in from_offset(list_segments(path), first):
        index_path = segment.path.with_suffix(".txnindex")
        if index_path.exists():
            index = TransactionIndex.read(index_path, segment.base_offset)
            parts.append(index.aborted(first, last))
            if index.covers(last):
                break
    return np.concatenate(parts)


def segments_html(title: str, segments: Sequence[LogSegment]) -> str:
    """Return an HTML table of the last segments: their names and sizes."""
    last = segments[-LISTED_SEGMENTS:]
    rows = [(segment.name, _size_of(segment)) for segment in last]
    more = len(segments) - len(rows)
    footer = counted(more, "earlier segment") if more else ""
    return html_table(title, ("segment", "bytes"), rows, footer)


def _size_of(segment: LogSegment) -> int | str:
    """Return a segment's size, "?" if it was removed since it was listed."""
    try:
        return segment.size_in_bytes
    except FileNotFoundError:
        return "?"


def find_end(
    directory: Location, log_start_offset: int = 0, *, past_damage: bool = False
) -> int:
    """Return the offset after the last valid batch; at least the log start offset.

    That is the last batch before damage, where recovery truncates; with `past_damage`,
    the last valid batch of all.
    """
    end = log_start_offset
    for segment, source in read_on(directory, list_segments(directory)[-1:]):
        end = max(end, segment.next_offset(source, past_damage=past_damage))
    return end


def find_stable(
    directory: Location,
    log_start: int,
    end: int,
    *,
    start: int | None = None,
    policy: ReadPolicy = STRICT,
) -> int:
    """Return the last stable offset of a log from `log_start` to `end`.

    It is not below `log_start`, though a transaction may have begun there. The newest
    producer snapshot lists the transactions open at its offset. The log is read from
    there. With `start`, the snapshot is that of a reading from this offset:
    where damage is skipped, another one may have other open transactions.
    """
    first = end if start is None else min(start, end)
    stable = replay_partition(directory, first, end, policy).last_stable_offset
    return min(max(stable, log_start), end)


def find_offset_for_time(
    directory: Location, timestamp: int, start: int, policy: ReadPolicy = STRICT
) -> int:
    """Return the first offset at or above both timestamp and start offset, else -1."""
    bounds = Bounds(start_offset=start, start_timestamp=timestamp)

    def late(rows: BatchHeaders) -> tuple[npt.NDArray[np.bool_], bool]:
        timed = (rows["magic"] < 2) | (rows["max_timestamp"] >= timestamp)
        return timed & (rows["last_offset"] >= bounds.start_offset), False

    for segment, source in read_on(directory, list_segments(directory)):
        bounds = replace(bounds, start_offset=max(start, segment.start_offset))
        position = segment.position_for_time(source, timestamp)
        records = segment.records(source, position, late, policy=policy)
        for step in records:
            first = _first_offset(step, bounds, segment)
            if first is not None:
                return first
        lost = find_lost_tail(directory, segment, records)
        if lost is not None and lost.last_offset >= start and not policy.skips:
            raise lost.error
    return NOT_FOUND


def _first_offset(
    step: Step | Skipped, bounds: Bounds, segment: LogSegment
) -> int | None:
    """Return the offset of the first record of a step within bounds."""
    if isinstance(step, Skipped):
        return None
    results = decode(
        step.data,
        step.origin,
        step.rows,
        bounds=bounds,
        limit=MAX_BATCH_BYTES,
        workspace=Workspace(),
    )
    for views in results:
        if isinstance(views, LocatedError):
            raise views.located(segment.path)
        return int(views.records["offset"][0])
    return None


def for_each_time(
    timestamps: Times, find: Callable[[int], int]
) -> npt.NDArray[np.int64]:
    """Return the result of `find` for each of many timestamps, in their shape."""
    times = all_as_ms(timestamps)
    distinct, places = np.unique(times, return_inverse=True)
    results = [find(int(time)) for time in distinct]
    return np.array(results, np.int64)[places].reshape(times.shape)
