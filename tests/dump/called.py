"""The dump command, called in this process, its two streams kept apart."""

from __future__ import annotations

from typing import NamedTuple

from click.testing import CliRunner

from kafkalog.cli.main import group


class Dumped(NamedTuple):
    """What a run printed, and how it ended."""

    stdout: bytes
    stderr: str
    exit_code: int


def dump(*arguments) -> Dumped:
    """Run ``kafkalog dump``; an exception that is none of the tool's is let through."""
    ran = CliRunner().invoke(
        group, ["dump", *map(str, arguments)], catch_exceptions=False
    )
    return Dumped(ran.stdout_bytes, ran.stderr, ran.exit_code)
