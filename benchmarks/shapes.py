"""The data of the benchmarks: three shapes of records, from a fixed seed.

``log100``  lines of 100 bytes: the time in digits, then words, common ones often
``json1k``  documents of about 1 KB, with a key of 13 bytes and two headers
``tiny16``  16 bytes: a counter, and a random walk
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import numpy.typing as npt

from kafkalog.encoding.record_columns import ByteColumn, RecordColumns

SEED = 20_241_117
VALUE_BYTES = 16 << 20
BATCH_BYTES = {"16k": 16 * 1024, "1m": 1024 * 1024}
SHAPES = {"log100": 100, "json1k": 960, "tiny16": 16}
"""The average size of a value in bytes; values of json1k have 790 to 1070."""
FIRST_TIMESTAMP = 1_700_000_000_000
WORDS, DRAWN_WORDS = 2000, 400_000
HEADERS = (b"trace-id", b"content-type")


@cache
def columns_of(shape: str) -> RecordColumns:
    """Return the records of a shape, 16 MB of values; they must not be changed."""
    rows = VALUE_BYTES // SHAPES[shape]
    random = np.random.default_rng(SEED)
    timestamp = FIRST_TIMESTAMP + np.cumsum(random.integers(0, 4, rows))
    offset, no_keys = np.arange(rows), ByteColumn.nulls(rows)
    match shape:
        case "log100":
            value = ByteColumn.of(list(lines(random, timestamp)))
        case "tiny16":
            value = counters(random, rows)
        case "json1k":
            users = random.zipf(1.2, rows) % 100_000
            value = ByteColumn.of(list(documents(random, timestamp, users)))
            key = ByteColumn.of([b"user-%08d" % user for user in users])
            return RecordColumns(offset, timestamp, key, value, headers(random, rows))
    return RecordColumns(offset, timestamp, no_keys, value, None)


def text_of(random: np.random.Generator) -> bytes:
    """Return words of 2 to 10 letters, some far more often than others."""
    lengths = random.integers(2, 11, WORDS)
    words = [random.integers(97, 123, size, np.uint8).tobytes() for size in lengths]
    return b" ".join(words[i] for i in random.zipf(1.3, DRAWN_WORDS) % WORDS)


def lines(
    random: np.random.Generator, timestamp: npt.NDArray[np.int64]
) -> Iterator[bytes]:
    text = text_of(random)
    starts = random.integers(0, len(text) - 86, len(timestamp)).tolist()
    for time, start in zip(timestamp.tolist(), starts, strict=True):
        yield b"%d %b" % (time, text[start : start + 86])


def documents(
    random: np.random.Generator,
    timestamp: npt.NDArray[np.int64],
    users: npt.NDArray[np.int64],
) -> Iterator[bytes]:
    text = text_of(random)
    rows = len(timestamp)
    drawn = [
        random.integers(0, len(text) - 800, rows),
        random.integers(560, 801, rows),
        random.integers(100, 1_000_000, rows),
        random.integers(0, 1 << 24, rows),
    ]
    known = zip(timestamp, users, *drawn, strict=True)
    for row, (time, user, start, size, cents, host) in enumerate(known):
        yield (
            b'{"id":"%b","seq":%d,"ts":%d,"user":{"id":%d,"name":"user %d",'
            b'"email":"user%d@example.com"},"amount":%d.%02d,"currency":"EUR",'
            b'"status":"accepted","source":{"ip":"10.%d.%d.%d","agent":"Mozilla/5.0"},'
            b'"text":"%b"}'
        ) % (
            random.bytes(16).hex().encode(),
            row,
            time,
            *(user, user, user),
            *divmod(cents, 100),
            *(host >> 16, host >> 8 & 255, host & 255),
            text[start : start + size],
        )


def counters(random: np.random.Generator, rows: int) -> ByteColumn:
    """Return values of an int64 counter and a float64 random walk, both big-endian."""
    value = np.empty(rows, [("count", ">i8"), ("walk", ">f8")])
    value["count"] = np.arange(rows)
    value["walk"] = (100 + np.cumsum(random.normal(0, 1, rows).round(2))).round(2)
    return ByteColumn.contiguous(value.view(np.uint8), np.full(rows, 16, np.int32))


def headers(
    random: np.random.Generator, rows: int
) -> tuple[npt.NDArray[np.int64], ByteColumn, ByteColumn]:
    """Return two headers a record: 16 unique bytes, and 16 that are always the same."""
    traces = random.integers(0, 256, (rows, 16), np.uint8)
    kinds = np.broadcast_to(np.frombuffer(b"application/json", np.uint8), (rows, 16))
    values = np.stack([traces, kinds], axis=1).reshape(-1)
    names = np.frombuffer(b"".join(HEADERS) * rows, np.uint8)
    sizes = np.tile(np.array([len(name) for name in HEADERS], np.int32), rows)
    return (
        np.arange(rows + 1) * len(HEADERS),
        ByteColumn.contiguous(names, sizes),
        ByteColumn.contiguous(values, np.full(2 * rows, 16, np.int32)),
    )
