"""Index lookups: one offset (a fetch) and many (a join), compared with NumPy.

The index is that of a segment of 5 GiB with one entry per 4096 bytes, 10 MB: the
default of `segment.index.bytes`. NumPy searches a native int64 column made beforehand;
for one lookup, also the big-endian field, as naive code does.
"""

import numpy as np
import pytest
from interleaved import compare

from kafkalog.indexes.offset_index import OffsetIndex
from kafkalog.indexes.time_index import TimeIndex

ENTRIES = (10 << 20) // 8
BASE = 10**9
SEED = 20_241_025
MANY = 1_000_000


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    random = np.random.default_rng(SEED)
    offsets = BASE + np.cumsum(random.integers(1, 80, ENTRIES))
    positions = np.arange(1, ENTRIES + 1) * 1600
    path = tmp_path_factory.mktemp("orders-0") / f"{BASE:020}.index"
    path.write_bytes(OffsetIndex.build(offsets, positions, BASE).to_bytes())
    return OffsetIndex.open(path)


@pytest.fixture(scope="module")
def time_index(tmp_path_factory):
    random = np.random.default_rng(SEED)
    count = (10 << 20) // 12
    timestamps = 1_700_000_000_000 + np.cumsum(random.integers(1, 50, count))
    offsets = BASE + np.cumsum(random.integers(1, 80, count))
    path = tmp_path_factory.mktemp("orders-1") / f"{BASE:020}.timeindex"
    path.write_bytes(TimeIndex.build(timestamps, offsets, BASE).to_bytes())
    return TimeIndex.open(path)


def targets_in(column, count, order):
    found = np.random.default_rng(SEED).integers(column[0], column[-1], count)
    return np.sort(found) if order == "sorted" else found


def numpy_lookup(column, values, targets, missing):
    """Look up with NumPy: search a native column, then take the positions."""
    slots = np.searchsorted(column, targets, side="right") - 1
    return np.where(slots < 0, missing, values[slots])


@pytest.mark.parametrize("order", ["shuffled", "sorted"])
@pytest.mark.parametrize("count", [1_000, MANY])
def bench_lookup(benchmark, index, count, order):
    targets = targets_in(index.offsets, count, order)
    column, values = index.offsets, index.entries["position"].astype(np.int64)

    def theirs():
        return numpy_lookup(column, values, targets, 0)

    np.testing.assert_array_equal(benchmark(index.lookup, targets), theirs())
    benchmark.extra_info |= compare(
        lambda: index.lookup(targets), theirs, peer="numpy", of=count
    )


@pytest.mark.parametrize("order", ["shuffled", "sorted"])
def bench_search_alone(benchmark, index, order):
    """The search without the positions, compared with ``np.searchsorted``."""
    targets, column = targets_in(index.offsets, MANY, order), index.offsets

    def theirs():
        return np.searchsorted(column, targets, side="right")

    np.testing.assert_array_equal(benchmark(index.slots, targets), theirs() - 1)
    benchmark.extra_info |= compare(
        lambda: index.slots(targets), theirs, peer="numpy", of=MANY
    )


@pytest.mark.parametrize("order", ["shuffled", "sorted"])
def bench_time_lookup(benchmark, time_index, order):
    column, values = time_index.timestamps, time_index.offsets
    targets = targets_in(column, MANY, order)

    def theirs():
        return numpy_lookup(column, values, targets, BASE)

    np.testing.assert_array_equal(benchmark(time_index.lookup, targets), theirs())
    benchmark.extra_info |= compare(
        lambda: time_index.lookup(targets), theirs, peer="numpy", of=MANY
    )


def bench_one_lookup(benchmark, index):
    """Lookups of single offsets, as in fetches."""
    targets = targets_in(index.offsets, 5_000, "shuffled").tolist()
    column, values = index.offsets, index.entries["position"].astype(np.int64)

    def ours():
        return [index.lookup(target) for target in targets]

    def theirs():
        return [values[column.searchsorted(t, side="right") - 1] for t in targets]

    assert benchmark(ours) == theirs()
    benchmark.extra_info |= compare(ours, theirs, peer="numpy", of=len(targets))


def bench_one_lookup_in_the_big_endian_field(benchmark, index):
    """As before, compared with a search that copies and swaps the column each time."""
    targets = targets_in(index.offsets, 100, "shuffled").tolist()
    field, values = index.entries["relative_offset"], index.entries["position"]

    def ours():
        return [index.lookup(target) for target in targets]

    def theirs():
        return [values[np.searchsorted(field, t - BASE, "right") - 1] for t in targets]

    assert benchmark(ours) == theirs()
    benchmark.extra_info |= compare(ours, theirs, peer="numpy", of=len(targets))
