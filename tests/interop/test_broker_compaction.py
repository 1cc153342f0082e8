"""A broker reads what kafkalog compacted, and kafkalog continues a broker's round."""

import os
import signal
import time

import pytest
from confluent_kafka import Producer

import kafkalog
from kafkalog import LogConfig, LogManager, RecordBatchBuilder
from kafkalog.cleaner import LogCleaner
from kafkalog.formats.control_keys import ControlRecordType
from tests.interop import writing
from tests.interop.broker import JARS, START_SECONDS, Broker
from tests.interop.clients import QUIET, consume, create, read

pytestmark = pytest.mark.interop

SEGMENT_BYTES = 1 << 20
CONFIG = LogConfig(cleanup_policy="compact", segment_bytes=SEGMENT_BYTES)
KEYS = 1200
VALUE_BYTES = 1000
SETTINGS = """\
log.cleaner.io.max.bytes.per.second=4000000
log.cleaner.io.buffer.size=100000
log.segment.delete.delay.ms=600000
"""
ISOLATIONS = ("read_uncommitted", "read_committed")
ROUND_SECONDS = 20
"""More than the 15 seconds that the cleaner waits after a round."""

NEVER = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 1.0}
SOON = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.01}


def produce_keys(broker, topic, versions):
    """Produce several values of each key; return the last ones."""
    producer = Producer({"bootstrap.servers": broker.address} | QUIET)
    last = {}
    for version in range(versions):
        for number in range(KEYS):
            key = b"key %d" % number
            last[key] = (b"%d " % version).ljust(VALUE_BYTES, b".")
            producer.produce(topic, last[key], key)
        assert producer.flush(START_SECONDS) == 0
    return last


def wait_for(condition):
    deadline = time.monotonic() + START_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_stopped_in_a_round(process, directory):
    """Stop a broker, and let it continue unless its cleaner is writing a segment."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    if any(path.stat().st_size for path in directory.glob("*.log.cleaned")):
        return True
    process.send_signal(signal.SIGCONT)
    return False


def stop_in_a_round(broker, directory):
    """Stop a broker in a round of its cleaner; return the last value of each key.

    On a busy machine a round may pass unseen, so there are several.
    """
    end = time.monotonic() + START_SECONDS
    while True:
        last = produce_keys(broker, "torn", 4)
        next_round = time.monotonic() + ROUND_SECONDS
        while time.monotonic() < next_round:
            if is_stopped_in_a_round(broker.process, directory):
                return last
            time.sleep(0.005)
        assert time.monotonic() < end


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Kill a broker whose cleaner is in the middle of a round.

    Its logs: `ours`, which is empty, `torn`, which the cleaner was compacting, and
    `swapped`, which it had compacted.
    """
    if not (JARS / "broker" / "done").exists():
        pytest.fail("no jars in build/interop: make test-interop", pytrace=False)
    broker = Broker(tmp_path_factory.mktemp("killed"))
    with broker.settings.open("a") as settings:
        settings.write(SETTINGS)
    broker.start()
    create(broker, "ours", segment_bytes=SEGMENT_BYTES, **NEVER)
    create(broker, "swapped", segment_bytes=SEGMENT_BYTES, **SOON)
    create(broker, "torn", segment_bytes=SEGMENT_BYTES, **SOON)
    swapped, torn = broker.logs / "swapped-0", broker.logs / "torn-0"
    broker.last = {"swapped": produce_keys(broker, "swapped", 2)}
    wait_for(lambda: list(swapped.glob("*.log.deleted")))
    wait_for(lambda: not list(swapped.glob("*.cleaned")))
    broker.last["torn"] = stop_in_a_round(broker, torn)
    broker.process.send_signal(signal.SIGKILL)
    broker.process.wait()
    yield broker
    if broker.process.poll() is None:
        broker.stop()


def swap_back(directory):
    """Return a log to the time just before a cleaned segment got its name."""
    first = min(directory.glob("*.log"))
    for path in [first, *directory.glob(f"{first.stem}.*index")]:
        path.rename(f"{path}.swap")


