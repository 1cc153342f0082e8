"""Every error kafkalog raises on purpose, on one page.

Names keep Kafka's stem and end in ``Error``: ``CorruptIndexException`` in a broker's
log is `CorruptIndexError` here; `kafka_name` says which, or is None where Kafka has no
such exception. This module imports nothing from kafkalog, but for type checkers.

A message is one line: what was expected and found, in which file, at which byte.
Advice goes in notes (``error.__notes__``), which tracebacks print and log lines do not.
An `OSError` passes through untouched: the disk is not ours to rename.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

if TYPE_CHECKING:
    from kafkalog.storage.location import AnyPath
    from kafkalog.storage.remote_source import RemotePath


class KafkaLogError(Exception):
    """Base class: ``except KafkaLogError`` catches this library and nothing else."""

    kafka_name: str | None = None


class LocatedError(KafkaLogError):
    """Something about bytes: `reason`, at `position` of `path`.

    `position` counts bytes from the start of the buffer being decoded, until a floor
    that knows the file calls `located`; from then on, from the start of `path`.
    `cause` names the kind of damage in a word, from the list in ``docs/verify.md``.
    `path` is a `Path`, or what stands for one behind a URL. Where Kafka has another
    name for just this, `kafka_name` is that.
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
        self.path: Path | RemotePath | None = None

    def located(self, path: AnyPath | None, origin: int = 0) -> Self:
        """Return this error placed in `path`, where its buffer began at `origin`."""
        self.path = Path(path) if isinstance(path, (str, os.PathLike)) else path
        self.position = None if self.position is None else origin + self.position
        return self

    def __str__(self) -> str:
        byte = "" if self.position is None else f" at byte {self.position}"
        return self.reason + (byte if self.path is None else f": {self.path}{byte}")


class CorruptionError(LocatedError):
    """Bytes on disk break the format's promise."""


class CorruptRecordError(CorruptionError):
    """A record batch, or a record inside one, cannot be what its writer wrote.

    >>> str(CorruptRecordError("crc differs", position=17).located(Path("a.log"), 4096))
    'crc differs: a.log at byte 4113'
    """

    kafka_name = "CorruptRecordException"


class CorruptMessageError(CorruptRecordError):
    """A record of an internal topic is sound, but what it says has not its form.

    `kafka_message` is what Kafka's own exception says, and its tool prints: the reason,
    but where that has more than Kafka would say.
    """

    kafka_name = "RuntimeException"

    def __init__(
        self, reason: str, *, position: int | None, kafka_message: str | None = None
    ) -> None:
        super().__init__(reason, position=position)
        self.kafka_message = reason if kafka_message is None else kafka_message


class CorruptIndexError(CorruptionError):
    """An offset, time or transaction index contradicts itself; rebuild it."""

    kafka_name = "CorruptIndexException"


class CorruptSnapshotError(CorruptionError):
    """A producer snapshot is torn, or its checksum differs."""

    kafka_name = "CorruptSnapshotException"


class CorruptCheckpointError(CorruptionError):
    """A text checkpoint or properties file does not have its form."""

    kafka_name = "KafkaStorageException"

    kafka_name = "KafkaStorageException"


class UnsupportedFormatError(LocatedError):
    """Sound bytes we do not speak: a version or a compression type."""


class UnsupportedIndexError(UnsupportedFormatError):
    """A transaction index has an entry of a later version."""

    kafka_name = "KafkaException"


class BatchTooLargeError(LocatedError):
    """A batch decompresses to more than ``max_batch_bytes`` allows."""

    usual_cause = "too_large"


class OffsetOutOfRangeError(KafkaLogError, LookupError):
    """An offset lies outside [log_start_offset, log_end_offset]."""

    kafka_name = "OffsetOutOfRangeException"


class DataLossError(KafkaLogError):
    """Offsets that a reading was to give are gone, or their partition is."""


class NotALogDirectoryError(KafkaLogError, ValueError):
    """The path exists and holds nothing of Kafka's."""


class InvalidAppendError(KafkaLogError, ValueError):
    """An append is refused: no record of it is readable afterwards."""


class InvalidRecordError(InvalidAppendError):
    """Records that cannot be written: no format has room for them, or may not be."""

    kafka_name = "InvalidRecordException"


class UnfitRecordsError(KafkaLogError, ValueError):
    """What was given to be appended is no records; `faults` is all that is wrong.

    >>> str(UnfitRecordsError("value: float64", "no such columns: valeu"))
    'value: float64; no such columns: valeu'
    """

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong, one by one."""
        return self.args

    def __str__(self) -> str:
        return "; ".join(self.faults)


class InvalidTimestampError(InvalidAppendError):
    """A record's timestamp is out of range, or of a type that its producer may not set.

    The cause of a `RecordValidationError`.
    """

    kafka_name = "InvalidTimestampException"


class RecordValidationError(InvalidAppendError):
    """Single records of a batch are refused, and with them the whole append.

    `record_errors` has each one's index in the batch, and why. ``__cause__`` is an
    `InvalidTimestampError` if any is refused for its timestamp, else an
    `InvalidRecordError`.
    """

    kafka_name = "RecordValidationException"

    def __init__(
        self, cause: InvalidAppendError, record_errors: tuple[tuple[int, str], ...]
    ) -> None:
        super().__init__(str(cause))
        self.__cause__ = cause
        self.record_errors = record_errors


class CompressionError(InvalidAppendError):
    """A compressed batch that is to be appended does not unpack."""

    kafka_name = "KafkaException"


class UnevenOffsetsError(InvalidAppendError):
    """Offsets inside a compressed batch do not count from 0: it cannot be kept as is.

    A broker would build the batch anew, and fails at that.
    """

    kafka_name = "UnsupportedOperationException"


class OffsetsOutOfOrderError(InvalidAppendError):
    """Offsets of a follower's batches do not rise."""

    kafka_name = "OffsetsOutOfOrderException"


