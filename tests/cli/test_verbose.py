"""``--verbose`` prints each partition or file on standard error, other runs do not."""

import logging

import pytest

import kafkalog
from kafkalog.progress import BEGUN
from tests import golden_data

from .shell import call

LOGS = golden_data.logs("k431-repl-broker1")
COMMANDS = {
    "verify": [LOGS],
    "find": [LOGS, "--key-pattern", "key"],
    "stats": [LOGS],
    "preflight": [LOGS],
    "diff": [LOGS, LOGS],
    "compact": [LOGS, "--ignore-policy"],
    "export": [LOGS, "DST"],
    "salvage": [LOGS, "DST"],
    "heal": [LOGS, "DST"],
    "restore": [LOGS, "DST"],
}


def printed(command, tmp_path, *options):
    arguments = COMMANDS[command]
    ran = call(
        command,
        *(tmp_path / "copy" if each == "DST" else each for each in arguments),
        *options,
    )
    lines = ran.stderr.splitlines()
    return [
        line for line in lines if line.startswith("kafkalog: ") and "twins-" in line
    ]


@pytest.mark.parametrize("command", COMMANDS)
def test_each_partition_is_printed(command, tmp_path):
    lines = printed(command, tmp_path, "--verbose")
    for name in ("twins-0", "twins-1"):
        assert any(f"{LOGS}/{name}" in line for line in lines)
    assert not BEGUN.handlers


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_is_printed_without_it(command, tmp_path):
    assert printed(command, tmp_path) == []


def test_an_imported_partition_is_printed_by_its_name(tmp_path):
    call("export", LOGS, tmp_path / "lake", "--reversible")
    ran = call("import", tmp_path / "lake", tmp_path / "logs", "-v")
    assert ran.stderr.splitlines()[:2] == ["kafkalog: twins-0", "kafkalog: twins-1"]


def test_it_excludes_quiet():
    ran = call("verify", LOGS, "-v", "-q")
    assert ran.exit_code == 2
    assert "--quiet and --verbose exclude each other" in ran.stderr


def test_in_python_the_lines_go_to_a_logger(caplog):
    with caplog.at_level(logging.INFO, "kafkalog.progress"):
        kafkalog.scan(LOGS).count()
    names = [record.getMessage() for record in caplog.records]
    assert names == [f"{LOGS}/twins-0", f"{LOGS}/twins-1"]
