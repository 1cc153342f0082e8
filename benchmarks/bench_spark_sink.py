"""Spark writing log directories, compared with its own Kafka sink.

Three million rows of log100 without keys, read from Parquet, go to a topic of four
partitions in batches of 16 KB. The peer writes them to a local broker, with the
producer's defaults and with a linger time that fills batches; ours writes a log
directory. Ours forces all to disk, which a broker does not. Processor seconds include
the broker's. ``make bench-spark_sink`` installs Spark's Kafka sink and runs it.
"""

from shutil import rmtree
from uuid import uuid4

import pytest
from spark_rounds import SHAPE, SIZE, compare, write_log

from tests.interop.fill import Topics

TOPIC = "rows"
PARTITIONS, TIMES = 4, 18
BATCH_BYTES = 16 * 1024
SEGMENT_BYTES = 1 << 30
WAYS = {"default": {}, "tuned": {"kafka.linger.ms": "100"}}


@pytest.fixture(scope="module")
def rows(spark_with_kafka, spark_folder):
    """Return the rows as Parquet, and their number."""
    for partition in range(PARTITIONS):
        times = (TIMES + partition) // PARTITIONS
        write_log(
            spark_folder / f"source/rows-{partition}", "none", times, SEGMENT_BYTES
        )
    frame = spark_with_kafka.read.format("kafkalog").load(str(spark_folder / "source"))
    frame.select("value", "timestamp").write.parquet(str(spark_folder / "rows.parquet"))
    rmtree(spark_folder / "source")
    frame = spark_with_kafka.read.parquet(str(spark_folder / "rows.parquet"))
    return frame, frame.count()


class Sinks:
    """Writes the rows by each sink, each time to a new topic."""

    def __init__(self, frame, broker, logs, codec, way):
        self.frame, self.broker, self.logs, self.way = frame, broker, logs, way
        self.topics = []
        self.options = {
            "kafka.compression.type": codec,
            "kafka.batch.size": str(BATCH_BYTES),
        }

    def ours(self):
        rmtree(self.logs, ignore_errors=True)
        self._save("kafkalog", {"partitions": str(PARTITIONS), "path": str(self.logs)})

    def theirs(self):
        servers = {"kafka.bootstrap.servers": self.broker.address}
        self.topics.append(f"{TOPIC}.{uuid4().hex}")
        with Topics(self.broker) as topics:
            topics.create(self.topics[-1], PARTITIONS)
        self._save("kafka", servers | WAYS[self.way] | {"topic": self.topics[-1]})

    def _save(self, name, options):
        writer = self.frame.write.format(name).mode("append").option("topic", TOPIC)
        writer.options(**self.options, **options).save()

    def delete_topics(self):
        with Topics(self.broker) as topics:
            for deleted in topics.admin.delete_topics(self.topics).values():
                deleted.result()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("shape", "size", "codec"), [(SHAPE, SIZE, "none"), (SHAPE, SIZE, "zstd")]
)
def bench_spark_writes(
    benchmark, spark_with_kafka, broker, spark_folder, rows, way, shape, size, codec
):
    frame, count = rows
    sinks = Sinks(frame, broker, spark_folder / "ours", codec, way)

    def written(logs, topic):
        reader = spark_with_kafka.read.format("kafkalog").option("subscribe", topic)
        return reader.schema("offset bigint").load(str(logs)).count()

    benchmark.pedantic(sinks.ours)
    assert written(sinks.logs, TOPIC) == count
    sinks.theirs()
    assert written(broker.logs, sinks.topics[-1]) == count
    benchmark.extra_info |= compare(
        sinks.ours, sinks.theirs, peer="spark-kafka", of=count
    )
    sinks.delete_topics()
