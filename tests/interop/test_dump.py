"""Every file that kafkalog writes, read by Kafka's own kafka-dump-log."""

import re

import pytest

import kafkalog
from kafkalog import LogConfig
from tests.interop import writing
from tests.interop.broker import JARS, run_java

pytestmark = pytest.mark.interop

FAULTS = ("mismatch", "non-consecutive", "invalid", "out of order", "corrupt")
ROUNDS = 12
CONFIG = LogConfig(
    internal_segment_bytes=9_000, segment_index_bytes=2_000, index_interval_bytes=700
)


@pytest.fixture(scope="module")
def partition(tmp_path_factory):
    """Write a log of several segments, leave it, open it again and write on."""
    directory = tmp_path_factory.mktemp("logs") / "written-0"
    for turn in range(2):
        with kafkalog.open(directory, mode="a", config=CONFIG) as log:
            writing.write(log, ROUNDS, epoch=20 * turn)
            gap = {"base_offset": log.log_end_offset + 5_000, "leader_epoch": 99}
            log.append_as_follower(writing.batch(0, **gap), leader_epoch=99)
    return directory


def dump(*arguments):
    if not (JARS / "broker" / "done").exists():
        pytest.fail("no jars in build/interop: make test-interop", pytrace=False)
    return run_java("org.apache.kafka.tools.DumpLogSegments", *arguments).stdout


def files(directory, suffix):
    found = sorted(directory.glob(f"*.{suffix}"))
    assert found
    return ",".join(map(str, found))


def test_all_batches_and_records_are_valid(partition):
    told = dump(
        "--deep-iteration", "--print-data-log", "--files", files(partition, "log")
    )
    assert told.count("isvalid: true") == len(re.findall("^baseOffset", told, re.M))
    assert "isvalid: false" not in told
    offsets = [int(one) for one in re.findall(r"^\| offset: (\d+)", told, re.M)]
    records = kafkalog.scan(partition, control_records=True, columns=["offset"])
    assert offsets == records.to_arrow()["offset"].to_pylist()
    assert len(list(partition.glob("*.log"))) > 10
    assert "endTxnMarker: ABORT" in told


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_all_indexes_pass_the_check_of_a_broker_that_starts(partition, suffix):
    told = dump("--index-sanity-check", "--files", files(partition, suffix))
    assert told.count("passed sanity check.") == len(
        list(partition.glob(f"*.{suffix}"))
    )


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_all_entries_of_indexes_are_where_they_say(partition, suffix):
    told = dump("--verify-index-only", "--files", files(partition, suffix))
    assert [one for one in FAULTS if one in told.lower()] == []


def test_transaction_indexes_and_snapshots_are_read(partition):
    told = dump("--files", files(partition, "txnindex"))
    assert told.count(f"producerId: {writing.PAYER}") == 2 * ROUNDS
    told = dump("--files", files(partition, "snapshot"))
    assert f"producerId: {writing.PAYER}" in told
    assert [one for one in FAULTS if one in told.lower()] == []
