"""``--topic``, ``--exclude-topic`` and ``--dry-run``, the same in each command."""

import json
from fnmatch import fnmatchcase

import pytest

import kafkalog
from kafkalog.cli.main import COMMANDS, group

from . import golden
from .shell import call, objects


def commands_with(option):
    return [
        name
        for name in COMMANDS
        if any(option in one.opts for one in group.get_command(None, name).params)
    ]


SELECTING = ("ls", "cat", "stats", "whatif", "groups", "lag", "txns", "diff", "find")
MORE = {
    "diff": [golden.CLEAN],
    "find": ["--value-pattern", "a"],
    "stats": ["--by", "topic"],
    "ls": [],
}


def topics_of(command, *options):
    more = MORE.get(command, [])
    ran = call(command, golden.CLEAN, *more, *options, "--format", "jsonl")
    assert ran.exit_code in (0, 1), ran.stderr
    return {row["topic"] for row in objects(ran.stdout)}


@pytest.mark.parametrize("command", SELECTING)
def test_topics_are_selected_and_excluded_by_patterns(command):
    every = topics_of(command)
    first, *_, last = sorted(every)
    pattern = f"{first[:-1]}?"
    chosen = {topic for topic in every if fnmatchcase(topic, pattern)}
    assert first in chosen
    assert topics_of(command, "--topic", pattern) == chosen
    assert topics_of(command, "--exclude-topic", pattern) == every - chosen
    both = "--topic", "*", "--exclude-topic", pattern, "--exclude-topic", last
    assert topics_of(command, *both) == every - chosen - {last}


def test_a_topic_that_can_be_selected_can_be_excluded():
    assert commands_with("--topic") == commands_with("--exclude-topic")


def partitions_verified(**selection):
    """Return the number of records; those of the log directory are always counted."""
    none = kafkalog.verify(golden.CLEAN, exclude_topics="*").records
    return kafkalog.verify(golden.CLEAN, **selection).records - none


def test_a_pattern_selects_what_is_verified():
    chosen, every = partitions_verified(topics="orders.*"), partitions_verified()
    assert 0 < chosen < every
    assert chosen + partitions_verified(exclude_topics=["orders.*"]) == every
    ran = call("verify", golden.CLEAN, "--topic", "orders.*", "--format", "json")
    found = kafkalog.verify(golden.CLEAN, topics=["orders.*"])
    assert json.loads(ran.stdout)["records"] == found.records


def test_one_topic_and_one_partition_need_no_list():
    alone = kafkalog.verify(golden.CLEAN / "ledger-1").records
    assert partitions_verified(topics="ledger", partitions=1) == alone > 0


COPYING = {
    "salvage": lambda table: [golden.CLEAN / "orders.none-0"],
    "heal": lambda table: [golden.CLEAN / "orders.none-0"],
    "restore": lambda table: [golden.CLEAN / "orders.none-0"],
    "export": lambda table: [golden.CLEAN / "orders.none-0"],
    "import": lambda table: [table],
}


@pytest.mark.parametrize("command", COPYING)
def test_a_dry_run_writes_nothing_and_ends_as_the_run(command, tmp_path):
    table, out = tmp_path / "table.parquet", tmp_path / "out"
    ran = call("export", golden.CLEAN / "orders.none-0", table, "--reversible")
    assert ran.exit_code == 0
    arguments = command, *COPYING[command](table), out
    dry = call(*arguments, "--dry-run")
    assert sorted(tmp_path.iterdir()) == [table]
    done = call(*arguments)
    assert out.exists()
    assert (dry.exit_code, dry.exit_code) == (0, done.exit_code)
    if command in ("salvage", "heal"):
        assert dry.stdout == done.stdout


@pytest.mark.parametrize("command", ["salvage", "heal", "import"])
def test_a_dry_run_needs_a_destination_as_the_run_does(command, tmp_path):
    table, out = tmp_path / "table.parquet", tmp_path / "out"
    call("export", golden.CLEAN / "orders.none-0", table, "--reversible")
    out.mkdir()
    (out / "file").touch()
    assert call(command, *COPYING[command](table), out, "--dry-run").exit_code == 4


def test_each_command_that_writes_has_a_dry_run():
    writing = [*COPYING, "compact", "repair"]
    assert sorted(commands_with("--dry-run")) == sorted(writing)


@pytest.mark.parametrize("command", ["compact", "repair"])
def test_what_changes_a_directory_changes_nothing_without_apply(command, tmp_path):
    path = golden.CLEAN / "state.none-0"
    assert commands_with("--apply") == ["compact", "repair"]
    dry = call(command, path, "--dry-run")
    assert dry.stdout == call(command, path).stdout
    assert call(command, path, "--dry-run", "--apply").exit_code == 2
    if command == "compact":
        out = tmp_path / "out"
        assert call(command, path, "-o", out, "--dry-run").stdout == dry.stdout
        assert not out.exists()


def test_several_sources_are_exported_together(tmp_path):
    sources = [golden.CLEAN / "ledger-0", golden.CLEAN / "ledger-1"]
    out = tmp_path / "out.jsonl"
    assert call("export", *sources, out).exit_code == 0
    assert out.read_text() == call("cat", *sources).stdout


def test_partitions_are_compared_alike_in_threads():
    options = golden.CLEAN, golden.CLEAN, "--topic", "orders.*", "--format", "jsonl"
    assert call("diff", *options).stdout
    assert (
        call("diff", *options, "--threads", 3).stdout == call("diff", *options).stdout
    )
