"""The scan of all indexes, compared with golden data and with single indexes."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from kafkalog.errors import NotALogDirectoryError
from kafkalog.indexes.offset_index import OffsetIndex
from kafkalog.indexes.time_index import TimeIndex
from kafkalog.indexes.txn_index import TransactionIndex
from kafkalog.query import index_scan
from kafkalog.query.index_scan import (
    scan_offset_indexes,
    scan_time_indexes,
    scan_transaction_indexes,
)
from kafkalog.storage.file_names import parse_partition_dir
from tests import golden_data

SCANS = {
    "index": (scan_offset_indexes, ("offset", "position")),
    "timeindex": (scan_time_indexes, ("timestamp", "offset")),
    "txnindex": (scan_transaction_indexes, index_scan.ABORTED_FIELDS),
}
INDEXED_SETS = [name for name in golden_data.SETS if name != "oldclients"]


def expected_rows(set_name, kind):
    """Return the entries of a log directory as Kafka read them, in order."""
    rows = []
    for directory in golden_data.directories(set_name):
        part = parse_partition_dir(directory)
        if part is None or part.state is not None:
            continue
        for index in golden_data.truth(set_name, directory, "indexes"):
            base, extension = index["file"].split(".")
            if extension == kind:
                for entry in index["entries"]:
                    place = (part.topic, part.partition, int(base))
                    if isinstance(entry, dict):
                        entry = [entry[name] for name in index_scan.ABORTED_FIELDS]
                    rows.append((*place, *entry))
    return sorted(rows, key=lambda row: row[:3])


def rows_of(scan, fields):
    """Return the rows of a scan, with topics by name."""
    columns = [scan.entries[name].tolist() for name in ("partition", "base_offset")]
    columns += [scan.entries[name].tolist() for name in fields]
    topics = [scan.topics[code] for code in scan.entries["topic"]]
    return list(zip(topics, *columns, strict=True))


@pytest.mark.parametrize("kind", SCANS)
@pytest.mark.parametrize("set_name", INDEXED_SETS)
def test_a_log_directory_has_every_entry_that_kafka_reads(set_name, kind):
    scan, fields = SCANS[kind]
    found = scan(golden_data.logs(set_name))
    assert found.problems == ()
    assert rows_of(found, fields) == expected_rows(set_name, kind)


@pytest.mark.parametrize("kind", SCANS)
def test_a_partition_has_its_part_of_the_entries(kind):
    scan, fields = SCANS[kind]
    directory = golden_data.logs("k431-clean") / "ledger-1"
    expected = [
        row for row in expected_rows("k431-clean", kind) if row[:2] == ("ledger", 1)
    ]
    assert expected
    assert rows_of(scan(directory), fields) == expected


def test_segments_have_the_range_of_their_rows():
    scan = scan_offset_indexes(golden_data.logs("k431-clean"))
    assert scan.segments["start"][0] == 0
    assert scan.segments["stop"][-1] == len(scan.entries)
    assert (scan.segments["start"][1:] == scan.segments["stop"][:-1]).all()
    for row in scan.segments:
        rows = scan.entries[row["start"] : row["stop"]]
        for name in ("topic", "partition", "base_offset"):
            assert (rows[name] == row[name]).all()


def test_a_directory_of_logs_without_indexes_has_segments_and_no_rows():
    logs = golden_data.logs("oldclients")
    for scan, _ in SCANS.values():
        found = scan(logs)
        assert len(found.entries) == 0
        assert len(found.segments) == len(list(logs.glob("*/*.log")))
        assert "0 entries" in repr(found)


@pytest.mark.parametrize("set_name", golden_data.SETS)
def test_a_lookup_equals_that_of_the_segments_index(set_name):
    logs = golden_data.logs(set_name)
    scan = scan_offset_indexes(logs)
    places = np.unique(scan.segments[["topic", "partition"]])
    assert len(places)
    for place in places:
        topic, partition = scan.topics[place["topic"]], int(place["partition"])
        directory = logs / f"{topic}-{partition}"
        bases = sorted(int(path.stem) for path in directory.glob("*.log"))
        offsets = np.arange(bases[0] - 2, bases[-1] + 300)
        found = scan.lookup(topic, partition, offsets)
        for base, end in zip(bases, [*bases[1:], offsets[-1] + 1], strict=True):
            inside = (offsets >= base) & (offsets < end)
            path = directory / f"{base:020}.index"
            index = OffsetIndex.open(path) if path.exists() else None
            expected = 0 if index is None else index.lookup(offsets[inside])
            assert (found["base_offset"][inside] == base).all()
            assert (found["position"][inside] == expected).all()
        below = found[offsets < bases[0]]
        assert below.tolist() == [(-1, -1)] * 2


def test_lookups_are_broadcast_and_unknown_partitions_are_not_found():
    scan = scan_offset_indexes(golden_data.logs("k431-clean"))
    names = [["ledger"], ["once"], ["unknown"]]
    found = scan.lookup(names, [0, 1, 2, 2**40, -7], 10**9)
    assert found.shape == (3, 5)
    bases = {(0, 0): 82, (0, 1): 100}
    assert {at: int(found[at]["base_offset"]) for at in bases} == bases
    assert (found["base_offset"][1, :2] >= 0).all()
    assert (found["base_offset"][2] == -1).all()
    assert (found["position"][:, 2:] == -1).all()
    assert scan.lookup([], [], []).shape == (0,)


@pytest.mark.parametrize("set_name", golden_data.SETS)
def test_no_record_at_or_after_a_time_is_before_its_start_offset(set_name):
    scan = scan_time_indexes(golden_data.logs(set_name))
    records = {
        directory: [
            (row["timestamp"], row["offset"])
            for row in golden_data.truth(set_name, directory, "records")
            if row["file"].endswith(".log") and "timestamp" in row
        ]
        for directory in golden_data.directories(set_name)
    }
    times = scan.entries["timestamp"].tolist()[:: max(len(scan.entries) // 40, 1)]
    for time in [-(2**63), 0, *times, *(time + 1 for time in times), 2**63 - 1]:
        starts = scan.start_offsets(time)
        assert len(starts) == len(np.unique(scan.segments[["topic", "partition"]]))
        for topic, partition, start in starts.tolist():
            here = records[f"{scan.topics[topic]}-{partition}"]
            assert all(t < time for t, offset in here if offset < start)


def test_a_start_offset_skips_earlier_segments(tmp_path):
    folder = tmp_path / "orders-3"
    folder.mkdir()
    for base, times in ((0, [100, 200]), (50, [300]), (90, [400, 500])):
        index = TimeIndex.build(
            times, [base + 10 * n for n in range(1, len(times) + 1)], base
        )
        (folder / f"{base:020}.timeindex").write_bytes(index.to_bytes())
    scan = scan_time_indexes(folder)
    starts = {
        t: scan.start_offsets(t)["offset"].tolist()
        for t in (0, 200, 201, 400, 401, 999)
    }
    assert starts == {0: [0], 200: [11], 201: [50], 400: [90], 401: [101], 999: [111]}


def test_damage_is_a_problem_and_entries_before_it_are_kept(tmp_path):
    logs = tmp_path / "logs"
    shutil.copytree(golden_data.logs("k431-clean") / "ledger-0", logs / "ledger-0")
    good = scan_offset_indexes(logs)
    slot = int(np.argmax(good.segments["stop"] - good.segments["start"]))
    segment = good.segments[slot]
    path = logs / "ledger-0" / f"{segment['base_offset']:020}.index"
    with path.open("ab") as file:
        file.write(bytes.fromhex("00000001 00000001"))
    found = scan_offset_indexes(logs)
    np.testing.assert_array_equal(found.entries, good.entries)
    (problem,) = found.problems
    assert problem.path == path
    assert problem.position == 8 * (segment["stop"] - segment["start"])


def test_a_file_removed_during_a_scan_counts_as_empty(tmp_path, monkeypatch):
    folder = tmp_path / "orders-0"
    folder.mkdir()
    for base in (0, 100):
        index = OffsetIndex.build([base + 5], [4096], base)
        (folder / f"{base:020}.index").write_bytes(index.to_bytes())
    read_slots = index_scan.read_slots

    def read_after_a_roll(path, width):
        if os.fspath(path).endswith(f"{0:020}.index"):
            Path(path).rename(f"{path}.deleted")
        return read_slots(path, width)

    monkeypatch.setattr(index_scan, "read_slots", read_after_a_roll)
    found = scan_offset_indexes(folder)
    assert found.entries["offset"].tolist() == [105]
    assert found.segments["base_offset"].tolist() == [0, 100]
    assert found.problems == ()


def test_files_and_directories_marked_for_deletion_are_ignored(tmp_path):
    live, deleted = tmp_path / "a-0", tmp_path / f"b-0.{32 * 'a'}-delete"
    for folder in (live, deleted):
        folder.mkdir()
        index = TransactionIndex.build([1], [2], [3], [4], 0).to_bytes()
        for end in ("", ".deleted", ".cleaned", ".swap"):
            (folder / f"{0:020}.txnindex{end}").write_bytes(index)
    assert scan_transaction_indexes(tmp_path).topics == ("a",)
    assert len(scan_transaction_indexes(tmp_path).entries) == 1
    named = scan_transaction_indexes(deleted)
    assert (named.topics, len(named.entries)) == (("b",), 1)


def test_a_directory_of_another_name_is_a_partition_without_a_topic(tmp_path):
    index = OffsetIndex.build([7], [4096], 5)
    (tmp_path / f"{5:020}.index").write_bytes(index.to_bytes())
    scan = scan_offset_indexes(tmp_path)
    assert scan.topics == ("",)
    assert scan.entries["partition"].tolist() == [-1]
    assert scan.lookup("", -1, 8).item() == (5, 4096)


def test_an_empty_partition_has_no_entries_and_another_empty_directory_is_rejected(
    tmp_path,
):
    (tmp_path / "orders-0").mkdir()
    for scan, _ in SCANS.values():
        assert len(scan(tmp_path / "orders-0").segments) == 0
        assert len(scan(tmp_path).segments) == 0
    assert len(scan_time_indexes(tmp_path).start_offsets(0)) == 0
    assert scan_offset_indexes(tmp_path).lookup("orders", 0, 5).item() == (-1, -1)
    (tmp_path / "other").mkdir()
    with pytest.raises(NotALogDirectoryError, match="no segments and no partitions"):
        scan_offset_indexes(tmp_path / "other")
    with pytest.raises(FileNotFoundError):
        scan_offset_indexes(tmp_path / "nowhere")
