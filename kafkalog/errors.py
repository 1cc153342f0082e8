"""The errors and warnings that kafkalog raises.

Names keep Kafka's stem and end in ``Error``: ``CorruptIndexException`` in a broker's
log is `CorruptIndexError` here. `kafka_name` is the name of the exception that Kafka
throws in the same case, or None if it throws none. This module imports nothing from
kafkalog.

A message is one line: what was expected and found, in which file, at which byte.
Advice is in notes (``error.__notes__``), which tracebacks print and log lines do not.
An `OSError` of the operating system is raised unchanged.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar, Self

__all__ = [
    "BatchTooLargeError",
    "CommitConflictError",
    "CompressionError",
    "ConfigError",
    "CorruptCheckpointError",
    "CorruptIndexError",
    "CorruptJournalError",
    "CorruptMessageError",
    "CorruptRecordError",
    "CorruptSnapshotError",
    "CorruptionError",
    "DataLossError",
    "DiskSpaceError",
    "InconsistentTopicIdError",
    "IndexFullError",
    "IndexOffsetOverflowError",
    "InternalTopicsWarning",
    "InvalidAppendError",
    "InvalidOffsetError",
    "InvalidProducerEpochError",
    "InvalidRecordError",
    "InvalidTextError",
    "InvalidTimestampError",
    "InvalidTxnStateError",
    "InvalidValueError",
    "KafkaLogError",
    "KafkaLogWarning",
    "LocatedError",
    "LogArgumentError",
    "LogCleaningAbortedError",
    "LogClosedError",
    "LogLockedError",
    "LogRollError",
    "LogSegmentOffsetOverflowError",
    "LogStateError",
    "LostOffsetsWarning",
    "MissingDependencyError",
    "NotALogDirectoryError",
    "OffsetNotAvailableError",
    "OffsetOutOfRangeError",
    "OffsetsOutOfOrderError",
    "OutOfOrderSequenceError",
    "OversizedSegmentError",
    "ReadOnlyLogError",
    "RecordBatchTooLargeError",
    "RecordTooLargeError",
    "RecordValidationError",
    "RecordsRefusedError",
    "StagedFileError",
    "StrayFileError",
    "TieredLogWarning",
    "TransactionCoordinatorFencedError",
    "UnevenOffsetsError",
    "UnexpectedAppendOffsetError",
    "UnfitRecordsError",
    "UnknownSettingsWarning",
    "UnsupportedFormatError",
    "UnsupportedIndexError",
    "UnsupportedVersionError",
]


class KafkaLogError(Exception):
    """Base class of all errors of this library."""

    kafka_name: str | None = None


class LocatedError(KafkaLogError):
    """Base class of errors about bytes in a buffer or file.

    Attributes
    ----------
    reason : str
        What was expected and what was found.
    position : int or None
        Byte from the start of the buffer that was read; once `located` was called, from
        the start of `path`. None if the error is about the file as a whole.
    path : Path or RemotePath or None
        The file, if it is known.
    cause : str
        The kind of damage, one of the list in ``docs/verify.md``.
    kafka_name : str or None
        Name of the exception that Kafka throws in this case.
    """

    usual_cause: ClassVar[str] = "format"

    def __init__(
        self,
        reason: str,
        *,
        position: int | None = None,
        cause: str | None = None,
        kafka_name: str | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        if kafka_name is not None:
            self.kafka_name = kafka_name
        self.position = position
        self.cause = self.usual_cause if cause is None else cause
        self.path: Any = None

    def located(self, path: object, origin: int = 0) -> Self:
        """Return this error with its file, in which the buffer begins at `origin`.

        Parameters
        ----------
        path : str, path-like, RemotePath or None
            The file that the buffer was read from.
        origin : int
            Position of the buffer in the file, which is added to `position`.
        """
        self.path = Path(path) if isinstance(path, (str, os.PathLike)) else path
        self.position = None if self.position is None else origin + self.position
        return self

    def as_rejection(self) -> KafkaLogError:
        """Return the error that an append of these bytes raises."""
        if isinstance(self, BatchTooLargeError):
            return self
        if self.cause == "compression":
            return CompressionError(self.reason)
        return InvalidRecordError(self.reason)

    def __str__(self) -> str:
        byte = "" if self.position is None else f" at byte {self.position}"
        return self.reason + (byte if self.path is None else f": {self.path}{byte}")


class CorruptionError(LocatedError):
    """Base class of the errors raised where bytes on disk are corrupt."""


class CorruptRecordError(CorruptionError):
    """Raised where a record batch, or a record in one, is corrupt.

    >>> error = CorruptRecordError("record count 0, expected 1", position=17)
    >>> str(error.located("a.log", 4096))
    'record count 0, expected 1: a.log at byte 4113'
    """

    kafka_name = "CorruptRecordException"


class CorruptMessageError(CorruptRecordError):
    """Raised where a record of an internal topic does not match its schema.

    `kafka_message` is the message of Kafka's exception, which kafka-dump-log prints; it
    is `reason`, except where that states more.
    """

    kafka_name = "RuntimeException"

    def __init__(
        self,
        reason: str,
        *,
        position: int | None = None,
        kafka_message: str | None = None,
    ) -> None:
        super().__init__(reason, position=position)
        self.kafka_message = reason if kafka_message is None else kafka_message


class CorruptIndexError(CorruptionError):
    """Raised where an index is corrupt; it can be rebuilt from its log."""

    kafka_name = "CorruptIndexException"


class CorruptSnapshotError(CorruptionError):
    """Raised where a producer snapshot is truncated, or its CRC does not match."""

    kafka_name = "CorruptSnapshotException"


class CorruptCheckpointError(CorruptionError):
    """Raised where a checkpoint or properties file is not in its format."""

    kafka_name = "KafkaStorageException"


class CorruptJournalError(CorruptionError):
    """Raised where the journal of commits to a log directory is corrupt."""


class StagedFileError(LocatedError):
    """Raised where a staged file is missing, or is not what its task wrote."""


class UnsupportedFormatError(LocatedError):
    """Raised for a version or compression type that is not supported."""


class UnsupportedIndexError(UnsupportedFormatError):
    """Raised where a transaction index has an entry of a later version."""

    kafka_name = "KafkaException"


class UnsupportedVersionError(KafkaLogError, ValueError):
    """A request has an API or a version that is not served."""

    kafka_name = "UnsupportedVersionException"


class BatchTooLargeError(LocatedError):
    """Raised where a batch is larger than ``max_batch_bytes``, uncompressed."""

    usual_cause = "too_large"


class OffsetOutOfRangeError(KafkaLogError, LookupError):
    """Raised for an offset outside of log start offset to log end offset."""

    kafka_name = "OffsetOutOfRangeException"


class DataLossError(KafkaLogError):
    """Raised where offsets to read, or their partition, no longer exist."""


class NotALogDirectoryError(KafkaLogError, ValueError):
    """Raised where a path exists but has no file of Kafka's."""


