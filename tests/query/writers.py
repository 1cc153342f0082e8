"""Processes that write to a directory while a test reads it."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextmanager
def writing(module, *arguments):
    """Run a module that writes; yield once it does, and check that it succeeds."""
    writer = subprocess.Popen(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    try:
        assert writer.stdout.readline() == b"writing\n"
        yield writer
    finally:
        writer.kill()
        writer.wait()
        writer.stdout.close()
    assert writer.returncode == 0
