"""A broker on a log directory that kafkalog wrote, except for ``meta.properties``.

The broker's metadata is in another directory: it has the topic and its id, and nothing
of its logs.
"""

import shutil
import time

import pytest
from confluent_kafka import TopicPartition

import kafkalog
from kafkalog import LogConfig, LogManager, RecordBatchBuilder
from kafkalog.formats.partition_files import PartitionMetadata
from tests.interop import writing
from tests.interop.broker import JARS, START_SECONDS, Broker, run_java
from tests.interop.clients import consume, consumer_of, create, produce, read

pytestmark = pytest.mark.interop

TOPIC = "made"
PARTITIONS = range(2)
SEGMENT_BYTES = 1 << 20
CONFIG = LogConfig(segment_bytes=SEGMENT_BYTES, retention_ms=-1)
ROUNDS = 12
SIZE = 4_000
STARTS = 0, 33
SENDER = 9001
PRODUCERS = "org.apache.kafka.tools.TransactionsCommand"


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """Start a broker with its metadata elsewhere, make a topic, and stop it."""
    if not (JARS / "broker" / "done").exists():
        pytest.fail("no jars in build/interop: make test-interop", pytrace=False)
    broker = Broker(tmp_path_factory.mktemp("nothing"))
    with broker.settings.open("a") as settings:
        settings.write(f"metadata.log.dir={broker.folder / 'metadata'}\n")
    broker.start()
    create(broker, TOPIC, len(PARTITIONS), segment_bytes=SEGMENT_BYTES)
    broker.stop()
    yield broker
    if broker.process.poll() is None:
        broker.stop()


def partition_of(broker, number):
    return broker.logs / f"{TOPIC}-{number}"


def sent(sequence):
    """Build a producer batch with the present time: brokers expire producers."""
    builder = RecordBatchBuilder(
        producer_id=SENDER, producer_epoch=3, base_sequence=sequence
    )
    builder.append(b"sent", b"%d" % sequence, timestamp=time.time_ns() // 1_000_000)
    return builder.build()


def write_from_nothing(broker):
    """Write the log directory again; only its identity is kept."""
    metadata = (partition_of(broker, 0) / "partition.metadata").read_bytes()
    topic_id = PartitionMetadata.parse(metadata).topic_id
    identity = (broker.logs / "meta.properties").read_bytes()
    shutil.rmtree(broker.logs)
    with LogManager(broker.logs, CONFIG) as manager:
        for number, start in enumerate(STARTS):
            log = manager.open(TOPIC, number, topic_id=topic_id)
            writing.write(log, ROUNDS, SIZE)
            log.append(sent(0))
            log.update_high_watermark(log.log_end_offset)
            log.delete_records(start)
    (broker.logs / "meta.properties").write_bytes(identity)


def printed_by(broker):
    """Return what the broker has printed since it was started."""
    return (broker.folder / "broker.out").read_text()


def producers_of(broker, number):
    """Return the broker's producers of a partition: id, epoch, last sequence."""
    arguments = ["--bootstrap-server", broker.address, "describe-producers"]
    arguments += ["--topic", TOPIC, "--partition", number]
    lines = run_java(PRODUCERS, *arguments).stdout.splitlines()
    rows = [line.split() for line in lines]
    assert rows[0][:4:3] == ["ProducerId", "LastSequence"]
    return {tuple(int(row[place]) for place in (0, 1, 3)) for row in rows[1:]}


def found_by(broker, number, times):
    """Return a broker's first offsets at or after times, and its watermarks."""
    consumer = consumer_of(broker)
    requests = [TopicPartition(TOPIC, number, time_ms) for time_ms in times]
    found = [
        one.offset
        for time in requests
        for one in consumer.offsets_for_times([time], timeout=START_SECONDS)
    ]
    ends = consumer.get_watermark_offsets(requests[0], timeout=START_SECONDS)
    consumer.close()
    return found, ends


def served_as_written(broker):
    """Compare the records that a broker serves with those in its directory."""
    for number, start in enumerate(STARTS):
        for isolation in ("read_uncommitted", "read_committed"):
            written = read(partition_of(broker, number), isolation)
            assert consume(broker, TOPIC, isolation, number, start) == written
            assert len(written) > 1000


def test_a_broker_starts_on_a_log_directory_that_kafkalog_made(broker):
    write_from_nothing(broker)
    times = [writing.T + number for number in (0, 100, 1007)]
    with kafkalog.open(partition_of(broker, 1)) as log:
        offsets, end = log.offsets_for_times(times).tolist(), log.log_end_offset
    assert len(list(partition_of(broker, 1).glob("*.log"))) == 4

    broker.start()
    printed = printed_by(broker)
    assert f"Skipping recovery of {len(PARTITIONS)} logs" in printed
    assert "stray" not in printed
    served_as_written(broker)
    assert found_by(broker, 1, times) == (offsets, (STARTS[1], end))
    assert producers_of(broker, 1) == {(SENDER, 3, 0)}
    produce(broker, TOPIC, "zstd", 5_000, partition=1)
    broker.stop()

    manager = LogManager(broker.logs, CONFIG)
    log = manager[TOPIC, 1]
    assert log.report.clean
    assert log.log_end_offset == end + writing.RECORDS
    assert log.leader_epochs[-1].start_offset == end
    assert log.append(sent(0)).is_duplicate
    log.append(sent(1))
    manager.abandon()

    broker.start()
    assert "since no clean shutdown file was found" in printed_by(broker)
    assert f"recovered for {TOPIC}-1" in printed_by(broker)
    served_as_written(broker)
    assert producers_of(broker, 1) == {(SENDER, 3, 1)}
    broker.stop()
