"""`WritableLog`: one partition's log, open for writing, as Kafka's broker writes it.

Every method runs with the lock of the log held. If the disk fails during a method, it
raises that `OSError` and closes the log. An interrupt, or any other exception that is
not a `KafkaLogError`, closes the log as well. From then on only `close`, `abandon` and
attributes can be used.

Source: ``UnifiedLog.java``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from kafkalog.config import LogConfig
from kafkalog.encoding.batch_encoder import DEFAULT_BATCH_BYTES
from kafkalog.encoding.producer_batches import into_producer_batches
from kafkalog.encoding.record_input import RecordsLike, record_columns
from kafkalog.errors import KafkaLogError, LogArgumentError, RecordsRefusedError
from kafkalog.formats.batch_headers import BytesLike
from kafkalog.formats.checkpoint import EpochEntry
from kafkalog.formats.layout import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    CodecName,
)
from kafkalog.formats.timestamps import Times
from kafkalog.indexes.txn_index import AbortedTransaction
from kafkalog.integer_limits import MAX_INT32
from kafkalog.log import deletion, retention, truncation, watermarks
from kafkalog.log.appending import Appender, AppendResult, Outcome, integer
from kafkalog.log.clock import Task
from kafkalog.log.closing import ClosedAtEnd
from kafkalog.log.flushing import close_in_order, flush, flush_unlocked
from kafkalog.log.leader_epochs import EpochEnd
from kafkalog.log.log_fetch import (
    LogFetch,
    aborted_in_indexes,
    open_batches,
    read_log,
)
from kafkalog.log.offset_metadata import OffsetMetadata
from kafkalog.log.ownership import Name, OwnedDirectory
from kafkalog.log.producers.producer_append import TV_UNKNOWN
from kafkalog.log.producers.producer_entry import NO_GUARD, ProducerStateEntry
from kafkalog.log.producers.producer_state import producer_states_at
from kafkalog.log.readable_log import MAX_READ_BYTES, segments_html
from kafkalog.log.reading.log_segments import list_segments
from kafkalog.log.reading.offset_lookup import NOT_FOUND, for_each_time
from kafkalog.log.reading.remote_offsets import MissingStart
from kafkalog.log.reading.transactions import aborted_between
from kafkalog.log.record_appends import AppendedRecords, batch_settings
from kafkalog.log.recovery.recovery_report import RecoveryReport
from kafkalog.log.replaceable_segments import ReplaceableSegments
from kafkalog.log.rolling import roll
from kafkalog.log.state import LogState
from kafkalog.log.time_lookup import TimestampOffset, find_record, find_visible_offset
from kafkalog.log.topic_settings import require_settings
from kafkalog.log.watermarks import LogIsolation, read_limit_of
from kafkalog.renamed import missing_attribute
from kafkalog.segment.growing_segment import GrowingSegment
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.file_names import MAX_OFFSET, parse_partition_dir
from kafkalog.storage.location import locate
from kafkalog.validation.append_analysis import as_view, as_views
from kafkalog.validation.appends import Origin

if TYPE_CHECKING:
    from socket import socket


def _only(outcomes: list[Outcome]) -> AppendResult:
    """Return the result of the only append; raise its error if it was rejected."""
    [outcome] = outcomes
    if isinstance(outcome, KafkaLogError):
        raise outcome
    return outcome


class WritableLog(ClosedAtEnd):
    """A partition's log, open for writing; made by ``kafkalog.open(path, "a")``.

    Attributes
    ----------
    path : Path
        The partition's directory.
    topic : str
        The topic, empty if the directory's name has none.
    partition : int
        The partition, -1 if the directory's name has none.
    report : RecoveryReport
        The data that was recovered, removed or lost when the log was opened.

    Examples
    --------
    >>> import tempfile, kafkalog
    >>> with tempfile.TemporaryDirectory() as root:
    ...     with kafkalog.open(f"{root}/orders-0", "a") as log:
    ...         appended = log.append_records({"value": [b"1", b"2"]})
    ...         log.topic, log.log_end_offset, appended.offsets
    ('orders', 2, array([0, 1]))
    """

    def __init__(self, state: LogState, report: RecoveryReport, expiry: Task) -> None:
        self._log = state
        self.runtime = state.runtime
        self._expiry = expiry
        self._appender = Appender(state)
        self.owned_directory: OwnedDirectory | None = None
        self.report = report
        self.path = locate(state.directory)
        name = parse_partition_dir(state.directory.absolute().name)
        self.topic, self.partition = (name.topic, name.partition) if name else ("", -1)
        self._name: Name = self.topic, self.partition

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise missing_attribute(type(self), name, {"cuts": "truncations"})

    def __repr__(self) -> str:
        return f"<WritableLog {self.path}>"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the segments' names and sizes."""
        return segments_html(f"WritableLog {self.path}", self.segments)

    # State

    @property
    def segments(self) -> tuple[LogSegment, ...]:
        """The segments, as files, in order of their base offsets."""
        return tuple(list_segments(self.path))

    @property
    def config(self) -> LogConfig:
        """The present settings."""
        return self._log.config

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        return self._log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record will have."""
        return self._log.log_end_offset

    @property
    def log_start_to_checkpoint(self) -> int | None:
        """The log start offset to checkpoint; None if it is the first segment's."""
        with self.runtime.lock:
            return self._log.log_start_to_checkpoint

    @property
    def keeps_log_start(self) -> bool:
        """Whether the log start offset is checkpointed also below the first segment.

        This is so for a tiered partition.
        """
        return self._log.keeps_log_start

    @property
    def missing_start(self) -> MissingStart | None:
        """The offsets before the first segment, in remote storage or lost, or None."""
        with self.runtime.lock:
            return self._log.missing_start

    @property
    def high_watermark(self) -> int:
        """The first offset not known to be replicated, as set by the caller."""
        return self._log.high_watermark.offset

    @property
    def last_stable_offset(self) -> int:
        """The first offset of an undecided transaction, at most the high watermark."""
        return watermarks.last_stable_offset(self._log)

    @property
    def recovery_point(self) -> int:
        """The first offset not known to be forced to disk."""
        return self._log.recovery_point

    @property
    def truncations(self) -> int:
        """How often the log was truncated since it was opened."""
        return self._log.truncations

    @property
    def last_flushed_ms(self) -> int:
        """The time of the last flush, or of opening, in ms since 1970."""
        return self._log.last_flushed_ms

    @property
    def leader_epochs(self) -> list[EpochEntry]:
        """Each leader epoch and its start offset."""
        return self._log.leader_epochs.entries

    @property
    def topic_id(self) -> str | None:
        """The topic's id, in Kafka's text form, or None."""
        return self._log.topic_id_file.topic_id

    @property
    def growing_segments(self) -> tuple[GrowingSegment, ...]:
        """The segments, as they are written, in order of their base offsets."""
        with self.runtime.lock:
            return tuple(self._log.segments)

    @property
    def producers(self) -> Mapping[int, ProducerStateEntry]:
        """The present state of each producer, by its id."""
        with self.runtime.lock:
            return self._log.producers.copied()

    # Appending. Arguments that are not bytes raise before the lock is taken.

    def append(
        self,
        batches: BytesLike,
        *,
        leader_epoch: int | None = None,
        origin: Origin = "client",
        guard: int = NO_GUARD,
        transaction_version: int = TV_UNKNOWN,
    ) -> AppendResult:
        """Append record batches as a leader: validate them, assign offsets, write.

        Parameters
        ----------
        batches : bytes-like
            One or more record batches.
        leader_epoch : int, optional
            The leader epoch to write, by default the latest one of the log, or 0.
        origin : {"client", "coordinator", "replication", "raft_leader"}
            ``coordinator`` is for transaction markers, which need a
            `transaction_version`.
        guard : int
            The guard returned by `start_verification`.
        transaction_version : int
            The transaction version of a marker: 0, 1 or 2.

        Returns
        -------
        AppendResult
            The offsets of the records, and other results.

        Raises
        ------
        InvalidAppendError
            If the append is rejected: one of the classes derived from it.
        CorruptRecordError
            If a batch is corrupt.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> batch = kafkalog.RecordBatchBuilder()
        >>> batch.append(b"k", b"v", timestamp=1700000000000)
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.open(f"{root}/orders-0", "a") as log:
        ...         log.append(batch.build()).last_offset
        0
        """
        views = [as_view(batches)]
        with self.runtime.lock, self.runtime.guard():
            appender = self._appender
            policy = appender.policy(origin, leader_epoch, guard, transaction_version)
            return _only(appender.append(views, policy))

    def append_many(
        self,
        appends: Sequence[BytesLike],
        *,
        leader_epoch: int | None = None,
        origin: Origin = "client",
        guard: int = NO_GUARD,
        transaction_version: int = TV_UNKNOWN,
    ) -> list[Outcome]:
        """Append many buffers of batches in one call, as `append` does one.

        Parameters
        ----------
        appends : sequence of bytes-like
            The batches of each append.
        leader_epoch, origin, guard, transaction_version : optional
            As for `append`.

        Returns
        -------
        list of AppendResult or KafkaLogError
            For each append its result, or the error with which it was rejected.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> batch = kafkalog.RecordBatchBuilder()
        >>> batch.append(b"k", b"v", timestamp=1700000000000)
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.open(f"{root}/orders-0", "a") as log:
        ...         results = log.append_many([batch.build(), batch.build()])
        ...         [result.last_offset for result in results]
        [0, 1]
        """
        views = as_views(appends)
        with self.runtime.lock, self.runtime.guard():
            appender = self._appender
            policy = appender.policy(origin, leader_epoch, guard, transaction_version)
            return appender.append(views, policy)

    def append_records(
        self,
        records: RecordsLike,
        *,
        codec: CodecName | None = None,
        level: int | None = None,
        batch_bytes: int = DEFAULT_BATCH_BYTES,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
        leader_epoch: int | None = None,
        guard: int = NO_GUARD,
        transaction_version: int = TV_UNKNOWN,
        on_refused: Literal["raise", "return"] = "raise",
    ) -> AppendedRecords:
        """Append records as a leader, in batches such as a producer sends.

        All records are in memory at once. Append large data in chunks, such as those of
        ``scan.chunks()``. If the records take more than 2 MB, a thread named
        ``kafkalog-encode`` encodes batches while others are written. It ends with the
        call.

        As with `append_many`, the other batches are appended if one is rejected. An
        error with the rejected records is then raised, or they are in the result.

        Parameters
        ----------
        records : table, mapping, Scan, Records or iterable of rows
            Columns: a table of Arrow, pandas or Polars, a mapping of arrays or lists, a
            `Scan` or its `Records`. Or rows: mappings, or objects with attributes, such
            as `Record`. The columns are ``key`` and ``value`` (bytes or text; at least
            one of the two), ``headers`` (lists of pairs) and ``timestamp`` (ms since
            1970, ``datetime64`` or a time of Arrow's; -1 or null for none). Without
            timestamps the present time is used. Other columns of a scan, such as the
            offsets, are ignored.
        codec : {"none", "gzip", "snappy", "lz4", "zstd"}, optional
            The codec, by default that of ``compression.type``, or none.
        level : int, optional
            The compression level, by default that of the topic, or of the codec.
        batch_bytes : int
            The size of a batch before compression. A batch has at least one record.
        producer_id, producer_epoch, is_transactional : optional
            The fields of the batch headers.
        base_sequence : int
            The sequence of the first record.
        leader_epoch, guard, transaction_version : optional
            As for `append`.
        on_refused : {"raise", "return"}
            Whether to raise an error if a batch is rejected, or to list it in `refused`
            of the result.

        Returns
        -------
        AppendedRecords
            The offsets of the records, and the batches that were rejected.

        Raises
        ------
        RecordsRefusedError
            If a batch was rejected, and `on_refused` is ``"raise"``. Its `refused` has
            the records and the reasons, its `result` the offsets of the others.
        UnfitRecordsError
            If `records` cannot be converted; the error lists all faults.
        InvalidRecordError, ConfigError
            If no batch can have these records, or there is no such codec or level.
            Nothing was appended.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.open(f"{root}/orders-0", "a") as log:
        ...         columns = {"key": [b"a", None], "value": [b"1", b"2"]}
        ...         appended = log.append_records(columns)
        ...         appended.offsets, appended.refused
        (array([0, 1]), [])
        """
        if on_refused not in ("raise", "return"):
            raise LogArgumentError(
                f"on_refused {on_refused!r}, expected one of raise, return"
            )
        columns = record_columns(records, self.runtime.now_ms())
        settings = batch_settings(
            self.config,
            codec,
            level,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            is_transactional=is_transactional,
        )
        batches = into_producer_batches(columns, settings, batch_bytes)
        with self.runtime.lock, self.runtime.guard():
            appender = self._appender
            policy = appender.policy("client", leader_epoch, guard, transaction_version)
            outcomes = appender.append_records(batches, policy)
        appended = AppendedRecords(outcomes, batches.split.bounds)
        if appended.refused and on_refused == "raise":
            raise RecordsRefusedError(appended)
        return appended

    def append_as_follower(
        self, batches: BytesLike, *, leader_epoch: int | None = None
    ) -> AppendResult:
        """Append record batches as a follower, with the leader's offsets and epochs.

        Parameters
        ----------
        batches : bytes-like
            Record batches of a leader's log.
        leader_epoch : int, optional
            The leader epoch of the follower, by default the latest one of the log, or
            0. Batches from the first one of a higher epoch on are skipped.

        Returns
        -------
        AppendResult
            The offsets of the records, and other results.

        Raises
        ------
        InvalidAppendError
            If the append is rejected: one of the classes derived from it.
        CorruptRecordError
            If a batch is corrupt.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> batch = kafkalog.RecordBatchBuilder(base_offset=5, leader_epoch=0)
        >>> batch.append(b"k", b"v", timestamp=1700000000000)
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.open(f"{root}/orders-0", "a") as log:
        ...         log.append_as_follower(batch.build()).last_offset
        5
        """
        return _only(self.append_many_as_follower([batches], leader_epoch=leader_epoch))

    def append_many_as_follower(
        self, appends: Sequence[BytesLike], *, leader_epoch: int | None = None
    ) -> list[Outcome]:
        """Append many buffers of batches in one call, as `append_as_follower` does one.

        Parameters
        ----------
        appends : sequence of bytes-like
            The batches of each append.
        leader_epoch : int, optional
            As for `append_as_follower`.

        Returns
        -------
        list of AppendResult or KafkaLogError
            For each append its result, or the error with which it was rejected.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> batch = kafkalog.RecordBatchBuilder(base_offset=5, leader_epoch=0)
        >>> batch.append(b"k", b"v", timestamp=1700000000000)
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.open(f"{root}/orders-0", "a") as log:
        ...         results = log.append_many_as_follower([batch.build()])
        >>> results[0].last_offset
        5
        """
        views, outcomes = as_views(appends), list[Outcome]()
        with self.runtime.lock, self.runtime.guard():
            self._log.leads_alone = False  # the leader knows the high watermark
            appender = self._appender
            # Without an epoch, each append may change the latest one.
            calls = [[view] for view in views] if leader_epoch is None else [views]
            for call in calls:
                policy = appender.policy("replication", leader_epoch, as_follower=True)
                outcomes += appender.append(call, policy)
        return outcomes

    def start_verification(
        self,
        producer_id: int,
        sequence: int,
        epoch: int,
        *,
        supports_epoch_bump: bool = False,
    ) -> int:
        """Start the verification of a transaction, and return the guard to append with.

        Parameters
        ----------
        producer_id : int
            The producer's id.
        sequence : int
            The base sequence of the batch to append.
        epoch : int
            The producer's epoch.
        supports_epoch_bump : bool
            Whether the transaction has version 2.

        Returns
        -------
        int
            The guard; 0 if the transaction is open already, and needs none.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> columns = {"value": [b"v"]}
        >>> producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.open(f"{root}/orders-0", "a") as log:
        ...         guard = log.start_verification(7, 0, 0)
        ...         appended = log.append_records(
        ...             columns, is_transactional=True, guard=guard, **producer
        ...         )
        ...         appended.offsets, log.start_verification(7, 1, 0)
        (array([0]), 0)
        """
        with self.runtime.lock, self.runtime.guard():
            return self._log.producers.start_verification(
                producer_id, sequence, epoch, supports_epoch_bump
            )

    # Leadership and replication

    def assign_epoch(self, epoch: int, offset: int | None = None) -> None:
        """Start a leader epoch.

        Parameters
        ----------
        epoch : int
            The epoch.
        offset : int, optional
            Its start offset, by default the log end offset.

        Raises
        ------
        LogArgumentError
            If the epoch is not an int32, or the offset not an int64, from 0 on.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.open(f"{root}/orders-0", "a") as log:
        ...         log.assign_epoch(3)
        ...         log.leader_epochs
        [EpochEntry(epoch=3, start_offset=0)]
        """
        with self.runtime.lock, self.runtime.guard():
            start = self._log.log_end_offset if offset is None else offset
            self._log.leader_epochs.assign(
                integer("leader epoch", epoch, MAX_INT32),
                integer("start offset", start),
            )

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd | None:
        """Return the greatest known epoch up to `epoch`, and its end offset.

        Parameters
        ----------
        epoch : int
            A leader epoch.

        Returns
        -------
        EpochEnd or None
            The epoch and the first offset after it; None if they are unknown.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.open(f"{root}/orders-0", "a") as log:
        ...         log.assign_epoch(3)
        ...         log.end_offset_for_epoch(3)
        EpochEnd(epoch=3, end_offset=0)
        """
        with self.runtime.lock, self.runtime.guard():
            epoch = integer("leader epoch", epoch)
            end = self._log.log_end_offset
            return self._log.leader_epochs.end_offset_for(epoch, end)

    def start_high_watermark(self, checkpointed: int | None, *, is_alone: bool) -> None:
        """Set the high watermark of a log that was opened, from its checkpoint.

        Parameters
        ----------
        checkpointed : int or None
            The checkpointed high watermark, if there is one.
        is_alone : bool
            Whether there is no other replica. The high watermark is then set to the log
            end offset when the log is closed, unless the caller sets it, or it was
            below the log end offset before.

        Examples
        --------
        >>> from pathlib import Path
        >>> import tempfile, kafkalog
        >>> from kafkalog.log.recovery.log_loading import load_log
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with load_log(Path(root, "orders-0")) as log:
        ...         log.start_high_watermark(None, is_alone=True)
        ...         log.leads_alone
        True
        """
        with self.runtime.lock, self.runtime.guard():
            log = self._log
            place = OffsetMetadata(checkpointed or 0)
            watermarks.update_high_watermark(log, place)
            is_at_end = checkpointed is None or checkpointed >= log.log_end_offset
            log.leads_alone = is_alone and is_at_end

    @property
    def leads_alone(self) -> bool:
        """Whether closing the log sets the high watermark to the log end offset."""
        return self._log.leads_alone

    @property
    def end_after_closing(self) -> int:
        """The log end offset that the log has when it is opened again."""
        return self._log.end_after_closing

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, limited to log start and log end offset.

        The caller keeps setting it then. Otherwise, if no other replica has the log,
        closing the log sets it to the log end offset.

        Parameters
        ----------
        offset : int
            The new high watermark.

        Returns
        -------
        int
            The high watermark that was set.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.open(f"{root}/orders-0", "a") as log:
        ...         appended = log.append_records({"value": [b"1", b"2"]})
        ...         log.update_high_watermark(9)
        2
        """
        with self.runtime.lock, self.runtime.guard():
            place = OffsetMetadata(integer("high watermark", offset))
            self._log.leads_alone = False
            return watermarks.update_high_watermark(self._log, place)

    def increment_high_watermark(self, offset: int) -> bool:
        """Raise the high watermark, as a leader does.

        Parameters
        ----------
        offset : int
            The new high watermark. A lower one than the present is ignored. It may be
            inside a batch; reading up to it then lowers it to the start of the batch.

        Returns
        -------
        bool
            Whether the high watermark has moved.

        Raises
        ------
        LogArgumentError
            If `offset` is above the log end offset.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.open(f"{root}/orders-0", "a") as log:
        ...         appended = log.append_records({"value": [b"1", b"2"]})
        ...         log.increment_high_watermark(2), log.high_watermark
        (True, 2)
        """
        with self.runtime.lock, self.runtime.guard():
            offset = integer("high watermark", offset)
            self._log.leads_alone = False
            place = watermarks.offset_metadata_or_unknown(self._log, offset)
            if place.offset != offset:  # inside a batch
                place = OffsetMetadata(offset)
            return watermarks.increment_high_watermark(self._log, place)

    # Maintenance

    def roll(self, offset: int = 0) -> int:
        """Start a new segment.

        Parameters
        ----------
        offset : int
            Its base offset, if that is above the log end offset. By default the new
            segment begins at the log end.

        Returns
        -------
        int
            The base offset of the new segment.

        Raises
        ------
        LogRollError
            If a segment begins at this offset or above.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.open(f"{root}/orders-0", "a") as log:
        ...         appended = log.append_records({"value": [b"1", b"2"]})
        ...         log.roll(), len(log.segments)
        (2, 2)
        """
        with self.runtime.lock, self.runtime.guard():
            return roll(self._log, integer("offset", offset)).base_offset

    def flush(self, offset: int | None = None, *, include_active: bool = False) -> None:
        """Force records to disk with ``fsync``, and raise the recovery point.

        The log can be read and appended to meanwhile.

        Parameters
        ----------
        offset : int, optional
            The offset below which records are forced to disk, by default the log end
            offset.
        include_active : bool
            Whether the files of an active segment that is empty are forced, too.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.open(f"{root}/orders-0", "a") as log:
        ...         appended = log.append_records({"value": [b"1", b"2"]})
        ...         log.flush()
        ...         log.recovery_point
        2
        """
        if offset is not None:
            offset = integer("offset", offset)
        with self.runtime.guard():  # without the lock
            flush_unlocked(self._log, offset, inclusive=include_active)

    def delete_old_segments(self) -> int:
        """Delete the segments that the retention settings no longer keep.

        Returns
        -------
        int
            The number of deleted segments.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> config = kafkalog.LogConfig(retention_ms=0)
        >>> columns = {"value": [b"v"], "timestamp": [1700000000000]}
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.open(f"{root}/orders-0", "a", config) as log:
        ...         appended = log.append_records(columns)
        ...         _ = log.update_high_watermark(1)
        ...         log.delete_old_segments(), log.log_start_offset
        (1, 1)
        """
        with self.runtime.lock, self.runtime.guard():
            return retention.delete_old_segments(self._log)

    def delete_records(self, offset: int) -> bool:
        """Raise the log start offset; the records below it can no longer be read.

        Parameters
        ----------
        offset : int
            The new log start offset.

        Returns
        -------
        bool
            Whether the log start offset has moved.

        Raises
        ------
        OffsetOutOfRangeError
            If `offset` is above the high watermark.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.open(f"{root}/orders-0", "a") as log:
        ...         appended = log.append_records({"value": [b"1", b"2"]})
        ...         _ = log.update_high_watermark(2)
        ...         log.delete_records(1), log.log_start_offset
        (True, 1)
        """
        with self.runtime.lock, self.runtime.guard():
            offset = integer("log start offset", offset)
            return watermarks.raise_log_start(self._log, offset)

    def truncate_to(self, offset: int) -> bool:
        """Truncate the log: remove the records at `offset` and after it.

        A batch that holds `offset` is removed whole.

        Parameters
        ----------
        offset : int
            The new log end offset.

        Returns
        -------
        bool
            Whether there was a record to remove.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.open(f"{root}/orders-0", "a") as log:
        ...         for value in (b"1", b"2"):
        ...             appended = log.append_records({"value": [value]})
        ...         log.truncate_to(1), log.log_end_offset
        (True, 1)
        """
        with self.runtime.lock, self.runtime.guard():
            offset = integer("offset", offset)
            return truncation.truncate_to(
                self._log, offset, self.owned_directory, self._name
            )

    def truncate_fully(self, offset: int, log_start_offset: int | None = None) -> None:
        """Remove all records, and continue at `offset`.

        Parameters
        ----------
        offset : int
            The new log end offset.
        log_start_offset : int, optional
            The new log start offset, by default `offset`.

        Raises
        ------
        LogArgumentError
            If one of them is below 0.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.open(f"{root}/orders-0", "a") as log:
        ...         log.truncate_fully(7)
        ...         log.log_start_offset, log.log_end_offset
        (7, 7)
        """
        with self.runtime.lock, self.runtime.guard():
            offset = integer("offset", offset)
            start = offset
            if log_start_offset is not None:
                start = integer("log start offset", log_start_offset)
            truncation.truncate_fully(
                self._log, offset, self.owned_directory, self._name, start
            )

    def update_config(self, config: LogConfig) -> None:
        """Change the settings; existing segments keep their index settings.

        Parameters
        ----------
        config : LogConfig
            The new settings.

        Raises
        ------
        LogArgumentError
            If `config` is not a `LogConfig`.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.open(f"{root}/orders-0", "a") as log:
        ...         log.update_config(kafkalog.LogConfig(retention_bytes=1 << 30))
        ...         log.config.retention_bytes
        1073741824
        """
        with self.runtime.lock, self.runtime.guard():
            require_settings("config", config, LogConfig)
            self._log.config = config

    @property
    def replaceable_segments(self) -> ReplaceableSegments:
        """The segments, for a cleaner, which puts others in their place."""
        return ReplaceableSegments(self._log)

    def take_producer_snapshot(self) -> None:
        """Write a producer snapshot at the log end offset.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> from pathlib import Path
        >>> producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.open(f"{root}/orders-0", "a") as log:
        ...         appended = log.append_records({"value": [b"v"]}, **producer)
        ...         log.take_producer_snapshot()
        ...         [path.name for path in Path(root).rglob("*.snapshot")]
        ['00000000000000000001.snapshot']
        """
        with self.runtime.lock, self.runtime.guard():
            self._log.producers.take_snapshot()

    # Reading

    def read(
        self,
        offset: int,
        *,
        max_bytes: int = MAX_READ_BYTES,
        isolation: LogIsolation = "log_end",
        min_one_batch: bool = True,
        whole_batches: bool = True,
    ) -> LogFetch:
        """Read bytes, starting with the batch that holds `offset`, or the next.

        Parameters
        ----------
        offset : int
            An offset of the log, or its end.
        max_bytes : int
            Maximum number of bytes to read.
        isolation : {"log_end", "high_watermark", "read_uncommitted", "read_committed"}
            The limit of the read: the log end offset, the high watermark (also with
            ``read_uncommitted``) or the last stable offset.
        min_one_batch : bool
            Whether the first batch is read whole if it is larger than `max_bytes`.
        whole_batches : bool
            Whether an incomplete batch at the end is cut off. A broker sends it, and
            consumers ignore it.

        Returns
        -------
        LogFetch
            The batches, and where to continue.

        Raises
        ------
        OffsetOutOfRangeError
            If `offset` is below the log start offset or above the log end offset.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.open(f"{root}/orders-0", "a") as log:
        ...         appended = log.append_records({"value": [b"1", b"2"]})
        ...         [batch] = log.read(0).batches()
        >>> [record.value for record in batch]
        [b'1', b'2']
        """
        with self.runtime.lock, self.runtime.guard():
            return read_log(
                self._log,
                integer("offset", offset),
                integer("max_bytes", max_bytes),
                read_limit_of(isolation).place,
                min_one_batch=min_one_batch,
                whole_batches=whole_batches,
                aborted=isolation == "read_committed",
            )

    def send_to(
        self,
        socket: socket,
        offset: int,
        max_bytes: int = MAX_READ_BYTES,
        *,
        isolation: LogIsolation = "log_end",
    ) -> int:
        """Send whole batches to a socket, starting with the one that holds `offset`.

        The bytes are those of `read`. They go from the page cache to the socket by
        ``sendfile``, without being copied into this process, and their CRCs are not
        checked. The log may be read and appended to meanwhile.

        Parameters
        ----------
        socket : socket.socket
            A connected stream socket that blocks, or has a timeout.
        offset : int
            An offset of the log, or its end.
        max_bytes : int
            Maximum number of bytes to send. The first batch is sent in any case.
        isolation : {"log_end", "high_watermark", "read_uncommitted", "read_committed"}
            The limit, as for `read`.

        Returns
        -------
        int
            Number of bytes sent; 0 at the limit.

        Raises
        ------
        OffsetOutOfRangeError
            If `offset` is below the log start offset or above the log end offset.
        OSError
            If the socket fails, or the segment was truncated meanwhile.

        Examples
        --------
        >>> import socket, tempfile, kafkalog
        >>> sender, receiver = socket.socketpair()
        >>> with tempfile.TemporaryDirectory() as root, sender, receiver:
        ...     with kafkalog.open(f"{root}/orders-0", "a") as log:
        ...         appended = log.append_records({"value": [b"1", b"2"]})
        ...         sent = log.send_to(sender, 0)
        ...         receiver.recv(1000) == log.read(0).data, sent
        (True, 77)
        """
        with self.runtime.lock, self.runtime.guard():
            batches = open_batches(
                self._log,
                integer("offset", offset),
                integer("max_bytes", max_bytes),
                read_limit_of(isolation).place,
            )
        if batches is None:
            return 0
        with batches.source as source:
            return source.send_to(socket, batches.position, batches.size_in_bytes)

    def find_offset(
        self, timestamp: int, *, isolation: LogIsolation = "log_end"
    ) -> TimestampOffset | None:
        """Find the first record at or after a timestamp, or a special offset.

        Parameters
        ----------
        timestamp : int
            A time, in ms since 1970, or one of Kafka's special timestamps: -1 for the
            log end, -2 and -4 for the log start, -3 for the record with the greatest
            timestamp, -5 and -6 for offsets in tiered storage.
        isolation : {"log_end", "high_watermark", "read_uncommitted", "read_committed"}
            As for `read`. The limit of the isolation is used in place of the log end
            offset, and no record at or after it is returned.

        Returns
        -------
        TimestampOffset or None
            Timestamp, offset and leader epoch of the record; None if there is none.

        Raises
        ------
        OffsetNotAvailableError
            If the high watermark is not known yet after a leader election.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> columns = {"value": [b"v"], "timestamp": [1700000000000]}
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.open(f"{root}/orders-0", "a") as log:
        ...         appended = log.append_records(columns)
        ...         log.find_offset(1)
        TimestampOffset(timestamp=1700000000000, offset=0, leader_epoch=0)
        """
        with self.runtime.lock, self.runtime.guard():
            timestamp = integer("timestamp", timestamp)
            return find_visible_offset(self._log, timestamp, isolation)

    def offsets_for_times(self, timestamps: Times) -> npt.NDArray[np.int64]:
        """Return the first offset at or after each of many timestamps.

        Parameters
        ----------
        timestamps : array_like of int, datetime or datetime64
            Times, as for `Log.offsets_for_times`.

        Returns
        -------
        ndarray of int64
            The offsets, in the same shape; -1 if no record is that late.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> columns = {"value": [b"v"], "timestamp": [1700000000000]}
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.open(f"{root}/orders-0", "a") as log:
        ...         appended = log.append_records(columns)
        ...         log.offsets_for_times([0, 1800000000000])
        array([ 0, -1])
        """
        start = self.log_start_offset

        def find(timestamp: int) -> int:
            with self.runtime.lock, self.runtime.guard():
                record = find_record(self._log, timestamp, start)
            return NOT_FOUND if record is None else record.offset

        return for_each_time(timestamps, lambda times: list(map(find, times)))

    def producer_states(self) -> npt.NDArray[np.void]:
        """Return the state of each producer at the log's end, from the files.

        Returns
        -------
        ndarray
            A structured array with the fields of a snapshot's entries, as of
            `Log.producer_states`.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.open(f"{root}/orders-0", "a") as log:
        ...         appended = log.append_records({"value": [b"v"]}, **producer)
        ...         log.producer_states()["producer_id"].tolist()
        [7]
        """
        return producer_states_at(
            self.path, list_segments(self.path), self.log_end_offset
        )

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
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.open(f"{root}/orders-0", "a") as log:
        ...         log.aborted_transactions().size
        0
        """
        first = self.log_start_offset if start is None else start
        last = MAX_OFFSET if end is None else end
        return aborted_between(list_segments(self.path), first, last)

    def find_aborted(self, start: int, end: int) -> list[AbortedTransaction]:
        """Return the aborted transactions between two offsets, as a broker finds them.

        Parameters
        ----------
        start, end : int
            The interval. The search begins with the segment that holds `start`, and may
            return transactions that ended before `start`.

        Returns
        -------
        list of AbortedTransaction
            The entries of the transaction indexes.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with kafkalog.open(f"{root}/orders-0", "a") as log:
        ...         log.find_aborted(0, 9)
        []
        """
        with self.runtime.lock, self.runtime.guard():
            return aborted_in_indexes(self._log, start, end)

    # Closing

    def close(self) -> None:
        """Close the log in order; a second call does nothing.

        A producer snapshot is written and the files are trimmed. A log opened with
        ``kafkalog.open`` is also forced to disk, and its offsets are checkpointed. The
        high watermark of a log without other replicas is the log end offset then,
        unless the caller has set it.

        If that fails, the error is raised, and the log is closed as by `abandon`. The
        same happens if a failure in the background was not raised by any call yet.
        After an interrupt `close` can be called again, and closes as `abandon` does.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> with tempfile.TemporaryDirectory() as root:
        ...     log = kafkalog.open(f"{root}/orders-0", "a")
        ...     log.close()
        ...     log.roll()
        Traceback (most recent call last):
            ...
        kafkalog.errors.LogClosedError: the log is closed
        """
        runtime = self.runtime
        if runtime.is_inherited:  # its locks may be held by threads of the parent
            return
        try:
            with runtime.lock:
                try:
                    unreported = runtime.failure is not None and not runtime.is_reported
                    if not runtime.closed and (runtime.failure is None or unreported):
                        with runtime.guard():
                            self._close_in_order()
                finally:
                    self._abandon()
        finally:
            runtime.stop()

    def _close_in_order(self) -> None:
        if self._log.leads_alone:
            watermarks.update_high_watermark(self._log, self._log.end)
        close_in_order(self._log, self.owned_directory, self._name)
        self._release(in_order=True)

    def _release(self, *, in_order: bool) -> None:
        if self.owned_directory is not None:
            self.owned_directory.release(self._name, in_order=in_order)
            self.owned_directory = None

    def abandon(self) -> None:
        """Close the files as they are, as if the process died, and stop the thread.

        It can be called again, also after an interrupt. Opening the log again recovers
        it.

        Examples
        --------
        >>> import tempfile, kafkalog
        >>> with tempfile.TemporaryDirectory() as root:
        ...     log = kafkalog.open(f"{root}/orders-0", "a")
        ...     log.abandon()
        ...     with kafkalog.open(f"{root}/orders-0", "a") as log:
        ...         log.report.clean
        False
        """
        if self.runtime.is_inherited:
            return
        try:
            with self.runtime.lock:
                self._abandon()
        finally:
            self.runtime.stop()

    def _abandon(self) -> None:
        self.runtime.closed = True
        self._expiry.cancel()
        for segment in self._log.segments.in_use:
            segment.close_handles()
        self._release(in_order=False)

    def rename_directory(self, target: Path) -> None:
        """Rename the directory of the log, which stays open.

        All records and names are forced to disk before, and the new name after.

        Parameters
        ----------
        target : Path
            The new path, in the same log directory.

        Raises
        ------
        OSError
            If the disk fails.

        Examples
        --------
        >>> import os, tempfile
        >>> from pathlib import Path
        >>> from kafkalog.log.recovery.log_loading import load_log
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with load_log(Path(root, f"orders-0.{32 * 'a'}-future")) as log:
        ...         log.rename_directory(Path(root, "orders-0"))
        ...         os.listdir(root), log.path.name
        (['orders-0'], 'orders-0')
        """
        with self.runtime.lock, self.runtime.guard():
            flush(self._log, self._log.log_end_offset, inclusive=True)
            self._log.rename_directory(target)
            self.path = locate(target)

    def delete(self) -> None:
        """Delete the log with its directory, and close it.

        The log must be open: a closed log has released the lock of its log directory,
        and another process may have it open. Open it again to delete it. Kafka, whose
        broker keeps the lock, also deletes a closed log.

        Raises
        ------
        LogClosedError
            If the log is closed.

        Examples
        --------
        >>> import os, tempfile, kafkalog
        >>> with tempfile.TemporaryDirectory() as root:
        ...     log = kafkalog.open(f"{root}/orders-0", "a")
        ...     log.delete()
        ...     os.path.exists(f"{root}/orders-0")
        False
        """
        with self.runtime.lock, self.runtime.guard():
            deletion.delete_log(self._log, self.owned_directory, self._name)
            self._release(in_order=True)
            self._abandon()
        self.runtime.stop()