class InvalidAppendError(KafkaLogError, ValueError):
    """Raised where an append is rejected; the base class of these.

    None of its records can be read afterwards.
    """


class InvalidRecordError(InvalidAppendError):
    """Raised where records violate a rule of the format or of the topic."""

    kafka_name = "InvalidRecordException"


class UnfitRecordsError(KafkaLogError, ValueError):
    """Raised where data passed to an append cannot be converted to records.

    `faults` has all that is wrong with it.

    >>> str(UnfitRecordsError("value: float64", "no such columns: valeu"))
    'value: float64; no such columns: valeu'
    """

    @property
    def faults(self) -> tuple[str, ...]:
        """The faults, one string each."""
        return self.args

    def __str__(self) -> str:
        return "; ".join(self.faults)


class InvalidTimestampError(InvalidAppendError):
    """Raised where a record's timestamp is out of range, or of a wrong type.

    It is the ``__cause__`` of a `RecordValidationError`.
    """

    kafka_name = "InvalidTimestampException"


class RecordValidationError(InvalidAppendError):
    """Raised where records of a batch are invalid; the whole append is rejected.

    `record_errors` has each invalid record's index in the batch, and the reason.
    ``__cause__`` is an `InvalidTimestampError` if any is rejected for its timestamp,
    else an `InvalidRecordError`.
    """

    kafka_name = "RecordValidationException"

    def __init__(
        self, cause: InvalidAppendError, record_errors: tuple[tuple[int, str], ...]
    ) -> None:
        super().__init__(str(cause))
        self.__cause__ = cause
        self.record_errors = record_errors

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = self.__cause__, self.record_errors
        return type(self), arguments, self.__dict__


