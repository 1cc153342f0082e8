"""The dump command, run in this process with its two streams separate."""

from __future__ import annotations

from typing import NamedTuple

from click.testing import CliRunner

from kafkalog.cli.main import group


class Dumped(NamedTuple):
    """The output of a run, and its exit code."""

    stdout: bytes
    stderr: str
    exit_code: int


def dump(*arguments) -> Dumped:
    """Run ``kafkalog dump``; exceptions that are not the tool's are raised."""
    ran = CliRunner().invoke(
        group, ["dump", *map(str, arguments)], catch_exceptions=False
    )
    return Dumped(ran.stdout_bytes, ran.stderr, ran.exit_code)
