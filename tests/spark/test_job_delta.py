"""The job with ``--to delta``: its commits, and options that it rejects.

``tests/interop/test_delta_job.py`` reads its tables with Delta's own jars.
"""

from __future__ import annotations

import datetime
import json
import shutil
import sys

import pyarrow
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from kafkalog.export.delta_table import DeltaAppender, application_id
from kafkalog.spark import job_delta
from kafkalog.spark.job_output import FOLDER, locked
from kafkalog.spark.job_run import find_new_offsets
from kafkalog.spark.log_partitions import LogPartitions
from kafkalog.spark.read_options import parse_options
from tests.spark import lakes
from tests.spark.lakes import FORM, ended, printed_by

DATE = "2023-11-14"


@pytest.fixture
def logs(tmp_path):
    return lakes.orders_and_audit(tmp_path / "logs")


def call(logs, out, *arguments):
    return lakes.call(logs, out, *arguments, "--to", "delta")


def ranges(logs, known, **options):
    parsed = parse_options({"path": str(logs), **options}, streaming=False)
    lost = []
    partitions = LogPartitions([logs])
    found = find_new_offsets(parsed, partitions, known, lost.append).ranges
    return [tuple(one) for one in found], lost


def rows(out):
    """Return topic, partition, offset and date of each row of the table."""
    names = ["topic", "partition", "offset", "date"]
    table = DeltaTable(str(out)).to_pyarrow_table(columns=names)
    return sorted(tuple(row.values()) for row in table.to_pylist())


def expected_rows(**ends):
    date = datetime.date.fromisoformat(DATE)
    return sorted(
        (topic, int(partition), offset, date)
        for name, end in ends.items()
        for topic, partition in [name.split("_")]
        for offset in range(end)
    )


@pytest.mark.spark
def test_each_run_is_one_commit_of_what_is_new(spark, logs, tmp_path):
    out = tmp_path / "out"
    ended(call(logs, out), 0)
    lakes.add_segment(logs, "orders-0", 300, 150)
    lakes.add_segment(logs, "orders-2", 0, 20)
    assert printed_by(call(logs, out, *FORM)) == {
        "table": str(out),
        "partitions": [
            {"topic": "orders", "partition": 0, "start": 300, "end": 450},
            {"topic": "orders", "partition": 2, "start": 0, "end": 20},
        ],
    }
    ends = {"orders_0": 450, "orders_1": 100, "orders_2": 20, "audit_0": 50}
    assert rows(out) == expected_rows(**ends)
    table = DeltaTable(str(out))
    assert table.version() == 2  # 0 made the table
    for name, end in ends.items():
        topic, partition = name.split("_")
        application = application_id(topic, int(partition))
        assert table.transaction_version(application) == end
    assert "nothing to append" in ended(call(logs, out), 0)
    assert table.metadata().partition_columns == ["topic", "date"]
    read = DeltaTable(str(out)).to_pyarrow_table()
    names = [field.name for field in table.schema().fields]
    assert read.schema.names == names
    assert set(read["value"].to_pylist()) == {b"value " * 10}


@pytest.mark.spark
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_run_killed_around_its_commit_appends_each_record_once(
    spark, logs, tmp_path, monkeypatch, moment
):
    out = tmp_path / "out"
    call(logs, out, "--subscribe", "audit")
    append = DeltaAppender.append_files

    def dying(self, *arguments):
        if moment == "after":
            append(self, *arguments)
        raise OSError(5, "killed", "here")

    monkeypatch.setattr(DeltaAppender, "append_files", dying)
    assert "killed: here" in ended(call(logs, out), 3)
    monkeypatch.undo()
    lakes.add_segment(logs, "orders-1", 100, 7)
    ended(call(logs, out), 0)
    assert rows(out) == expected_rows(orders_0=300, orders_1=107, audit_0=50)


@pytest.mark.spark
def test_a_table_that_another_version_wrote_is_continued(spark, logs, tmp_path):
    out = tmp_path / "out"
    call(logs, out)
    shutil.rmtree(out / FOLDER)
    lakes.add_segment(logs, "audit-0", 50, 5)
    ended(call(logs, out), 0)
    assert rows(out) == expected_rows(orders_0=300, orders_1=100, audit_0=55)


