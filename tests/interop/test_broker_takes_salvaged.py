"""A broker starts on salvaged and healed directories, and consumers read them."""

import shutil

import pytest

import kafkalog
from tests.copies.log_truth import batches_of
from tests.interop.broker import JARS, Broker
from tests.interop.clients import consume, create, produce, read

pytestmark = pytest.mark.interop

TOPICS = {"plain": "none", "packed": "zstd"}


@pytest.fixture
def broker(tmp_path):
    """Start a broker, fill topics of several segments, and stop it."""
    if not (JARS / "broker" / "done").exists():
        pytest.fail("no jars in build/interop: make test-interop", pytrace=False)
    (tmp_path / "broker").mkdir()
    broker = Broker(tmp_path / "broker").start()
    for topic, codec in TOPICS.items():
        create(broker, topic, internal_segment_bytes=3000, index_interval_bytes=500)
        for first in range(0, 3000, 100):
            produce(broker, topic, codec, first)
    broker.stop()
    yield broker
    if broker.process.poll() is None:
        broker.stop()


def damage(directory, number, place):
    """Change a byte of a batch of a segment; return the batch."""
    path = sorted(directory.glob("*.log"))[number]
    content = bytearray(path.read_bytes())
    batch = batches_of(content)[place]
    content[batch.end - 1] ^= 1
    path.write_bytes(content)
    return batch


def test_a_broker_takes_what_was_salvaged_and_healed(broker, tmp_path):
    original = shutil.copytree(broker.logs, tmp_path / "original")
    other = shutil.copytree(broker.logs, tmp_path / "other")
    # One topic is damaged in one copy, so that it can be healed, and the other in both.
    damage(broker.logs / "plain-0", 0, 0)
    lost = damage(broker.logs / "packed-0", 0, 1)
    damage(other / "plain-0", 0, 2)
    healed = kafkalog.heal([broker.logs, other], tmp_path / "healed")
    assert healed.ok
    assert kafkalog.diff(original, tmp_path / "healed", compare_bytes=True).ok
    report = kafkalog.salvage(broker.logs, tmp_path / "salvaged")
    assert not report.ok
    [row] = [row for row in report.partitions if row.topic == "packed"]
    assert list(row.missing) == [(lost.first, lost.last)]

    everything = {
        topic: read(original / f"{topic}-0", "read_committed") for topic in TOPICS
    }
    shutil.rmtree(broker.logs)
    (tmp_path / "salvaged").rename(broker.logs)
    broker.start()
    for topic, records in everything.items():
        missing = next(row.missing for row in report.partitions if row.topic == topic)
        kept = [
            record
            for record in records
            if not any(first <= record[0] <= last for first, last in missing)
        ]
        assert 0 < len(kept) < len(records)
        assert consume(broker, topic, "read_committed") == kept
    broker.stop()

    shutil.rmtree(broker.logs)
    (tmp_path / "healed").rename(broker.logs)
    broker.start()
    for topic, records in everything.items():
        assert consume(broker, topic, "read_committed") == records
    produce(broker, "plain", "gzip", 0)
    broker.stop()
    printed = (broker.folder / "broker.out").read_text()
    assert "Skipping recovery of" in printed
    assert "recovered for plain-0" not in printed
    with kafkalog.open(broker.logs / "plain-0") as log:
        assert log.log_end_offset > everything["plain"][-1][0] + 1
