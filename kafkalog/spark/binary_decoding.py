"""Bytes of whole batches -> Arrow batches: of their records, or of their headers.

The bytes are those of a segment, a batch, or several batches behind one another, as
they lie in a file or as something else carried them. An incomplete batch at the end is
no error, as at the end of a file.

Knows: the two tables that such bytes can become. Does not know: Spark, where the bytes
are from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from kafkalog.decoding.batch_decoder import Bounds
from kafkalog.export.optional_packages import require
from kafkalog.formats.entry_headers import Rows, find_unsound
from kafkalog.formats.layout import (
    CODEC_MASK,
    CODECS,
    CONTROL_FLAG,
    LOG_APPEND_TIME_FLAG,
    TRANSACTIONAL_FLAG,
    TimestampType,
)
from kafkalog.query.part_reading import Problem, Request
from kafkalog.query.scan import Scan
from kafkalog.query.sources import Part
from kafkalog.segment.file_records import FileRecords, Skipped
from kafkalog.segment.strays import Limits
from kafkalog.spark.row_converter import RowMaker
from kafkalog.spark.spark_columns import COLUMNS, default_columns
from kafkalog.storage.byte_source import MemorySource

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = require("pyarrow", "spark")

OF_FILES: Final = frozenset({"topic", "partition", "segment"})
"""Columns of the source that bytes by themselves do not tell."""

POSITION: Final = "position"

RECORD_COLUMNS: Final = tuple(name for name in COLUMNS if name not in OF_FILES)
DEFAULT_RECORD_COLUMNS: Final = tuple(
    name for name in default_columns(include_headers=False) if name not in OF_FILES
)


class Unpacked(NamedTuple):
    """A batch, and of each row the position of the batch of Kafka's it is from."""

    batch: pa.RecordBatch
    positions: npt.NDArray[np.int64]