@pytest.mark.spark
def test_corruption_fails_the_job_and_nothing_is_appended(spark, logs, tmp_path):
    path = logs / "orders-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[80] ^= 1
    path.write_bytes(data)
    assert f"{path} at byte 0" in ended(call(logs, tmp_path / "out"), 1)
    assert {one.name for one in (tmp_path / "out").iterdir()} == {FOLDER}


@pytest.mark.spark
def test_a_commit_counts_the_records_of_its_files(spark, logs, tmp_path):
    ended(call(logs, tmp_path / "out"), 0)
    commit = tmp_path / "out" / "_delta_log" / f"{1:020}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    added = [action["add"] for action in actions if "add" in action]
    assert sum(json.loads(one["stats"])["numRecords"] for one in added) == 450
    for one in added:
        assert (tmp_path / "out" / one["path"]).stat().st_size == one["size"]


@pytest.mark.spark
def test_a_commit_states_the_bounds_by_which_readers_skip_files(spark, logs, tmp_path):
    ended(call(logs, tmp_path / "out"), 0)
    table = DeltaTable(str(tmp_path / "out"))
    actions = pyarrow.table(table.get_add_actions(flatten=True)).to_pylist()
    assert actions
    for action in actions:
        path = tmp_path / "out" / action["path"]
        file = pq.read_table(path, columns=["partition", "offset"], partitioning=None)
        for name in file.column_names:
            values = file.column(name).to_pylist()
            bounds = action[f"min.{name}"], action[f"max.{name}"]
            assert bounds == (min(values), max(values))


def test_without_deltalake_the_error_names_the_extra(logs, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "deltalake", None)
    assert "kafkalog[delta]" in ended(call(logs, tmp_path / "out"), 3)
    assert not (tmp_path / "out").exists()


def test_a_run_while_another_one_is_writing_is_refused(logs, tmp_path):
    with locked(tmp_path / "out"):
        ran = call(logs, tmp_path / "out")
    assert "another job is writing" in ended(ran, 4)


def test_a_directory_with_other_files_is_refused(logs, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "kept").touch()
    assert "not empty" in ended(call(logs, tmp_path / "out"), 4)
    ended(call(logs, logs / "orders-0"), 4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--columns", "offset,topic"], "without timestamp"),
        (["--columns", "offset,timestamp"], "without topic"),
        (["--on-corruption", "skip"], "expected without --on-corruption skip"),
        (["--starting-offsets", "never"], "--starting-offsets"),
    ],
)
def test_options_that_do_not_apply_are_a_usage_error(logs, tmp_path, options, message):
    assert message in ended(call(logs, tmp_path / "out", *options), 2)
    assert not (tmp_path / "out").exists()


def test_partitions_begin_where_the_table_ends_and_new_ones_at_the_first_offset(logs):
    known = {("orders", 0): 120, ("audit", 0): 50}
    found, lost = ranges(logs, known)
    assert found == [("orders", 0, 120, 300), ("orders", 1, 0, 100)]
    assert not lost
    found, _ = ranges(
        logs, known, endingOffsets='{"orders":{"0":100,"1":7},"audit":{"0":9}}'
    )
    assert found == [("orders", 1, 0, 7)]


def test_starting_offsets_are_those_of_partitions_that_the_table_does_not_have(logs):
    starting = '{"orders":{"0":5,"1":6},"audit":{"0":7}}'
    found, _ = ranges(logs, {("orders", 0): 120}, startingOffsets=starting)
    assert found == [
        ("audit", 0, 7, 50), ("orders", 0, 120, 300), ("orders", 1, 6, 100),
    ]  # fmt: skip


def test_a_log_that_has_become_shorter_is_reported(logs):
    known = {("orders", 0): 320, ("audit", 0): 50, ("orders", 1): 100}
    found, lost = ranges(logs, known, failOnDataLoss="false")
    assert not found
    assert any("320" in text for text in lost)


def test_application_ids_are_those_of_the_command():
    assert application_id("a-b", 7) == "kafkalog/a-b-7"


def test_a_file_of_rows_without_a_date_has_a_null_in_its_partition():
    path = f"topic=a=b/date={job_delta.NO_DATE}/part-00000.parquet"
    assert job_delta.partition_values(path) == {"topic": "a=b", "date": None}
