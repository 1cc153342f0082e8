"""Fuzzing with atheris: each target for a time, in one process after another.

    python -m tests.fuzz.run                     all targets, 2 seconds each
    python -m tests.fuzz.run --seconds 600 txn-index

What was found to reach new code is kept in ``build/fuzz`` and built upon by the next
run. An input that fails is left in ``tests/fuzz/crashers``; ordinary tests replay it.
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

HOUSE = Path(__file__).parents[2]
CORPUS = HOUSE / "build" / "fuzz"
CRASHERS = Path(__file__).parent / "crashers"
SEED = 20_261_121
MOST_MIB = 1_024  # of a target's process: caps and limits must keep it far below
MOST_SECONDS = 20  # of one input
MOST_RUNS = 100_000  # of a process: atheris keeps what each comparison of arrays gives
NEEDS = (
    "fuzzing needs atheris, for CPython 3.11 to 3.13 on Linux: pip install '.[fuzz]'"
)
EXECUTED = re.compile(r"stat::number_of_executed_units: (\d+)")
REACHED = re.compile(r"cov: (\d+)")


class Run(NamedTuple):
    """What became of a target: inputs tried, places of code reached, the log's end."""

    name: str
    executions: int
    reached: int
    seconds: float
    failed: bool
    log: str

    def behind(self, before: Run | None) -> Run:
        """Say what became of the target by this run and those before."""
        if before is None:
            return self
        return self._replace(
            executions=before.executions + self.executions,
            reached=max(before.reached, self.reached),
            seconds=before.seconds + self.seconds,
        )


def load() -> dict[str, Any]:
    """Import the targets with every branch of kafkalog reporting where it goes."""
    try:
        import atheris
    except ImportError:
        sys.exit(NEEDS)
    quiet = contextlib.redirect_stderr(io.StringIO())  # it names every module
    with quiet, atheris.instrument_imports(include=["kafkalog"]):
        from tests.fuzz.targets import TARGETS
    return TARGETS


def fuzz(name: str, target: Any, seconds: int, seed: int, log: int) -> NoReturn:
    """Fuzz one target until time or runs are up or an input fails; the process ends."""
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
        "runs": MOST_RUNS,
        "max_len": target.most_bytes,
        "seed": seed,
        "rss_limit_mb": MOST_MIB,
        "timeout": MOST_SECONDS,
        "print_final_stats": 1,
        "verbosity": 1,
        "artifact_prefix": f"{CRASHERS / name}/",
    }
    arguments = [f"-{key}={value}" for key, value in options.items()]
    atheris.Setup([sys.argv[0], *arguments, str(kept), str(seeds)], target.check)
    atheris.Fuzz()
    os._exit(0)


class Child(NamedTuple):
    """A process that fuzzes: a copy of this one, its log in a file without a name."""

    name: str
    log: IO[bytes]
    began: float
    seconds: int

    def finish(self, status: int) -> Run:
        """Say what became of it, as its log tells."""
        with self.log:
            self.log.seek(0)
            log = self.log.read().decode(errors="replace")
        executed, reached = EXECUTED.findall(log), REACHED.findall(log)
        if not any((CRASHERS / self.name).iterdir()):
            (CRASHERS / self.name).rmdir()
        return Run(
            self.name,
            int(executed[-1]) if executed else 0,
            int(reached[-1]) if reached else 0,
            time.monotonic() - self.began,
            status != 0,
            log,
        )


def run_all(targets: dict[str, Any], seconds: int, jobs: int) -> list[Run]:
    """Fuzz each target for its time, `jobs` at once, in one process after another."""
    waiting = [(name, seconds * target.share) for name, target in targets.items()]
    children: dict[int, Child] = {}
    runs: dict[str, Run] = {}
    while waiting or children:
        while waiting and len(children) < jobs:
            name, left = waiting.pop(0)
            seed = SEED + (runs[name].executions if name in runs else 0)
            log = tempfile.TemporaryFile()  # noqa: SIM115 - kept
            if child := os.fork():
                children[child] = Child(name, log, time.monotonic(), left)
                continue
            try:
                fuzz(name, targets[name], left, seed, log.fileno())
            finally:  # it does not go on as the parent; libFuzzer keeps the input
                ctypes.CDLL(None).exit(70)
        ended, status = os.wait()
        done = children.pop(ended)
        run = done.finish(status)
        runs[done.name] = run.behind(runs.get(done.name))
        left = done.seconds - ceil(run.seconds)
        if left > 0 and not run.failed:
            waiting.insert(0, (done.name, left))
    return list(runs.values())


def main() -> None:
    """Fuzz the targets named, or all, and print how far each got."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="target")
    parser.add_argument("--seconds", type=int, default=2, help="for each target")
    parser.add_argument("--jobs", type=int, default=2, help="targets at a time")
    chosen = parser.parse_args()
    targets = load()
    unknown = set(chosen.targets) - set(targets)
    if unknown:
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    began = time.monotonic()
    chosen_targets = {name: targets[name] for name in chosen.targets or targets}
    runs = run_all(chosen_targets, chosen.seconds, chosen.jobs)
    sys.exit(report(runs, time.monotonic() - began))


def report(runs: list[Run], seconds: float) -> int:
    """Print what was executed, and what failed; answer the process's exit code."""
    print(f"{'target':20} {'executions':>10} {'places reached':>14} {'seconds':>8}")
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
