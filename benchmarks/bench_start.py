"""Importing kafkalog, a first count, and the help, in processor time of a process.

Importing kafkalog after NumPy, and counting the records of a partition, are compared
with importing NumPy alone, and ``kafkalog --help`` with a process that imports click.
"""

import resource
import subprocess
import sys
from pathlib import Path
from statistics import median

from interleaved import outcome

ROUNDS = 11


def processor_seconds(*arguments):
    """Run Python, and return its processor seconds, which other load hardly changes."""
    begun = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime - begun.ru_utime + ended.ru_stime - begun.ru_stime


def in_turn(ours, theirs):
    """Run both in turn; return the median times."""
    taken = [
        (processor_seconds(*ours), processor_seconds(*theirs)) for _ in range(ROUNDS)
    ]
    return tuple(map(median, zip(*taken, strict=True)))


def bench_import(benchmark):
    code = ("-c", "import numpy, kafkalog")
    benchmark.pedantic(processor_seconds, code, rounds=1)
    ours, theirs = in_turn(code, ("-c", "import numpy"))
    benchmark.extra_info |= outcome("numpy", ours, theirs)
    benchmark.extra_info["beyond_numpy"] = ours - theirs


def bench_first_count(benchmark):
    path = Path(__file__).parents[1] / "tests/golden/k431-clean/logs/orders.zstd-0"
    count = f"import numpy, kafkalog; kafkalog.scan({str(path)!r}).count()"
    code = ("-c", count)
    benchmark.pedantic(processor_seconds, code, rounds=1)
    ours, theirs = in_turn(code, ("-c", "import numpy"))
    benchmark.extra_info |= outcome("numpy", ours, theirs)
    benchmark.extra_info["beyond_numpy"] = ours - theirs


def bench_help(benchmark):
    code = ("-m", "kafkalog", "--help")
    benchmark.pedantic(processor_seconds, code, rounds=1)
    ours, theirs = in_turn(code, ("-c", "import click"))
    benchmark.extra_info |= outcome("limit", ours, theirs)
