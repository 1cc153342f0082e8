"""The source's columns: the eight of Spark's own Kafka source, and the library's.

A schema that the user gives picks from them, in any order: it is the way to read less,
since Spark tells no Python source which columns a query needs.

Knows: names and types. Does not know: PySpark; its schemas are asked for their fields.
Source: ``KafkaRecordToRowConverter.scala``.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkalog.errors import ConfigError
from kafkalog.export.optional_packages import require

if TYPE_CHECKING:
    import pyarrow as pa

HEADERS: Final = "array<struct<key:string,value:binary>>"


class Column(NamedTuple):
    """A column: its name in a scan, its type in Spark, whether it may be null."""

    scanned: str
    sql_type: str
    nullable: bool = False

    @property
    def arrow_type(self) -> pa.DataType:
        """The type in Arrow that Spark takes for its own."""
        return _arrow_types()[self.sql_type]


COLUMNS: Final = {
    "key": Column("key", "binary", nullable=True),
    "value": Column("value", "binary", nullable=True),
    "topic": Column("topic", "string"),
    "partition": Column("partition", "int"),
    "offset": Column("offset", "bigint"),
    "timestamp": Column("timestamp", "timestamp"),
    "timestampType": Column("timestamp_type", "int"),
    "headers": Column("headers", HEADERS, nullable=True),
    "leaderEpoch": Column("leader_epoch", "int"),
    "producerId": Column("producer_id", "bigint"),
    "producerEpoch": Column("producer_epoch", "smallint"),
    "sequence": Column("sequence", "int"),
    "isTransactional": Column("is_transactional", "boolean"),
    "isControl": Column("is_control", "boolean"),
    "magic": Column("magic", "tinyint"),
    "codec": Column("codec", "string"),
    "segment": Column("segment", "string"),
    "position": Column("position", "bigint"),
}
"""All there are: first those of Spark's Kafka source, in its order."""

KAFKA_COLUMNS: Final = tuple(COLUMNS)[:8]

_SPELLED: Final = {name.lower(): name for name in COLUMNS}


def spelled(name: str) -> str | None:
    """Spell a column's name as here, of whatever case it is; None if there is none.

    >>> spelled("TIMESTAMPTYPE"), spelled("valeur")
    ('timestampType', None)
    """
    return _SPELLED.get(name.lower())


@cache
def _arrow_types() -> dict[str, pa.DataType]:
    """Return Arrow's type for each of Spark's; fetched late: not all need pyarrow."""
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

    It has the user's spelling of their names, whose case means as little as in SQL.
    Raises `ConfigError`, which names all that the source cannot give.
    """
    pa = require("pyarrow", "spark")
    wrong, fields = [], []
    for field in schema.fields:
        name, asked = spelled(field.name), field.dataType.simpleString()
        if name is None:
            wrong.append(f"no column {field.name!r}; there are {', '.join(COLUMNS)}")
            continue
        column = COLUMNS[name]
        if asked != column.sql_type:
            wrong.append(f"{field.name} is {column.sql_type}, not {asked}")
        elif column.nullable and not field.nullable:
            wrong.append(f"{field.name} may be null, and the schema says it is not")
        else:
            of_arrow = pa.field(field.name, column.arrow_type, field.nullable)
            fields.append(of_arrow)
    names = [spelled(field.name) or field.name for field in schema.fields]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        wrong.append(f"columns named twice: {', '.join(repeated)}")
    if not names:
        wrong.append("no columns")
    if wrong:
        raise ConfigError("schema: " + "; ".join(wrong))
    return pa.schema(fields)
