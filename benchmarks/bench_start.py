"""Importing kafkalog, a first count, two commands and the help: seconds of a process.

Each is compared with a process that only imports NumPy, or for ``kafkalog --help``
click. The difference is the time that kafkalog itself takes.
"""

import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter

from interleaved import outcome

ROUNDS = 21
LOGS = Path(__file__).parents[1] / "tests/golden/k431-clean/logs"
NUMPY = ("-c", "import numpy")
COUNT = f"import numpy, kafkalog; kafkalog.scan('{LOGS / 'orders.zstd-0'}').count()"
STARTS = {
    "import": ("-c", "import numpy, kafkalog"),
    "first count": ("-c", COUNT),
    "ls": ("-m", "kafkalog", "ls", str(LOGS)),
    "head": ("-m", "kafkalog", "head", str(LOGS / "orders.zstd-0")),
}


def seconds(arguments):
    """Run Python, and return the seconds that it takes."""
    begun = perf_counter()
    subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
    return perf_counter() - begun


def compare_starts(benchmark, ours, theirs, peer):
    """Run both in turn, and note the median times and their difference."""
    benchmark.pedantic(seconds, (ours,), rounds=1, warmup_rounds=1)
    taken = [(seconds(ours), seconds(theirs)) for _ in range(ROUNDS)]
    mine, others = map(median, zip(*taken, strict=True))
    benchmark.extra_info |= outcome(peer, mine, others)
    benchmark.extra_info["beyond"] = mine - others


def bench_import(benchmark):
    compare_starts(benchmark, STARTS["import"], NUMPY, "numpy")


def bench_first_count(benchmark):
    compare_starts(benchmark, STARTS["first count"], NUMPY, "numpy")


def bench_ls(benchmark):
    compare_starts(benchmark, STARTS["ls"], NUMPY, "numpy")


def bench_head(benchmark):
    compare_starts(benchmark, STARTS["head"], NUMPY, "numpy")


def bench_help(benchmark):
    ours, theirs = ("-m", "kafkalog", "--help"), ("-c", "import click")
    compare_starts(benchmark, ours, theirs, "limit")
