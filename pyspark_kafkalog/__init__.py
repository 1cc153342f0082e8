"""By this package's name Spark finds ``format("kafkalog")``, with nothing to register.

Spark imports every package named ``pyspark_*`` when it meets a format it does not know,
and one that raises would hide all others: so this one never does.
"""

from contextlib import suppress

with suppress(Exception):
    from kafkalog.spark.source import KafkaLogDataSource as DefaultSource

    __all__ = ["DefaultSource"]
