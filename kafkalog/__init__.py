"""Apache Kafka's storage layer: log directories as columns, no broker, no JVM.

>>> import kafkalog
>>> batch = kafkalog.RecordBatchBuilder(base_offset=7)
>>> batch.append(b"k", b"v", timestamp=1700000000000)
>>> [records] = kafkalog.scan(batch.build()).chunks()
>>> records.value.to_list()
[b'v']
"""

from kafkalog.errors import (
    BatchTooLargeError,
    ConfigError,
    CorruptCheckpointError,
    CorruptIndexError,
    CorruptionError,
    CorruptRecordError,
    CorruptSnapshotError,
    InvalidRecordError,
    KafkaLogError,
    LocatedError,
    MissingDependencyError,
    NotALogDirectoryError,
    OffsetOutOfRangeError,
    UnsupportedFormatError,
)
from kafkalog.formats.builder import RecordBatchBuilder, encode_batches
from kafkalog.formats.record_batch import Record, RecordBatch
from kafkalog.indexes.offset_index import OffsetIndex
from kafkalog.indexes.time_index import TimeIndex
from kafkalog.indexes.txn_index import TransactionIndex
from kafkalog.log.log import Log, open
from kafkalog.query.index_scan import (
    scan_offset_indexes,
    scan_time_indexes,
    scan_transaction_indexes,
)
from kafkalog.query.records import Records
from kafkalog.query.scan import Scan, scan

__version__ = "0.1.0"

__all__ = [
    "BatchTooLargeError",
    "ConfigError",
    "CorruptCheckpointError",
    "CorruptIndexError",
    "CorruptRecordError",
    "CorruptSnapshotError",
    "CorruptionError",
    "InvalidRecordError",
    "KafkaLogError",
    "LocatedError",
    "Log",
    "MissingDependencyError",
    "NotALogDirectoryError",
    "OffsetIndex",
    "OffsetOutOfRangeError",
    "Record",
    "RecordBatch",
    "RecordBatchBuilder",
    "Records",
    "Scan",
    "TimeIndex",
    "TransactionIndex",
    "UnsupportedFormatError",
    "encode_batches",
    "open",
    "scan",
    "scan_offset_indexes",
    "scan_time_indexes",
    "scan_transaction_indexes",
]
