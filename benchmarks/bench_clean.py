"""One round of compaction, compared with Kafka's own cleaner.

Four segments of 128 MiB, an offset map of 128 MiB, and the I/O buffers of a broker.
The round builds the map, copies the segments, forces them to disk and writes the
checkpoint. Both sides keep the memory of the map from round to round.

The map alone gets 5,000,000 different keys, which fill 89 % of it.

Both sides are measured in processor seconds of the calling thread. Needs Java and
Maven.
"""

import shutil
import tempfile
from pathlib import Path
from time import thread_time

import kafka_engine
import numpy as np
import pytest
from bench_append import WHEN, numbered

from kafkalog.cleaner import LogCleaner
from kafkalog.config import LogConfig
from kafkalog.decoding.offset_map import OffsetMap
from kafkalog.encoding.record_columns import ByteColumn
from kafkalog.log.recovery.log_loading import load_log

LOG_MB, SEGMENT_MB = 512, 128
KEYS, MAP_BYTES = 5_000_000, 128 << 20
NAME = ("bench", 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    if missing := kafka_engine.missing():
        pytest.skip(f"kafka-engine cannot be measured: no {missing}")
    return tmp_path_factory.mktemp("engine")


@pytest.mark.parametrize("size", ["16k"])
@pytest.mark.parametrize("unique", [10, 90])
@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
@pytest.mark.parametrize("shape", ["words100"])
def bench_clean(benchmark, folder, shape, codec, unique, size):
    batches = kafka_engine.batches_of(folder, codec, size, LOG_MB, unique=unique)
    settings = {
        "cleanup.policy": "compact",
        "internal.segment.bytes": str(SEGMENT_MB << 20),
    }
    config = LogConfig.from_properties(settings)
    logs = {}
    cleaner = LogCleaner(logs)

    def ours():
        root = Path(tempfile.mkdtemp(dir=folder))
        log = load_log(root / "bench-0", config, **WHEN)
        log.append_many_as_follower(numbered(batches), leader_epoch=0)
        log.roll()
        log.update_high_watermark(log.log_end_offset)
        logs[NAME] = log
        start = thread_time()
        result = cleaner.clean(*NAME)
        seconds = thread_time() - start
        assert result.end_offset == log.log_end_offset
        log.abandon()
        shutil.rmtree(root)
        return seconds

    options = {
        **{"codec": codec, "batch": size, "mb": LOG_MB, "segment-mb": SEGMENT_MB},
        "unique": unique,
    }
    measured = benchmark.pedantic(
        kafka_engine.compare, ("clean", options, ours), rounds=1
    )
    benchmark.extra_info |= measured


def keys(count):
    """Return different keys of 16 bytes, in the columns of 4 MB chunks."""
    numbers = np.arange(count, dtype=np.uint64).byteswap()
    data = np.stack([np.zeros_like(numbers), numbers], axis=1).view(np.uint8).ravel()
    starts = 16 * np.arange(count)
    lengths = np.full(count, 16, np.int32)
    chunk = (4 << 20) // 16
    return [
        ByteColumn(data, starts[at : at + chunk], lengths[at : at + chunk])
        for at in range(0, count, chunk)
    ]


@pytest.mark.parametrize("call", ["put", "get"])
def bench_offset_map(benchmark, folder, call):
    chunks, offsets = keys(KEYS), OffsetMap(MAP_BYTES)

    def put():
        for number, chunk in enumerate(chunks):
            rows = np.full(len(chunk.length), number)
            assert offsets.put(chunk, rows, offsets.slots) == len(rows)

    def ours():
        offsets.clear()
        start = thread_time()
        put()
        if call == "get":
            start = thread_time()
            for number, chunk in enumerate(chunks):
                assert offsets.find(chunk)[0] == number
        return thread_time() - start

    measured = benchmark.pedantic(
        kafka_engine.compare, ("offset-map", {}, ours, f"offset-map-{call}"), rounds=1
    )
    benchmark.extra_info |= measured