class Unpacking(Protocol):
    """A way to make Arrow batches of bytes."""

    @property
    def sql_types(self) -> dict[str, str]:
        """Names of the columns it makes, and their types in Spark."""

    @property
    def schema(self) -> pa.Schema:
        """The same in Arrow."""

    def batches(self, data: Any) -> Iterator[Unpacked | Problem]:
        """Unpack bytes, and say in its place what is left out, if that is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsOf:
    """Makes a row of each record; no record becomes a Python object.

    >>> import kafkalog
    >>> batch = kafkalog.RecordBatchBuilder(base_offset=7)
    >>> batch.append(b"k", b"v", timestamp=1700000000000)
    >>> [made] = RecordsOf(names=("offset", "value")).batches(batch.build())
    >>> made.batch.to_pylist(), made.positions
    ([{'offset': 7, 'value': b'v'}], array([0]))
    """

    names: tuple[str, ...]
    skip: bool = False
    control_records: bool = False

    @property
    def sql_types(self) -> dict[str, str]:
        """Names of the columns it makes, and their types in Spark."""
        return {name: COLUMNS[name].sql_type for name in self.names}

    @property
    def schema(self) -> pa.Schema:
        """The same in Arrow."""
        return _arrow_schema(self.names)

    def batches(self, data: Any) -> Iterator[Unpacked | Problem]:
        """Unpack bytes; raise `CorruptRecordError` at damage, unless it is skipped."""
        names = self.names
        if POSITION not in names:
            names = (*names, POSITION)
        maker = RowMaker(_arrow_schema(names))
        scan = Scan(
            parts=((Part(memory=data), Bounds()),),
            columns=maker.scanned,
            request=Request(skip=self.skip, control_records=self.control_records),
        )
        for records in scan.chunks():
            for batch in maker.batches(records):
                positions = batch.column(POSITION).to_numpy()
                yield Unpacked(batch.select(self.names), positions)
        yield from scan.problems


def _arrow_schema(names: tuple[str, ...]) -> pa.Schema:
    return pa.schema([(name, COLUMNS[name].arrow_type) for name in names])


class HeaderColumn(NamedTuple):
    """A column of batch headers: its type in Spark and Arrow, and what it is of."""

    sql_type: str
    arrow_type: pa.DataType
    value: Callable[[Rows], npt.NDArray[Any]]


def _field(name: str) -> Callable[[Rows], npt.NDArray[Any]]:
    return lambda rows: np.ascontiguousarray(rows[name])


def _flag(flag: int) -> Callable[[Rows], npt.NDArray[Any]]:
    return lambda rows: (rows["magic"] == 2) & (rows["attributes"] & flag != 0)


def _timestamp_type(rows: Rows) -> npt.NDArray[np.int32]:
    log_append = (rows["attributes"] & LOG_APPEND_TIME_FLAG != 0).astype(np.int32)
    none = np.int32(TimestampType.NO_TIMESTAMP_TYPE)
    return np.where(rows["magic"] == 0, none, log_append)


def _codec(rows: Rows) -> npt.NDArray[np.int8]:
    return (rows["attributes"] & CODEC_MASK).astype(np.int8)


HEADER_COLUMNS: Final = {
    "baseOffset": HeaderColumn("bigint", pa.int64(), _field("base_offset")),
    "lastOffset": HeaderColumn("bigint", pa.int64(), _field("last_offset")),
    POSITION: HeaderColumn("bigint", pa.int64(), _field("position")),
    "sizeInBytes": HeaderColumn("bigint", pa.int64(), _field("size_in_bytes")),
    "count": HeaderColumn("int", pa.int32(), _field("count")),
    "magic": HeaderColumn("tinyint", pa.int8(), _field("magic")),
    "codec": HeaderColumn("string", pa.string(), _codec),
    "timestampType": HeaderColumn("int", pa.int32(), _timestamp_type),
    "maxTimestamp": HeaderColumn("bigint", pa.int64(), _field("max_timestamp")),
    "baseTimestamp": HeaderColumn("bigint", pa.int64(), _field("base_timestamp")),
    "leaderEpoch": HeaderColumn("int", pa.int32(), _field("leader_epoch")),
    "producerId": HeaderColumn("bigint", pa.int64(), _field("producer_id")),
    "producerEpoch": HeaderColumn("smallint", pa.int16(), _field("producer_epoch")),
    "baseSequence": HeaderColumn("int", pa.int32(), _field("base_sequence")),
    "isTransactional": HeaderColumn("boolean", pa.bool_(), _flag(TRANSACTIONAL_FLAG)),
    "isControl": HeaderColumn("boolean", pa.bool_(), _flag(CONTROL_FLAG)),
    "crc": HeaderColumn("bigint", pa.int64(), _field("crc")),
}
"""What a header says, as it says it: times in ms, -1 for what its magic does not have,
and for the base offset and count of a compressed message, which are inside."""

IS_VALID: Final = "isValid"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadersOf:
    """Makes a row of each batch, from its header, and whether its checksum is right.

    >>> import kafkalog
    >>> batch = kafkalog.RecordBatchBuilder(base_offset=7)
    >>> batch.append(b"k", b"v", timestamp=1700000000000)
    >>> [made] = HeadersOf().batches(batch.build())
    >>> made.batch.select(["baseOffset", "codec", "isValid"]).to_pylist()
    [{'baseOffset': 7, 'codec': 'none', 'isValid': True}]
    """

    skip: bool = False

    @property
    def sql_types(self) -> dict[str, str]:
        """Names of the columns it makes, and their types in Spark."""
        types = {name: column.sql_type for name, column in HEADER_COLUMNS.items()}
        return types | {IS_VALID: "boolean"}

    @property
    def schema(self) -> pa.Schema:
        """The same in Arrow."""
        types = {name: column.arrow_type for name, column in HEADER_COLUMNS.items()}
        return pa.schema(types | {IS_VALID: pa.bool_()})

    def batches(self, data: Any) -> Iterator[Unpacked | Problem]:
        """Unpack bytes; raise `CorruptRecordError` where no header can be."""
        steps = FileRecords(
            source=MemorySource(data),
            limits=Limits(ordered=False),
            check_crcs=False,
            skip=self.skip,
        )
        for step in steps:
            if isinstance(step, Skipped):
                yield Problem.of(step.error, step.first_offset, step.last_offset)
                continue
            arrays = [
                _codec_names(column.value(step.rows))
                if name == "codec"
                else pa.array(column.value(step.rows), column.arrow_type)
                for name, column in HEADER_COLUMNS.items()
            ]
            valid = np.ones(len(step.rows), np.bool_)
            valid[find_unsound(step.data, step.origin, step.rows)] = False
            arrays.append(pa.array(valid))
            batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
            yield Unpacked(batch, np.ascontiguousarray(step.rows["position"]))


def _codec_names(codes: npt.NDArray[np.int8]) -> pa.Array:
    """Name codecs; null is for the codes that no codec has."""
    known = pa.array(codes, mask=codes >= len(CODECS))
    return pa.DictionaryArray.from_arrays(
        known, pa.array(CODECS, pa.string())
    ).dictionary_decode()
