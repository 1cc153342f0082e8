"""Fuzzing with atheris: each target for a time, in one process after another.

    python -m tests.fuzz.run                     all targets, 2 seconds each
    python -m tests.fuzz.run --seconds 600 txn-index

Inputs that reach new code are kept in ``build/fuzz`` for the next run. An input that
fails is kept in ``tests/fuzz/crashers``; ordinary tests replay it.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import io
import os
import re
import sys
import tempfile
import time
from hashlib import sha256
from math import ceil
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "build" / "fuzz"
CRASHERS = Path(__file__).parent / "crashers"
SEED = 20_261_121
MAX_MIB = 1_024  # of a target's process: limits must keep it far below
MAX_SECONDS = 20  # of one input
MAX_RUNS = (
    100_000  # of a process: atheris keeps the result of each comparison of arrays
)
NEEDS = (
    "fuzzing needs atheris, for CPython 3.11 to 3.13 on Linux: pip install --group fuzz"
)
EXECUTED = re.compile(r"stat::number_of_executed_units: (\d+)")
REACHED = re.compile(r"cov: (\d+)")


class FuzzRun(NamedTuple):
    """The result of fuzzing a target: executions, coverage, and the end of the log."""

    name: str
    executions: int
    reached: int
    seconds: float
    failed: bool
    log: str

    def added_to(self, before: FuzzRun | None) -> FuzzRun:
        """Return the result of this run together with those before."""
        if before is None:
            return self
        return self._replace(
            executions=before.executions + self.executions,
            reached=max(before.reached, self.reached),
            seconds=before.seconds + self.seconds,
        )


def load() -> dict[str, Any]:
    """Import the targets, with coverage of kafkalog."""
    try:
        import atheris
    except ImportError:
        sys.exit(NEEDS)
    quiet = contextlib.redirect_stderr(io.StringIO())  # atheris prints every module
    with quiet, atheris.instrument_imports(include=["kafkalog"]):
        from tests.fuzz.targets import TARGETS
    return TARGETS


def fuzz(name: str, target: Any, seconds: int, seed: int, log: int) -> NoReturn:
    """Fuzz one target until its time is over or an input fails; end the process."""
    import atheris

    for stream in (sys.stdout, sys.stderr):
        os.dup2(log, stream.fileno())
    seeds, kept = CORPUS / name / "seeds", CORPUS / name / "kept"
    for directory in (seeds, kept, CRASHERS / name):
        directory.mkdir(parents=True, exist_ok=True)
    for data in target.seeds():
        (seeds / sha256(data).hexdigest()[:16]).write_bytes(data)
    options = {
        "max_total_time": seconds,
        "runs": MAX_RUNS,
        "max_len": target.max_bytes,
        "seed": seed,
        "rss_limit_mb": MAX_MIB,
        "timeout": MAX_SECONDS,
        "print_final_stats": 1,
        "verbosity": 1,
        "artifact_prefix": f"{CRASHERS / name}/",
    }
    arguments = [f"-{key}={value}" for key, value in options.items()]
    atheris.Setup([sys.argv[0], *arguments, str(kept), str(seeds)], target.check)
    atheris.Fuzz()
    os._exit(0)


class Child(NamedTuple):
    """A fuzzing process, forked from this one, with its log in a temporary file."""

    name: str
    log: IO[bytes]
    began: float
    seconds: int

    def finish(self, status: int) -> FuzzRun:
        """Return the result, as read from the log."""
        with self.log:
            self.log.seek(0)
            log = self.log.read().decode(errors="replace")
        executed, reached = EXECUTED.findall(log), REACHED.findall(log)
        if not any((CRASHERS / self.name).iterdir()):
            (CRASHERS / self.name).rmdir()
        return FuzzRun(
            self.name,
            int(executed[-1]) if executed else 0,
            int(reached[-1]) if reached else 0,
            time.monotonic() - self.began,
            status != 0,
            log,
        )


def run_all(targets: dict[str, Any], seconds: int, jobs: int) -> list[FuzzRun]:
    """Fuzz each target for its time, `jobs` at once, in one process after another."""
    waiting = [(name, seconds * target.share) for name, target in targets.items()]
    children: dict[int, Child] = {}
    runs: dict[str, FuzzRun] = {}
    while waiting or children:
        while waiting and len(children) < jobs:
            name, remaining = waiting.pop(0)
            seed = SEED + (runs[name].executions if name in runs else 0)
            log = tempfile.TemporaryFile()  # noqa: SIM115 - kept
            if child := os.fork():
                children[child] = Child(name, log, time.monotonic(), remaining)
                continue
            try:
                fuzz(name, targets[name], remaining, seed, log.fileno())
            finally:  # never continue as the parent; libFuzzer keeps the input
                ctypes.CDLL(None).exit(70)
        ended, status = os.wait()
        done = children.pop(ended)
        run = done.finish(status)
        runs[done.name] = run.added_to(runs.get(done.name))
        remaining = done.seconds - ceil(run.seconds)
        if remaining > 0 and not run.failed:
            waiting.insert(0, (done.name, remaining))
    return list(runs.values())


def main() -> None:
    """Fuzz the named targets, or all, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="target")
    parser.add_argument("--seconds", type=int, default=2, help="for each target")
    parser.add_argument("--jobs", type=int, default=2, help="targets at a time")
    arguments = parser.parse_args()
    targets = load()
    unknown = set(arguments.targets) - set(targets)
    if unknown:
        parser.error(f"unknown targets: {', '.join(sorted(unknown))}")
    began = time.monotonic()
    selected = {name: targets[name] for name in arguments.targets or targets}
    runs = run_all(selected, arguments.seconds, arguments.jobs)
    sys.exit(report(runs, time.monotonic() - began))


def report(runs: list[FuzzRun], seconds: float) -> int:
    """Print executions and failures; return the exit code."""
    print(f"{'target':20} {'executions':>10} {'coverage':>14} {'seconds':>8}")
    for one in runs:
        mark = "  FAILED" if one.failed else ""
        print(
            f"{one.name:20} {one.executions:10,} {one.reached:14,} "
            f"{one.seconds:8.1f}{mark}"
        )
    failed = [one for one in runs if one.failed]
    for one in failed:
        print(f"\n{one.name}:\n{one.log[-6_000:]}")
    total = sum(one.executions for one in runs)
    print(
        f"fuzzed: {len(runs)} targets, {total:,} executions in {seconds:.0f} s, "
        f"{len(failed)} failed"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    main()
