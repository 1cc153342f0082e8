"""How time grows with work: ten times as many partitions, or bytes.

A partition, or a byte, of a large log directory is compared with one of a directory
that is a tenth as large. With a ratio of 1 the time grows as the work does, above 1 it
grows less. Times are wall times of alternating runs, from the page cache.

The greatest size is 1 GB, or ``KAFKALOG_GROWTH_BYTES``, as 10000000000, where the disk
has the space.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from statistics import median
from time import perf_counter

import pytest
from interleaved import outcome

import kafkalog
from kafkalog import LogConfig
from kafkalog.query.listing import list_path
from kafkalog.storage.log_directory import list_partitions

TENFOLD = 10
COUNTS = (1, 10, 100, 1_000, 10_000)
TOPICS = 100
SMALL = LogConfig(
    internal_segment_bytes=10_000, segment_index_bytes=4_096, index_interval_bytes=500
)
SMALL_RECORDS, SMALL_BATCHES = 50, 3

LEAST_BYTES = 10_000_000
MOST_BYTES = int(os.environ.get("KAFKALOG_GROWTH_BYTES", 1_000_000_000))
SIZES = [
    LEAST_BYTES * TENFOLD**power
    for power in range(1, 6)
    if LEAST_BYTES * TENFOLD**power <= MOST_BYTES
]
LARGE = LogConfig(segment_bytes=8_000_000)

SECONDS = 2
"""Runs are repeated until all of them took so long, and at least `ROUNDS` times."""
ROUNDS, MOST_ROUNDS = 3, 25


def ls(logs):
    assert all(partition.log_end_offset for partition in list_path(logs))


def verify(logs):
    assert kafkalog.verify(logs).ok


def count(logs):
    assert kafkalog.scan(logs).count()


def scan(logs):
    for _ in kafkalog.scan(logs).chunks(reuse=True):
        pass


def open_logs(logs):
    """Open each partition to read, one after another."""
    for _, path in list_partitions(logs):
        with kafkalog.open(path) as log:
            assert log.log_end_offset


def plan(logs):
    """Plan the parts of a dataset."""
    assert list(kafkalog.dataset(logs).get_fragments())


def stats(logs):
    """Add up the headers of all batches by topic."""
    assert kafkalog.stats(logs).total["records"]


def stats_by_key(logs):
    """Add up all records by topic and key."""
    assert kafkalog.stats(logs, ["topic", "key"]).total["records"]


WAYS = {
    "ls": ls,
    "verify": verify,
    "count": count,
    "scan": scan,
    "open": open_logs,
    "plan": plan,
    "stats": stats,
    "stats by key": stats_by_key,
}


@pytest.fixture(scope="module")
def with_partitions(tmp_path_factory):
    """Make directories of many small partitions; return the one of a number."""
    made = {}

    def make(number):
        if number not in made:
            made[number] = tmp_path_factory.mktemp("partitions")
            write_partitions(made[number], number)
        return made[number]

    return make


@pytest.fixture(scope="module")
def with_bytes(tmp_path_factory):
    """Make directories of one large partition; return the one of a size."""
    made = {}

    def make(size):
        if size not in made:
            root = tmp_path_factory.mktemp("bytes")
            if shutil.disk_usage(root).free < 2 * size:
                pytest.skip(f"the disk has no space for {size:,} bytes twice")
            made[size] = root
            write_bytes(root / "lines-0", size)
        return made[size]

    yield make
    for root in made.values():
        shutil.rmtree(root)


def write_partitions(logs: Path, number: int) -> None:
    """Write a partition of two segments, and copy it."""
    first = logs / "topic0-0"
    with kafkalog.open(first, mode="a", config=SMALL) as log:
        for batch in range(SMALL_BATCHES):
            builder = kafkalog.RecordBatchBuilder()
            for record in range(SMALL_RECORDS):
                time = 1_700_000_000_000 + batch
                builder.append(b"key-%d" % record, bytes(100), timestamp=time)
            log.append(builder.build())
    for other in range(1, number):
        shutil.copytree(first, logs / f"topic{other % TOPICS}-{other // TOPICS}")


def write_bytes(partition: Path, size: int) -> None:
    """Append lines of 100 bytes until the segments have `size` bytes."""
    lines = {"value": [b"%099d\n" % number for number in range(20_000)]}
    with kafkalog.open(partition, mode="a", config=LARGE) as log:
        while sum(path.stat().st_size for path in partition.glob("*.log")) < size:
            log.append_records(lines)


def growth(way, small, large):
    """Time both in turn; return the median seconds of each."""
    seconds = ([], [])
    begun = perf_counter()
    while len(seconds[0]) < ROUNDS or (
        perf_counter() - begun < SECONDS and len(seconds[0]) < MOST_ROUNDS
    ):
        for logs, times in zip((small, large), seconds, strict=True):
            start = perf_counter()
            way(logs)
            times.append(perf_counter() - start)
    return tuple(map(median, seconds))


def report(benchmark, capsys, name, small, large, of):
    """Add a result: the time for one of `of`, compared with the smaller directory's."""
    benchmark.extra_info |= outcome("limit", large / of, small * TENFOLD / of)
    benchmark.extra_info["times"] = large / small
    with capsys.disabled():
        print(f"\n{name} of {of:,}: {large:.3f} s, {large / small:.1f} times a tenth")


@pytest.mark.parametrize("grown_to", COUNTS[1:])
@pytest.mark.parametrize("way", WAYS)
def bench_partitions(benchmark, capsys, with_partitions, way, grown_to):
    small, large = with_partitions(grown_to // TENFOLD), with_partitions(grown_to)
    benchmark.pedantic(WAYS[way], (small,), rounds=1)
    times = growth(WAYS[way], small, large)
    report(benchmark, capsys, f"{way} partitions", *times, grown_to)


@pytest.mark.parametrize("grown_to", SIZES)
@pytest.mark.parametrize("way", WAYS)
def bench_bytes(benchmark, capsys, with_bytes, way, grown_to):
    small, large = with_bytes(grown_to // TENFOLD), with_bytes(grown_to)
    benchmark.pedantic(WAYS[way], (small,), rounds=1)
    times = growth(WAYS[way], small, large)
    report(benchmark, capsys, f"{way} bytes", *times, grown_to)
