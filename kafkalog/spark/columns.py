"""The source's columns: the eight of Spark's own Kafka source, and the library's.

A schema that the user gives picks from them, in any order: it is the way to read less,
since Spark tells no Python source which columns a query needs.

Knows: names and types. Does not know: PySpark; its schemas are asked for their fields.
Source: ``KafkaRecordToRowConverter.scala``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkalog.errors import ConfigError
from kafkalog.export.missing import require

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = require("pyarrow", "arrow")

HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Column(NamedTuple):
    """A column: its name in a scan, its type in Spark and Arrow, if it may be null."""

    scanned: str
    sql_type: str
    arrow_type: pa.DataType
    nullable: bool = False


COLUMNS: Final = {
    "key": Column("key", "binary", pa.binary(), nullable=True),
    "value": Column("value", "binary", pa.binary(), nullable=True),
    "topic": Column("topic", "string", pa.string()),
    "partition": Column("partition", "int", pa.int32()),
    "offset": Column("offset", "bigint", pa.int64()),
    "timestamp": Column("timestamp", "timestamp", pa.timestamp("us", tz="UTC")),
    "timestampType": Column("timestamp_type", "int", pa.int32()),
    "headers": Column(
        "headers", "array<struct<key:string,value:binary>>", HEADERS, nullable=True
    ),
    "leaderEpoch": Column("leader_epoch", "int", pa.int32()),
    "producerId": Column("producer_id", "bigint", pa.int64()),
    "producerEpoch": Column("producer_epoch", "smallint", pa.int16()),
    "sequence": Column("sequence", "int", pa.int32()),
    "isTransactional": Column("is_transactional", "boolean", pa.bool_()),
    "isControl": Column("is_control", "boolean", pa.bool_()),
    "magic": Column("magic", "tinyint", pa.int8()),
    "codec": Column("codec", "string", pa.string()),
    "segment": Column("segment", "string", pa.string()),
    "position": Column("position", "bigint", pa.int64()),
}
"""All there are: first those of Spark's Kafka source, in its order."""

KAFKA_COLUMNS: Final = tuple(COLUMNS)[:8]


def default_columns(*, include_headers: bool) -> tuple[str, ...]:
    """Name the columns of Spark's Kafka source.

    >>> default_columns(include_headers=False)[-1]
    'timestampType'
    """
    return KAFKA_COLUMNS if include_headers else KAFKA_COLUMNS[:-1]


def sql_schema(columns: Iterable[str]) -> str:
    """Spell a schema as Spark's DDL.

    >>> sql_schema(["topic", "offset"])
    'topic string, offset bigint'
    """
    return ", ".join(f"{name} {COLUMNS[name].sql_type}" for name in columns)


def arrow_schema(schema: Any) -> pa.Schema:
    """Return the Arrow schema that Spark expects for a ``StructType`` of our columns.

    Raises `ConfigError`, which names all that the source cannot give.
    """
    wrong, fields = [], []
    for field in schema.fields:
        column, asked = COLUMNS.get(field.name), field.dataType.simpleString()
        if column is None:
            wrong.append(f"no column {field.name!r}; there are {', '.join(COLUMNS)}")
        elif asked != column.sql_type:
            wrong.append(f"{field.name} is {column.sql_type}, not {asked}")
        elif column.nullable and not field.nullable:
            wrong.append(f"{field.name} may be null, and the schema says it is not")
        else:
            of_arrow = pa.field(field.name, column.arrow_type, field.nullable)
            fields.append(of_arrow)
    names = [field.name for field in schema.fields]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        wrong.append(f"columns named twice: {', '.join(repeated)}")
    if not names:
        wrong.append("no columns")
    if wrong:
        raise ConfigError("schema: " + "; ".join(wrong))
    return pa.schema(fields)
