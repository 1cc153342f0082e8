"""Scanning the batch headers of a segment of 1 GB.

The file is in the page cache; it is mapped once and scanned before, or mapped again
each time, or read. The limit is to access one byte of each header at known positions.
"""

import mmap
from itertools import product

import numpy as np
import pytest
from interleaved import compare
from segments import large_segment

import kafkalog
from kafkalog.formats.batch_headers import scan_headers

SEGMENT_BYTES = 1_000_000_000
MOST_BATCHES = 1 << 16
WAYS = {
    "table": lambda data: len(scan_headers(data, 0, 0, MOST_BATCHES)[0]),
    "count": lambda data: kafkalog.scan(data).count(),
}


def mapped(path):
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


@pytest.mark.parametrize("size", ["16k"])
@pytest.mark.parametrize("codec", ["none"])
@pytest.mark.parametrize("shape", ["log100"])
@pytest.mark.parametrize(
    ("mapping", "way"), [*product(("once", "again"), WAYS), ("read", "count")]
)
def bench_headers(benchmark, shape, codec, size, mapping, way):
    path = large_segment(shape, codec, size, SEGMENT_BYTES)
    once = mapped(path)
    rows, _, _ = scan_headers(once, 0, 0, MOST_BATCHES)
    positions = rows["position"]
    expected = {"table": len(rows), "count": int(rows["count"].sum())}

    def data():
        return once if mapping == "once" else mapped(path)

    def ours():
        return WAYS[way](path if mapping == "read" else data())

    def touch():
        return np.frombuffer(data(), np.uint8)[positions]

    assert benchmark.pedantic(ours, rounds=5, warmup_rounds=1) == expected[way]
    timing = compare(ours, touch, peer="limit", of=len(rows))
    rates = {side: 1 / timing[side] for side in ("ours", "theirs")}
    benchmark.extra_info |= timing | rates | {"unit": "batches/s"}
