"""The columns of the Spark source: those of Spark's Kafka source, then kafkalog's own.

Spark does not pass the columns of a query to a Python source, so a schema or the option
``columns`` selects them. This module does not import PySpark.

Source: ``KafkaRecordToRowConverter.scala``.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkalog.errors import ConfigError
from kafkalog.optional_packages import require

if TYPE_CHECKING:
    import pyarrow as pa

HEADERS: Final = "array<struct<key:string,value:binary>>"


class SourceColumn(NamedTuple):
    """A column: its name in a scan, its SQL type, and whether it may be null."""

    scan_name: str
    sql_type: str
    nullable: bool = False

    @property
    def arrow_type(self) -> pa.DataType:
        """The Arrow type that Spark expects for the SQL type."""
        return _arrow_types()[self.sql_type]


COLUMNS: Final = {
    "key": SourceColumn("key", "binary", nullable=True),
    "value": SourceColumn("value", "binary", nullable=True),
    "topic": SourceColumn("topic", "string"),
    "partition": SourceColumn("partition", "int"),
    "offset": SourceColumn("offset", "bigint"),
    "timestamp": SourceColumn("timestamp", "timestamp"),
    "timestampType": SourceColumn("timestamp_type", "int"),
    "headers": SourceColumn("headers", HEADERS, nullable=True),
    "leaderEpoch": SourceColumn("leader_epoch", "int"),
    "producerId": SourceColumn("producer_id", "bigint"),
    "producerEpoch": SourceColumn("producer_epoch", "smallint"),
    "sequence": SourceColumn("sequence", "int"),
    "isTransactional": SourceColumn("is_transactional", "boolean"),
    "isControl": SourceColumn("is_control", "boolean"),
    "magic": SourceColumn("magic", "tinyint"),
    "codec": SourceColumn("codec", "string"),
    "segment": SourceColumn("segment", "string"),
    "position": SourceColumn("position", "bigint"),
}
"""All columns; the first eight are those of Spark's Kafka source, in its order."""

KAFKA_COLUMNS: Final = tuple(COLUMNS)[:8]

_CANONICAL_NAMES: Final = {name.lower(): name for name in COLUMNS}


def canonical_name(name: str) -> str | None:
    """Return the name of a column given in any case, or None if there is none.

    >>> canonical_name("TIMESTAMPTYPE"), canonical_name("valeur")
    ('timestampType', None)
    """
    return _CANONICAL_NAMES.get(name.lower())


@cache
def _arrow_types() -> dict[str, pa.DataType]:
    """Return the Arrow type of each SQL type. Imports pyarrow on first use."""
    pa = require("pyarrow", "spark")
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    return {
        "binary": pa.binary(),
        "string": pa.string(),
        "tinyint": pa.int8(),
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "boolean": pa.bool_(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        HEADERS: pa.list_(header),
    }


def default_columns(*, include_headers: bool) -> tuple[str, ...]:
    """Return the names of the columns of Spark's Kafka source.

    >>> default_columns(include_headers=False)[-1]
    'timestampType'
    """
    return KAFKA_COLUMNS if include_headers else KAFKA_COLUMNS[:-1]


def sql_schema(columns: Iterable[str]) -> str:
    """Return the schema of these columns as DDL.

    >>> sql_schema(["topic", "offset"])
    'topic string, offset bigint'
    """
    return ", ".join(f"{name} {COLUMNS[name].sql_type}" for name in columns)


def arrow_schema(schema: Any) -> pa.Schema:
    """Return the Arrow schema that Spark expects for a ``StructType`` of these columns.

    Column names keep the case of `schema`. Raises `ConfigError`, which lists every
    field that the source does not have.
    """
    pa = require("pyarrow", "spark")
    wrong, fields = [], []
    for field in schema.fields:
        name, sql_type = canonical_name(field.name), field.dataType.simpleString()
        if name is None:
            wrong.append(f"no column {field.name!r}; there are {', '.join(COLUMNS)}")
            continue
        column = COLUMNS[name]
        if sql_type != column.sql_type:
            wrong.append(f"{field.name}: expected {column.sql_type}, got {sql_type}")
        elif column.nullable and not field.nullable:
            wrong.append(f"{field.name}: expected nullable, got not null")
        else:
            fields.append(pa.field(field.name, column.arrow_type, field.nullable))
    names = [canonical_name(field.name) or field.name for field in schema.fields]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        wrong.append(f"duplicate columns: {', '.join(repeated)}")
    if not names:
        wrong.append("no columns")
    if wrong:
        raise ConfigError("schema: " + "; ".join(wrong))
    return pa.schema(fields)
