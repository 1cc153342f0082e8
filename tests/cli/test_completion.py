"""Shell completion: commands, options, topics, partitions, columns."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafkalog.cli.main import COMMANDS

from . import golden
from .shell import COMMAND

ROOT = Path(__file__).parents[2]
TOPICS = sorted({name.rpartition("-")[0] for name in golden.partitions("k431-clean")})


@pytest.fixture
def shim(tmp_path):
    """Create a directory for PATH that contains ``kafkalog``."""
    program = tmp_path / "bin" / "kafkalog"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kafkalog "$@"\n')
    program.chmod(0o755)
    return program.parent


def offered(*words):
    """Return what click offers bash for the last of some words."""
    settings = {
        "_KAFKALOG_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["kafkalog", *map(str, words)]),
        "COMP_CWORD": str(len(words)),
    }
    ran = subprocess.run(
        COMMAND, env={**os.environ, **settings}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert ran.stderr == ""
    return [line.partition(",")[2] for line in ran.stdout.splitlines() if line]


def test_commands_and_options_are_offered():
    assert offered("") == list(COMMANDS)
    assert offered("ca") == ["cat"]
    assert offered("cat", "--iso") == ["--isolation-level", "--isolation"]
    assert offered("cat", "--isolation-level", "read_c") == ["read_committed"]


def test_topics_below_the_path_are_offered():
    assert offered("cat", golden.CLEAN, "--topic", "") == TOPICS
    assert offered("ls", golden.CLEAN, "--topic", "led") == ["ledger"]
    assert offered("export", golden.CLEAN, "out", "--topic", "led") == ["ledger"]
    assert offered("verify", golden.CLEAN, "--topic", "led") == ["ledger"]
    assert offered("cat", golden.CLEAN / "ledger-1", "--topic", "") == ["ledger"]
    assert offered("cat", "nowhere", "--topic", "") == []


def test_partitions_below_the_path_are_offered():
    assert offered("cat", golden.CLEAN, "--partition", "") == ["0", "1", "2"]
    assert offered("tail", golden.CLEAN / "ledger-1", "--partition", "") == ["1"]


def test_a_column_is_offered_after_others():
    assert offered("cat", golden.CLEAN, "--columns", "offset,tim") == [
        "offset,timestamp", "offset,timestamp_type",
    ]  # fmt: skip
    assert offered("cat", golden.CLEAN, "--columns", "offset,off") == []


def test_bash_completes(shim):
    script = """
eval "$(_KAFKALOG_COMPLETE=bash_source kafkalog)"
COMP_WORDS=(kafkalog cat "$1" --topic led)
COMP_CWORD=4
_kafkalog_completion kafkalog
echo "${COMPREPLY[@]}"
"""
    settings = {**os.environ, "PATH": f"{shim}:{os.environ['PATH']}"}
    ran = subprocess.run(
        ["bash", "-c", script, "bash", str(golden.CLEAN)],
        env=settings, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ran.stdout == "ledger\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(shell):
    settings = {**os.environ, "_KAFKALOG_COMPLETE": f"{shell}_source"}
    ran = subprocess.run(
        COMMAND, env=settings, capture_output=True, text=True, check=True
    )
    assert f"_KAFKALOG_COMPLETE={shell}_complete" in ran.stdout
    page = (ROOT / "docs" / "cli.md").read_text()
    assert f"_KAFKALOG_COMPLETE={shell}_source kafkalog" in page