class RecordsRefusedError(InvalidAppendError):
    """Raised where `append_records` has records rejected; the others are appended.

    `kafka_name` is that of the first rejection. Notes name the setting that decides.

    Attributes
    ----------
    result : AppendedRecords
        The outcomes: the offsets of the records that were appended, and the rejections.
    refused : list of Refusal
        The rejected records, by their numbers, with the errors.
    """

    def __init__(self, result: Any) -> None:
        refused = result.refused
        count, first = sum(each.end - each.first for each in refused), refused[0]
        super().__init__(
            f"{count} of {result.bounds[-1]} records refused, the others are appended; "
            f"first records {first.first} to {first.end - 1}: {first.error}"
        )
        self.result = result
        self.refused = refused
        self.kafka_name = first.error.kafka_name
        for note in getattr(first.error, "__notes__", ()):
            self.add_note(note)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.result,)


class CompressionError(InvalidAppendError):
    """Raised where a compressed batch to append cannot be decompressed."""

    kafka_name = "KafkaException"


class UnevenOffsetsError(InvalidAppendError):
    """Raised where relative offsets in a compressed batch do not count up from 0.

    A broker would have to rebuild the batch, which fails.
    """

    kafka_name = "UnsupportedOperationException"


class OffsetsOutOfOrderError(InvalidAppendError):
    """Raised where offsets of a follower's append do not increase."""

    kafka_name = "OffsetsOutOfOrderException"


class RecordTooLargeError(InvalidAppendError):
    """Raised where a batch is larger than ``max.message.bytes``."""

    kafka_name = "RecordTooLargeException"


class RecordBatchTooLargeError(InvalidAppendError):
    """Raised where one append is larger than ``segment.bytes``."""

    kafka_name = "RecordBatchTooLargeException"


class UnexpectedAppendOffsetError(InvalidAppendError):
    """Raised where a follower's append begins below the log end offset.

    `first_offset` and `last_offset` are those of the append.
    """

    kafka_name = "UnexpectedAppendOffsetException"

    def __init__(self, message: str, first_offset: int, last_offset: int) -> None:
        super().__init__(message)
        self.first_offset = first_offset
        self.last_offset = last_offset

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = str(self), self.first_offset, self.last_offset
        return type(self), arguments, self.__dict__


class LogSegmentOffsetOverflowError(InvalidAppendError):
    """Raised where an offset is too far from its segment's base offset for an int32."""

    kafka_name = "LogSegmentOffsetOverflowException"


class InvalidProducerEpochError(InvalidAppendError):
    """Raised where a batch or transaction marker has an epoch older than the latest."""

    kafka_name = "InvalidProducerEpochException"


class OutOfOrderSequenceError(InvalidAppendError):
    """Raised where a batch's sequence does not follow its producer's last one."""

    kafka_name = "OutOfOrderSequenceException"


class InvalidTxnStateError(InvalidAppendError):
    """Raised where a batch contradicts the state of its producer's transaction."""

    kafka_name = "InvalidTxnStateException"


class TransactionCoordinatorFencedError(InvalidAppendError):
    """Raised where a transaction marker is from a coordinator that was replaced."""

    kafka_name = "TransactionCoordinatorFencedException"


class OversizedSegmentError(LocatedError):
    """Raised where a segment is to be opened for writing that exceeds 2**31 - 1 bytes.

    Positions in its indexes are int32.
    """

    usual_cause = "segment_size"
    kafka_name = "KafkaException"


class LogStateError(KafkaLogError):
    """Raised where the state of the log does not allow the operation."""

    kafka_name: str | None = "IllegalStateException"


class LogCleaningAbortedError(LogStateError):
    """Raised where a round of compaction is aborted; the log is as it was."""

    kafka_name = "LogCleaningAbortedException"


class CommitConflictError(LogStateError):
    """Raised where an interrupted commit can neither be completed nor undone."""


class LogArgumentError(LogStateError, ValueError):
    """Raised where an argument is invalid for the operation, or for this log."""

    kafka_name = "IllegalArgumentException"


class IndexFullError(LogArgumentError):
    """Raised where an index has no slot for another entry.

    `kafka_name` is ``BufferOverflowException`` if the missing slot is the one reserved
    for the last entry of a time index.
    """


