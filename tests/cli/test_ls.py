"""``ls``: partitions and segments, compared with what Kafka reports."""

import csv
import io
import json
import shutil

import pytest

import kafkalog
from kafkalog.errors import NotALogDirectoryError
from kafkalog.query.scan_columns import COLUMNS
from tests import golden_data
from tests.log.writing import batch
from tests.query import kafka_rows

from . import golden
from .shell import call, objects

TIME = COLUMNS.index("timestamp")


@pytest.mark.parametrize("name", golden_data.SETS)
def test_partitions_have_the_offsets_and_the_latest_time_that_kafka_reports(name):
    rows = objects(call("ls", golden_data.logs(name)).stdout)
    live = {row["directory"]: row for row in rows if row["state"] is None}
    assert sorted(live) == sorted(golden.partitions(name))
    for directory, row in live.items():
        batches = [
            batch
            for (file, _), batch in kafka_rows.batches(name, directory).items()
            if file.endswith(".log")
        ]
        start = golden.LOG_STARTS.get((name, directory), row["log_start_offset"])
        ends = [batch["last_offset"] + 1 for batch in batches]
        times = [batch["max_timestamp"] for batch in batches]
        latest = max((time for time in times if time >= 0), default=None)
        assert (row["topic"], row["partition"]) == kafka_rows.split_name(directory)
        assert row["log_start_offset"] == start
        assert row["max_timestamp"] == latest
        assert row["log_end_offset"] == max(ends, default=row["log_start_offset"])
        assert row["log_end_offset"] == log_end(golden_data.logs(name) / directory)


def log_end(directory):
    with kafkalog.open(directory) as log:
        return log.log_end_offset


def test_a_clean_shutdown_and_marked_directories_are_listed():
    clean = objects(call("ls", golden.CLEAN).stdout)
    assert {row["clean_shutdown"] for row in clean} == {True}
    assert [row["topic"] for row in clean if row["state"] == "delete"] == ["spare-gone"]
    crashed = objects(call("ls", golden_data.logs("k431-crash")).stdout)
    assert {row["clean_shutdown"] for row in crashed} == {False}


MEMBERS = {
    ".index": "index_entries",
    ".timeindex": "time_index_entries",
    ".txnindex": "txn_index_entries",
}


@pytest.mark.parametrize("name", golden_data.SETS)
def test_segments_have_as_many_index_entries_as_kafka_reports(name):
    for directory in golden.partitions(name):
        rows = objects(call("ls", golden_data.logs(name) / directory).stdout)
        indexes = golden_data.truth(name, directory, "indexes")
        expected_counts = {row["file"]: len(row["entries"]) for row in indexes}
        live = [row for row in rows if row["state"] is None]
        assert live or directory.endswith("-delete")
        for row in live:
            for ending, member in MEMBERS.items():
                file = row["file"].replace(".log", ending)
                assert row[member] == expected_counts.get(file), file


def test_marked_segments_are_listed():
    rows = objects(call("ls", golden.CLEAN / "state.none-0").stdout)
    assert {row["state"] for row in rows} == {None, "deleted"}


def test_a_file_is_its_segment():
    path = golden.CLEAN / "orders.none-0" / "00000000000000000000.log"
    [row] = objects(call("ls", path).stdout)
    assert row["file"] == path.name
    assert row["size_in_bytes"] == path.stat().st_size
    assert (row["base_offset"], row["first_timestamp"]) == (0, 1_700_000_000_003)


def test_the_time_under_log_append_time_is_the_brokers():
    [row] = objects(call("ls", golden.CLEAN, "--topic", "clock.none").stdout)
    times = [one[TIME] for one in golden.records("k431-clean", "clock.none-0")]
    assert row["first_timestamp"] == times[0]


def test_the_table_is_human_readable():
    lines = call("ls", golden.CLEAN, "--format", "table").stdout.splitlines()
    assert lines[0].endswith("39 partitions, 399.4 KiB, shut down cleanly")
    assert lines[1].split()[:4] == ["topic", "partition", "segments", "size"]
    crashed = call("ls", golden_data.logs("k431-crash"), "--format", "table").stdout
    assert "not shut down cleanly" in crashed.splitlines()[0]


