"""Spark reading a broker's log directory, compared with its own Kafka source.

The rows of `bench_spark`, in a topic of four partitions on a local broker, in 16 KB
batches. The peer reads them from the broker, with default fetch sizes and with larger
ones; ours reads the broker's log directory. Processor seconds include the broker's.
``make bench-spark_kafka`` installs Spark's Kafka source and runs it.
"""

import pytest
from spark_rounds import SHAPE, SIZE, compare, noop, write_log

from tests.interop.fill import Topics

PARTITIONS, TIMES = 4, 18
BATCH_BYTES = 16 * 1024
SEGMENT_BYTES = 1 << 30
TUNED = {
    "kafka.max.poll.records": "10000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.receive.buffer.bytes": str(1 << 20),
    "kafka.fetch.min.bytes": str(1 << 20),
    "kafka.check.crcs": "false",
}
WAYS = {"default": {}, "tuned": TUNED}


@pytest.fixture(scope="module")
def topic(spark_with_kafka, broker, spark_folder):
    """Write the rows to a topic with Spark, once a codec; return name and count."""
    made = {}

    def make(codec):
        if codec not in made:
            logs = spark_folder / "source" / codec
            for partition in range(PARTITIONS):
                times = (TIMES + partition) // PARTITIONS
                write_log(logs / f"rows-{partition}", codec, times, SEGMENT_BYTES)
            name = f"rows.{codec}"
            with Topics(broker) as topics:
                topics.create(name, PARTITIONS)
            frame = spark_with_kafka.read.format("kafkalog").load(str(logs))
            written = frame.select("key", "value", "partition").write.format("kafka")
            written.options(**writing(broker, name, codec)).save()
            made[codec] = name, frame.count()
        return made[codec]

    return make


def writing(broker, name, codec):
    return {
        "kafka.bootstrap.servers": broker.address,
        "topic": name,
        "kafka.batch.size": str(BATCH_BYTES),
        "kafka.linger.ms": "100",
        "kafka.compression.type": codec,
    }


def ours(reader, broker, name):
    return reader.format("kafkalog").option("subscribe", name).load(str(broker.logs))


def theirs(reader, broker, name, way):
    options = {"kafka.bootstrap.servers": broker.address, "subscribe": name}
    return reader.format("kafka").options(**options, **WAYS[way]).load()


CODECS = pytest.mark.parametrize(
    ("shape", "size", "codec"), [(SHAPE, SIZE, "none"), (SHAPE, SIZE, "zstd")]
)


@pytest.mark.parametrize("way", WAYS)
@CODECS
def bench_spark_reads_broker_data(
    benchmark, spark_with_kafka, broker, topic, shape, size, codec, way
):
    name, count = topic(codec)
    assert ours(spark_with_kafka.read, broker, name).count() == count
    assert theirs(spark_with_kafka.read, broker, name, way).count() == count
    benchmark.pedantic(noop, (ours(spark_with_kafka.read, broker, name),))
    benchmark.extra_info |= compare(
        lambda: noop(ours(spark_with_kafka.read, broker, name)),
        lambda: noop(theirs(spark_with_kafka.read, broker, name, way)),
        peer="spark-kafka",
        of=count,
    )


@CODECS
def bench_spark_catches_up_with_a_stream(
    benchmark, spark_with_kafka, broker, topic, tmp_path_factory, shape, size, codec
):
    name, count = topic(codec)

    def catch_up(make, *more):
        reader = spark_with_kafka.readStream.option("startingOffsets", "earliest")
        stream = make(reader, broker, name, *more).writeStream.format("noop")
        checkpoint = str(tmp_path_factory.mktemp("checkpoint"))
        stream = stream.option("checkpointLocation", checkpoint)
        query = stream.trigger(availableNow=True).start()
        query.awaitTermination()
        assert sum(one["numInputRows"] for one in query.recentProgress) == count

    benchmark.pedantic(catch_up, (ours,))
    benchmark.extra_info |= compare(
        lambda: catch_up(ours),
        lambda: catch_up(theirs, "default"),
        peer="spark-kafka",
        of=count,
    )
