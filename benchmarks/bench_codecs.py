"""The four codecs in both directions, at the two sizes of batches.

Compared with the fastest call of each package, which has no limit and no framing: the
difference is the cost of the limit, the framing and the error handling.
"""

import numpy as np
import pytest
from interleaved import compare
from limits import decompressor_of

from kafkalog.codecs.compression import Codec, compress, decompress

SEED = 20_241_025
BATCH_BYTES = {"16k": 16 * 1024, "1m": 1024 * 1024}
LIMIT = 64 << 20
ROUNDS = {"16k": 500, "1m": 10}
CODECS = [codec.name.lower() for codec in Codec if codec]


def log_lines(size):
    """Return lines of common and rare words, as a log has them."""
    random = np.random.default_rng(SEED)
    letters = random.integers(97, 123, (1024, 9), dtype=np.uint8)
    words = [word.tobytes() for word in letters]
    drawn = (random.random(size // 9) ** 2 * len(words)).astype(int)
    return b" ".join(words[i] for i in drawn)[:size]


@pytest.mark.parametrize("size", BATCH_BYTES)
@pytest.mark.parametrize("codec", CODECS)
def bench_decompress(benchmark, codec, size):
    data = log_lines(BATCH_BYTES[size])
    kind = Codec[codec.upper()]
    stream = compress(kind, data)
    chunks = benchmark(decompress, kind, stream, limit=LIMIT)
    assert b"".join(chunks) == data
    seconds = benchmark.stats["median"]
    benchmark.extra_info["bytes_per_second"] = len(data) / seconds
    theirs = decompressor_of(kind)
    rounds = range(ROUNDS[size])
    benchmark.extra_info |= compare(
        lambda: [decompress(kind, stream, limit=LIMIT) for _ in rounds],
        lambda: [theirs(stream) for _ in rounds],
        peer="limit",
        of=len(rounds),
    )


@pytest.mark.parametrize("size", BATCH_BYTES)
@pytest.mark.parametrize("codec", CODECS)
def bench_compress(benchmark, codec, size):
    data = log_lines(BATCH_BYTES[size])
    stream = benchmark(compress, Codec[codec.upper()], data)
    benchmark.extra_info["bytes_per_second"] = len(data) / benchmark.stats["median"]
    benchmark.extra_info["ratio"] = len(data) / len(stream)
