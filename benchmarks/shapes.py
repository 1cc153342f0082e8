"""What the benchmarks read and write: three shapes of records, by a fixed seed.

Lines of 100 bytes, documents of 1 KB with keys and headers, and values of 16 bytes.
"""

from __future__ import annotations

import numpy as np

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
