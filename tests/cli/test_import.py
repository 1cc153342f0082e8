"""``import``: what ``export --reversible`` wrote, and exit codes."""

import json
import shutil

import pyarrow.parquet as pq
import pytest

from kafkalog.cli.exits import Exit
from tests import golden_data

from .shell import call, objects, on_terminal

ORDERS = golden_data.logs("k431-clean") / "orders.zstd-0"
LEDGER = golden_data.logs("k431-clean") / "state.none-0"
MEMBERS = ["schema", "partitions", "segments", "batches", "records", "size_in_bytes"]


def segments(directory):
    return {path.name: path.read_bytes() for path in directory.glob("*.log")}


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_an_exported_log_is_written_again(tmp_path, form):
    table, logs = tmp_path / "table", tmp_path / "logs"
    ran = call("export", ORDERS, table, "--format", form, "--keep-batches")
    assert ran.exit_code == 0, ran.output
    ran = call("import", table, logs)
    assert (ran.exit_code, ran.stderr) == (0, "")
    [report] = objects(ran.stdout)
    assert list(report) == MEMBERS
    assert (report["schema"], report["partitions"], report["records"]) == (1, 1, 212)
    assert segments(logs / ORDERS.name) == segments(ORDERS)
    ran = call("import", table, tmp_path / "dry", "--dry-run", "--format", "json")
    assert json.loads(ran.stdout) == report
    shown = on_terminal("import", table, tmp_path / "more", "--topic", "orders.zstd")
    assert "partitions" in shown
    assert shown.splitlines()[-1].split()[-2] == "212"


def test_uncompressed_batches_have_their_bytes_without_keep_batches(tmp_path):
    call("export", LEDGER, tmp_path / "t.parquet", "--reversible")
    assert call("import", tmp_path / "t.parquet", tmp_path / "logs").exit_code == 0
    assert segments(tmp_path / "logs" / LEDGER.name) == segments(LEDGER)


def test_a_directory_that_is_not_empty_is_refused(tmp_path):
    table = tmp_path / "t.parquet"
    call("export", LEDGER, table, "--reversible")
    ran = call("import", table, tmp_path)
    assert ran.exit_code == Exit.REFUSED
    assert ran.stderr == f"kafkalog: the directory is not empty: {tmp_path}\n"
    copy = tmp_path / "copy"
    shutil.copytree(LEDGER, copy / LEDGER.name)
    assert call("import", table, copy / LEDGER.name / "x").exit_code == Exit.REFUSED


def test_changed_rows_are_damage(tmp_path):
    call("export", LEDGER, tmp_path / "t.parquet", "--reversible")
    table = pq.read_table(tmp_path / "t.parquet")
    several = table["batch_records"].to_pylist().index(2)
    rows = [row for row in range(len(table)) if row != several]
    pq.write_table(table.take(rows), tmp_path / "t.parquet")
    ran = call("import", tmp_path / "t.parquet", tmp_path / "logs")
    assert ran.exit_code == Exit.DAMAGE
    assert "rows, expected" in ran.stderr


def test_a_missing_table_and_one_without_the_columns_are_reported(tmp_path):
    ran = call("import", tmp_path / "none", tmp_path / "logs")
    assert ran.exit_code == Exit.UNREADABLE
    call("export", LEDGER, tmp_path / "t.parquet")
    ran = call("import", tmp_path / "t.parquet", tmp_path / "logs")
    assert ran.exit_code == Exit.UNREADABLE
    assert "expected a table of export --reversible" in ran.stderr
    ran = call("import", tmp_path / "t.parquet", tmp_path / "no" / "logs")
    assert ran.exit_code == Exit.UNREADABLE


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--format", "jsonl", "--reversible"],
            "expected with --format parquet or delta",
        ),
        (
            ["--format", "csv", "--keep-batches"],
            "expected with --format parquet or delta",
        ),
        (["--reversible", "--columns", "offset"], "expected without --columns"),
        (["--reversible", "--start-timestamp", "5"], "no bounds on timestamps"),
        (["--reversible", "--isolation-level", "read_committed"], "no isolation"),
    ],
)
def test_options_that_leave_something_out_are_a_usage_error(tmp_path, options, message):
    ran = call("export", LEDGER, tmp_path / "out", *options)
    assert ran.exit_code == Exit.USAGE
    assert message in ran.output
    assert not list(tmp_path.iterdir())
