"""``format("kafkalog")``: log directories as a data source of Spark, batch and stream.

For each query Spark imports this module in a process that needs the schema only, so
the readers and writers are imported when Spark creates them.

The reader has no ``pushFilters``: up to Spark 4.3 a reader that has it returns wrong
rows when its DataFrame is used twice.

Source: ``KafkaSourceProvider.scala``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kafkalog.optional_packages import require
from kafkalog.spark.read_options import parse_options, requested_columns
from kafkalog.spark.spark_columns import sql_schema
from kafkalog.storage.store_options import Hidden

if TYPE_CHECKING:
    from pyspark.sql import datasource
else:
    datasource = require("pyspark.sql.datasource", "spark")


class KafkaLogDataSource(datasource.DataSource):  # type: ignore[misc]
    """The data source, with the columns and options of Spark's Kafka source."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Keep the options, each hidden from reprs.

        Spark can be configured to print the variables of Python's frames with an error,
        and options may have credentials.
        """
        super().__init__({name: Hidden(value) for name, value in options.items()})

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "kafkalog"

    def schema(self) -> str:
        """Return the requested columns as DDL."""
        return sql_schema(requested_columns(self.options))

    def reader(self, schema: Any) -> Any:
        """Return the reader of a batch query."""
        from kafkalog.spark.batch_query import KafkaLogBatchReader

        return KafkaLogBatchReader(parse_options(self.options, streaming=False), schema)

    def streamReader(self, schema: Any) -> Any:
        """Return the reader of a streaming query."""
        from kafkalog.spark.stream_query import KafkaLogStreamReader

        return KafkaLogStreamReader(parse_options(self.options, streaming=True), schema)

    def writer(self, schema: Any, overwrite: bool) -> Any:
        """Return the writer of ``df.write``."""
        from kafkalog.spark.sink.write_options import parse_sink_options
        from kafkalog.spark.sink.writers import KafkaLogBatchWriter, check_write

        options = parse_sink_options(self.options)
        check_write(schema, overwrite, options)
        return KafkaLogBatchWriter(options)

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        """Return the writer of ``df.writeStream``."""
        from kafkalog.spark.sink.write_options import parse_sink_options
        from kafkalog.spark.sink.writers import KafkaLogStreamWriter, check_write

        options = parse_sink_options(self.options, streaming=True)
        check_write(schema, overwrite, options)
        return KafkaLogStreamWriter(options, schema)
