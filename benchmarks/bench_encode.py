"""Encoding records: columns into batches, and one record after another.

Three shapes: lines of 100 bytes, documents of 1 KB with keys and headers, and values of
16 bytes. 16 MB of values are encoded into a reused buffer, as a writer of files does.
"""

import itertools
from functools import partial

import numpy as np
import pytest
from interleaved import compare
from peers import needs
from shapes import BATCH_BYTES, SHAPES, VALUE_BYTES, columns_of

from kafkalog.encoding.batch_builder import (
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
    out = np.ones(2 * VALUE_BYTES, np.uint8)
    data = benchmark.pedantic(
        encode_batches,
        (columns, BATCH_BYTES[size]),
        {"settings": BatchSettings(codec=codec), "out": out},
        rounds=3 if codec == "gzip" else 5,
        warmup_rounds=1,
    )
    seconds = benchmark.stats["median"]
    benchmark.extra_info["records_per_second"] = len(columns.offset) / seconds
    benchmark.extra_info["bytes_per_second"] = VALUE_BYTES / seconds
    benchmark.extra_info["bytes_written"] = len(data)


def cells_of(column):
    """Return the byte strings of a column, None for null."""
    data, starts, lengths = column.data.tobytes(), *map(list, column[1:])
    return [
        None if length < 0 else data[start : start + length]
        for start, length in zip(starts, lengths, strict=True)
    ]


def rows_of(columns):
    """Return the records as arguments of an append: timestamp, key, value, headers."""
    keys, values = cells_of(columns.key), cells_of(columns.value)
    headers = [[]] * len(keys)
    if columns.headers is not None:
        cuts, names, parts = columns.headers
        names = [name.decode() for name in cells_of(names)]
        pairs = list(zip(names, cells_of(parts), strict=True))
        headers = [pairs[begin:end] for begin, end in itertools.pairwise(cuts)]
    return list(zip(columns.timestamp.tolist(), keys, values, headers, strict=True))


def aiokafka_batches(rows, batch_bytes):
    """Build batches with aiokafka, each as full as possible; return their size."""
    from aiokafka.record._crecords.default_records import DefaultRecordBatchBuilder

    total = done = 0
    while done < len(rows):
        builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, batch_bytes)
        first = done
        while done < len(rows) and builder.append(done - first, *rows[done]):
            done += 1
        total += len(builder.build())
    return total


@needs("aiokafka")
@pytest.mark.parametrize("size", ["16k"])
@pytest.mark.parametrize("codec", ["none"])
@pytest.mark.parametrize("shape", SHAPES)
def bench_encode(benchmark, shape, codec, size):
    columns = columns_of(shape)
    out = np.ones(2 * VALUE_BYTES, np.uint8)
    ours = partial(encode_batches, columns, BATCH_BYTES[size], out=out)
    theirs = partial(aiokafka_batches, rows_of(columns), BATCH_BYTES[size])
    written = benchmark.pedantic(ours, rounds=5, warmup_rounds=1)
    assert abs(theirs() / len(written) - 1) < 0.01
    count = len(columns.offset)
    benchmark.extra_info |= compare(ours, theirs, peer="aiokafka", of=count)


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