class LogRollError(LogStateError):
    """Raised where a new segment would not begin above the active segment."""

    kafka_name = "KafkaException"


class InvalidOffsetError(LogStateError):
    """Raised where an index already has an entry for this offset or a higher one."""

    kafka_name = "InvalidOffsetException"


class OffsetNotAvailableError(LogStateError):
    """Raised where the high watermark is unknown yet after a leader election."""

    kafka_name = "OffsetNotAvailableException"


class IndexOffsetOverflowError(LogStateError):
    """Raised where an offset is too far from its index's base offset for an int32."""

    kafka_name = "IndexOffsetOverflowException"


class LogClosedError(LogStateError):
    """Raised where the log is closed, by its user or after a failed write."""

    kafka_name = "KafkaStorageException"


class LogLockedError(LogStateError):
    """Raised where another process has the log directory open for writing."""

    kafka_name = "KafkaException"


class ReadOnlyLogError(LogStateError, AttributeError):
    """Raised where a log that is open for reading is to be changed."""

    kafka_name = None


class InconsistentTopicIdError(LogStateError):
    """Raised where ``partition.metadata`` has the id of another topic."""

    kafka_name = "InconsistentTopicIdException"


class DiskSpaceError(LogStateError):
    """Raised where a file system has less free space than is to be written.

    `needed` and `free` are bytes. `path` is a directory in the file system.

    >>> str(DiskSpaceError(Path("backup"), 4096, 512))
    '4096 bytes to write, expected at most 512 free: backup'
    """

    kafka_name = None

    def __init__(self, path: Path, needed: int, free: int) -> None:
        super().__init__(
            f"{needed} bytes to write, expected at most {free} free: {path}"
        )
        self.path = path
        self.needed = needed
        self.free = free

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.needed, self.free), self.__dict__


class StrayFileError(LogStateError, ValueError):
    """Raised where a file in a partition's directory has no offset in its name."""

    kafka_name = "NumberFormatException"


class ConfigError(KafkaLogError, ValueError):
    """Raised where a setting is invalid or unknown."""

    kafka_name = "ConfigException"


class KafkaLogWarning(UserWarning):
    """Base class of all warnings of this library."""


class UnknownSettingsWarning(KafkaLogWarning):
    """Issued where nothing of a log is deleted, as its settings are unknown."""


class LostOffsetsWarning(KafkaLogWarning):
    """Issued where opening a log sets its end before records that are in its files."""


class InternalTopicsWarning(KafkaLogWarning):
    """Issued where Kafka's internal topics in a log directory are not read.

    Their keys and values are messages of Kafka's own, neither text nor of a format that
    a caller could mean. They are read if their names, or a pattern, are given.
    """


class TieredLogWarning(KafkaLogWarning):
    """Issued where a tiered partition is read without its offsets in remote storage.

    If the metadata of the cluster is not in the directory, a partition that has lost
    its first segments looks the same. So may, for a moment, a log that is in use and
    deletes segments: its leader epochs are written in the background.
    """


class InvalidValueError(KafkaLogError, ValueError):
    """Raised where a key or value is not of the format that is requested.

    Attributes
    ----------
    column : str
        ``key`` or ``value``.
    topic : str
        The record's topic; empty if it is unknown.
    partition : int
        The record's partition; -1 if it is unknown.
    offset : int
        The record's offset; -1 if it is unknown.
    """

    def __init__(
        self,
        reason: str,
        *,
        column: str = "",
        topic: str = "",
        partition: int = -1,
        offset: int = -1,
    ) -> None:
        super().__init__(reason)
        self.column = column
        self.topic = topic
        self.partition = partition
        self.offset = offset


class InvalidTextError(InvalidValueError):
    """Raised where a key or value is requested as text, and is not UTF-8."""


class MissingDependencyError(KafkaLogError, ImportError):
    """Raised where an optional package is not installed.

    The message has the pip command. `extra` is the extra of kafkalog that installs the
    package, or None.
    """

    def __init__(self, package: str, extra: str | None) -> None:
        line = package if extra is None else f"'kafkalog[{extra}]'"
        super().__init__(f"{package} is missing: pip install {line}")
        self.package = package
        self.extra = extra

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.package, self.extra), self.__dict__
