"""Reading records in memory, compared with other readers.

All verify every checksum, and read the same bytes in turn. Ours returns columns, all of
them; where the peer only visits its records and drops them, views of ours are measured
as well. Two threads can at best take half the wall time of one. A file in the page
cache can at best be read as fast as the same bytes in memory.
"""

import subprocess
import sys
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import pytest
from interleaved import ROUNDS, compare, outcome
from limits import rows_of
from peers import needs
from python_readers import WAYS
from segments import large_segment
from shapes import SHAPES

import kafkalog
from kafkalog.formats.layout import CODECS

ROOT = Path(__file__).parents[1]
COLUMNS = ["offset", "timestamp", "key", "value", "headers"]
CASES = [(shape, "none") for shape in SHAPES]
COMPRESSED = [("log100", codec) for codec in CODECS if codec != "none"]
LARGE_BYTES = 512 << 20
"""Size of the segments for two threads, which take up to 2 ms to start."""

SLOW = {"kafka-python": 4}
"""Peers that read a fraction of the records, as all would take minutes."""


def ours(data, *, threads=1, memory_map=False, **options):
    """Read all columns, chunk by chunk, into reused memory."""
    scan = kafkalog.scan(data, columns=COLUMNS, threads=threads, memory_map=memory_map)
    return sum(map(len, scan.chunks(**options)))


def first_of(data, parts):
    """Return the number of records in the first of these parts, and its bytes."""
    rows = rows_of(np.frombuffer(data, np.uint8))
    rows = rows[: len(rows) // parts]
    end = int(rows["position"][-1] + rows["size_in_bytes"][-1])
    return int(rows["count"].sum()), data[:end]


def against(benchmark, segment, case, peer, **options):
    """Time kafkalog alone, and then in turn with the peer."""
    shape, codec = case
    path, count = segment(shape, codec, "16k")
    data = path.read_bytes()
    if peer in SLOW:
        count, data = first_of(data, SLOW[peer])
    read, theirs = partial(ours, data, **options), partial(WAYS[peer], data)
    assert theirs() == count
    assert benchmark.pedantic(read, rounds=5, warmup_rounds=1) == count
    benchmark.extra_info["records_per_second"] = count / benchmark.stats["median"]
    benchmark.extra_info.update(compare(read, theirs, peer=peer, of=count))


@needs("aiokafka")
@pytest.mark.parametrize("size", ["16k"])
@pytest.mark.parametrize(("shape", "codec"), CASES + COMPRESSED)
@pytest.mark.parametrize("way", ["columns", "views"])
def bench_read(benchmark, segment, shape, codec, size, way):
    views = way == "views"
    case = (shape, codec)
    against(benchmark, segment, case, "aiokafka", reuse=True, views=views)


@needs("aiokafka")
@pytest.mark.parametrize("size", ["16k"])
@pytest.mark.parametrize(("shape", "codec"), CASES)
def bench_read_into_columns(benchmark, segment, shape, codec, size):
    against(benchmark, segment, (shape, codec), "aiokafka-columns")


@needs("kafka", "kafka-python")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # its own, when imported
@pytest.mark.parametrize("size", ["16k"])
@pytest.mark.parametrize(("shape", "codec"), CASES)
def bench_read_against_python(benchmark, segment, shape, codec, size):
    against(benchmark, segment, (shape, codec), "kafka-python", reuse=True)


@pytest.mark.parametrize("size", ["16k"])
@pytest.mark.parametrize(("shape", "codec"), CASES + COMPRESSED)
@pytest.mark.parametrize("place", ["memory", "file"])
def bench_two_threads(benchmark, shape, codec, size, place):
    path = large_segment(shape, codec, size, LARGE_BYTES)
    data = path if place == "file" else path.read_bytes()
    two, one = partial(ours, data, threads=2), partial(ours, data)
    count = one()
    assert benchmark.pedantic(two, rounds=5, warmup_rounds=1) == count
    timing = compare(two, one, peer="limit", of=count, clock=perf_counter)
    half = timing["theirs"] / 2
    benchmark.extra_info.update(outcome("limit", timing["ours"], half))


@pytest.mark.parametrize("size", ["16k"])
@pytest.mark.parametrize(("shape", "codec"), CASES + COMPRESSED)
@pytest.mark.parametrize("way", ["columns", "views"])
@pytest.mark.parametrize("access", ["copied", "mapped"])
def bench_read_a_file(benchmark, segment, shape, codec, size, way, access):
    path, count = segment(shape, codec, size)
    options = {"reuse": True, "views": way == "views"}
    memory = partial(ours, path.read_bytes(), **options)
    file = partial(ours, path, memory_map=access == "mapped", **options)
    assert benchmark.pedantic(file, rounds=5, warmup_rounds=1) == memory() == count
    benchmark.extra_info.update(compare(file, memory, peer="limit", of=count))


def peak_bytes(way, path):
    """Return the peak memory of a process of its own."""
    command = [sys.executable, "-m", "benchmarks.python_readers", way, path]
    done = subprocess.run(command, capture_output=True, check=True, cwd=ROOT)
    return int(done.stdout)


@needs("aiokafka")
@pytest.mark.parametrize("size", ["16k"])
@pytest.mark.parametrize(("shape", "codec"), CASES)
def bench_peak_memory(benchmark, segment, shape, codec, size):
    path, _ = segment(shape, codec, size)
    held = {"kafkalog-columns": [], "aiokafka-columns": []}
    for _ in range(ROUNDS):
        for way, peaks in held.items():
            peaks.append(peak_bytes(way, path))
    benchmark.pedantic(peak_bytes, ("kafkalog-columns", path), rounds=1)
    mine, theirs = (median(peaks) for peaks in held.values())
    benchmark.extra_info |= outcome("aiokafka-columns", mine, theirs, unit="bytes")
