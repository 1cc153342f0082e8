"""One round of compaction, compared with Kafka's own cleaner.

Four segments of 128 MiB, an offset map of 128 MiB, and the I/O buffers of a broker.
The round builds the map, copies the segments, forces them to disk and writes the
checkpoint. Both sides are measured in processor seconds of the calling thread. Needs
Java and Maven.
"""

import shutil
import tempfile
from pathlib import Path
from time import thread_time

import kafka_engine
import pytest
from bench_append import WHEN, numbered

from kafkalog.cleaner import LogCleaner
from kafkalog.config import LogConfig
from kafkalog.log.recovery.log_loading import load_log

LOG_MB, SEGMENT_MB = 512, 128
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

    def ours():
        root = Path(tempfile.mkdtemp(dir=folder))
        log = load_log(root / "bench-0", config, **WHEN)
        log.append_many_as_follower(numbered(batches), leader_epoch=0)
        log.roll()
        log.update_high_watermark(log.log_end_offset)
        cleaner = LogCleaner({NAME: log})
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
