"""Decoding of record batches to Arrow batches of their records, or of their headers.

The bytes are one or more batches as they are in a segment. As at the end of a file, an
incomplete batch at the end is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from kafkalog.decoding.read_policy import Bounds, ReadPolicy
from kafkalog.formats.batch_headers import BatchHeaders, find_crc_mismatches
from kafkalog.formats.layout import (
    CODEC_MASK,
    CODECS,
    CONTROL_FLAG,
    LOG_APPEND_TIME_FLAG,
    TRANSACTIONAL_FLAG,
    TimestampType,
)
from kafkalog.optional_packages import require
from kafkalog.query.partition_reader import ScanProblem
from kafkalog.query.scan import Scan
from kafkalog.query.sources import PartitionSource
from kafkalog.segment.entry_order import Limits
from kafkalog.segment.file_records import FileRecords, Skipped
from kafkalog.spark.row_converter import RowConverter
from kafkalog.spark.spark_columns import COLUMNS, default_columns
from kafkalog.storage.byte_source import MemorySource

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = require("pyarrow", "spark")

FILE_COLUMNS: Final = frozenset({"topic", "partition", "segment"})
"""Columns of the source that come from file names, and not from bytes."""

POSITION: Final = "position"

RECORD_COLUMNS: Final = tuple(name for name in COLUMNS if name not in FILE_COLUMNS)
DEFAULT_RECORD_COLUMNS: Final = tuple(
    name for name in default_columns(include_headers=False) if name not in FILE_COLUMNS
)


RECORD_POLICY: Final = ReadPolicy(check_crcs="while_decoding")
HEADER_POLICY: Final = ReadPolicy(check_crcs="never")
"""A CRC mismatch is reported in the column `IS_VALID`."""


class DecodedRows(NamedTuple):
    """An Arrow batch, and the position of the record batch of each row."""

    batch: pa.RecordBatch
    positions: npt.NDArray[np.int64]


class BinaryDecoder(Protocol):
    """A conversion of bytes to Arrow batches."""

    @property
    def sql_types(self) -> dict[str, str]:
        """The names and SQL types of the columns."""

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the columns."""

    def batches(self, data: Any) -> Iterator[DecodedRows | ScanProblem]:
        """Yield rows of `data`, and a `ScanProblem` for each range skipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDecoder:
    """A decoder of records, one row each; no record becomes a Python object.

    >>> import kafkalog
    >>> batch = kafkalog.RecordBatchBuilder(base_offset=7)
    >>> batch.append(b"k", b"v", timestamp=1700000000000)
    >>> [decoded] = RecordDecoder(names=("offset", "value")).batches(batch.build())
    >>> decoded.batch.to_pylist(), decoded.positions
    ([{'offset': 7, 'value': b'v'}], array([0]))
    """

    names: tuple[str, ...]
    policy: ReadPolicy = RECORD_POLICY

    @property
    def sql_types(self) -> dict[str, str]:
        """The names and SQL types of the columns."""
        return {name: COLUMNS[name].sql_type for name in self.names}

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the columns."""
        return _arrow_schema(self.names)

    def batches(self, data: Any) -> Iterator[DecodedRows | ScanProblem]:
        """Yield the records of `data`; `policy` states the response to corruption."""
        names = self.names
        if POSITION not in names:
            names = (*names, POSITION)
        converter = RowConverter(_arrow_schema(names))
        scan = Scan(
            sources=((PartitionSource(memory=data), Bounds()),),
            columns=converter.scan_columns,
            policy=self.policy,
        )
        for records in scan.chunks():
            for batch in converter.batches(records):
                positions = batch.column(POSITION).to_numpy()
                yield DecodedRows(batch.select(self.names), positions)
        yield from scan.problems


def _arrow_schema(names: tuple[str, ...]) -> pa.Schema:
    return pa.schema([(name, COLUMNS[name].arrow_type) for name in names])


class BatchHeaderColumn(NamedTuple):
    """A column of batch headers: SQL type, Arrow type, value of header rows."""

    sql_type: str
    arrow_type: pa.DataType
    value: Callable[[BatchHeaders], npt.NDArray[Any]]


def _field(name: str) -> Callable[[BatchHeaders], npt.NDArray[Any]]:
    return lambda rows: np.ascontiguousarray(rows[name])


def _flag(flag: int) -> Callable[[BatchHeaders], npt.NDArray[Any]]:
    return lambda rows: (rows["magic"] == 2) & (rows["attributes"] & flag != 0)


