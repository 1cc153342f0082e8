"""Kafka's own classes, timed in a warmed-up Java machine in turn with ours.

Each segment, and each way to read it, has a Java machine of its own
(``java/Reader.java``), so that Java compiles for nothing else. It reads the segment
once for each line of input, and waits while ours runs. Both are measured in processor
seconds of the process, Java's including its compiler and garbage collector. Needs
Linux, whose clocks measure other processes, the jars that ``make`` puts into
``build/interop``, and Java.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import clock_gettime, perf_counter, process_time
from typing import Any

from interleaved import ROUNDS, outcome

from tests.interop.broker import JARS, java_command

SOURCE = Path(__file__).parent / "java" / "Reader.java"
WARM_SECONDS, PASSES = 3, 2


def missing() -> str:
    """Return the missing requirements of Kafka's classes; empty if there are none."""
    if shutil.which(java_command("")[0]) is None:
        return "java"
    return "" if (JARS / "broker" / "done").exists() else "jars in build/interop"


def compare(
    way: str, segment: Path, ours: Callable[[], object], records: int
) -> dict[str, Any]:
    """Run both in turn, `PASSES` passes each time; return seconds for one record."""
    mine, theirs = [], []
    with started(way, segment) as (process, seconds):
        end = perf_counter() + WARM_SECONDS
        while perf_counter() < end:
            assert ask(process, 1) == records
        for _ in range(ROUNDS):
            start = process_time()
            for _ in range(PASSES):
                ours()
            mine.append(process_time() - start)
            start = seconds()
            ask(process, PASSES)
            theirs.append(seconds() - start)
    done = PASSES * records
    return outcome(way, median(mine) / done, median(theirs) / done)


def ask(process: subprocess.Popen[str], passes: int) -> int:
    """Read the segment with it; return the number of records."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{passes}\n")
    process.stdin.flush()
    return int(process.stdout.readline().split()[0])


@contextmanager
def started(
    way: str, segment: Path
) -> Iterator[tuple[subprocess.Popen[str], Callable[[], float]]]:
    """Start a Java machine; return it, and a clock of its processor seconds."""
    with subprocess.Popen(
        java_command(SOURCE, way, segment, heap="1g", java_options=""),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        clock = (~process.pid << 3) | 2  # as the kernel's clock_getcpuclockid makes it
        yield process, lambda: clock_gettime(clock)
    assert process.returncode == 0
