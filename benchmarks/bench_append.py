"""Appending to, recovering and opening a log, compared with Kafka's own engine.

The calls are those of users, with producers, epochs and indexes, and without fsync.
Both sides process the same bytes and are measured in processor seconds of the calling
thread. Batches are made by Kafka's encoder, 16 KB or 1 MB before compression. Needs
Java and Maven.

Records appended as columns are compared with the encoder alone, which writes into a
reused buffer. That is measured in wall time, as a second thread encodes ahead; the
processor seconds of all threads are in brackets. Without compression the difference is
mostly the copy into the file.
"""

import shutil
import tempfile
from pathlib import Path
from time import perf_counter, process_time, thread_time

import kafka_engine
import numpy as np
import pytest
from interleaved import outcome
from shapes import BATCH_BYTES as SIZES
from shapes import VALUE_BYTES, columns_of

from kafkalog.config import LogConfig
from kafkalog.encoding.batch_builder import BatchSettings, encode_batches
from kafkalog.log.recovery.log_loading import load_log
from kafkalog.testing import ManualClock, ManualScheduler

FIRST_TIMESTAMP = 1_700_000_000_000
CLOCK = ManualClock(FIRST_TIMESTAMP + 86_400_000)
WHEN = {"clock": CLOCK, "scheduler": ManualScheduler(CLOCK)}
"""Neither side flushes rolled segments."""
PER_CALL = 64
APPENDED_MB, RECOVERED_MB, SEGMENTS = 256, 1024, 1000
ROUNDS, WARM_ROUNDS = 25, 10
BATCH_BYTES = 16_361

