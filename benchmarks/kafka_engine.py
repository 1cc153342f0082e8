"""Kafka's own storage engine, timed in a warmed-up Java machine in turn with ours.

Its player (``tests/oracle/player``) measures itself, round by round, by the processor
time of the calling thread. Between two of its rounds it is stopped while ours runs:
other load slows both, and neither uses the other's processor.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]
PLAYER, BUILD = ROOT / "tests" / "oracle" / "player", ROOT / "build" / "oracle"
ROUNDS, WARM_ROUNDS = 5, 3

Line = dict[str, Any]


def missing() -> str:
    """Return the missing requirements of the engine; empty if there are none."""
    return ", ".join(tool for tool in ("java", "mvn") if shutil.which(tool) is None)


def batches_of(
    folder: Path, codec: str, size: str, megabytes: int, *, unique: int | None = None
) -> list[bytes]:
    """Return batches of the engine's encoder, as a producer sends them.

    With `unique` records have keys, that percentage of which occur once.
    """
    path = folder / f"{codec}-{size}-{megabytes}-{unique}"
    if not path.exists():
        options = {"codec": codec, "batch": size, "mb": megabytes, "out": path}
        if unique is not None:
            options["unique"] = unique
        with _started("data", options) as process:
            process.communicate()
    data, found, at = path.read_bytes(), [], 0
    while at < len(data):
        end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        found.append(data[at:end])
        at = end
    return found


def compare(
    workload: str,
    options: dict[str, Any],
    ours: Callable[[], float],
    part: str | None = None,
) -> dict[str, Any]:
    """Run both in turn; `ours` returns the processor seconds of one round.

    `part` is the name of the measurement to use of a workload with several.
    """
    theirs, mine = [], []
    ours()
    for line in _rounds(workload, options):
        if line["workload"] != (part or workload):
            continue
        theirs.append(line["thread_cpu_s"])
        mine.append(ours())
    assert len(theirs) >= ROUNDS, "the engine ended early"
    return {
        "peer": "kafka-engine",
        "ratio": median(theirs) / median(mine),
        "ours": median(mine),
        "theirs": median(theirs),
        "unit": "s",
    }


def _rounds(workload: str, options: dict[str, Any]) -> Iterator[Line]:
    """Yield the engine's measurement of each round; it is stopped in between."""
    settings = {"rounds": ROUNDS, "warmup": WARM_ROUNDS} | options
    with _started(workload, settings) as process:
        assert process.stdout is not None
        for text in process.stdout:
            process.send_signal(signal.SIGSTOP)
            try:
                yield json.loads(text)
            finally:
                process.send_signal(signal.SIGCONT)


@contextmanager
def _started(workload: str, options: dict[str, Any]) -> Iterator[subprocess.Popen[str]]:
    BUILD.mkdir(parents=True, exist_ok=True)
    flags = [text for name, one in options.items() for text in (f"--{name}", str(one))]
    with subprocess.Popen(
        ["sh", str(PLAYER / "run.sh"), "bench", workload, *flags],
        env=os.environ | {"BUILD": str(BUILD)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            process.wait(60)
    assert process.returncode == 0
