"""`Log`: one partition's log, opened for reading.

A log that is open for reading changes no file, and a broker may be writing to it. Each
call reads the files as they are at that time.

Source: ``UnifiedLog.java``, ``LocalLog.java``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from kafkalog.decoding.read_policy import (
    Isolation,
    ReadPolicy,
)
from kafkalog.errors import (
    NotALogDirectoryError,
    OffsetOutOfRangeError,
    ReadOnlyLogError,
)
from kafkalog.formats.checkpoint import EpochEntry, parse_epochs
from kafkalog.formats.timestamps import Times
from kafkalog.log.producers.producer_state import producer_states_at
from kafkalog.log.readable_log import MAX_READ_BYTES, LogRead, segments_html
from kafkalog.log.reading.log_segments import (
    entry_steps,
    list_first,
    list_segments,
    rows_within,
)
from kafkalog.log.reading.offset_lookup import (
    find_end,
    find_offsets_for_times,
    for_each_time,
)
from kafkalog.log.reading.remote_offsets import (
    MissingStart,
    find_missing_start,
    log_start_in,
)
from kafkalog.log.reading.transactions import (
    Transactions,
    aborted_between,
    find_stable,
    replay_partition,
)
from kafkalog.segment.file_records import (
    FIRST_STEP_BYTES,
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
from kafkalog.storage.location import AnyPath, locate, no_such_path

if TYPE_CHECKING:
    from socket import socket

HEADERS: Final = ReadPolicy(needs="headers", check_crcs="never")
"""Only headers are read, and no CRC is checked."""
WRITING_METHODS: Final = (
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


class Log:
    """A partition's log, opened for reading; made by ``kafkalog.open``.

    Nothing is kept between calls, as a broker may be writing to the log: each property
    and method lists the directory, and reads what it needs. Keep a result that is
    needed several times. `log_end_offset` reads the last segment from its last index
    entry on; `high_watermark` needs it, too. `last_stable_offset` also reads from the
    newest producer snapshot to the end.

    Parameters
    ----------
    path : str, path-like or URL
        The directory of a partition.
    memory_map : bool
        Whether local segments are mapped to be read, see `kafkalog.scan`.

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

    def __init__(self, path: AnyPath, *, memory_map: bool = False) -> None:
        self._policy = ReadPolicy(memory_map=memory_map)
        self.path = locate(path)
        if not self.path.is_dir():
            if self.path.exists():
                raise NotALogDirectoryError(f"not a partition's directory: {self.path}")
            raise no_such_path(self.path)
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
            if name in WRITING_METHODS:
                raise ReadOnlyLogError(
                    f"{name}: the log is open for reading, expected mode 'a': "
                    f"{self.path}"
                )
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    @property
    def segments(self) -> tuple[LogSegment, ...]:
        """The segments, in order of their base offsets, from a new listing."""
        return tuple(list_segments(self.path))

    @property
    def log_start_offset(self) -> int:
        """The first offset: as checkpointed, else that of the first segment.

        That of a tiered partition is in remote storage; see `missing_start`.
        """
        return self._start_in(list_first(self.path))

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
        """The offset after the last valid batch, which the next record will have.

        Each time, the last segment is read from its last index entry on: usually some
        kilobytes, all of it without an index.
        """
        return self._end_in(list_segments(self.path))

    @property
    def high_watermark(self) -> int:
        """The first offset not known to be replicated, as checkpointed.

        Without a checkpoint, and if it is beyond the end, that is the log end offset.
        """
        segments = list_segments(self.path)
        start, end = self._start_in(segments), self._end_in(segments)
        high = self._checkpointed(HIGH_WATERMARKS, end)
        return min(max(high, start), end)

    @property
    def last_stable_offset(self) -> int:
        """The first offset of the first undecided transaction, else the log end.

        It is not below the log start offset, even if the transaction began there.
        """
        segments = list_segments(self.path)
        start, end = self._start_in(segments), self._end_in(segments)
        return find_stable(self.path, segments, start, end)

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
        segments = list_segments(self.path)
        return producer_states_at(self.path, segments, self._end_in(segments))

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
        return aborted_between(list_segments(self.path), first, last)

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
            Maximum number of bytes to read. The first batch is returned even if it is
            larger. No batch of the next segment is returned.
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
        segments = list_segments(self.path)
        limit, transactions = self._limit_of_read(segments, offset, isolation)
        first_bytes = max(max_bytes, FIRST_STEP_BYTES)
        for _, step in entry_steps(
            self.path,
            segments,
            offset,
            limit,
            first_bytes=first_bytes,
            policy=self._policy,
        ):
            rows = rows_within(step.rows, max_bytes)
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
            Maximum number of bytes to send. The first batch is sent even if it is
            larger. No batch of the next segment is sent.
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
        segments = list_segments(self.path)
        limit, _ = self._limit_of_read(segments, offset, isolation)
        first_bytes = max(max_bytes, FIRST_STEP_BYTES)
        for source, step in entry_steps(
            self.path, segments, offset, limit, first_bytes=first_bytes, policy=HEADERS
        ):
            rows = rows_within(step.rows, max_bytes)
            size = int(rows["size_in_bytes"].sum())
            return source.send_to(socket, int(rows["position"][0]), size)
        return 0

    def _limit_of_read(
        self, segments: list[LogSegment], offset: int, isolation: str
    ) -> tuple[int, Transactions | None]:
        """Return the end of a read, and the transactions for ``read_committed``."""
        if isolation not in ("log_end", *get_args(Isolation)):
            names = ", ".join(("log_end", *get_args(Isolation)))
            raise ValueError(f"isolation {isolation!r}, expected one of {names}")
        start, end = self._start_in(segments), self._end_in(segments)
        if not start <= offset <= end:
            raise OffsetOutOfRangeError(f"offset {offset}, expected {start} to {end}")
        if isolation != "read_committed":
            return end, None
        transactions = replay_partition(self.path, segments, start, end)
        return min(end, transactions.last_stable_offset), transactions

    def offsets_for_times(self, timestamps: Times) -> npt.NDArray[np.int64]:
        """Return the first offset at or after each of many timestamps.

        Parameters
        ----------
        timestamps : array_like of int, datetime or datetime64
            Times, in ms since 1970, as aware datetimes or texts, of any shape. Negative
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
        segments = list_segments(self.path)
        start = self._start_in(segments)
        return for_each_time(
            timestamps,
            lambda times: find_offsets_for_times(self.path, segments, times, start),
        )

    def _start_in(self, segments: list[LogSegment]) -> int:
        """Return the log start offset, with the segments of one listing."""
        return log_start_in(self.path, segments, self._log_start)

    def _end_in(self, segments: list[LogSegment]) -> int:
        """Return the log end offset, with the segments of one listing."""
        return find_end(self.path, segments, self._checkpointed(LOG_STARTS, 0))

    def _checkpointed(self, name: str, default: int) -> int:
        """Return this partition's offset in a checkpoint of the log directory."""
        offsets = read_offsets_or_none(self.path.absolute().parent, name)
        return offsets.get((self.topic, self.partition), default)
