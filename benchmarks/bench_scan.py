"""Reading a segment into columns, compared with the least work that its bytes take.

The limit for uncompressed batches is their checksum and one copy, and for compressed
ones the time of their decompressor: both are measured in turn with the scan, on the
same bytes in memory. Ways to read a file follow.
"""

import numpy as np
import pytest
from interleaved import compare
from limits import limit_of, rows_of
from shapes import BATCH_BYTES, SHAPES

import kafkalog
from kafkalog.formats.layout import CODECS

COLUMNS = ["offset", "timestamp", "key", "value", "headers"]


@pytest.mark.parametrize("size", BATCH_BYTES)
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("shape", SHAPES)
def bench_columns(benchmark, segment, shape, codec, size):
    path, count = segment(shape, codec, size)
    data = np.fromfile(path, np.uint8)

    def read():
        chunks = kafkalog.scan(data, columns=COLUMNS).chunks(reuse=True)
        return sum(map(len, chunks))

    assert benchmark.pedantic(read, rounds=5, warmup_rounds=1) == count
    timing = compare(read, limit_of(data), peer="limit", of=count)
    benchmark.extra_info.update(timing)
    benchmark.extra_info["records_per_second"] = count / benchmark.stats["median"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("way", ["fresh", "views", "two threads", "to_arrow"])
def bench_ways(benchmark, segment, shape, way):
    path, count = segment(shape, "none", "16k")

    def read():
        scan = kafkalog.scan(
            path, columns=COLUMNS, threads=2 if way == "two threads" else 1
        )
        if way == "to_arrow":
            return len(scan.to_arrow())
        chunks = scan.chunks(reuse=way == "views", views=way == "views")
        return sum(map(len, chunks))

    assert benchmark.pedantic(read, rounds=5, warmup_rounds=1) == count
    benchmark.extra_info["records_per_second"] = count / benchmark.stats["median"]


@pytest.mark.parametrize("size", BATCH_BYTES)
def bench_count(benchmark, segment, size):
    path, count = segment("log100", "none", size)
    assert benchmark(lambda: kafkalog.scan(path).count()) == count
    batches = len(rows_of(np.fromfile(path, np.uint8)))
    benchmark.extra_info["batches_per_second"] = batches / benchmark.stats["median"]


def bench_headers_in_memory(benchmark, segment):
    path, _ = segment("log100", "none", "16k")
    data = np.fromfile(path, np.uint8)
    rows = benchmark(rows_of, data)
    benchmark.extra_info["batches_per_second"] = len(rows) / benchmark.stats["median"]
