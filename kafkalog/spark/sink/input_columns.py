"""The columns that the sink writes, from Arrow batches to columns of records.

Names and types are those of Spark's Kafka sink, and ``timestamp`` is added: key and
value are binary or text, partition is an int, headers are an array of key and value.
Other columns are ignored, so that what the source reads can be written.

Source: ``KafkaWriter.scala``, ``KafkaRowWriter.scala``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkalog.encoding.record_columns import RecordColumns
from kafkalog.encoding.record_input import record_columns
from kafkalog.errors import ConfigError, UnfitRecordsError
from kafkalog.optional_packages import require

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = require("pyarrow", "spark")

HEADERS: Final = "array<struct<key:string,value:binary>>"
TYPES: Final = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": (HEADERS,),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}
"""The columns written, and their types in Spark."""

ARROW_TYPES: Final = {
    "string": pa.string(),
    "binary": pa.binary(),
    HEADERS: pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    "int": pa.int32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "void": pa.null(),
}
"""The types of Arrow that Spark has for them."""

NO_PARTITION: Final = -1
"""The partition of a row without one."""


class InputRows(NamedTuple):
    """Rows as columns of records, with the topic and partition of each.

    `topic` has indexes into `topics`. `partition` is `NO_PARTITION` for a null.
    """

    records: RecordColumns
    topics: list[str]
    topic: npt.NDArray[np.int32]
    partition: npt.NDArray[np.int32]


def check_columns(types: dict[str, str], topic: str | None) -> None:
    """Check the columns of a table, given as Spark's simple type names by column.

    The column ``topic`` is ignored if `topic` is given.

    Raises one `ConfigError` for all faults.

    >>> check_columns({"key": "int", "offset": "bigint"}, None)
    Traceback (most recent call last):
    kafkalog.errors.ConfigError: topic option required when no 'topic' attribute is ...
    """
    faults = []
    if topic is None and "topic" not in types:
        faults.append(
            "topic option required when no 'topic' attribute is present. Use the topic "
            "option for setting a topic."
        )
    if "value" not in types:
        faults.append("Required attribute 'value' not found")
    faults += [
        f"{name} attribute unsupported type {types[name]}. {name} must be a(n) "
        f"{' or '.join(expected)}"
        for name, expected in TYPES.items()
        if name in types
        and types[name] not in expected
        # The type of a null literal.
        and types[name] != "void"
        and not (name == "topic" and topic is not None)
    ]
    if faults:
        raise ConfigError("; ".join(faults))


def read_rows(table: pa.Table, topic: str | None, now_ms: int) -> InputRows:
    """Return the rows of a table; `topic`, if given, is that of all rows.

    Rows whose timestamp is null get `now_ms`.

    Raises `UnfitRecordsError` for a null topic, a negative partition, a header without
    a key, and a time that no record can have.
    """
    names = set(table.column_names)
    written = {
        name: table.column(name)
        for name in ("key", "value", "headers", "timestamp")
        if name in names
    }
    records = record_columns(written, now_ms)
    if "timestamp" in written and table.column("timestamp").null_count:
        is_null = table.column("timestamp").is_null().to_numpy()
        timestamps = np.where(is_null, now_ms, records.timestamp)
        records = records._replace(timestamp=timestamps)
    topics, codes = _topics(table, topic)
    return InputRows(records, topics, codes, _partitions(table))


def _topics(
    table: pa.Table, topic: str | None
) -> tuple[list[str], npt.NDArray[np.int32]]:
    if topic is not None:
        return [topic], np.zeros(table.num_rows, np.int32)
    column = table.column("topic").combine_chunks()
    if column.null_count:
        raise UnfitRecordsError(
            "null topic present in the data. Use the topic option for setting a topic."
        )
    encoded = column.dictionary_encode()
    codes: Any = encoded.indices.to_numpy(zero_copy_only=False)
    return encoded.dictionary.to_pylist(), codes.astype(np.int32)


def _partitions(table: pa.Table) -> npt.NDArray[np.int32]:
    if "partition" not in table.column_names:
        return np.full(table.num_rows, NO_PARTITION, np.int32)
    column = table.column("partition").combine_chunks().cast(pa.int32())
    given: npt.NDArray[np.int32]
    given = column.fill_null(0).to_numpy(zero_copy_only=False)
    if given.min(initial=0) < 0:
        raise UnfitRecordsError(
            f"Invalid partition: {given.min()}. Partition number should always be "
            "non-negative or null."
        )
    return np.where(
        column.is_null().to_numpy(zero_copy_only=False), NO_PARTITION, given
    )
