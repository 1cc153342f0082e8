"""File and topic names with control characters: commands print them escaped."""

from __future__ import annotations

import shutil

import pytest

from tests.cli.shell import call, on_terminal
from tests.fuzz.archives import PARTITION, unpack
from tests.fuzz.commands import CONTROL_CHARACTERS, commands
from tests.fuzz.seeds import directories

pytestmark = pytest.mark.slow

CONTROL_SEQUENCES = {
    "colour": "\x1b[35;45m",
    "title": "\x1b]0;owned\x07",
    "clear": "\x1b[3J",
    "one byte": "\x9b31m",
    "return": "\rgone",
    "backspace": "a\b\b\bb",
    "right to left": "\u202egnp.exe",
    "zero width": "a\u200bb",
    "line": "two\nlines",
}
TOPIC = "".join(CONTROL_SEQUENCES.values())


@pytest.fixture
def root(tmp_path):
    """Return a log directory whose names hold control characters."""
    base = tmp_path / "logs"
    unpack(directories()[1], base)
    for name in [*CONTROL_SEQUENCES.values(), TOPIC]:
        shutil.copytree(base / PARTITION, base / f"{name}-0")
    for name in (f"{TOPIC}.txt", f"{0:020d}.log.{TOPIC}"):
        (base / PARTITION / name).write_bytes(b"text")
    starts = f"0\n1\n{CONTROL_SEQUENCES['clear']} 0 1\n"
    (base / "log-start-offset-checkpoint").write_text(starts)
    return base


def command_lines(root):
    partition = root / f"{TOPIC}-0"
    return [
        *commands(root),
        ["info", partition],
        ["cat", partition],
        ["ls", root, "--format", "csv"],
        ["ls", root, "--format", "jsonl"],
        ["verify", root, "--format", "json"],
    ]


def test_no_control_sequence_reaches_a_terminal(root, figure):
    lines = command_lines(root)
    for arguments in lines:
        sent = on_terminal(*arguments)
        for name, sequence in CONTROL_SEQUENCES.items():
            assert sequence not in sent, (arguments, name)
    figure(
        "names with control characters",
        "on a terminal",
        len(lines) * len(CONTROL_SEQUENCES),
    )


def test_messages_hold_no_control_characters(root, figure):
    (root / PARTITION / f"{0:020d}.log").write_bytes(b"text" * 100)
    for name in CONTROL_SEQUENCES.values():
        shutil.copy(root / PARTITION / f"{0:020d}.log", root / f"{name}-0")
    lines = [*command_lines(root), ["cat", root / f"{TOPIC}.log"], ["ls", root / TOPIC]]
    for arguments in lines:
        ran = call(*arguments)
        assert not CONTROL_CHARACTERS.search(ran.stderr), arguments
    figure(
        "names with control characters",
        "in messages",
        len(lines) * len(CONTROL_SEQUENCES),
    )
