"""kafkalog writes to a log of a broker, and the broker continues with it."""

import pytest

import kafkalog
from kafkalog import LogConfig, LogLockedError
from tests.interop import writing
from tests.interop.broker import JARS, Broker
from tests.interop.clients import consume, create, produce, read

pytestmark = pytest.mark.interop

TOPIC = "kept"
SEGMENT_BYTES = 1 << 20
CONFIG = LogConfig(segment_bytes=SEGMENT_BYTES)
ROUNDS = 12
SIZE = 4_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """Start a broker with a topic and stop it cleanly."""
    if not (JARS / "broker" / "done").exists():
        pytest.fail("no jars in build/interop: make test-interop", pytrace=False)
    broker = Broker(tmp_path_factory.mktemp("taken")).start()
    create(broker, TOPIC, segment_bytes=SEGMENT_BYTES)
    produce(broker, TOPIC, "snappy", 0)
    broker.stop()
    yield broker
    if broker.process.poll() is None:
        broker.stop()


def test_a_broker_and_kafkalog_read_what_the_other_wrote(broker):
    directory = broker.logs / f"{TOPIC}-0"
    with kafkalog.open(directory, mode="a", config=CONFIG) as log:
        first = log.log_end_offset
        committed = writing.write(log, ROUNDS, SIZE)
        end = log.log_end_offset
    assert first == writing.RECORDS
    assert len(list(directory.glob("*.log"))) == 3

    broker.start()
    everything, decided = (
        consume(broker, TOPIC, f"read_{one}") for one in ("uncommitted", "committed")
    )
    assert [one for one in decided if one[0] >= first] == [
        (offset, *writing.record(number, SIZE))
        for (offset, _, _), number in zip(
            decided[writing.RECORDS :], committed, strict=True
        )
    ]
    produce(broker, TOPIC, "zstd", 5_000)
    broker.stop()

    printed = (broker.folder / "broker.out").read_text()
    assert "Skipping recovery of" in printed
    assert f"recovered for {TOPIC}-0" not in printed
    uncommitted = read(directory, "read_uncommitted")
    assert uncommitted[: len(everything)] == everything
    assert [one[1:] for one in uncommitted[len(everything) :]] == [
        writing.record(number) for number in range(5_000, 5_000 + writing.RECORDS)
    ]
    with kafkalog.open(directory, mode="a", config=CONFIG) as log:
        assert log.report.clean
        assert log.log_end_offset == end + writing.RECORDS
        assert log.leader_epochs[-1].start_offset == end


def test_a_broker_and_kafkalog_lock_out_each_other(broker):
    directory = broker.logs / f"{TOPIC}-0"
    with kafkalog.open(directory, mode="a", config=CONFIG):
        with pytest.raises(RuntimeError, match="did not start"):
            broker.start()
        printed = (broker.folder / "broker.out").read_text()
        assert "Failed to acquire lock on file .lock" in printed
    broker.start()
    with pytest.raises(LogLockedError):
        kafkalog.open(directory, mode="a", config=CONFIG)
    broker.stop()
