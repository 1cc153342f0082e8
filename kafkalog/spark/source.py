"""``format("kafkalog")``: log directories as a source of Spark, batch and stream.

Spark asks for the source, and for its schema, in processes made for that alone, query
by query. So this room is light, and fetches what plans and reads when that is wanted.

There is no ``pushFilters``: up to Spark 4.3 a reader that has it gives wrong rows when
its DataFrame is used twice. Options and the schema say what to read.

Knows: the two kinds of readers. Does not know: how anything is read.
Source: ``KafkaSourceProvider.scala``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kafkalog.export.optional_packages import require
from kafkalog.spark.read_options import asked_columns, parse_options
from kafkalog.spark.spark_columns import sql_schema
from kafkalog.storage.store_options import Hidden

if TYPE_CHECKING:
    from pyspark.sql import datasource
else:
    datasource = require("pyspark.sql.datasource", "spark")


class KafkaLogDataSource(datasource.DataSource):  # type: ignore[misc]
    """Kafka's log directories, with the columns and options of Spark's Kafka source."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Keep the options so that no text shows the credentials among them.

        Spark may be told to show the variables of Python's frames with an error.
        """
        super().__init__({name: Hidden(value) for name, value in options.items()})

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "kafkalog"

    def schema(self) -> str:
        """Spell as DDL the columns of Spark's Kafka source, or those asked for."""
        return sql_schema(asked_columns(self.options))

    def reader(self, schema: Any) -> Any:
        """Make the reader of a batch query."""
        from kafkalog.spark.batch_query import BatchReader

        return BatchReader(parse_options(self.options, streaming=False), schema)

    def streamReader(self, schema: Any) -> Any:
        """Make the reader of a streaming query."""
        from kafkalog.spark.stream_query import StreamReader

        return StreamReader(parse_options(self.options, streaming=True), schema)
