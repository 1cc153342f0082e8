"""Apache Kafka's storage layer: log directories as columns, no broker, no JVM.

>>> import kafkalog
>>> batch = kafkalog.RecordBatchBuilder(base_offset=7)
>>> batch.append(b"k", b"v", timestamp=1700000000000)
>>> [records] = kafkalog.scan(batch.build()).chunks()
>>> records.value.to_list()
[b'v']

All errors are in `kafkalog.errors`; those that most callers catch are here, too. What
keys and values hold is read by `kafkalog.values`. Objects that only a function returns,
such as a report, are in the module of the function.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from kafkalog import errors
from kafkalog.errors import (
    CorruptionError,
    KafkaLogError,
    LogLockedError,
    MissingDependencyError,
)

if TYPE_CHECKING:
    from kafkalog import values as values
    from kafkalog.analysis.group_lag import groups, lag
    from kafkalog.analysis.internal_tables import (
        internal,
        topics,
    )
    from kafkalog.analysis.log_stats import stats
    from kafkalog.analysis.transaction_report import txns
    from kafkalog.cleaner.offline_compaction import compact
    from kafkalog.cleaner.planned_removals import whatif
    from kafkalog.cleaner.segment_keeping import why
    from kafkalog.config.broker_config import BrokerConfig
    from kafkalog.config.log_config import LogConfig
    from kafkalog.copies.log_restore import prove, restore
    from kafkalog.copies.log_salvage import salvage
    from kafkalog.copies.replica_healing import heal
    from kafkalog.decoding.record_batch import RecordBatch
    from kafkalog.encoding.batch_builder import RecordBatchBuilder, encode_batches
    from kafkalog.errors import *  # noqa: F403
    from kafkalog.export.batch_table import batches
    from kafkalog.export.duckdb_source import duckdb_source
    from kafkalog.export.log_dataset import dataset
    from kafkalog.indexes.offset_index import OffsetIndex
    from kafkalog.indexes.time_index import TimeIndex
    from kafkalog.indexes.txn_index import TransactionIndex
    from kafkalog.log.log import Log
    from kafkalog.log.opening import open
    from kafkalog.log.writable_log import WritableLog
    from kafkalog.manager.log_manager import LogManager
    from kafkalog.manager.replication import replicate
    from kafkalog.messages.internal_records import InternalRecord
    from kafkalog.query.index_scan import scan_indexes
    from kafkalog.query.latest_records import latest
    from kafkalog.query.listing import ls
    from kafkalog.query.log_diff import diff
    from kafkalog.query.records import Records
    from kafkalog.query.scan import Scan, scan
    from kafkalog.query.splits import splits
    from kafkalog.repairs.directory_repair import repair
    from kafkalog.server.server import serve
    from kafkalog.startup.broker_start import preflight
    from kafkalog.verification import verify

__version__ = "0.1.0"

__all__ = [
    "BrokerConfig",
    "CorruptionError",
    "InternalRecord",
    "KafkaLogError",
    "Log",
    "LogConfig",
    "LogLockedError",
    "LogManager",
    "OffsetIndex",
    "RecordBatch",
    "RecordBatchBuilder",
    "Records",
    "Scan",
    "TimeIndex",
    "TransactionIndex",
    "WritableLog",
    "batches",
    "compact",
    "dataset",
    "diff",
    "duckdb_source",
    "encode_batches",
    "groups",
    "heal",
    "internal",
    "lag",
    "latest",
    "ls",
    "open",
    "preflight",
    "prove",
    "repair",
    "replicate",
    "restore",
    "salvage",
    "scan",
    "scan_indexes",
    "serve",
    "splits",
    "stats",
    "topics",
    "txns",
    "verify",
    "whatif",
    "why",
]

_MODULES: Final = {
    "BrokerConfig": "config.broker_config",
    "InternalRecord": "messages.internal_records",
    "Log": "log.log",
    "LogConfig": "config.log_config",
    "LogManager": "manager.log_manager",
    "OffsetIndex": "indexes.offset_index",
    "RecordBatch": "decoding.record_batch",
    "RecordBatchBuilder": "encoding.batch_builder",
    "Records": "query.records",
    "Scan": "query.scan",
    "TimeIndex": "indexes.time_index",
    "TransactionIndex": "indexes.txn_index",
    "WritableLog": "log.writable_log",
    "batches": "export.batch_table",
    "compact": "cleaner.offline_compaction",
    "dataset": "export.log_dataset",
    "diff": "query.log_diff",
    "duckdb_source": "export.duckdb_source",
    "encode_batches": "encoding.batch_builder",
    "groups": "analysis.group_lag",
    "heal": "copies.replica_healing",
    "internal": "analysis.internal_tables",
    "lag": "analysis.group_lag",
    "latest": "query.latest_records",
    "ls": "query.listing",
    "open": "log.opening",
    "preflight": "startup.broker_start",
    "prove": "copies.log_restore",
    "repair": "repairs.directory_repair",
    "replicate": "manager.replication",
    "restore": "copies.log_restore",
    "salvage": "copies.log_salvage",
    "scan": "query.scan",
    "scan_indexes": "query.index_scan",
    "serve": "server.server",
    "splits": "query.splits",
    "stats": "analysis.log_stats",
    "topics": "analysis.internal_tables",
    "txns": "analysis.transaction_report",
    "verify": "verification",
    "whatif": "cleaner.planned_removals",
    "why": "cleaner.segment_keeping",
}
"""Names that need NumPy, and their modules, which are imported on first use.