@pytest.fixture(scope="module")
def continued(killed):
    """Compact the logs of the killed broker with a log manager, up to their ends.

    The manager compacts nothing in the background, where a round of its own could be in
    progress at any time.
    """
    swap_back(killed.logs / "swapped-0")
    broker_config = kafkalog.BrokerConfig(log_cleaner_enable=False)
    with LogManager(killed.logs, broker=broker_config) as manager:
        for topic in ("swapped", "torn"):
            log = manager[topic, 0]
            log.roll()
            log.update_high_watermark(log.log_end_offset)
            result = manager.cleaner.clean(topic, 0)
            assert result.end_offset == log.log_end_offset
    return killed


def assert_last_values(broker, topic):
    rows = read(broker.logs / f"{topic}-0", "read_uncommitted")
    assert {key: value for _, key, value in rows} == broker.last[topic]


def test_kafkalog_continues_where_the_cleaner_of_a_broker_was_killed(continued):
    torn, swapped = continued.logs / "torn-0", continued.logs / "swapped-0"
    for directory in (torn, swapped):
        assert not list(directory.glob("*.cleaned"))
        assert not list(directory.glob("*.swap"))
        assert kafkalog.verify(directory).problems == ()
    for topic in ("torn", "swapped"):
        assert_last_values(continued, topic)
    rows = read(torn, "read_uncommitted")
    assert len(rows) == KEYS
    assert len({key for _, key, _ in rows}) == KEYS


def keyed_batch(first, **settings):
    """Build a batch of keyed records; a few are tombstones."""
    builder = RecordBatchBuilder(**settings)
    for number in range(first, first + writing.RECORDS):
        _, value = writing.record(number, VALUE_BYTES)
        builder.append(b"key %d" % (number % 97), value, timestamp=writing.T + number)
    return builder.build()


def write_all_kinds(log, rounds):
    """Append batches of all codecs, and transactions that end in both ways."""
    number = sequence = 0
    for _ in range(rounds):
        for codec in writing.CODECS:
            log.append(keyed_batch(number, codec=codec))
            number += writing.RECORDS
        for kind in (ControlRecordType.COMMIT, ControlRecordType.ABORT):
            settings = {"producer_id": writing.PAYER, "producer_epoch": 0}
            settings |= {"base_sequence": sequence, "is_transactional": True}
            guard = log.start_verification(writing.PAYER, sequence, 0)
            log.append(keyed_batch(number, **settings), guard=guard)
            log.append(
                writing.marker(kind, writing.T + number),
                origin="coordinator",
                transaction_version=0,
            )
            number, sequence = number + writing.RECORDS, sequence + writing.RECORDS


def test_a_broker_serves_what_kafkalog_compacted(continued):
    directory = continued.logs / "ours-0"
    with kafkalog.open(directory, mode="a", config=CONFIG) as log:
        write_all_kinds(log, 40)
        decided = read(directory, "read_committed")
        last = {key: value for _, key, value in decided}
        log.roll()
        log.update_high_watermark(log.log_end_offset)
        result = LogCleaner({("ours", 0): log}).clean("ours", 0)
    assert result.messages_written < result.messages_read / 10
    [report] = kafkalog.compact(continued.logs / "torn-0", apply=True)
    assert report.records_after == KEYS
    expected = {isolation: read(directory, isolation) for isolation in ISOLATIONS}
    assert {key: value for _, key, value in expected["read_committed"]} == last

    continued.start()
    for isolation, rows in expected.items():
        assert consume(continued, "ours", isolation) == rows
    for topic in ("torn", "swapped"):
        rows = read(continued.logs / f"{topic}-0", "read_uncommitted")
        assert consume(continued, topic, "read_uncommitted") == rows
    printed = (continued.folder / "broker.out").read_text()
    assert "ERROR" not in printed
    continued.stop()
    assert kafkalog.verify(directory).problems == ()
