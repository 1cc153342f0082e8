"""A log that kafkalog wrote to in a broker's directory, and the broker back on it."""

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import kafkalog
from kafkalog import LogConfig, LogLockedError
from tests.interop import writing
from tests.interop.broker import JARS, START_SECONDS, Broker

pytestmark = pytest.mark.interop

TOPIC = "kept"
SEGMENT_BYTES = 1 << 20
CONFIG = LogConfig(segment_bytes=SEGMENT_BYTES)
ROUNDS = 12
SIZE = 4_000
QUIET = {"log_level": 0}


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """Start a broker with a topic, stopped in order again."""
    if not (JARS / "broker" / "done").exists():
        pytest.fail("no jars in build/interop: make test-interop", pytrace=False)
    broker = Broker(tmp_path_factory.mktemp("taken")).start()
    admin = AdminClient({"bootstrap.servers": broker.address} | QUIET)
    config = {"segment.bytes": str(SEGMENT_BYTES), "retention.ms": "-1"}
    for made in admin.create_topics([NewTopic(TOPIC, 1, 1, config=config)]).values():
        made.result(START_SECONDS)
    produce(broker, "snappy", 0)
    broker.stop()
    yield broker
    if broker.process.poll() is None:
        broker.stop()


def produce(broker, codec, first):
    settings = {"bootstrap.servers": broker.address, "compression.type": codec}
    producer = Producer(settings | QUIET)
    for number in range(first, first + writing.RECORDS):
        key, value = writing.record(number)
        producer.produce(TOPIC, value, key, timestamp=writing.T + number)
    assert producer.flush(START_SECONDS) == 0


def consume(broker, isolation):
    """Read all that a reader of an isolation level sees."""
    settings = {"bootstrap.servers": broker.address, "group.id": "reader"}
    settings |= {"isolation.level": isolation, "enable.partition.eof": True}
    consumer = Consumer(settings | QUIET)
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    seen = []
    while (message := consumer.poll(START_SECONDS)) is not None:
        if message.error():
            break
        seen.append((message.offset(), message.key(), message.value()))
    consumer.close()
    return seen


def read(directory, isolation):
    found = kafkalog.scan(directory, isolation=isolation).to_arrow()
    columns = (found[name].to_pylist() for name in ("offset", "key", "value"))
    return list(zip(*columns, strict=True))


def test_a_broker_serves_what_kafkalog_wrote_and_kafkalog_what_the_broker(broker):
    directory = broker.logs / f"{TOPIC}-0"
    with kafkalog.open(directory, mode="a", config=CONFIG) as log:
        first = log.log_end_offset
        committed = writing.write(log, ROUNDS, SIZE)
        end = log.log_end_offset
    assert first == writing.RECORDS
    assert len(list(directory.glob("*.log"))) == 3

    broker.start()
    everything, decided = (
        consume(broker, f"read_{one}") for one in ("uncommitted", "committed")
    )
    assert [one for one in decided if one[0] >= first] == [
        (offset, *writing.record(number, SIZE))
        for (offset, _, _), number in zip(
            decided[writing.RECORDS :], committed, strict=True
        )
    ]
    produce(broker, "zstd", 5_000)
    broker.stop()

    told = (broker.folder / "broker.out").read_text()
    assert "Recovering unflushed segment" not in told
    uncommitted = read(directory, "read_uncommitted")
    assert uncommitted[: len(everything)] == everything
    assert [one[1:] for one in uncommitted[len(everything) :]] == [
        writing.record(number) for number in range(5_000, 5_000 + writing.RECORDS)
    ]
    with kafkalog.open(directory, mode="a", config=CONFIG) as log:
        assert log.report.clean
        assert log.log_end_offset == end + writing.RECORDS
        assert log.leader_epochs[-1].start_offset == end


def test_a_broker_and_kafkalog_keep_each_other_out(broker):
    directory = broker.logs / f"{TOPIC}-0"
    with kafkalog.open(directory, mode="a", config=CONFIG):
        with pytest.raises(RuntimeError, match="did not start"):
            broker.start()
        told = (broker.folder / "broker.out").read_text()
        assert "Failed to acquire lock on file .lock" in told
    broker.start()
    with pytest.raises(LogLockedError):
        kafkalog.open(directory, mode="a", config=CONFIG)
    broker.stop()
