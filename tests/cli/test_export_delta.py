"""``export --to delta``: exit codes, messages, and progress."""

import subprocess
import sys

import pytest
from deltalake import DeltaTable

from kafkalog.cli.exits import Exit
from kafkalog.errors import CommitConflictError
from tests import golden_data
from tests.spark.growing import GrowingLog

from .shell import call, on_terminal

LEDGER = golden_data.logs("k431-clean") / "ledger-0"


def test_a_second_run_appends_what_is_new_and_a_third_one_nothing(tmp_path):
    out = tmp_path / "lake"
    log = GrowingLog(tmp_path / "logs")
    log.append(10)
    ran = call("export", log.logs, out, "--format", "delta", "--partition-by", "date")
    assert (ran.exit_code, ran.stdout) == (0, "")
    assert ran.stderr == "20 records, 1 commit, version 1\n"
    log.append(20)
    ran = call("export", log.logs, out, "--format", "delta", "--partition-by", "date")
    assert ran.stderr == "40 records, 1 commit, version 2\n"
    ran = call("export", log.logs, out, "--format", "delta", "--partition-by", "date")
    assert (ran.exit_code, ran.stderr) == (0, f"nothing new for {out}\n")
    assert DeltaTable(out).to_pyarrow_table().num_rows == len(log.written)


def test_missing_offsets_are_reported_with_exit_code_1(tmp_path):
    out = tmp_path / "lake"
    log = GrowingLog(tmp_path / "logs", partitions=1)
    log.append(10)
    assert call("export", log.logs, out, "--format", "delta", "-q").exit_code == 0
    log.append(10)
    log.roll()
    log.append(10)
    log.delete_first()
    ran = call("export", log.logs, out, "--format", "delta", "-q")
    assert ran.exit_code == Exit.DAMAGE
    assert ran.stderr.splitlines() == [
        "kafkalog: offsets 10 to 19 of grown-0 are missing: the log starts at 20, "
        "expected 10 or less",
        "kafkalog: 1 partition with missing offsets",
    ]
    assert DeltaTable(out).to_pyarrow_table().num_rows == 20


def test_a_directory_that_is_no_table_is_not_written_to(tmp_path):
    (tmp_path / "kept").write_text("")
    ran = call("export", LEDGER, tmp_path, "--format", "delta")
    assert ran.exit_code == Exit.REFUSED
    assert "the directory is not empty" in ran.stderr
    ran = call("export", LEDGER, LEDGER, "--format", "delta")
    assert ran.exit_code == Exit.REFUSED


def test_another_run_at_the_same_time_is_refused(tmp_path, monkeypatch):
    def overtaken(*_, **named):
        raise CommitConflictError("another run has changed the table")

    monkeypatch.setattr("kafkalog.export.delta_table.append_new", overtaken)
    ran = call("export", LEDGER, tmp_path / "lake", "--format", "delta")
    assert ran.exit_code == Exit.REFUSED
    assert ran.stderr == "kafkalog: another run has changed the table\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--format", "delta", "--overwrite"],
            "--overwrite, expected without --format delta",
        ),
        (
            ["--format", "csv", "--partition-by", "date"],
            "--partition-by, expected with a directory of parquet or arrow, or",
        ),
        (["--format", "delta", "--start-timestamp", "5"], "no bounds on timestamps"),
    ],
)
def test_options_that_exclude_each_other_are_a_usage_error(tmp_path, options, message):
    ran = call("export", LEDGER, tmp_path / "lake", *options)
    assert ran.exit_code == Exit.USAGE
    assert message in ran.output
    assert not list(tmp_path.iterdir())


def test_a_terminal_shows_the_progress(tmp_path):
    shown = on_terminal("export", LEDGER, tmp_path / "lake", "--format", "delta")
    assert "lake" in shown
    assert "1 commit, " in shown


def test_a_missing_deltalake_is_reported_with_the_pip_command(tmp_path):
    program = f"""
import sys
sys.modules["deltalake"] = None
from kafkalog.cli.main import main
out = {str(tmp_path / "a")!r}
sys.exit(main(["export", {str(LEDGER)!r}, out, "--format", "delta"]))
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ran.returncode == Exit.UNREADABLE
    assert "pip install 'kafkalog[delta]'" in ran.stderr
    assert not list(tmp_path.iterdir())
