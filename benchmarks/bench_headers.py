"""How fast are the headers of a segment's batches found? In a mapped file of 1 GB.

It is mapped anew each time, and in the page cache. The limit is to look at a byte of
each header, by one who knows where they are.
"""

import mmap

import numpy as np
import pytest
from interleaved import compare
from segments import large_segment

import kafkalog
from kafkalog.formats.headers import scan_headers

SEGMENT_BYTES = 1_000_000_000
MOST_BATCHES = 1 << 17
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
@pytest.mark.parametrize("way", WAYS)
def bench_headers(benchmark, shape, codec, size, way):
    path = large_segment(shape, codec, size, SEGMENT_BYTES)
    rows, _, _ = scan_headers(mapped(path), 0, 0, MOST_BATCHES)
    positions = rows["position"]
    expected = {"table": len(rows), "count": int(rows["count"].sum())}

    def ours():
        return WAYS[way](mapped(path))

    def touch():
        return np.frombuffer(mapped(path), np.uint8)[positions]

    assert benchmark.pedantic(ours, rounds=5, warmup_rounds=1) == expected[way]
    told = compare(ours, touch, peer="limit", of=len(rows))
    rates = {side: 1 / told[side] for side in ("ours", "theirs")}
    benchmark.extra_info |= told | rates | {"unit": "batches/s"}
