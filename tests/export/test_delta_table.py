"""`append_new`: a Delta table has each record once, whatever happens to the runs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import date

import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

import kafkalog
from kafkalog.copies.log_import import import_logs
from kafkalog.errors import (
    CommitConflictError,
    ConfigError,
    CorruptRecordError,
    InvalidRecordError,
    KafkaLogError,
    NotALogDirectoryError,
)
from kafkalog.export import delta_table
from kafkalog.export.delta_table import append_new
from kafkalog.query.scan_columns import COLUMNS
from tests import golden_data
from tests.cli import golden
from tests.query import kafka_rows
from tests.spark.growing import GrowingLog

ROOT = golden_data.GOLDEN.parents[1]


def rows_of(out):
    table = DeltaTable(out).to_pyarrow_table().select(["partition", "offset", "value"])
    return sorted(tuple(row.values()) for row in table.to_pylist())


def next_offset(out, name):
    return DeltaTable(out).transaction_version(f"kafkalog/{name}")


@pytest.fixture
def log(tmp_path):
    return GrowingLog(tmp_path / "logs")


@pytest.mark.parametrize("name", golden_data.SETS)
def test_a_table_has_every_record_that_kafka_reads(tmp_path, name):
    scan = kafkalog.scan(golden_data.logs(name), columns=COLUMNS, control_records=True)
    whole = [s for s in scan.sources if s[0].directory is not None]
    done = append_new(replace(scan, sources=tuple(whole)), tmp_path / "lake")
    table = DeltaTable(tmp_path / "lake").to_pyarrow_table().select(COLUMNS)
    table = table.set_column(
        COLUMNS.index("timestamp"), "timestamp",
        table["timestamp"].cast(pa.timestamp("ms", tz="UTC")),
    )  # fmt: skip
    expected = golden.all_records(name)
    assert done.records == len(expected)
    read = kafka_rows.from_arrow(table)
    assert sorted(read, key=repr) == sorted(expected, key=repr)


def test_each_run_appends_what_is_new(tmp_path, log):
    out = tmp_path / "lake"
    for count in (30, 0, 10, 50):
        log.append(count)
        done = append_new(kafkalog.scan(log.logs), out)
        assert (done.records, done.commits) == (2 * count, int(count > 0))
        assert rows_of(out) == sorted(log.written)
        assert next_offset(out, "grown-1") == log.ends[1]
        assert not done.losses
        log.roll()


def test_a_commit_is_made_for_a_number_of_bytes(tmp_path, log, monkeypatch):
    sizes = []
    write = delta_table.require("deltalake", "delta").write_deltalake

    def noted(table, rows, **named):
        sizes.append(rows.nbytes)
        write(table, rows, **named)

    monkeypatch.setattr("deltalake.write_deltalake", noted)
    log.append(30_000, size=500)
    done = append_new(kafkalog.scan(log.logs), tmp_path / "lake", commit_bytes=4 << 20)
    assert done.commits == len(sizes) > 5
    assert max(sizes) < 14 << 20  # a step of the scan more
    assert rows_of(tmp_path / "lake") == sorted(log.written)


def test_duckdb_and_polars_read_the_table(tmp_path, log):
    log.append(20)
    append_new(kafkalog.scan(log.logs), tmp_path / "lake")
    frame = polars.read_delta(str(tmp_path / "lake"))
    assert frame.height == len(log.written)
    rows = DeltaTable(tmp_path / "lake").to_pyarrow_table()
    [(count,)] = duckdb.sql("select count(distinct value) from rows").fetchall()
    assert rows.num_rows == count
    assert count == len(log.written)


def test_dates_are_those_of_utc(tmp_path):
    topic = tmp_path / "logs" / "days-0"
    topic.mkdir(parents=True)
    days = {
        1_700_006_399_999: date(2023, 11, 14),
        1_700_006_400_000: date(2023, 11, 15),
        0: date(1970, 1, 1),
        -1: None,
        253_402_300_799_999: date(9999, 12, 31),
        253_402_300_800_000: None,  # a year that not all readers parse
    }
    builder = kafkalog.RecordBatchBuilder()
    for timestamp in days:
        builder.append(None, b"", timestamp=timestamp)
    (topic / f"{0:020d}.log").write_bytes(builder.build())
    append_new(kafkalog.scan(topic), tmp_path / "lake", partition_by="date")
    table = DeltaTable(tmp_path / "lake")
    assert table.metadata().partition_columns == ["topic", "date"]
    rows = table.to_pyarrow_table().sort_by("offset")
    assert rows["date"].to_pylist() == list(days.values())
    expected = [None if time == -1 else 1000 * time for time in days]
    assert pc.cast(rows["timestamp"], pa.int64()).to_pylist() == expected


@pytest.mark.parametrize("time", [2**62, 2**63 // 1000 + 1])
def test_a_timestamp_beyond_microseconds_is_an_error_and_nothing_is_appended(
    tmp_path, time
):
    topic = tmp_path / "logs" / "days-0"
    topic.mkdir(parents=True)
    builder = kafkalog.RecordBatchBuilder()
    most = (2**63 - 1) // 1000
    for timestamp in (-1, most, time):
        builder.append(None, b"", timestamp=timestamp)
    (topic / f"{0:020d}.log").write_bytes(builder.build())
    message = (
        f"timestamp {time} of days-0 at offset 2, expected -{most} to {most}, which "
        "Delta's microseconds can hold"
    )
    for options in ({}, {"partition_by": "date"}, {"reversible": True}):
        out = tmp_path / "-".join(["lake", *options])
        with pytest.raises(InvalidRecordError, match=message):
            append_new(kafkalog.scan(topic), out, **options)
        assert rows_of(out) == []
    without = kafkalog.scan(topic, columns=["topic", "partition", "offset", "value"])
    assert append_new(without, tmp_path / "without").records == 3


@pytest.mark.parametrize("seed", range(2))
def test_killed_runs_neither_repeat_nor_lose_a_row(tmp_path, seed):
    check_killed(tmp_path, seed, runs=14)


@pytest.mark.slow
def test_many_killed_runs_neither_repeat_nor_lose_a_row(tmp_path):
    check_killed(tmp_path, 2, runs=60)


def check_killed(tmp_path, seed, *, runs):
    told = run_exports("killed_exports", tmp_path, seed, runs)
    assert told["killed"] > runs // 3


def run_exports(program, tmp_path, *arguments):
    """Run a program of exports; check the table that they leave."""
    out = tmp_path / "lake"
    given = [tmp_path / "logs", out, *arguments]
    ran = subprocess.run(
        [sys.executable, "-m", f"tests.export.{program}", *map(str, given)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    expected = [(p, offset, value.encode()) for p, offset, value in told["written"]]
    assert rows_of(out) == expected
    return told


def test_of_many_runs_at_once_some_are_refused_and_no_row_is_repeated(tmp_path):
    assert run_exports("rival_exports", tmp_path, 6)["refused"] > 0


def test_of_two_runs_at_once_one_fails_and_no_row_is_repeated(
    tmp_path, log, monkeypatch
):
    out = tmp_path / "lake"
    log.append(50)
    write = delta_table.require("deltalake", "delta").write_deltalake

    def overtaken(*arguments, **named):
        monkeypatch.undo()
        append_new(kafkalog.scan(log.logs), out)
        write(*arguments, **named)

    monkeypatch.setattr("deltalake.write_deltalake", overtaken)
    with pytest.raises(CommitConflictError, match="another run has changed the table"):
        append_new(kafkalog.scan(log.logs), out)
    assert rows_of(out) == sorted(log.written)


def test_a_run_that_was_overtaken_between_its_commits_fails(tmp_path, log, monkeypatch):
    out = tmp_path / "lake"
    log.append(50)
    first, second = log.folders
    write = delta_table.require("deltalake", "delta").write_deltalake

    def overtaken(*arguments, **named):
        monkeypatch.undo()
        append_new(kafkalog.scan(second), out)
        write(*arguments, **named)

    monkeypatch.setattr("deltalake.write_deltalake", overtaken)
    # The first commit has another partition, so that only the second one conflicts.
    with pytest.raises(CommitConflictError, match="another run has appended grown-1"):
        append_new(kafkalog.scan([first, second]), out, commit_bytes=1)
    assert rows_of(out) == sorted(log.written)


def test_other_writers_of_the_table_do_not_disturb(tmp_path, log, monkeypatch):
    out = tmp_path / "lake"
    log.append(50)
    append_new(kafkalog.scan(log.logs), out)
    log.append(20)
    write = write_deltalake

    def alongside(table, rows, **named):
        other = rows.slice(0, 1).set_column(0, "topic", pa.array(["other"]))
        write(str(out), other, mode="append")
        write(table, rows, **named)

    monkeypatch.setattr("deltalake.write_deltalake", alongside)
    append_new(kafkalog.scan(log.logs), out)
    table = DeltaTable(out).to_pyarrow_table()
    assert pc.sum(pc.equal(table["topic"], "other")).as_py() == 1
    assert table.num_rows == len(log.written) + 1


def test_offsets_that_the_log_has_deleted_are_reported_and_the_rest_is_appended(
    tmp_path, log
):
    out = tmp_path / "lake"
    log.append(20)
    append_new(kafkalog.scan(log.logs), out)
    kept = set(log.written)
    log.append(20)
    log.roll()
    log.append(10)
    log.delete_first()
    done = append_new(kafkalog.scan(log.logs), out)
    assert done.losses == [
        f"offsets 20 to 39 of grown-{partition} are missing: the log starts at 40, "
        "expected 20 or less"
        for partition in (0, 1)
    ]
    kept |= {row for row in log.written if row[1] >= 40}
    assert rows_of(out) == sorted(kept)
    assert not append_new(kafkalog.scan(log.logs), out).losses


def test_a_log_that_has_become_shorter_is_reported_and_not_read(tmp_path, log):
    out = tmp_path / "lake"
    log.append(20)
    append_new(kafkalog.scan(log.logs), out)
    expected = rows_of(out)
    path = log.folders[0] / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    for _ in range(2):
        done = append_new(kafkalog.scan(log.logs), out)
        assert done.losses == [
            "the log of grown-0 ends at offset 10, expected 20 or more"
        ]
        assert done.commits == 0
    assert rows_of(out) == expected


def test_records_before_damage_are_appended_and_those_after_it_later(tmp_path, log):
    out = tmp_path / "lake"
    log.append(40)
    path = log.folders[0] / f"{0:020d}.log"
    whole = path.read_bytes()
    at = 2 * len(whole) // 4 + 100  # in the third batch
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    for _ in range(2):
        with pytest.raises(CorruptRecordError, match=str(path)):
            append_new(kafkalog.scan(log.logs), out)
        assert next_offset(out, "grown-0") == 20
    path.write_bytes(whole)
    append_new(kafkalog.scan(log.logs), out)
    assert rows_of(out) == sorted(log.written)


def test_skipped_damage_is_listed_and_not_read_again(tmp_path, log):
    log.append(40)
    path = log.folders[0] / f"{0:020d}.log"
    whole = path.read_bytes()
    at = 2 * len(whole) // 4 + 100
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    scan = kafkalog.scan(log.logs, on_corruption="skip")
    done = append_new(scan, tmp_path / "lake")
    assert [problem.first_offset for problem in done.problems] == [20]
    assert done.records == len(log.written) - 10
    assert append_new(scan, tmp_path / "lake").commits == 0


def test_committed_transactions_of_a_damaged_log_are_appended(tmp_path):
    logs = tmp_path / "logs"
    shutil.copytree(golden_data.logs("k431-clean") / "ledger-0", logs / "ledger-0")
    for snapshot in (logs / "ledger-0").glob("*.snapshot"):
        snapshot.unlink()  # otherwise only what follows the newest one is read
    path = min((logs / "ledger-0").glob("*.log"))
    whole = bytearray(path.read_bytes())
    whole[100] ^= 1
    path.chmod(0o644)
    path.write_bytes(whole)
    scan = kafkalog.scan(logs, isolation="read_committed", on_corruption="skip")
    expected = scan.to_arrow()["offset"].to_pylist()
    done = append_new(scan, tmp_path / "lake", commit_bytes=1)
    rows = DeltaTable(tmp_path / "lake").to_pyarrow_table()
    assert sorted(rows["offset"].to_pylist()) == expected
    assert done.problems == scan.problems != []
    assert append_new(scan, tmp_path / "lake").commits == 0


def test_committed_transactions_only_up_to_the_last_stable_offset(tmp_path):
    source = golden_data.logs("k431-clean")
    names = [source / "ledger-0", source / "ledger-1"]
    committed = kafkalog.scan(names, isolation="read_committed")
    out = tmp_path / "lake"
    done = append_new(committed, out, commit_bytes=1)
    expected = committed.to_arrow().select(["partition", "offset"]).to_pylist()
    rows = DeltaTable(out).to_pyarrow_table().select(["partition", "offset"])
    assert sorted(rows.to_pylist(), key=repr) == sorted(expected, key=repr)
    assert done.commits > 1
    assert next_offset(out, "ledger-0") == 107
    assert append_new(committed, out).commits == 0


def test_a_tail_without_records_is_committed_once(tmp_path):
    source = golden_data.logs("k431-clean") / "ledger-0"
    scan = kafkalog.scan(source, end_offset=100)
    marker = next(
        row["offset"]
        for row in kafkalog.scan(source, control_records=True, columns=COLUMNS)
        .to_arrow()
        .to_pylist()
        if row["is_control"]
    )
    out = tmp_path / "lake"
    append_new(kafkalog.scan(source, end_offset=marker), out)
    done = append_new(kafkalog.scan(source, end_offset=marker + 1), out)
    assert (done.records, done.commits) == (0, 1)
    assert next_offset(out, "ledger-0") == marker + 1
    append_new(scan, out)
    assert DeltaTable(out).to_pyarrow_table().num_rows == scan.count()


def test_the_first_run_begins_at_the_start_offset_and_later_ones_where_it_ended(
    tmp_path, log
):
    out = tmp_path / "lake"
    log.append(30)
    append_new(kafkalog.scan(log.logs, start_offset=12), out)
    log.append(10)
    append_new(kafkalog.scan(log.logs, start_offset=0), out)
    assert rows_of(out) == sorted(row for row in log.written if row[1] >= 12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["offset", "value"]}, "expected the column topic"),
        ({"columns": ["topic"]}, "and another one"),
        ({"start_timestamp": 5}, "no bounds on timestamps"),
        ({"end_timestamp": 5}, "no bounds on timestamps"),
    ],
)
def test_a_scan_that_a_table_cannot_continue_is_rejected(
    tmp_path, log, options, message
):
    log.append(10)
    with pytest.raises(ConfigError, match=message):
        append_new(kafkalog.scan(log.logs, **options), tmp_path / "lake")
    assert not (tmp_path / "lake").exists()


def test_two_directories_of_a_partition_are_rejected(tmp_path, log):
    other = GrowingLog(tmp_path / "other")
    with pytest.raises(ConfigError, match="expected one directory of grown-0"):
        append_new(kafkalog.scan([log.logs, other.logs]), tmp_path / "lake")


def test_a_lone_file_is_rejected(tmp_path, log):
    log.append(10)
    path = log.folders[0] / f"{0:020d}.log"
    with pytest.raises(NotALogDirectoryError, match="expected a partition's directory"):
        append_new(kafkalog.scan(path), tmp_path / "lake")


def test_a_table_with_other_columns_or_partitions_is_rejected(tmp_path, log):
    log.append(10)
    out = tmp_path / "lake"
    append_new(kafkalog.scan(log.logs), out)
    with pytest.raises(ConfigError, match="expected the columns of the table"):
        append_new(kafkalog.scan(log.logs, columns=["topic", "offset"]), out)
    other = tmp_path / "other"
    write_deltalake(other, DeltaTable(out).to_pyarrow_table(), partition_by="partition")
    with pytest.raises(ConfigError, match="partitioned by topic, found partition"):
        append_new(kafkalog.scan(log.logs), other)


def test_a_table_that_delta_cannot_read_is_an_error_of_kafkalog(tmp_path, log):
    log.append(10)
    append_new(kafkalog.scan(log.logs), tmp_path / "lake")
    (tmp_path / "lake" / "_delta_log" / f"{1:020d}.json").write_text("no JSON")
    for use in (
        lambda: append_new(kafkalog.scan(log.logs), tmp_path / "lake"),
        lambda: import_logs(tmp_path / "lake", tmp_path / "back"),
    ):
        with pytest.raises(KafkaLogError, match=str(tmp_path / "lake")) as caught:
            use()
        assert "thread" not in str(caught.value)  # nor more of the library's stack
