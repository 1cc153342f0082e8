"""The same read from two sources: a broker, and its log directory."""

from __future__ import annotations

import json

SELECTED = (
    *("topic", "partition", "offset", "key", "value"),
    "unix_micros(timestamp) timestamp",
    "timestampType",
)
OFFSETS = ("startOffset", "endOffset")


class Sources:
    """Both sources of one session and one broker."""

    def __init__(self, spark, broker):
        self.spark = spark
        self.options = {
            "kafka": {
                "kafka.bootstrap.servers": broker.address,
                "kafkaConsumer.pollTimeoutMs": "2000",  # where there is no record
            },
            "kafkalog": {"path": str(broker.logs)},
        }

    def frames(self, **options):
        """Read from both with the same options; a dot in a name is written __."""
        return [self.frame(name, options) for name in self.options]

    def frame(self, name, options):
        reader = self.spark.read.format(name)
        return reader.options(**self.options[name], **dotted(options)).load()

    def stream(self, name, **options):
        reader = self.spark.readStream.format(name)
        return reader.options(**self.options[name], **dotted(options)).load()

    def errors(self, **options):
        """Return the error messages of both sources, Spark's first."""
        messages = []
        for name in self.options:
            try:
                self.frame(name, options).count()
            except Exception as error:
                messages.append(str(error))
            else:
                raise AssertionError(f"{name} took {options}")
        return messages


def dotted(options):
    return {key.replace("__", "."): str(value) for key, value in options.items()}


def rows(frame):
    """Return all rows in order, with bytes and headers as Python has them."""
    more = ["headers"] if "headers" in frame.columns else []
    found = frame.selectExpr(*SELECTED, *more).toArrow().to_pylist()
    found.sort(key=lambda row: (row["topic"], row["partition"], row["offset"]))
    return found


def catch_up(stream, out, checkpoint):
    """Read all records to Parquet; return the offsets of each batch that had rows."""
    query = start(stream, out, checkpoint, availableNow=True)
    query.awaitTermination()
    return batches(query)


def start(stream, out, checkpoint, **trigger):
    """Write a stream to Parquet, by a trigger or whenever there is something new."""
    writer = stream.writeStream.format("parquet").option("path", str(out))
    if trigger:
        writer = writer.trigger(**trigger)
    return writer.option("checkpointLocation", str(checkpoint)).start()


def batches(query):
    """Return the offsets of each batch so far that had rows."""
    return [
        tuple(json.loads(one["sources"][0][end]) for end in OFFSETS)
        for one in query.recentProgress
        if one["numInputRows"]
    ]
