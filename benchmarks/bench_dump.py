"""A whole process that reads a segment of 0.9 GB, compared with Kafka's tool.

Kafka's ``kafka-dump-log --print-data-log`` is Kafka's way to read a segment without a
broker. Ours prints the same text, or reads all columns into chunks that are reused.
Each run is a new process, in turn, with its output discarded; Kafka's is started as its
script starts it.
"""

import subprocess
import sys
from pathlib import Path
from statistics import median

import java_classes
import pytest
from interleaved import outcome
from segments import large_segment

from tests.interop.broker import java_command

ROOT = Path(__file__).parents[1]
SEGMENT_BYTES = 900_000_000
ROUNDS = 5
PEER = "kafka-dump-log"
LACKS = java_classes.missing()
TOOL = "org.apache.kafka.tools.DumpLogSegments"
OPTIONS = [
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
]
"""Those of ``kafka-run-class.sh``, and the heap of 256 MB."""
READ_COLUMNS = """
import sys, kafkalog
names = ["offset", "timestamp", "key", "value", "headers"]
chunks = kafkalog.scan(sys.argv[1], columns=names).chunks(reuse=True)
print(sum(map(len, chunks)))
"""
RUNNER = """
import os, sys, time
start = time.perf_counter()
nowhere = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
process = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=nowhere)
_, status, used = os.wait4(process, 0)
wall = time.perf_counter() - start
print(wall, used.ru_utime + used.ru_stime, used.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""
"""An intermediate process: the peak memory of a child includes that of its parent."""

pytestmark = [
    pytest.mark.skipif(bool(LACKS), reason=f"{PEER} cannot be measured: no {LACKS}"),
    pytest.mark.parametrize("size", ["16k"]),
    pytest.mark.parametrize("codec", ["none"]),
    pytest.mark.parametrize("shape", ["log100", "json1k"]),
    pytest.mark.parametrize("way", ["text", "columns"]),
]


def commands(path):
    """Return the commands to run, by name."""
    flags = ["--print-data-log", "--files", str(path)]
    java, *rest = java_command(TOOL, *flags, java_options="")
    return {
        "text": [sys.executable, "-m", "kafkalog", "dump", *flags],
        "columns": [sys.executable, "-c", READ_COLUMNS, str(path)],
        PEER: [java, *OPTIONS, *rest],
    }


@pytest.fixture(scope="module")
def runs():
    """Run all commands on a segment in turn; return the figures of each, by name."""
    made = {}

    def run(*case):
        if case not in made:
            programs = commands(large_segment(*case, SEGMENT_BYTES))
            made[case] = {name: [] for name in programs}
            for _ in range(ROUNDS):
                for name, command in programs.items():
                    made[case][name].append(measured(command))
        return made[case]

    return run


def measured(command):
    """Run a command; return wall and processor seconds, and its peak memory."""
    timed = subprocess.run(
        [sys.executable, "-S", "-E", "-c", RUNNER, *command],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    wall, processor, kilobytes = map(float, timed.stdout.split())
    return wall, processor, kilobytes * 1024


def medians(taken, way):
    """Return wall seconds, processor seconds and bytes, of ours and of theirs."""
    return [
        [median(run[place] for run in taken[name]) for name in (way, PEER)]
        for place in range(3)
    ]


def bench_dump(benchmark, runs, way, shape, codec, size):
    taken = benchmark.pedantic(runs, (shape, codec, size), rounds=1)
    wall, (ours, theirs), _ = medians(taken, way)
    benchmark.extra_info |= outcome(
        PEER, *wall, ours_processor=ours, theirs_processor=theirs
    )


def bench_dump_memory(benchmark, runs, way, shape, codec, size):
    taken = benchmark.pedantic(runs, (shape, codec, size), rounds=1)
    *_, held = medians(taken, way)
    benchmark.extra_info |= outcome(PEER, *held, unit="bytes")
