"""A broker starts on repaired logs, and serves every record that is not listed as lost.

Each partition of a topic is damaged in another way while the broker is stopped, and all
are repaired at once. The clean shutdown marker stays, so that the broker verifies
nothing itself.
"""

import re
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import KafkaError, Producer, TopicPartition

import kafkalog
from tests.interop.broker import JARS, START_SECONDS, Broker
from tests.interop.clients import QUIET, consumer_of, create
from tests.interop.writing import RECORDS, record
from tests.repairs.damaged_logs import damage_bytes
from tests.startup import damages

pytestmark = pytest.mark.interop

TOPIC = "repaired"
KINDS = [kind for kind in damages.ALL if "swap" not in kind.__name__]
RANDOM = 24
"""Number of partitions with random damage."""

ROUNDS = 8
SETTINGS = {"internal_segment_bytes": 3000, "index_interval_bytes": 500}
LOADED = re.compile(
    r"Completed load of Log\(dir=(\S+),.*? with \d+ segments, "
    r"local-log-start-offset \d+ and log-end-offset (\d+)"
)
PARTITIONS = len(KINDS) + RANDOM


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """Start a broker, write to all partitions, and stop it cleanly."""
    if not (JARS / "broker" / "done").exists():
        pytest.fail("no jars in build/interop: make test-interop", pytrace=False)
    broker = Broker(tmp_path_factory.mktemp("repaired")).start()
    create(broker, TOPIC, PARTITIONS, **SETTINGS)
    producer = Producer({"bootstrap.servers": broker.address, **QUIET})
    for first in range(0, ROUNDS * RECORDS, RECORDS):
        for partition in range(PARTITIONS):
            for number in range(first, first + RECORDS):
                key, value = record(number)
                producer.produce(TOPIC, value, key, partition=partition)
        assert producer.flush(START_SECONDS) == 0
    broker.stop()
    yield broker
    if broker.process.poll() is None:
        broker.process.kill()
        broker.process.wait()


def damage_all(broker):
    """Damage each partition, and return what was done to it."""
    done = []
    for number, kind in enumerate(KINDS):
        kind(broker.logs / f"{TOPIC}-{number}")
        done.append(kind.__name__)
    random = Random(1)
    for number in range(len(KINDS), PARTITIONS):
        directory = broker.logs / f"{TOPIC}-{number}"
        files = [path for path in directory.iterdir() if path.stat().st_size]
        chosen = sorted(path for path in files if path.suffix in (".log", ".index"))
        done.append(damage_bytes(random, random.choice(chosen)))
    return done


def consume_all(broker):
    """Return the records of each partition by offset."""
    found = {partition: {} for partition in range(PARTITIONS)}
    consumer = consumer_of(broker)
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in found])
    ends = 0
    while ends < PARTITIONS:
        message = consumer.poll(START_SECONDS)
        assert message is not None
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF
            ends += 1
        else:
            value = message.key(), message.value()
            found[message.partition()][message.offset()] = value
    consumer.close()
    return found


def readable(directory):
    """Return the records that a reader finds that skips damage, by offset."""
    scan = kafkalog.scan(
        directory, columns=["offset", "key", "value"], on_corruption="skip"
    )
    rows = scan.to_arrow().to_pylist()
    return {row["offset"]: (row["key"], row["value"]) for row in rows}


def test_a_broker_serves_all_records_that_a_repair_does_not_list_as_lost(broker):
    done = damage_all(broker)
    names = [f"{TOPIC}-{partition}" for partition in range(PARTITIONS)]
    before = [readable(broker.logs / name) for name in names]
    assert not kafkalog.verify(broker.logs).ok
    report = kafkalog.repair(broker.logs, apply=True, allow_data_loss=True)
    assert report.ok, report.unrepaired
    assert (broker.logs / ".kafka_cleanshutdown").exists()
    lost = [
        {
            offset
            for action in report.actions
            if action.partition == partition and action.records_lost
            for offset in range(action.first_offset, action.last_offset + 1)
        }
        for partition in range(PARTITIONS)
    ]
    assert any(lost)
    expected = kafkalog.preflight(broker.logs)
    assert not expected.stops
    ends = {
        Path(each.directory).name: each.log_end_offset for each in expected.partitions
    }
    broker.start()
    printed = (broker.folder / "broker.out").read_text()
    found = consume_all(broker)
    broker.stop()
    loaded = {Path(name).name: int(end) for name, end in LOADED.findall(printed)}
    for partition, damage in enumerate(done):
        assert loaded[names[partition]] == ends[names[partition]], damage
        served = found[partition]
        kept = before[partition].keys() - lost[partition]
        assert served.keys() >= kept, damage
        assert served == {number: record(number) for number in served}, damage


def test_a_broker_does_not_start_with_a_directory_of_originals_in_its_logs(broker):
    """So the originals are next to the log directory."""
    inside = broker.logs / ".kafkalog-repair-20261125T224501Z"
    inside.mkdir()
    with pytest.raises(RuntimeError, match="did not start"):
        broker.start()
    printed = (broker.folder / "broker.out").read_text()
    assert f"Found directory {inside}" in printed
    inside.rmdir()
