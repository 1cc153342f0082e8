"""``verify`` on the command line: several paths, and selected partitions."""

import json

import pytest

from tests import golden_data
from tests.manager.partitions import write_partition

from . import golden
from .shell import call, objects

COUNTS = ("files", "bytes", "batches", "records")


def report_of(*arguments, code=0):
    ran = call("verify", *arguments, "--format", "json")
    assert (ran.exit_code, ran.stderr) == (code, "")
    return json.loads(ran.stdout)


@pytest.fixture
def damaged(tmp_path):
    """Create two log directories, each with damage in files of the same name."""
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.mkdir()
        for name in ("orders-0", "orders-1", "ledger-0"):
            log = write_partition(path / name) / f"{0:020d}.log"
            log.write_bytes(b"\xff" * 100 + log.read_bytes()[100:])
    return paths


def test_the_counts_of_several_paths_add_up():
    paths = [golden_data.logs(name) for name in ("k431-clean", "k431-repl-broker1")]
    each = [report_of(path) for path in paths]
    both = report_of(*paths)
    for count in COUNTS:
        assert both[count] == sum(report[count] for report in each)
    assert list(both) == ["schema", *COUNTS, "problems"]


def test_a_problem_begins_with_the_path_it_was_found_under(damaged):
    file = damaged[1] / "ledger-0" / f"{0:020d}.log"
    paths = [*damaged, damaged[0] / "orders-0", file]
    each = [report_of(path, code=1)["problems"] for path in paths]
    several = report_of(*paths, code=1)["problems"]
    expected = []
    for path, problems in zip(paths, each, strict=True):
        for one in problems:
            whole = path if path == file else path / one["path"]
            expected.append({**one, "path": str(whole)})
    assert several == expected
    ran = call("verify", *paths, "--format", "jsonl")
    assert objects(ran.stdout) == [{"schema": 1, **one} for one in expected]


def test_problems_under_one_path_are_relative_to_it(damaged):
    for path in (damaged[0], damaged[0] / "orders-0"):
        problems = report_of(path, code=1)["problems"]
        assert problems
        for problem in problems:
            assert (path / problem["path"]).is_file()


def test_only_the_selected_partitions_are_verified(damaged):
    def places(*arguments):
        problems = report_of(*arguments, code=1)["problems"]
        return {one["path"].rpartition("/")[0] for one in problems}

    a, b = damaged
    assert places(a, "--topic", "orders") == {"orders-0", "orders-1"}
    assert places(a, "--partition", 0) == {"orders-0", "ledger-0"}
    assert places(a, "--topic", "orders", "--partition", 1) == {"orders-1"}
    assert places(a, b / "orders-0", "--topic", "ledger") == {f"{a}/ledger-0"}
    assert places(b / "orders-0", a, "--topic", "orders", "--partition", 1) == {
        f"{a}/orders-1"
    }


def test_only_selected_partitions_are_counted():
    whole = report_of(golden.CLEAN)
    ledger = report_of(golden.CLEAN, "--topic", "ledger")
    selected = [golden.CLEAN / "bootstrap.checkpoint", *golden.CLEAN.glob("ledger-*")]
    alone = [report_of(one) for one in selected]
    for count in ("batches", "records"):
        assert ledger[count] == sum(one[count] for one in alone) < whole[count]
    own = sum(one.is_file() for one in golden.CLEAN.iterdir())
    assert ledger["files"] == own - 1 + sum(one["files"] for one in alone)


def test_a_checkpoint_is_checked_against_the_selected_partitions(tmp_path):
    write_partition(tmp_path / "orders-0")
    write_partition(tmp_path / "ledger-0")
    name = "log-start-offset-checkpoint"
    (tmp_path / name).write_text("0\n1\norders 0 1000\n")
    assert report_of(tmp_path, "--topic", "ledger")["problems"] == []
    [problem] = report_of(tmp_path, "--topic", "orders", code=1)["problems"]
    assert (problem["path"], problem["cause"]) == (name, "log_end")


@pytest.mark.parametrize("option", [("--topic", "nowhere"), ("--partition", "77")])
def test_a_missing_partition_ends_with_3(option):
    for paths in ([golden.CLEAN], [golden.CLEAN, golden.CLEAN / "ledger-0"]):
        ran = call("verify", *paths, *option)
        assert (ran.exit_code, ran.stdout) == (3, "")
        assert "No such" in ran.stderr


def test_a_missing_path_ends_with_3(tmp_path):
    ran = call("verify", golden.CLEAN / "ledger-0", tmp_path / "nowhere")
    assert (ran.exit_code, ran.stdout) == (3, "")
    assert ran.stderr == f"kafkalog: No such file or directory: {tmp_path}/nowhere\n"


def test_a_file_that_is_not_kafkas_ends_with_3(tmp_path):
    for name in ("app.gz", "notes.txt", "orders.parquet"):
        path = tmp_path / name
        path.write_bytes(b"\x1f\x8b" + bytes(100))
        ran = call("verify", path)
        assert (ran.exit_code, ran.stdout) == (3, "")
        assert ran.stderr == f"kafkalog: not a file of Kafka's: {path}\n"


def test_a_directory_without_files_of_kafkas_ends_with_3(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("notes")
    (tmp_path / "named" / "orders-0").mkdir(parents=True)
    (tmp_path / "named" / "orders-0" / "notes.txt").write_text("notes")
    for path in (
        tmp_path / "other",
        tmp_path / "named",
        tmp_path / "named" / "orders-0",
    ):
        ran = call("verify", path)
        assert (ran.exit_code, ran.stdout) == (3, "")
        assert str(path) in ran.stderr


@pytest.mark.parametrize("name", ["lost+found", "orders-0.bak"])
def test_a_directory_that_keeps_a_broker_from_starting_ends_with_1(tmp_path, name):
    write_partition(tmp_path / "orders-0")
    assert report_of(tmp_path)["problems"] == []
    (tmp_path / name).mkdir()
    [problem] = report_of(tmp_path, code=1)["problems"]
    assert (problem["path"], problem["recovery"]) == (name, "refuse")


def test_garbage_in_an_offset_checkpoint_ends_with_1(tmp_path):
    write_partition(tmp_path / "orders-0")
    (tmp_path / "replication-offset-checkpoint").write_bytes(b"\xff\0garbage")
    [problem] = report_of(tmp_path, code=1)["problems"]
    assert (problem["severity"], problem["recovery"]) == ("error", "refuse")


def test_records_that_a_start_would_lose_are_in_json_and_in_the_table(tmp_path):
    partition = write_partition(tmp_path / "orders-0")
    (tmp_path / ".kafka_cleanshutdown").touch()
    log = partition / f"{6:020d}.log"
    log.write_bytes(log.read_bytes()[:-3])
    [problem] = [
        one
        for one in report_of(tmp_path, code=1)["problems"]
        if one["recovery"] == "overwrite"
    ]
    lost = {key: problem[key] for key in problem if key.startswith("lost_")}
    assert lost == {
        "lost_from": 6,
        "lost_to": 7,
        "lost_records": 2,
        "lost_segments": 0,
    }
    ran = call("verify", tmp_path, "--format", "table")
    assert "overwrites offsets 6 to 7, 2 readable records" in ran.stdout