def _timestamp_type(rows: BatchHeaders) -> npt.NDArray[np.int32]:
    log_append = (rows["attributes"] & LOG_APPEND_TIME_FLAG != 0).astype(np.int32)
    none = np.int32(TimestampType.NO_TIMESTAMP_TYPE)
    return np.where(rows["magic"] == 0, none, log_append)


def _codec(rows: BatchHeaders) -> npt.NDArray[np.int8]:
    return (rows["attributes"] & CODEC_MASK).astype(np.int8)


HEADER_COLUMNS: Final = {
    "baseOffset": BatchHeaderColumn("bigint", pa.int64(), _field("base_offset")),
    "lastOffset": BatchHeaderColumn("bigint", pa.int64(), _field("last_offset")),
    POSITION: BatchHeaderColumn("bigint", pa.int64(), _field("position")),
    "sizeInBytes": BatchHeaderColumn("bigint", pa.int64(), _field("size_in_bytes")),
    "count": BatchHeaderColumn("int", pa.int32(), _field("count")),
    "magic": BatchHeaderColumn("tinyint", pa.int8(), _field("magic")),
    "codec": BatchHeaderColumn("string", pa.string(), _codec),
    "timestampType": BatchHeaderColumn("int", pa.int32(), _timestamp_type),
    "maxTimestamp": BatchHeaderColumn("bigint", pa.int64(), _field("max_timestamp")),
    "baseTimestamp": BatchHeaderColumn("bigint", pa.int64(), _field("base_timestamp")),
    "leaderEpoch": BatchHeaderColumn("int", pa.int32(), _field("leader_epoch")),
    "producerId": BatchHeaderColumn("bigint", pa.int64(), _field("producer_id")),
    "producerEpoch": BatchHeaderColumn(
        "smallint", pa.int16(), _field("producer_epoch")
    ),
    "baseSequence": BatchHeaderColumn("int", pa.int32(), _field("base_sequence")),
    "isTransactional": BatchHeaderColumn(
        "boolean", pa.bool_(), _flag(TRANSACTIONAL_FLAG)
    ),
    "isControl": BatchHeaderColumn("boolean", pa.bool_(), _flag(CONTROL_FLAG)),
    "crc": BatchHeaderColumn("bigint", pa.int64(), _field("crc")),
}
"""The header fields as stored. Fields that a magic does not have are -1, and so are the
base offset and count of a compressed message, which are inside it.
"""

IS_VALID: Final = "isValid"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHeaderDecoder:
    """A decoder of batch headers, one row each, with whether checksums match.

    >>> import kafkalog
    >>> batch = kafkalog.RecordBatchBuilder(base_offset=7)
    >>> batch.append(b"k", b"v", timestamp=1700000000000)
    >>> [decoded] = BatchHeaderDecoder().batches(batch.build())
    >>> decoded.batch.select(["baseOffset", "codec", "isValid"]).to_pylist()
    [{'baseOffset': 7, 'codec': 'none', 'isValid': True}]
    """

    policy: ReadPolicy = HEADER_POLICY

    @property
    def sql_types(self) -> dict[str, str]:
        """The names and SQL types of the columns."""
        types = {name: column.sql_type for name, column in HEADER_COLUMNS.items()}
        return types | {IS_VALID: "boolean"}

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the columns."""
        types = {name: column.arrow_type for name, column in HEADER_COLUMNS.items()}
        return pa.schema(types | {IS_VALID: pa.bool_()})

    def batches(self, data: Any) -> Iterator[DecodedRows | ScanProblem]:
        """Yield the headers of `data`; `policy` states the response to corruption."""
        steps = FileRecords(
            source=MemorySource(data),
            limits=Limits(ordered=False),
            policy=self.policy,
        )
        for step in steps:
            if isinstance(step, Skipped):
                yield ScanProblem.of(step.error, step.first_offset, step.last_offset)
                continue
            arrays = [
                _codec_names(column.value(step.rows))
                if name == "codec"
                else pa.array(column.value(step.rows), column.arrow_type)
                for name, column in HEADER_COLUMNS.items()
            ]
            valid = np.ones(len(step.rows), np.bool_)
            valid[find_crc_mismatches(step.data, step.origin, step.rows)] = False
            arrays.append(pa.array(valid))
            batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
            yield DecodedRows(batch, np.ascontiguousarray(step.rows["position"]))


def _codec_names(codes: npt.NDArray[np.int8]) -> pa.Array:
    """Return the names of codecs; null for codes without a codec."""
    known = pa.array(codes, mask=codes >= len(CODECS))
    return pa.DictionaryArray.from_arrays(
        known, pa.array(CODECS, pa.string())
    ).dictionary_decode()
