"""The predicted start of a broker, compared with its start.

A broker is killed while it writes. Each partition of a topic is then damaged in another
way, and strays and deleted directories are added. The broker states the log end offset
of each log that it has loaded.
"""

import re
import shutil
from itertools import product
from pathlib import Path

import pytest
from confluent_kafka import Producer

import kafkalog
from kafkalog import BrokerConfig
from kafkalog.storage.properties_file import read_properties
from tests.interop.broker import JARS, START_SECONDS, Broker
from tests.interop.clients import QUIET, create
from tests.interop.writing import RECORDS, record
from tests.startup import damages

pytestmark = pytest.mark.interop

UUID = 32 * "a"
OTHER_ID = "50zIfVQaSqGOTjgxcH_wcg"
LOADED = re.compile(
    r"Completed load of Log\(dir=(\S+),.*? with (\d+) segments, "
    r"local-log-start-offset (\d+) and log-end-offset (\d+)"
)
RECOVERING = re.compile(
    r"Recovering unflushed segment (\d+)\. \d+ recovered for (\S+?-\d+)\."
)
KINDS = list(damages.ALL)
STOPPING = [
    damages.negative_size,
    damages.zero_tail,
    damages.garbage_tail,
    damages.zero_batch,
]
"""Kinds of damage with which no broker starts after a clean shutdown."""

