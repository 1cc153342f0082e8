"""A broker serves what Spark wrote to its log directory while it was stopped."""

import pytest

import kafkalog
from tests.interop.broker import JARS, Broker
from tests.interop.clients import consume, create, produce, read

pytestmark = pytest.mark.interop

PARTITIONS = 3
CASES = {
    "plain": {"compression.type": "none"},
    "compressed": {"compression.type": "zstd", "topic.segment.bytes": "1048576"},
    "atomic": {"compression.type": "lz4", "visibility": "transaction"},
}
"""Options of the sink by topic."""

ROWS = 5000


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    if not (JARS / "broker" / "done").exists():
        pytest.fail("no jars in build/interop: make test-interop", pytrace=False)
    broker = Broker(tmp_path_factory.mktemp("commits")).start()
    for topic in CASES:
        create(broker, topic, PARTITIONS)
    produce(broker, "plain", "none", 0, partition=0)
    broker.stop()
    yield broker
    if broker.process.poll() is None:
        broker.stop()


def test_a_broker_and_its_consumers_read_every_row(spark, broker):
    before = len(read(broker.logs / "plain-0", "read_uncommitted"))
    df = spark.range(0, ROWS, 1, 4).selectExpr(
        "cast(id as string) key", "concat('value ', id, repeat('.', id % 999)) value"
    )
    for topic, options in CASES.items():
        writer = df.write.format("kafkalog").mode("append").option("topic", topic)
        writer.options(**options).save(str(broker.logs))
    broker.start()
    for topic in CASES:
        keys = []
        for partition in range(PARTITIONS):
            directory = broker.logs / f"{topic}-{partition}"
            for isolation in ("read_uncommitted", "read_committed"):
                consumed = consume(broker, topic, isolation, partition)
                assert consumed == read(directory, isolation)
            first = before if (topic, partition) == ("plain", 0) else 0
            keys += [int(key) for _, key, _ in consumed[first:]]
        assert sorted(keys) == list(range(ROWS))
    assert not list(broker.logs.glob("*-stray"))
    produce(broker, "atomic", "none", 0, partition=1)
    broker.stop()
    assert not [
        problem
        for problem in kafkalog.verify(broker.logs).problems
        if problem.path.startswith(tuple(CASES))
    ]


def test_rows_are_in_the_partitions_that_javas_producer_chooses(spark, broker):
    if broker.process.poll() is not None:
        broker.start()
    create(broker, "theirs", PARTITIONS)
    df = spark.range(0, ROWS).selectExpr("cast(id as string) key", "'v' value")
    writer = df.write.format("kafka").option("topic", "theirs")
    writer.option("kafka.bootstrap.servers", broker.address).save()
    for partition in range(PARTITIONS):
        theirs, ours = (
            {key for _, key, _ in consume(broker, topic, "read_committed", partition)}
            for topic in ("theirs", "compressed")
        )
        assert theirs == ours
