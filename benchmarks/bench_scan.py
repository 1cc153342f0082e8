"""How fast is a segment read into columns? Against what the memory allows.

The limit of reading uncompressed batches is their checksum and one copy of them, and of
compressed ones their decompressor's time: both are measured in turn with the scan.
"""

import numpy as np
import pytest
from interleaved import compare
from shapes import BATCH_BYTES, SHAPES

import kafkalog
from kafkalog import _speedups
from kafkalog.codecs.compression import decompress
from kafkalog.formats.headers import scan_headers
from kafkalog.formats.layout import BATCH_HEADER_BYTES, CODECS

COLUMNS = ["offset", "timestamp", "key", "value", "headers"]
LIMIT = 1 << 30


def rows_of(data):
    rows, _, _ = scan_headers(data, 0, 0, 1 << 20)
    return rows


def checksum_and_copy(data):
    """What cannot be saved: every byte checked, and every byte moved once."""
    rows = rows_of(data)
    sound, room = np.empty(len(rows), np.uint8), np.ones(4 << 20, np.uint8)

    def work():
        _speedups.check_batches(data, 0, rows, sound)
        for start in range(0, len(data), len(room)):
            part = data[start : start + len(room)]
            room[: len(part)] = part

    return work


def decompress_only(data):
    """Every batch through its decompressor, and nothing else."""
    rows, view = rows_of(data), memoryview(data)
    parts = [
        (int(row["attributes"]) & 7, view[start + BATCH_HEADER_BYTES : start + size])
        for row in rows
        for start, size in [(int(row["position"]), int(row["size_in_bytes"]))]
    ]

    def work():
        for codec, part in parts:
            decompress(codec, part, limit=LIMIT)

    return work


@pytest.mark.parametrize("size", BATCH_BYTES)
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("shape", SHAPES)
def bench_columns(benchmark, segment, shape, codec, size):
    path, count = segment(shape, codec, size)

    def read():
        chunks = kafkalog.scan(path, columns=COLUMNS).chunks(reuse=True)
        return sum(map(len, chunks))

    assert benchmark.pedantic(read, rounds=5, warmup_rounds=1) == count
    data = np.fromfile(path, np.uint8)
    limit = checksum_and_copy(data) if codec == "none" else decompress_only(data)
    benchmark.extra_info.update(compare(read, limit, peer="limit", of=count))
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
