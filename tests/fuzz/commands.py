"""Targets: commands over invalid files, and their output."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.shell import call
from tests.fuzz.archives import PARTITION, unpack
from tests.fuzz.checksums import correct_checksums
from tests.fuzz.directories import Scratch

KINDS = ("log", "index", "timeindex", "txnindex", "snapshot", "checkpoint")
ENDS = {0, 1, 2, 3}
CONTROL_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e]"
)


def check_dump(data: bytes) -> None:
    """Dump a file of the kind in the first byte, and check the exit code."""
    kind, body = KINDS[data[0] % len(KINDS) if data else 0], data[1:]
    with Scratch() as root:
        for number, content in enumerate((body, correct_checksums(body))):
            place = root / str(number)
            place.mkdir()
            end = f"-{1:010d}" if kind == "checkpoint" else ""
            path = place / f"{0:020d}{end}.{kind}"
            path.write_bytes(content)
            for options in ([], ["--print-data-log"], ["--deep-iteration"]):
                ran = call("dump", "--files", path, *options)
                assert ran.exit_code in ENDS, ran.output


def check_commands(data: bytes) -> None:
    """Run commands over an invalid directory; they print no control characters."""
    with Scratch() as root:
        unpack(data, root)
        for arguments in commands(root):
            ran = call(*arguments)
            assert ran.exit_code in ENDS, (arguments, ran.output)
            assert not CONTROL_CHARACTERS.search(ran.stderr), (arguments, ran.stderr)


def commands(root: Path) -> list[list[str | Path]]:
    """Return commands that read a log directory."""
    return [
        ["ls", root],
        ["ls", root / PARTITION],
        ["info", root / PARTITION],
        ["cat", root, "--format", "table"],
        ["tail", root],
        ["verify", root],
        ["find", root, "--value-pattern", "v"],
    ]
