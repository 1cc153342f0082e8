"""``info``: contents of files and directories, compared with what Kafka reports."""

import csv
import io
import shutil
from collections import Counter

import pytest

import kafkalog
from kafkalog.query import log_contents
from tests import golden_data
from tests.query import batches, kafka_rows

from . import golden
from .shell import call, objects

CLEAN = "k431-clean"


def info(*paths, code=0):
    ran = call("info", *paths)
    assert ran.exit_code == code, ran.output
    facts = objects(ran.stdout)
    assert [one.pop("schema") for one in facts] == [1] * len(paths)
    return facts


def expected_of_file(name, directory, file):
    """Return what Kafka reports of the batches and records of one file, added up."""
    rows = [
        row
        for (of, _), row in kafka_rows.batches(name, directory).items()
        if of == file
    ]
    entries = [row for of, row in kafka_rows.records(name, directory) if of == file]
    producers = {row.get("producer_id", -1) for row in rows} - {-1, None}
    times = [row["max_timestamp"] for row in rows if row["max_timestamp"] >= 0]
    return {
        "batches": len(rows),
        "records": len(entries),
        "codecs": dict(Counter(row["codec"] for row in rows)),
        "magics": dict(Counter(str(row["magic"]) for row in rows)),
        "max_timestamp": max(times, default=None),
        "producers": len(producers),
        "transactional_batches": sum(bool(row.get("is_transactional")) for row in rows),
        "control_batches": sum(bool(row.get("is_control")) for row in rows),
        "tail_position": max(
            (row["position"] + row["size"] for row in rows), default=0
        ),
    }


@pytest.mark.parametrize(("name", "directory"), kafka_rows.DIRECTORIES)
def test_a_file_has_the_content_that_kafka_reports(name, directory):
    for file in kafka_rows.files(name, directory):
        path = kafka_rows.path_of(name, directory, file)
        [facts] = info(path)
        expected = expected_of_file(name, directory, file)
        assert {member: facts[member] for member in expected} == expected
        assert facts["size_in_bytes"] == path.stat().st_size
        assert facts["kind"] == ("segment" if ".log" in file else "metadata snapshot")


@pytest.mark.parametrize("name", golden_data.SETS)
def test_a_partition_has_the_sum_of_its_segments(name):
    for directory in golden.partitions(name):
        path = golden_data.logs(name) / directory
        [facts] = info(path)
        files = [one["file"] for one in facts["segments"]]
        logs = [
            one for one in kafka_rows.files(name, directory) if one.endswith(".log")
        ]
        assert files == logs
        each = [expected_of_file(name, directory, file) for file in files]
        for member in ("batches", "records", "transactional_batches"):
            assert facts[member] == sum(one[member] for one in each)
        with kafkalog.open(path) as log:
            assert facts["log_start_offset"] == log.log_start_offset
            assert facts["log_end_offset"] == log.log_end_offset
            assert facts["last_stable_offset"] == log.last_stable_offset
            assert facts["leader_epochs"] == [list(one) for one in log.leader_epochs]
        sizes = [one.stat().st_size for one in path.iterdir()]
        assert facts["size_in_bytes"] == sum(sizes)
        assert sum(facts["files"].values()) == len(sizes)


@pytest.mark.parametrize("name", golden_data.SETS)
def test_every_file_of_a_broker_is_known_and_valid(name):
    paths = [one for one in golden_data.logs(name).rglob("*") if one.is_file()]
    assert paths
    for facts in info(*sorted(paths)):
        assert facts["kind"]
        assert facts.get("state") in (None, "sound", "preallocated")


@pytest.mark.parametrize(
    "name", [name for name in golden_data.SETS if name != "oldclients"]
)
def test_indexes_have_as_many_entries_as_kafka_reports(name):
    indexes = [
        (golden_data.logs(name) / directory / row["file"], len(row["entries"]))
        for directory in golden.partitions(name)
        for row in golden_data.truth(name, directory, "indexes")
    ]
    assert indexes
    for path, entries in indexes:
        [facts] = info(path)
        assert facts["entries"] == entries, path


def test_a_log_directory_has_totals_and_its_brokers_id():
    [facts] = info(golden.CLEAN)
    listed = [
        one for one in objects(call("ls", golden.CLEAN).stdout) if not one["state"]
    ]
    assert facts["kind"] == "log directory"
    assert facts["partitions"] == len(listed) == 38
    assert facts["topics"] == len({one["topic"] for one in listed})
    assert facts["segments"] == sum(one["segments"] for one in listed)
    assert facts["log_bytes"] == sum(one["size_in_bytes"] for one in listed)
    assert facts["marked"] == {"delete": 1}
    assert facts["clean_shutdown"] is True
    assert facts["cluster_id"] == "Zm9yLWRldmVsb3BlcnMtMQ"
    files = [one for one in golden.CLEAN.rglob("*") if one.is_file()]
    assert facts["size_in_bytes"] == sum(one.stat().st_size for one in files)
    assert {one["state"] for one in facts["beside"]} == {"sound"}


