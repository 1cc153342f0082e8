"""How fast are records written? Columns into batches, and one record after another.

Three shapes: lines of 100 bytes, documents of 1 KB with keys and headers, and values of
16 bytes. 16 MB of values, into memory that is kept, as a writer of files keeps it.
"""

import numpy as np
import pytest

from kafkalog.formats.builder import (
    BatchSettings,
    RecordBatchBuilder,
    encode_batches,
)
from kafkalog.formats.layout import CODECS
from kafkalog.formats.record_columns import ByteColumn, RecordColumns

SEED = 20_241_025
VALUE_BYTES = 16 << 20
BATCH_BYTES = {"16k": 16 * 1024, "1m": 1024 * 1024}
SHAPES = {"log100": (100, None, 0), "json1k": (1000, 13, 2), "tiny16": (16, None, 0)}


def cells(random, rows, size):
    """Rows of `size` bytes each, of words drawn from a few."""
    words = random.integers(97, 123, (64, 8), dtype=np.uint8)
    drawn = random.integers(0, 64, rows * size // 8 + 1)
    length = np.full(rows, size, np.int32)
    return ByteColumn.packed(words[drawn].reshape(-1)[: rows * size], length)


def columns_of(shape):
    value, key, headers = SHAPES[shape]
    random = np.random.default_rng(SEED)
    rows = VALUE_BYTES // value
    return RecordColumns(
        np.arange(rows),
        1_700_000_000_000 + np.cumsum(random.integers(0, 4, rows)),
        ByteColumn.nulls(rows) if key is None else cells(random, rows, key),
        cells(random, rows, value),
        None
        if not headers
        else (
            np.arange(rows + 1) * headers,
            cells(random, rows * headers, 10),
            cells(random, rows * headers, 16),
        ),
    )


@pytest.mark.parametrize("size", BATCH_BYTES)
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("shape", SHAPES)
def bench_encode_columns(benchmark, shape, codec, size):
    columns = columns_of(shape)
    room = np.ones(2 * VALUE_BYTES, np.uint8)
    data = benchmark.pedantic(
        encode_batches,
        (columns, BATCH_BYTES[size]),
        {"settings": BatchSettings(codec=codec), "room": room},
        rounds=3 if codec == "gzip" else 5,
        warmup_rounds=1,
    )
    seconds = benchmark.stats["median"]
    benchmark.extra_info["records_per_second"] = len(columns.offset) / seconds
    benchmark.extra_info["bytes_per_second"] = VALUE_BYTES / seconds
    benchmark.extra_info["bytes_written"] = len(data)


@pytest.mark.parametrize("records", [1, 100, 10_000])
def bench_builder(benchmark, records):
    value = b"x" * 100

    def build():
        builder = RecordBatchBuilder(base_offset=0)
        for i in range(records):
            builder.append(None, value, timestamp=1_700_000_000_000 + i)
        return builder.build()

    data = benchmark(build)
    benchmark.extra_info["records_per_second"] = records / benchmark.stats["median"]
    benchmark.extra_info["bytes_per_second"] = len(data) / benchmark.stats["median"]
