"""A fresh cluster's broker starts on a copy of another cluster's log directory."""

import re
import shutil

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, Producer, TopicPartition

import kafkalog
from tests.interop import writing
from tests.interop.broker import CLUSTER, JARS, START_SECONDS, Broker, run_java
from tests.interop.clients import QUIET, consume, create, produce, read

pytestmark = pytest.mark.interop

TOPICS = {"uncompressed": "none", "compressed": "zstd"}
GROUP = "followers"
GROUPS_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
GONE = 3
"""Every third record is a person's, to be erased."""

EPOCH = 70
"""Leader epoch of the old cluster's batches."""

READ = 100
"""Records that the group has read in the old cluster."""


@pytest.fixture(scope="module")
def backup(tmp_path_factory):
    """Return the log directory of a cluster with records, aborts and a group."""
    if not (JARS / "broker" / "done").exists():
        pytest.fail("no jars in build/interop: make test-interop", pytrace=False)
    broker = Broker(tmp_path_factory.mktemp("old")).start()
    for topic, codec in TOPICS.items():
        create(broker, topic, segment_bytes=1 << 20)
        for number in range(0, READ + 100, writing.RECORDS):
            produce(broker, topic, codec, number)
    transact(broker)
    commit(broker, READ)
    broker.stop()
    # As if the cluster had elected leaders more often.
    backup, include = broker.folder / "backup", [*TOPICS, "__consumer_offsets"]
    kafkalog.restore(broker.logs, backup, topics=include, leader_epoch=EPOCH)
    return backup


def transact(broker):
    """Abort one transaction, and commit another."""
    settings = {"bootstrap.servers": broker.address, "transactional.id": "t"}
    producer = Producer(settings | QUIET)
    producer.init_transactions(START_SECONDS)
    for number, end in ((9_000, "abort"), (9_500, "commit")):
        producer.begin_transaction()
        for record in range(number, number + 50):
            key, value = writing.record(record)
            producer.produce("uncompressed", value, key)
        producer.flush(START_SECONDS)
        getattr(producer, f"{end}_transaction")(START_SECONDS)


def consumer_of(broker, group=GROUP):
    settings = {"bootstrap.servers": broker.address, "group.id": group}
    return Consumer(settings | {"enable.auto.commit": False} | QUIET)


def committed_by(broker, group):
    """Return the committed offsets of a group, one for each topic."""
    consumer = consumer_of(broker, group)
    positions = consumer.committed([TopicPartition(topic, 0) for topic in TOPICS], 30)
    consumer.close()
    return {position.offset for position in positions}


def commit(broker, offset):
    """Commit an offset of each topic."""
    consumer = consumer_of(broker)
    offsets = [TopicPartition(topic, 0, offset) for topic in TOPICS]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


@pytest.fixture
def target(tmp_path):
    """Return a stopped broker of another cluster, with empty topics.

    Its metadata log has a directory of its own.
    """
    (tmp_path / "new").mkdir()
    broker = Broker(tmp_path / "new")
    text = broker.settings.read_text()
    text += f"metadata.log.dir={broker.folder}/metadata\n"
    broker.settings.write_text(text)
    broker.start()
    create(broker, "unrelated")
    for topic in TOPICS:
        create(broker, topic, segment_bytes=1 << 20)
    commit(broker, 0)  # which creates __consumer_offsets
    broker.stop()
    yield broker
    if broker.process.poll() is None:
        broker.stop()