class RecordTooLargeError(InvalidAppendError):
    """A batch exceeds ``max.message.bytes``."""

    kafka_name = "RecordTooLargeException"


class RecordBatchTooLargeError(InvalidAppendError):
    """What is appended at once exceeds ``segment.bytes``."""

    kafka_name = "RecordBatchTooLargeException"


class UnexpectedAppendOffsetError(InvalidAppendError):
    """A follower's batches begin below the log's end: `first_offset`, `last_offset`."""

    kafka_name = "UnexpectedAppendOffsetException"

    def __init__(self, message: str, first_offset: int, last_offset: int) -> None:
        super().__init__(message)
        self.first_offset = first_offset
        self.last_offset = last_offset


class LogSegmentOffsetOverflowError(InvalidAppendError):
    """An offset lies too far from its segment's base to be stored relative to it."""

    kafka_name = "LogSegmentOffsetOverflowException"


class InvalidProducerEpochError(InvalidAppendError):
    """A producer or a transaction marker has an epoch that a later one has replaced."""

    kafka_name = "InvalidProducerEpochException"


class OutOfOrderSequenceError(InvalidAppendError):
    """A client's batch does not follow its producer's last one."""

    kafka_name = "OutOfOrderSequenceException"


class InvalidTxnStateError(InvalidAppendError):
    """A batch does not go with its producer's transaction, or with there being none."""

    kafka_name = "InvalidTxnStateException"


class TransactionCoordinatorFencedError(InvalidAppendError):
    """A transaction marker is of a coordinator that another has replaced."""

    kafka_name = "TransactionCoordinatorFencedException"


class LogStateError(KafkaLogError):
    """What was asked cannot be done to the log as it is."""

    kafka_name: str | None = "IllegalStateException"


class LogArgumentError(LogStateError, ValueError):
    """What was asked cannot be done to any log, or not to this one: an argument."""

    kafka_name = "IllegalArgumentException"


class IndexFullError(LogArgumentError):
    """An index has no slot for another entry.

    `kafka_name` is ``BufferOverflowException`` where the slot that was missing is the
    one kept for the closing entry of a time index.
    """


class LogRollError(LogStateError):
    """A segment cannot begin where it was to: one is there, or beyond it."""

    kafka_name = "KafkaException"


class InvalidOffsetError(LogStateError):
    """An index has an entry for this offset, or for one above it."""

    kafka_name = "InvalidOffsetException"


class OffsetNotAvailableError(LogStateError):
    """Since an election it is not known yet how far the log is replicated."""

    kafka_name = "OffsetNotAvailableException"


class IndexOffsetOverflowError(LogStateError):
    """An offset lies too far from its index's base to be stored relative to it."""

    kafka_name = "IndexOffsetOverflowException"


class LogClosedError(LogStateError):
    """The log was closed, or closed itself: the disk failed, or a call was cut off."""

    kafka_name = "KafkaStorageException"


class LogLockedError(LogStateError):
    """The log directory is being written to: by a broker, or by kafkalog elsewhere."""

    kafka_name = "KafkaException"


class ReadOnlyLogError(LogStateError):
    """A log that was opened for reading is to be changed."""

    kafka_name = None


class InconsistentTopicIdError(LogStateError):
    """``partition.metadata`` has another topic's id."""

    kafka_name = "InconsistentTopicIdException"


class StrayFileError(LogStateError, ValueError):
    """A file in a partition's directory is named like a log's, but for the offset."""

    kafka_name = "NumberFormatException"


class ConfigError(KafkaLogError, ValueError):
    """A setting is out of range, or is not a setting."""

    kafka_name = "ConfigException"


class KafkaLogWarning(UserWarning):
    """Base class of all warnings that this library gives."""


class UnknownSettingsWarning(KafkaLogWarning):
    """Nothing of a log is deleted, as its settings are not known."""


class NotCompactedWarning(KafkaLogWarning):
    """A log's settings ask for compaction, which does not exist yet."""


class LostOffsetsWarning(KafkaLogWarning):
    """Opening a log has set its end before records that are in its files."""


class MissingDependencyError(KafkaLogError, ImportError):
    """An optional package is not installed; the message gives the pip line.

    `extra` is that of kafkalog which brings it, None where there is none.
    """

    def __init__(self, package: str, extra: str | None) -> None:
        line = package if extra is None else f"'kafkalog[{extra}]'"
        super().__init__(f"{package} is missing: pip install {line}")
        self.package = package
        self.extra = extra
