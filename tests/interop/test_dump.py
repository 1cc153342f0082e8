"""Every file that kafkalog writes, read by Kafka's own kafka-dump-log.

The tests also change files, to check that the tool reports it: it always exits with 0.
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
    """Write a log of several segments, close it, open it again and continue."""
    directory = tmp_path_factory.mktemp("logs") / "written-0"
    for turn in range(2):
        with kafkalog.open(directory, mode="a", config=CONFIG) as log:
            writing.write(log, ROUNDS, epoch=20 * turn)
            gap = {"base_offset": log.log_end_offset + 5_000, "leader_epoch": 99}
            log.append_as_follower(writing.batch(0, **gap), leader_epoch=99)
    return directory


@pytest.fixture(scope="module")
def printed(partition):
    """Return what the tool prints of the log, each run by its option."""
    folder = partition.parent
    cases = list(cases_of(partition, folder))
    wrong, printed = faults(folder, cases, lambda case: True)
    assert wrong == {}
    return {case[0]: one.out.decode() for case, one in zip(cases, printed, strict=True)}


def test_all_batches_and_records_are_valid(partition, printed):
    text = printed["--deep-iteration"]
    assert text.count("isvalid: true") == len(re.findall("^baseOffset", text, re.M))
    offsets = [int(one) for one in re.findall(r"^\| offset: (\d+)", text, re.M)]
    records = kafkalog.scan(partition, control_records=True, columns=["offset"])
    assert offsets == records.to_arrow()["offset"].to_pylist()
    assert len(list(partition.glob("*.log"))) > 10
    assert "endTxnMarker: ABORT" in text


def test_all_indexes_pass_the_sanity_check(partition, printed):
    indexes = [*partition.glob("*.index"), *partition.glob("*.timeindex")]
    passed = printed["--index-sanity-check"].count("passed sanity check.")
    assert passed == len(indexes) > 20


def test_all_index_entries_agree_with_the_log(partition, printed):
    indexes = [*partition.glob("*.index"), *partition.glob("*.timeindex")]
    assert printed["--verify-index-only"].count("Dumping ") == len(indexes)


def test_transaction_indexes_and_snapshots_are_read(partition, printed):
    kinds = r"^version: 0 producerId: (\d+)", r"^producerId: (\d+)"
    aborts, known = (re.findall(k, printed["--deep-iteration"], re.M) for k in kinds)
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


def test_a_flipped_bit_is_reported(partition, tmp_path):
    cases = {}
    for name, (kind, position, _) in DAMAGE.items():
        copy = shutil.copytree(partition, tmp_path / name / "written-0")
        file = min(path for path in copy.glob(f"*.{kind}") if path.stat().st_size)
        data = bytearray(file.read_bytes())
        data[position] ^= 1
        file.write_bytes(data)
        cases |= {tuple(case): name for case in cases_of(copy, tmp_path)}
    found = dict.fromkeys(DAMAGE, "")
    for case, printed in zip(cases, kafka_dumps(tmp_path, list(cases)), strict=True):
        found[cases[case]] += "\n".join(complaints(case, printed, gaps=True))
    for name, (_, _, pattern) in DAMAGE.items():
        assert re.search(pattern, found[name]), name


def test_missing_and_additional_bytes_at_the_end_are_reported(partition, tmp_path):
    cases = []
    for change in (-1, 3):
        copy = shutil.copytree(partition, tmp_path / str(change) / "written-0")
        file = min(copy.glob("*.log"))
        os.truncate(file, file.stat().st_size + change)
        cases += cases_of(copy, tmp_path)
    wrong, _ = faults(tmp_path, cases, lambda case: True)
    assert {files.split("/")[0] for files in wrong} == {"-1", "3"}
