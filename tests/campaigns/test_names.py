"""Names that a terminal would obey: printed so that it shows them instead."""

from __future__ import annotations

import shutil

import pytest

from tests.cli.shell import call, on_terminal
from tests.fuzz.archives import PARTITION, unpack
from tests.fuzz.commands import OBEYED, commands
from tests.fuzz.seeds import directories

pytestmark = pytest.mark.slow

ORDERS = {
    "colour": "\x1b[35;45m",
    "title": "\x1b]0;owned\x07",
    "clear": "\x1b[3J",
    "one byte": "\x9b31m",
    "return": "\rgone",
    "backspace": "a\b\b\bb",
    "turned": "\u202egnp.exe",
    "no width": "a\u200bb",
    "line": "two\nlines",
}
TOPIC = "".join(ORDERS.values())


@pytest.fixture
def root(tmp_path):
    """Return a log directory whose names are orders to a terminal."""
    base = tmp_path / "logs"
    unpack(directories()[1], base)
    for name in [*ORDERS.values(), TOPIC]:
        shutil.copytree(base / PARTITION, base / f"{name}-0")
    for name in (f"{TOPIC}.txt", f"{0:020d}.log.{TOPIC}"):
        (base / PARTITION / name).write_bytes(b"evil")
    starts = f"0\n1\n{ORDERS['clear']} 0 1\n"
    (base / "log-start-offset-checkpoint").write_text(starts)
    return base


def ways(root):
    evil = root / f"{TOPIC}-0"
    return [
        *commands(root),
        ["info", evil],
        ["cat", evil],
        ["ls", root, "--format", "csv"],
        ["ls", root, "--format", "jsonl"],
        ["verify", root, "--format", "json"],
    ]


def test_a_terminal_is_sent_nothing_that_it_would_obey(root, figure):
    tried = ways(root)
    for arguments in tried:
        sent = on_terminal(*arguments)
        for name, order in ORDERS.items():
            assert order not in sent, (arguments, name)
    figure("names that are orders", "on a terminal", len(tried) * len(ORDERS))


def test_messages_are_harmless_wherever_they_go(root, figure):
    (root / PARTITION / f"{0:020d}.log").write_bytes(b"evil" * 100)
    for name in ORDERS.values():
        shutil.copy(root / PARTITION / f"{0:020d}.log", root / f"{name}-0")
    tried = [*ways(root), ["cat", root / f"{TOPIC}.log"], ["ls", root / TOPIC]]
    for arguments in tried:
        ran = call(*arguments)
        assert not OBEYED.search(ran.stderr), arguments
    figure("names that are orders", "in messages", len(tried) * len(ORDERS))