words = pytest.mark.parametrize("shape", ["words100"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    if missing := kafka_engine.missing():
        pytest.skip(f"kafka-engine cannot be measured: no {missing}")
    return tmp_path_factory.mktemp("engine")


def config(segment_bytes):
    return LogConfig.from_properties({"internal.segment.bytes": str(segment_bytes)})


def in_calls(batches, count):
    """Split batches into calls of at most `size` each."""
    return [batches[at : at + count] for at in range(0, len(batches), count)]


def numbered(batches):
    """Return batches with the offsets and the epoch that a leader assigns."""
    offset, numbered = 0, []
    for batch in batches:
        head = offset.to_bytes(8, "big") + batch[8:12] + bytes(4)
        numbered.append(head + batch[16:])
        offset += int.from_bytes(batch[23:27], "big") + 1
    return numbered


def seconds_of(folder, calls, method, *, segment_bytes=1 << 30):
    """Append all `calls` to a new log; return the processor seconds."""
    root = Path(tempfile.mkdtemp(dir=folder))
    log = load_log(root / "bench-0", config(segment_bytes), **WHEN)
    append = getattr(log, method)
    start = thread_time()
    for one in calls:
        append(one)
    seconds = thread_time() - start
    log.abandon()
    shutil.rmtree(root)
    return seconds


def run(benchmark, workload, options, ours):
    """Compare, and store the result for ``results.py``."""
    measured = benchmark.pedantic(
        kafka_engine.compare, (workload, options, ours), rounds=1
    )
    benchmark.extra_info |= measured


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
@pytest.mark.parametrize("shape", ["log100", "json1k", "tiny16"])
def bench_append_records(benchmark, tmp_path, shape, codec, size):
    columns, batch_bytes = columns_of(shape), SIZES[size]
    settings, out = BatchSettings(codec=codec), np.ones(2 * VALUE_BYTES, np.uint8)

    def ours():
        log = load_log(tmp_path / "bench-0", config(1 << 30), **WHEN)
        log.append_records({"value": [b"the first makes the indexes"]})
        used = seconds(
            lambda: log.append_records(columns, codec=codec, batch_bytes=batch_bytes)
        )
        log.abandon()
        shutil.rmtree(log.path)  # the next round reuses its memory, which is mapped
        return used

    def theirs():
        return seconds(
            lambda: encode_batches(columns, batch_bytes, settings=settings, out=out)
        )

    def measure():
        rounds = [(ours(), theirs()) for _ in range(WARM_ROUNDS + ROUNDS)]
        walls, processors = np.median(rounds[WARM_ROUNDS:], axis=0).T.tolist()
        return {
            **outcome("limit", *walls),
            "ours_processor": processors[0],
            "theirs_processor": processors[1],
        }

    benchmark.extra_info |= benchmark.pedantic(measure, rounds=1)


def seconds(way):
    """Return the wall seconds of a call, and the processor seconds of all threads."""
    start = perf_counter(), process_time()
    way()
    return perf_counter() - start[0], process_time() - start[1]


@words
@pytest.mark.parametrize("size", ["16k", "1m"])
@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def bench_append(benchmark, folder, shape, codec, size):
    batches = kafka_engine.batches_of(folder, codec, size, APPENDED_MB)
    options = {"codec": codec, "batch": size, "mb": APPENDED_MB, "segment-mb": 1024}
    run(
        benchmark,
        "append-leader",
        options,
        lambda: seconds_of(folder, batches, "append"),
    )


@words
@pytest.mark.parametrize("size", ["16k"])
@pytest.mark.parametrize("segment_mb", [1024, 64])
@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def bench_append_many(benchmark, folder, shape, codec, size, segment_mb):
    batches = kafka_engine.batches_of(folder, codec, size, APPENDED_MB)
    calls = in_calls(batches, PER_CALL)
    options = {"codec": codec, "batch": size, "mb": APPENDED_MB}
    run(
        benchmark,
        "append-leader",
        options | {"segment-mb": segment_mb},
        lambda: seconds_of(
            folder, calls, "append_many", segment_bytes=segment_mb << 20
        ),
    )


@words
@pytest.mark.parametrize("size", ["16k"])
@pytest.mark.parametrize("per_call", [1, PER_CALL])
@pytest.mark.parametrize("codec", ["none", "lz4"])
def bench_append_as_follower(benchmark, folder, shape, codec, size, per_call):
    batches = numbered(kafka_engine.batches_of(folder, codec, size, APPENDED_MB))
    calls = [b"".join(call) for call in in_calls(batches, per_call)]
    options = {"codec": codec, "batch": size, "mb": APPENDED_MB}
    run(
        benchmark,
        "append-follower",
        options | {"per-call": per_call},
        lambda: seconds_of(folder, calls, "append_as_follower"),
    )


@words
@pytest.mark.parametrize("size", ["16k"])
@pytest.mark.parametrize("codec", ["none", "lz4"])
def bench_recover(benchmark, folder, shape, codec, size):
    log_directory = Path(tempfile.mkdtemp(dir=folder)) / "bench-0"
    settings = config(1 << 30)
    log = load_log(log_directory, settings, **WHEN)
    batches = kafka_engine.batches_of(folder, codec, size, RECOVERED_MB)
    for call in in_calls(batches, PER_CALL):
        log.append_many(call)
    end = log.log_end_offset
    log.abandon()

    def recover():
        start = thread_time()
        log = load_log(log_directory, settings, clean=False, **WHEN)
        seconds = thread_time() - start
        assert log.log_end_offset == end
        log.abandon()
        return seconds

    options = {"codec": codec, "batch": size, "mb": RECOVERED_MB}
    run(benchmark, "recover", options, recover)
    shutil.rmtree(log_directory.parent)


@words
@pytest.mark.parametrize("codec", ["none"])
@pytest.mark.parametrize("size", ["16k"])
def bench_open_clean(benchmark, folder, shape, size, codec):
    log_directory = Path(tempfile.mkdtemp(dir=folder)) / "bench-0"
    settings = config(4 * BATCH_BYTES)
    log = load_log(log_directory, settings, **WHEN)
    megabytes = 4 * SEGMENTS * BATCH_BYTES >> 20
    log.append_many(kafka_engine.batches_of(folder, codec, size, megabytes))
    end = log.log_end_offset
    log.close()

    def open_clean():
        start = thread_time()
        log = load_log(log_directory, settings, clean=True, **WHEN)
        seconds = thread_time() - start
        assert log.log_end_offset == end
        log.close()
        return seconds

    run(benchmark, "open-clean", {"segments": SEGMENTS}, open_clean)
    shutil.rmtree(log_directory.parent)


@words
@pytest.mark.parametrize("codec", ["none"])
@pytest.mark.parametrize("size", ["16k"])
def bench_append_with_many_segments(benchmark, folder, shape, size, codec):
    """An append costs the same in a log of one segment and of a thousand."""
    batches = kafka_engine.batches_of(folder, codec, size, 16)
    one = Path(tempfile.mkdtemp(dir=folder))
    logs = []
    for name, segments in (("one-0", 1), ("many-0", SEGMENTS)):
        log = load_log(one / name, config(1 << 30), **WHEN)
        for _ in range(segments - 1):
            log.append(batches[0])
            log.roll()
        logs.append(log)

    def measure():
        times = ([], [])
        for _ in range(7):
            for log, seconds in zip(logs, times, strict=True):
                start = thread_time()
                for batch in batches:
                    log.append(batch)
                seconds.append(thread_time() - start)
        alone, among = (sorted(seconds)[3] for seconds in times)
        return {
            "peer": "limit",
            "ratio": alone / among,
            "ours": among,
            "theirs": alone,
            "unit": "s",
        }

    benchmark.extra_info |= benchmark.pedantic(measure, rounds=1)
    for log in logs:
        log.abandon()
    shutil.rmtree(one)
