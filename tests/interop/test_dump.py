"""Every file that kafkalog writes, read by Kafka's own kafka-dump-log.

And that it would be noticed if something were wrong: the tool itself always ends well.
"""

import os
import re
import shutil

import pytest

import kafkalog
from kafkalog import LogConfig
from tests.interop import writing
from tests.interop.kafka_dump import cases_of, complaints, faults, kafka_dumps

pytestmark = pytest.mark.interop

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


@pytest.fixture(scope="module")
def told(partition):
    """Give what the tool tells of the log, each run by its option."""
    folder = partition.parent
    cases = list(cases_of(partition, folder))
    wrong, told = faults(folder, cases, lambda case: True)
    assert wrong == {}
    return {case[0]: one.out.decode() for case, one in zip(cases, told, strict=True)}


def test_all_batches_and_records_are_valid(partition, told):
    told = told["--deep-iteration"]
    assert told.count("isvalid: true") == len(re.findall("^baseOffset", told, re.M))
    offsets = [int(one) for one in re.findall(r"^\| offset: (\d+)", told, re.M)]
    records = kafkalog.scan(partition, control_records=True, columns=["offset"])
    assert offsets == records.to_arrow()["offset"].to_pylist()
    assert len(list(partition.glob("*.log"))) > 10
    assert "endTxnMarker: ABORT" in told


def test_all_indexes_pass_the_check_of_a_broker_that_starts(partition, told):
    indexes = [*partition.glob("*.index"), *partition.glob("*.timeindex")]
    passed = told["--index-sanity-check"].count("passed sanity check.")
    assert passed == len(indexes) > 20


def test_all_entries_of_indexes_are_where_they_say(partition, told):
    indexes = [*partition.glob("*.index"), *partition.glob("*.timeindex")]
    assert told["--verify-index-only"].count("Dumping ") == len(indexes)


def test_transaction_indexes_and_snapshots_are_read(partition, told):
    kinds = r"^version: 0 producerId: (\d+)", r"^producerId: (\d+)"
    aborts, known = (re.findall(k, told["--deep-iteration"], re.M) for k in kinds)
    assert aborts == [str(writing.PAYER)] * 2 * ROUNDS
    assert set(known) == {str(writing.PAYER)}


DAMAGE = {
    "a record": ("log", 61 + 20, "isvalid: false"),
    "a length": ("log", 11, "isvalid: false|Exception"),
    "an offset of an index": ("index", 3, "Index offset: "),
    "a position of an index": ("index", 7, "Index offset: |Exception"),
    "a time of an index": (
        "timeindex",
        7,
        "Found timestamp mismatch|  Index timestamp",
    ),
    "an offset of a time index": ("timeindex", 11, "indexed offsets are not found"),
    "a snapshot": ("snapshot", 20, "Snapshot is corrupt"),
}


def test_one_flipped_bit_is_told(partition, tmp_path):
    cases = {}
    for what, (kind, place, _) in DAMAGE.items():
        copy = shutil.copytree(partition, tmp_path / what / "written-0")
        file = min(path for path in copy.glob(f"*.{kind}") if path.stat().st_size)
        data = bytearray(file.read_bytes())
        data[place] ^= 1
        file.write_bytes(data)
        cases |= {tuple(case): what for case in cases_of(copy, tmp_path)}
    found = dict.fromkeys(DAMAGE, "")
    for case, told in zip(cases, kafka_dumps(tmp_path, list(cases)), strict=True):
        found[cases[case]] += "\n".join(complaints(case, told, gaps=True))
    for what, (_, _, says) in DAMAGE.items():
        assert re.search(says, found[what]), what


def test_what_lacks_at_the_end_or_is_too_much_is_told(partition, tmp_path):
    cases = []
    for change in (-1, 3):
        copy = shutil.copytree(partition, tmp_path / str(change) / "written-0")
        file = min(copy.glob("*.log"))
        os.truncate(file, file.stat().st_size + change)
        cases += cases_of(copy, tmp_path)
    wrong, _ = faults(tmp_path, cases, lambda case: True)
    assert {files.split("/")[0] for files in wrong} == {"-1", "3"}