If an optional package that a module needs is missing, its functions raise an error when
they are called, and all names can be imported.

The errors of `kafkalog.errors` that are not listed in `__all__` resolve, too.
"""

_RENAMED: Final = {
    "AppendResult": "kafkalog.log.appending.AppendResult",
    "Problem": "kafkalog.verification.Problem",
    "Record": "kafkalog.decoding.record_batch.Record",
    "Report": "kafkalog.verification.Report",
    "Split": "kafkalog.query.splits.Split",
    "consumer_groups": "kafkalog.groups",
    "decode_internal": "kafkalog.InternalRecord.decode",
    "ray_datasource": "kafkalog.export.ray_source.ray_datasource",
    "read_properties": "kafkalog.storage.properties_file.read_properties",
    "scan_offset_indexes": 'kafkalog.scan_indexes(path, "offset")',
    "scan_time_indexes": 'kafkalog.scan_indexes(path, "time")',
    "scan_transaction_indexes": 'kafkalog.scan_indexes(path, "transaction")',
    "transactions": "kafkalog.analysis.internal_tables.transactional_ids",
}
"""Names of the release before, and the new ones. Each use raises an error."""

if not TYPE_CHECKING:

    def _raising(name: str, error: MissingDependencyError) -> Any:
        """Return a function that raises the error of its module when it is called."""

        def function(*_: object, **__: object) -> None:
            raise MissingDependencyError(error.package, error.extra)

        function.__name__ = function.__qualname__ = name
        function.__doc__ = f"Raise `MissingDependencyError`: {error}."
        return function

    def _renamed(name: str, caller: FrameType) -> Exception:
        """Return the error for a name of the release before.

        ``from kafkalog import name`` does not show the message of an `AttributeError`,
        so it gets an `ImportError`. It asks for the attribute in the import system.
        """
        reason = f"kafkalog.{name} is {_RENAMED[name]} now"
        if caller.f_globals.get("__name__") == "importlib._bootstrap":
            return ImportError(reason, name=__name__)
        return AttributeError(reason, name=name)

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            try:
                module = import_module(f"kafkalog.{_MODULES[name]}")
            except MissingDependencyError as error:
                # Not kept: the package may be installed later.
                return _raising(name, error)
            value = getattr(module, name)
        elif name in errors.__all__:
            value = getattr(errors, name)
        elif name == "values":
            value = import_module("kafkalog.values")
        elif name in _RENAMED:
            raise _renamed(name, sys._getframe(1))
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        kept = {name for name in globals() if name[:2] == name[-2:] == "__"}
        return sorted({*kept, *__all__})