def test_a_fresh_cluster_serves_what_is_restored(backup, target):
    everything = read(backup / "uncompressed-0", "read_uncommitted")
    gone = sorted({key for _, key, _ in everything[::GONE] if key is not None})
    copy = target.folder / "copy"
    identity = (target.logs / "meta.properties").read_text()
    report = kafkalog.restore(
        backup,
        copy,
        cluster_id=CLUSTER,
        node_id=1,
        directory_id=re.search("directory.id=(.*)", identity)[1],
        topic_ids=target.folder / "metadata",
        exclude_keys=gone,
        groups_file="internal",
        offsets_partitions=1,
        prove=True,
    )
    assert report.proof.ok
    assert report.excluded_records > 0
    shutil.rmtree(target.logs)
    copy.rename(target.logs)

    target.start()
    for topic in TOPICS:
        directory = backup / f"{topic}-0"
        for isolation in ("read_uncommitted", "read_committed"):
            kept = [
                record for record in read(directory, isolation) if record[1] not in gone
            ]
            assert consume(target, topic, isolation) == kept
    consumer = consumer_of(target)
    positions = consumer.committed([TopicPartition(topic, 0) for topic in TOPICS], 30)
    assert {position.offset for position in positions} == {READ}
    consumer.subscribe(["compressed"])
    first = None
    while first is None:
        first = consumer.poll(START_SECONDS)
    kept = read(backup / "compressed-0", "read_committed")
    expected = [at for at, key, _ in kept if at >= READ and key not in gone]
    assert first.offset() == expected[0]
    consumer.commit(first, asynchronous=False)
    consumer.close()

    # Kafka's tool reads the file of committed offsets.
    file = target.folder / "offsets.csv"
    kafkalog.restore(backup, target.folder / "other", groups_file=file)
    reset = ["--reset-offsets", "--from-file", file, "--execute", "--group", GROUP]
    run_java(GROUPS_TOOL, "--bootstrap-server", target.address, *reset)
    consumer = consumer_of(target)
    positions = consumer.committed([TopicPartition(topic, 0) for topic in TOPICS], 30)
    assert {position.offset for position in positions} == {READ}
    consumer.commit(first, asynchronous=False)
    consumer.close()

    # Groups that the cluster does not have are reset if they are named.
    fresh = ("fresh", "new")
    text = file.read_text()
    file.write_text("".join(text.replace(GROUP, group) for group in fresh))
    reset = ["--reset-offsets", "--from-file", file, "--execute", "--all-groups"]
    run_java(GROUPS_TOOL, "--bootstrap-server", target.address, *reset)
    assert committed_by(target, "fresh") == {OFFSET_INVALID}
    reset[-1:] = [word for group in fresh for word in ("--group", group)]
    run_java(GROUPS_TOOL, "--bootstrap-server", target.address, *reset)
    for group in fresh:
        assert committed_by(target, group) == {READ}

    # A consumer that committed an epoch of the copy continues, and so do producers.
    end = kafkalog.Log(backup / "compressed-0").log_end_offset
    produce(target, "compressed", "lz4", 7_000)
    added = consume(target, "compressed", "read_committed", first=end)
    assert [record[1:] for record in added] == [
        writing.record(number) for number in range(7_000, 7_000 + writing.RECORDS)
    ]
    consumer = consumer_of(target)
    consumer.subscribe(["compressed"])
    assert consumer.poll(START_SECONDS).offset() == expected[1]
    consumer.close()
    # The new cluster gives its first producer the id of the old cluster's.
    end = kafkalog.Log(backup / "uncompressed-0").log_end_offset
    transact(target)
    added = consume(target, "uncompressed", "read_committed", first=end)
    assert [record[1:] for record in added] == [
        writing.record(number) for number in range(9_500, 9_550)
    ]
    target.stop()
    for directory, first in ((backup, 0), (target.logs, end)):
        scan = kafkalog.scan(
            directory / "uncompressed-0", columns=["producer_id"], start_offset=first
        )
        assert max(records.producer_id.max() for records in scan.chunks()) == 0

    printed = (target.folder / "broker.out").read_text()
    assert "Skipping recovery of" in printed
    assert not list(target.logs.glob("*-stray"))
    problems = kafkalog.verify(target.logs).problems
    assert [problem for problem in problems if problem.severity == "error"] == []
