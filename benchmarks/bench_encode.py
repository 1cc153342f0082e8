"""How fast are records written? Columns into batches, and one record after another.

Three shapes: lines of 100 bytes, documents of 1 KB with keys and headers, and values of
16 bytes. 16 MB of values, into memory that is kept, as a writer of files keeps it.
"""

import numpy as np
import pytest
from shapes import BATCH_BYTES, SHAPES, VALUE_BYTES, columns_of

from kafkalog.formats.builder import (
    BatchSettings,
    RecordBatchBuilder,
    encode_batches,
)
from kafkalog.formats.layout import CODECS


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