def test_trailing_bytes_are_reported(tmp_path):
    whole = batches.build(2, "none", 0)
    path = tmp_path / "00000000000000000000.log"
    for more, tail in ((b"", "whole"), (b"\0" * 50, "preallocated")):
        path.write_bytes(whole + more)
        [facts] = info(path)
        assert (facts["tail"], facts["tail_position"]) == (tail, len(whole))
    path.write_bytes(whole + batches.build(2, "none", 3)[:-1])
    assert info(path)[0]["tail"] == "incomplete"


def test_damage_in_headers_and_other_files_is_reported_and_ends_with_1(tmp_path):
    place = tmp_path / "ledger-0"
    shutil.copytree(golden.CLEAN / "ledger-0", place)
    log = place / "00000000000000000082.log"
    log.write_bytes(log.read_bytes()[:200] + b"\xff" * 400 + log.read_bytes()[600:])
    index = place / "00000000000000000005.index"
    index.write_bytes(index.read_bytes()[:-3])
    (place / "00000000000000000000.timeindex").unlink()
    (place / "leader-epoch-checkpoint").write_text("0\n1\nnonsense\n")
    [facts] = info(place, code=1)
    states = {
        one["file"]: one["state"] for row in facts["segments"] for one in row["beside"]
    }
    assert states["00000000000000000005.index"].startswith("damaged: 5 bytes after")
    assert states["00000000000000000000.timeindex"] == "missing"
    assert facts["segments"][2]["tail"].startswith("damaged: ")
    assert facts["segments"][2]["tail_position"] < 600
    assert facts["leader_epochs"] == []
    assert facts["beside"][-2]["state"].startswith("damaged: ")


def test_a_log_with_another_name_has_no_missing_files(tmp_path):
    path = tmp_path / "copy.log"
    path.write_bytes(batches.build(2, "none", 7))
    [facts] = info(path)
    assert (facts["base_offset"], facts["next_offset"]) == (None, 10)
    assert facts["beside"] == []


def test_an_unknown_file_is_not_one_of_kafkas(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    ran = call("info", path)
    assert (ran.exit_code, ran.stdout) == (3, "")
    assert ran.stderr == f"kafkalog: not a file that Kafka writes: {path}\n"


def test_the_table_is_human_readable():
    text = call("info", golden.CLEAN / "ledger-0", "--format", "table").stdout
    lines = text.splitlines()
    assert lines[0].split() == ["kind", "partition"]
    assert "log end offset         126" in lines
    assert "last stable offset     107" in lines
    assert "00000000000000000126.snapshot" in text
    assert text.count("\n\n") == 2


def test_csv_has_a_row_a_member():
    text = call("info", golden.CLEAN / "ledger-0", "--format", "csv").stdout
    rows = {row["name"]: row["value"] for row in csv.DictReader(io.StringIO(text))}
    assert (rows["kind"], rows["log_end_offset"]) == ("partition", "126")
    assert rows["magics"] == '{"2": 61}'


def test_a_file_given_by_name_may_be_a_link_but_not_one_in_a_partition(tmp_path):
    partition = golden_data.logs(CLEAN) / "ledger-0"
    names = ["partition.metadata", f"{0:020d}.index", f"{0:020d}.timeindex"]
    copy = tmp_path / "ledger-0"
    shutil.copytree(partition, copy)
    for name in names:
        (copy / name).unlink()
        (copy / name).symlink_to(partition / name)
        [by_link], [itself] = info(copy / name), info(partition / name)
        assert by_link == {**itself, "path": str(copy / name)}
    [facts] = info(copy)
    assert facts["topic_id"] is None
    states = {one["file"]: one["state"] for one in facts["segments"][0]["beside"]}
    assert [states[name] for name in names[1:]] == ["missing", "missing"]


def test_producers_are_counted_up_to_a_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(log_contents, "MAX_PRODUCERS", 4)
    path = tmp_path / "orders-0" / f"{0:020d}.log"
    path.parent.mkdir()
    entries = [
        batches.build(
            2, "none", 3 * i, producer_id=i, producer_epoch=0, base_sequence=0
        )
        for i in range(6)
    ]
    path.write_bytes(b"".join(entries[:4]))
    [facts] = info(path)
    assert facts["producers"] == 4
    assert "more_producers" not in facts
    path.write_bytes(b"".join(entries))
    for place in (path, path.parent):
        [facts] = info(place)
        assert (facts["producers"], facts["more_producers"]) == (4, True)
        lines = call("info", place, "--format", "table").stdout.splitlines()
        [line] = [line for line in lines if line.startswith("producers")]
        assert line.split(maxsplit=1)[1] == "at least 4"