TOPICS = "killed", "closed"
SETTINGS = {"internal_segment_bytes": 3000, "index_interval_bytes": 500}
ROUNDS = 10
FLUSHED = 130
"""A recovery point in the second segment."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """Start a broker, write to a partition for each kind of damage, and kill it."""
    if not (JARS / "broker" / "done").exists():
        pytest.fail("no jars in build/interop: make test-interop", pytrace=False)
    broker = Broker(tmp_path_factory.mktemp("killed")).start()
    for topic in TOPICS:
        create(broker, topic, len(KINDS), **SETTINGS)
    write(broker)
    broker.process.kill()
    broker.process.wait()
    yield broker
    if broker.process.poll() is None:
        broker.process.kill()
        broker.process.wait()


def write(broker):
    """Write rounds of batches to all partitions; the last ones are not awaited."""
    producer = Producer({"bootstrap.servers": broker.address, **QUIET})
    for first in range(0, ROUNDS * RECORDS, RECORDS):
        producer.flush(START_SECONDS)
        for topic, partition in product(TOPICS, range(len(KINDS))):
            for number in range(first, first + RECORDS):
                key, value = record(number)
                producer.produce(topic, value, key, partition=partition)
    producer.purge()


def predict(broker):
    settings = read_properties(broker.settings)
    properties = BrokerConfig.from_properties(settings, ignore_unknown=True)
    return kafkalog.preflight(settings["log.dirs"].split(","), broker=properties)


def damage_all(broker, topic):
    """Damage each partition of a topic in its way, but not so that a broker stops.

    Returns the kinds of damage that would stop it, which are undone.
    """
    pristine = broker.folder / topic
    directories = [broker.logs / f"{topic}-{number}" for number in range(len(KINDS))]
    for damage, directory in zip(KINDS, directories, strict=True):
        shutil.copytree(directory, pristine / directory.name)
        damage(directory)
    stops, stopping = predict(broker).stops, []
    for damage, directory in zip(KINDS, directories, strict=True):
        if any(f"{directory} cannot" in stop for stop in stops):
            stopping.append(damage)
            shutil.rmtree(directory)
            shutil.copytree(pristine / directory.name, directory)
    return stopping


def compare(broker):
    report = predict(broker)
    assert report.stops == ()
    before = {path.name for path in broker.logs.iterdir()}
    broker.start()
    broker.stop()
    printed = (broker.folder / "broker.out").read_text()
    recovered = {}
    for base, name in RECOVERING.findall(printed):
        recovered.setdefault(name, set()).add(base)
    loaded = {
        Path(directory).name: (int(segments), int(start), int(end))
        for directory, segments, start, end in LOADED.findall(printed)
    }
    differing = {}
    for start in report.partitions:
        name = Path(start.directory).name
        if start.topic == "__cluster_metadata" or start.state == "deleted":
            continue
        if start.state == "stray" and not name.endswith("-stray"):
            [name] = [each for each in loaded if each.startswith(f"{name}.")]
            assert name not in before
            assert name.endswith("-stray")
        if not report.directories[0].clean_shutdown:
            read = recovered[f"{start.topic}-{start.partition}"]
            assert len(read) == start.segments_to_read, name
        predicted = start.log_start_offset, start.log_end_offset
        if loaded[name][1:] != predicted:
            kind = KINDS[start.partition].__name__
            differing[kind] = predicted, loaded[name][1:]
    assert not differing
    assert {path.name for path in broker.logs.glob("*-stray")} == {
        name for name in loaded if name.endswith("-stray")
    }
    return report


def test_the_start_of_a_killed_broker_is_predicted(broker):
    shutil.copytree(broker.logs / "killed-0", broker.logs / "gone-0")
    text = f"version: 0\ntopic_id: {OTHER_ID}"
    (broker.logs / "gone-0" / "partition.metadata").write_text(text)
    shutil.copytree(broker.logs / "killed-0", broker.logs / "bare-3")
    (broker.logs / "bare-3" / "partition.metadata").unlink()
    shutil.copytree(broker.logs / "killed-0", broker.logs / f"old-1.{UUID}-delete")
    shutil.copytree(broker.logs / "gone-0", broker.logs / f"older-1.{UUID}-stray")
    assert damage_all(broker, "killed") == []
    flushed = [
        f"killed {number} {FLUSHED}"
        for number, damage in enumerate(KINDS)
        if number % 2 and not re.search("index|snapshot", damage.__name__)
    ]
    text = "\n".join(["0", str(len(flushed)), *flushed, ""])
    (broker.logs / "recovery-point-offset-checkpoint").write_text(text)
    report = compare(broker)
    assert len(report.new_strays) == 2
    lost = {KINDS[each.partition] for each in report.partitions if each.records_lost}
    assert damages.flip_payload_in_first in lost
    assert not list(broker.logs.glob("*-delete"))


def test_the_start_after_a_clean_shutdown_is_predicted(broker):
    assert damage_all(broker, "closed") == STOPPING
    report = compare(broker)
    recovered = {
        KINDS[each.partition]
        for each in report.partitions
        if each.topic == "closed" and each.state == "recover"
    }
    assert damages.no_index_in_first in recovered
    assert damages.flip_payload not in recovered


@pytest.mark.parametrize("damage", [STOPPING[0], damages.strange_name])
def test_damage_that_stops_a_broker_is_predicted(broker, damage):
    kept = shutil.copytree(broker.logs, broker.folder / damage.__name__)
    damage(broker.logs / "closed-0")
    assert_stops(broker, "Error starting LogManager")
    shutil.rmtree(broker.logs)
    kept.rename(broker.logs)


@pytest.fixture
def second(broker):
    """Return a second log directory, with a directory id of its own."""
    path = broker.folder / "second"
    path.mkdir()
    ids = (broker.logs / "meta.properties").read_text()
    ids = re.sub("directory.id=.*", f"directory.id={OTHER_ID}", ids)
    (path / "meta.properties").write_text(ids)
    settings = broker.settings.read_text()
    both = f"log.dirs={broker.logs},{path}"
    broker.settings.write_text(re.sub("log.dirs=.*", both, settings))
    yield path
    broker.settings.write_text(settings)
    shutil.rmtree(path)


def test_a_future_log_that_the_cluster_has_accepted_is_promoted(broker, second):
    name = "closed-0"
    shutil.copytree(broker.logs / name, second / name)
    (broker.logs / name).rename(broker.logs / f"{name}.{UUID}-future")
    report = predict(broker)
    assert report.stops == ()
    [future] = [each for each in report.partitions if each.state == "future"]
    assert future.notes[-1].startswith("promoted")
    [current] = [each for each in report.partitions if each.state == "deleted"]
    assert current.directory == str(second / name)
    broker.start()
    broker.stop()
    assert (broker.logs / name).is_dir()
    assert not (second / name).exists()


def test_a_partition_in_two_directories_stops_the_broker(broker, second):
    shutil.copytree(broker.logs / "closed-1", second / "closed-1")
    assert_stops(broker, "Duplicate log directories for closed-1")


def assert_stops(broker, printed):
    assert len(predict(broker).stops) == 1
    with pytest.raises(RuntimeError, match="did not start"):
        broker.start()
    assert printed in (broker.folder / "broker.out").read_text()


def test_an_unreadable_checkpoint_stops_a_broker_with_one_directory(broker):
    path = broker.logs / "recovery-point-offset-checkpoint"
    content = path.read_bytes()
    path.write_text("x")
    report = predict(broker)
    assert "all log directories fail" in report.stops
    with pytest.raises(RuntimeError, match="did not start"):
        broker.start()
    path.write_bytes(content)
