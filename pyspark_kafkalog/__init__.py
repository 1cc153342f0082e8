"""The data source ``format("kafkalog")``, which Spark finds without registration.

For an unknown format Spark imports every package named ``pyspark_*``. If one raises,
the others are not found, so this one never does.
"""

from contextlib import suppress

with suppress(Exception):
    from kafkalog.spark.source import KafkaLogDataSource as DefaultSource

    __all__ = ["DefaultSource"]
