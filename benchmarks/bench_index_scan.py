"""All indexes of a partition as one array: 1,000 segments, compared with NumPy.

Each index has 2,000 entries, as a segment of 8 MiB with one entry per 4096 bytes has.
The peer maps or reads each file with NumPy, widens its columns, and concatenates.
"""

import numpy as np
import pytest
from interleaved import compare

from kafkalog.indexes.offset_index import ENTRY, OffsetIndex
from kafkalog.indexes.time_index import TimeIndex
from kafkalog.query.index_scan import (
    OFFSET_ROW,
    scan_offset_indexes,
    scan_time_indexes,
)

SEGMENTS = 1_000
ENTRIES = 2_000
SEED = 20_241_025
MANY = 1_000_000


@pytest.fixture(scope="module")
def partition(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "orders-0"
    folder.mkdir()
    random, base = np.random.default_rng(SEED), 0
    positions = np.arange(1, ENTRIES + 1) * 4150
    for _ in range(SEGMENTS):
        offsets = base + np.cumsum(random.integers(1, 80, ENTRIES))
        times = 1_700_000_000_000 + offsets * 10
        index = OffsetIndex.build(offsets, positions, base)
        times_index = TimeIndex.build(times, offsets, base)
        (folder / f"{base:020}.index").write_bytes(index.to_bytes())
        (folder / f"{base:020}.timeindex").write_bytes(times_index.to_bytes())
        (folder / f"{base:020}.log").touch()
        base = int(offsets[-1]) + 1
    return folder


def numpy_scan(folder):
    """Read the indexes with NumPy: an array for each file, concatenated."""
    parts = []
    for path in sorted(folder.glob("*.index")):
        entries = np.fromfile(path, ENTRY)
        rows = np.zeros(len(entries), OFFSET_ROW)
        rows["base_offset"] = int(path.stem)
        rows["offset"] = entries["relative_offset"] + np.int64(int(path.stem))
        rows["position"] = entries["position"]
        parts.append(rows)
    return np.concatenate(parts)


def bench_scan(benchmark, partition):
    found = benchmark(scan_offset_indexes, partition)
    np.testing.assert_array_equal(found.entries, numpy_scan(partition))
    assert found.problems == ()
    benchmark.extra_info |= compare(
        lambda: scan_offset_indexes(partition),
        lambda: numpy_scan(partition),
        peer="numpy",
        of=SEGMENTS * ENTRIES,
    )


def bench_scan_of_time_indexes(benchmark, partition):
    found = benchmark(scan_time_indexes, partition)
    assert len(found.entries) == SEGMENTS * ENTRIES
    rate = len(found.entries) / benchmark.stats["median"]
    benchmark.extra_info["entries_per_second"] = rate


def bench_map_each_segment(benchmark, partition):
    """The same indexes, each mapped and checked, for access to a few."""
    paths = sorted(partition.glob("*.index"))

    def checked(path):
        entries = np.memmap(path, ENTRY, mode="r")
        entries = entries[: np.flatnonzero(entries["position"])[-1] + 1]
        for name in ENTRY.names:
            assert (entries[name][1:] > entries[name][:-1]).all()
        return entries

    def theirs():
        return [checked(path) for path in paths]

    found = benchmark(lambda: [OffsetIndex.open(path) for path in paths])
    assert sum(map(len, found)) == SEGMENTS * ENTRIES
    benchmark.extra_info |= compare(
        lambda: [OffsetIndex.open(path) for path in paths],
        theirs,
        peer="numpy",
        of=SEGMENTS,
    )


@pytest.mark.parametrize("order", ["shuffled", "sorted"])
def bench_lookup_over_all_segments(benchmark, partition, order):
    """The segment and byte of a million offsets of the partition."""
    scan = scan_offset_indexes(partition)
    column = np.ascontiguousarray(scan.entries["offset"])
    targets = np.random.default_rng(SEED).integers(column[0], column[-1], MANY)
    if order == "sorted":
        targets.sort()
    bases = np.ascontiguousarray(scan.segments["base_offset"])

    def theirs():
        segments = bases[np.searchsorted(bases, targets, side="right") - 1]
        rows = np.searchsorted(column, targets, side="right") - 1
        inside = scan.entries["base_offset"][rows] == segments
        return segments, np.where(inside, scan.entries["position"][rows], 0)

    found = benchmark(scan.lookup, "orders", 0, targets)
    segments, positions = theirs()
    np.testing.assert_array_equal(found["base_offset"], segments)
    np.testing.assert_array_equal(found["position"], positions)
    benchmark.extra_info |= compare(
        lambda: scan.lookup("orders", 0, targets), theirs, peer="numpy", of=MANY
    )
