"""Apache Kafka's storage layer: log directories as columns, no broker, no JVM.

>>> import kafkalog
>>> batch = kafkalog.RecordBatchBuilder(base_offset=7)
>>> batch.append(b"k", b"v", timestamp=1700000000000)
>>> [records] = kafkalog.scan(batch.build()).chunks()
>>> records.value.to_list()
[b'v']
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from kafkalog.errors import (
    BatchTooLargeError,
    CompressionError,
    ConfigError,
    CorruptCheckpointError,
    CorruptIndexError,
    CorruptionError,
    CorruptMessageError,
    CorruptRecordError,
    CorruptSnapshotError,
    DataLossError,
    InconsistentTopicIdError,
    IndexFullError,
    IndexOffsetOverflowError,
    InvalidAppendError,
    InvalidOffsetError,
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidTimestampError,
    InvalidTxnStateError,
    KafkaLogError,
    KafkaLogWarning,
    LocatedError,
    LogArgumentError,
    LogClosedError,
    LogLockedError,
    LogRollError,
    LogSegmentOffsetOverflowError,
    LogStateError,
    LostOffsetsWarning,
    MissingDependencyError,
    NotALogDirectoryError,
    NotCompactedWarning,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    OffsetsOutOfOrderError,
    OutOfOrderSequenceError,
    ReadOnlyLogError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    RecordValidationError,
    StrayFileError,
    TransactionCoordinatorFencedError,
    UnevenOffsetsError,
    UnexpectedAppendOffsetError,
    UnfitRecordsError,
    UnknownSettingsWarning,
    UnsupportedFormatError,
    UnsupportedIndexError,
)

if TYPE_CHECKING:
    from kafkalog.config.broker_config import BrokerConfig
    from kafkalog.config.log_config import LogConfig
    from kafkalog.decoding.record_batch import Record, RecordBatch
    from kafkalog.encoding.batch_builder import RecordBatchBuilder, encode_batches
    from kafkalog.indexes.offset_index import OffsetIndex
    from kafkalog.indexes.time_index import TimeIndex
    from kafkalog.indexes.txn_index import TransactionIndex
    from kafkalog.log.log import Log
    from kafkalog.log.opening import open
    from kafkalog.log.writable_log import WritableLog
    from kafkalog.manager.log_manager import LogManager
    from kafkalog.messages.internal_records import InternalRecord, decode_internal
    from kafkalog.query.index_scan import (
        scan_offset_indexes,
        scan_time_indexes,
        scan_transaction_indexes,
    )
    from kafkalog.query.records import Records
    from kafkalog.query.scan import Scan, scan
    from kafkalog.storage.properties_file import read_properties

__version__ = "0.1.0"

__all__ = [
    "BatchTooLargeError",
    "BrokerConfig",
    "CompressionError",
    "ConfigError",
    "CorruptCheckpointError",
    "CorruptIndexError",
    "CorruptMessageError",
    "CorruptRecordError",
    "CorruptSnapshotError",
    "CorruptionError",
    "DataLossError",
    "InconsistentTopicIdError",
    "IndexFullError",
    "IndexOffsetOverflowError",
    "InternalRecord",
    "InvalidAppendError",
    "InvalidOffsetError",
    "InvalidProducerEpochError",
    "InvalidRecordError",
    "InvalidTimestampError",
    "InvalidTxnStateError",
    "KafkaLogError",
    "KafkaLogWarning",
    "LocatedError",
    "Log",
    "LogArgumentError",
    "LogClosedError",
    "LogConfig",
    "LogLockedError",
    "LogManager",
    "LogRollError",
    "LogSegmentOffsetOverflowError",
    "LogStateError",
    "LostOffsetsWarning",
    "MissingDependencyError",
    "NotALogDirectoryError",
    "NotCompactedWarning",
    "OffsetIndex",
    "OffsetNotAvailableError",
    "OffsetOutOfRangeError",
    "OffsetsOutOfOrderError",
    "OutOfOrderSequenceError",
    "ReadOnlyLogError",
    "Record",
    "RecordBatch",
    "RecordBatchBuilder",
    "RecordBatchTooLargeError",
    "RecordTooLargeError",
    "RecordValidationError",
    "Records",
    "Scan",
    "StrayFileError",
    "TimeIndex",
    "TransactionCoordinatorFencedError",
    "TransactionIndex",
    "UnevenOffsetsError",
    "UnexpectedAppendOffsetError",
    "UnfitRecordsError",
    "UnknownSettingsWarning",
    "UnsupportedFormatError",
    "UnsupportedIndexError",
    "WritableLog",
    "decode_internal",
    "encode_batches",
    "open",
    "read_properties",
    "scan",
    "scan_offset_indexes",
    "scan_time_indexes",
    "scan_transaction_indexes",
]

_HOMES: Final = {
    "BrokerConfig": "config.broker_config",
    "InternalRecord": "messages.internal_records",
    "Log": "log.log",
    "LogConfig": "config.log_config",
    "LogManager": "manager.log_manager",
    "OffsetIndex": "indexes.offset_index",
    "Record": "decoding.record_batch",
    "RecordBatch": "decoding.record_batch",
    "RecordBatchBuilder": "encoding.batch_builder",
    "Records": "query.records",
    "Scan": "query.scan",
    "TimeIndex": "indexes.time_index",
    "TransactionIndex": "indexes.txn_index",
    "WritableLog": "log.writable_log",
    "decode_internal": "messages.internal_records",
    "encode_batches": "encoding.batch_builder",
    "open": "log.opening",
    "read_properties": "storage.properties_file",
    "scan": "query.scan",
    "scan_offset_indexes": "query.index_scan",
    "scan_time_indexes": "query.index_scan",
    "scan_transaction_indexes": "query.index_scan",
}
"""Rooms of what is fetched when it is first asked for: all that needs NumPy, without
which ``kafkalog --help`` does."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(f"kafkalog.{_HOMES[name]}"), name)
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        kept = {name for name in globals() if name[:2] == name[-2:] == "__"}
        return sorted({*kept, *__all__})
