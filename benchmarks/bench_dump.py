"""How fast is a segment of 0.9 GB printed, in how much memory? Against Kafka's tool.

Both are run as their users run them, in turn, each a process of its own, started anew
every time, with its output thrown away; Kafka's with the heap that its script gives it.
"""

import shutil
import subprocess
import sys
from statistics import median

import pytest
from shapes import BATCH_BYTES, columns_of

from kafkalog.formats.builder import BatchSettings, encode_batches
from tests.interop.broker import JARS, java_command

SEGMENT_BYTES = 900_000_000
ROUNDS = 5
PEER = "kafka-dump-log"
TOOL = "org.apache.kafka.tools.DumpLogSegments"
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
"""A process of its own: the peak of memory would else begin with that of its parent."""


def missing():
    if shutil.which("java") is None:
        return "no java"
    return "" if (JARS / "broker" / "done").exists() else "no jars in build/interop"


pytestmark = pytest.mark.skipif(
    bool(missing()), reason=f"{PEER} cannot be measured: {missing()}"
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Print a segment with both, in turn; what each run took, ours and theirs."""
    made = {}

    def run(shape, codec, size):
        if (shape, codec, size) not in made:
            path = write_segment(tmp_path_factory.mktemp("dump"), shape, codec, size)
            arguments = ["--print-data-log", "--files", str(path)]
            ours = [sys.executable, "-m", "kafkalog", "dump", *arguments]
            theirs = java_command(TOOL, *arguments)
            made[shape, codec, size] = [
                (measured(ours), measured(theirs)) for _ in range(ROUNDS)
            ]
            path.unlink()
        return made[shape, codec, size]

    return run


def write_segment(folder, shape, codec, size):
    """Write the batches of a shape again and again, to a segment's full size."""
    settings = BatchSettings(codec=codec)
    data = encode_batches(columns_of(shape), BATCH_BYTES[size], settings=settings)
    path = folder / f"{20 * '0'}.log"
    with path.open("wb") as file:
        for _ in range(SEGMENT_BYTES // len(data)):
            file.write(data)
    return path


def measured(command):
    """Run a command: wall and processor seconds, and bytes of memory at its peak."""
    told = subprocess.run(
        [sys.executable, "-S", "-E", "-c", RUNNER, *command],
        check=True,
        capture_output=True,
        text=True,
    )
    wall, processor, kilobytes = map(float, told.stdout.split())
    return wall, processor, kilobytes * 1024


def medians(runs, place):
    return [median(side[place] for side in sides) for sides in zip(*runs, strict=True)]


@pytest.mark.parametrize("size", ["16k"])
@pytest.mark.parametrize("codec", ["none"])
@pytest.mark.parametrize("shape", ["log100", "json1k"])
def bench_dump(benchmark, runs, shape, codec, size):
    taken = benchmark.pedantic(runs, (shape, codec, size), rounds=1)
    (ours, theirs), (mine, other) = medians(taken, 0), medians(taken, 1)
    benchmark.extra_info |= {
        "peer": PEER,
        "ratio": theirs / ours,
        "ours": ours,
        "theirs": theirs,
        "unit": "s",
        "ours_processor": mine,
        "theirs_processor": other,
    }


@pytest.mark.parametrize("size", ["16k"])
@pytest.mark.parametrize("codec", ["none"])
@pytest.mark.parametrize("shape", ["log100", "json1k"])
def bench_dump_memory(benchmark, runs, shape, codec, size):
    taken = benchmark.pedantic(runs, (shape, codec, size), rounds=1)
    ours, theirs = medians(taken, 2)
    benchmark.extra_info |= {
        "peer": PEER,
        "ratio": theirs / ours,
        "ours": ours,
        "theirs": theirs,
        "unit": "bytes",
    }