def test_marked_files_count_in_a_partition_as_in_a_log_directory():
    rows = objects(call("ls", golden.CLEAN).stdout)
    for row in rows:
        place = golden.CLEAN / row["directory"]
        segments = objects(call("ls", place).stdout)
        logs = [path for path in place.iterdir() if ".log" in path.suffixes]
        assert row["segments"] == len(segments) == len(logs)
        sizes = [path.stat().st_size for path in logs]
        assert row["size_in_bytes"] == sum(sizes)
        assert sorted(one["size_in_bytes"] for one in segments) == sorted(sizes)
        every = sum(path.stat().st_size for path in place.iterdir())
        assert row["all_files_bytes"] == every
        assert sum(one["all_files_bytes"] for one in segments) <= every
    assert any(".deleted" in path.name for path in golden.CLEAN.glob("*/*.deleted"))


@pytest.mark.parametrize("path", [golden.CLEAN, golden.CLEAN / "state.none-0"])
def test_sorting_by_size_uses_all_files(path):
    rows = objects(call("ls", path, "--sort", "size").stdout)
    sizes = [row["all_files_bytes"] for row in rows]
    assert sizes == sorted(sizes, reverse=True)
    assert len({*sizes}) > 1
    by_name = objects(call("ls", path).stdout)
    assert sorted(map(str, rows)) == sorted(map(str, by_name)) != list(map(str, rows))


def test_the_unused_space_of_an_open_index_is_not_counted(tmp_path):
    with kafkalog.open(tmp_path / "t-0", "a") as log:
        log.append(batch())
        [row] = objects(call("ls", tmp_path).stdout)
        assert row["size_in_bytes"] < row["all_files_bytes"] < 100_000


def test_csv_has_numbers_without_units():
    text = call("ls", golden.CLEAN, "--topic", "ledger", "--format", "csv").stdout
    first, second = csv.DictReader(io.StringIO(text))
    assert (first["topic"], first["partition"], second["partition"]) == (
        "ledger",
        "0",
        "1",
    )
    assert int(first["size_in_bytes"]) > 0
    assert first["state"] == ""


def test_several_paths_are_one_list():
    places = [golden.CLEAN / name for name in ("ledger-0", "ledger-1")]
    rows = json.loads(call("ls", *places, "--format", "json").stdout)
    each = [row for place in places for row in objects(call("ls", place).stdout)]
    assert rows == each
    text = call("ls", *places, "--format", "csv").stdout
    assert len(list(csv.DictReader(io.StringIO(text)))) == len(each)


def test_an_unreadable_checkpoint_and_a_truncated_log_are_listed(tmp_path):
    place = tmp_path / "logs"
    shutil.copytree(golden.CLEAN / "orders.none-0", place / "orders.none-0")
    (place / "log-start-offset-checkpoint").write_text("nonsense")
    last = max((place / "orders.none-0").glob("*.log"))
    last.write_bytes(last.read_bytes()[:-5] + b"\xff" * 60)
    [row] = objects(call("ls", place).stdout)
    assert row["log_start_offset"] == 0
    assert 0 < row["log_end_offset"] < 212


@pytest.mark.parametrize("sort", ["name", "size"])
@pytest.mark.parametrize("name", ["", "state.none-0", f"ledger-0/{5:020}.log"])
def test_the_function_returns_what_the_command_prints(name, sort):
    path = golden.CLEAN / name
    report = kafkalog.ls(path, sort=sort)
    assert [*report.rows()] == objects(call("ls", path, "--sort", sort).stdout)
    assert report.to_arrow().num_rows == len([*report.rows()])
    table = call("ls", path, "--sort", sort, "--format", "table").stdout
    assert table.splitlines()[0] == f"{path}: {report}"


def test_the_function_selects_as_the_command_does():
    chosen = {"topics": "orders.*", "exclude_topics": ["*.lz4"], "partitions": 0}
    names = [row.topic for row in kafkalog.ls(golden.CLEAN, **chosen).partitions]
    assert names == ["orders.gzip", "orders.none", "orders.snappy", "orders.zstd"]
    assert str(kafkalog.ls(golden.CLEAN, exclude_topics="*")) == "0 partitions, 0 B"


def test_there_is_no_other_order():
    with pytest.raises(ValueError, match="sort 'time', expected name or size"):
        kafkalog.ls(golden.CLEAN, sort="time")


@pytest.mark.parametrize("name", ["none-0", "meta.properties"])
def test_what_is_no_log_is_an_error(name):
    with pytest.raises((FileNotFoundError, NotALogDirectoryError)) as raised:
        kafkalog.ls(golden.CLEAN / name)
    assert call("ls", golden.CLEAN / name).exit_code == 3
    assert name in str(raised.value)
