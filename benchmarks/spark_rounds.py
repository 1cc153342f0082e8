"""Spark for the benchmarks: a warm session, logs of many rows, and timing in turn.

Besides wall time, the processor time of all child processes is measured: Spark's Java
machine, its Python workers, and a broker, if there is one.
"""

from __future__ import annotations

import os
from pathlib import Path
from statistics import median
from time import perf_counter

from interleaved import outcome
from shapes import BATCH_BYTES, columns_of

import kafkalog
from kafkalog.config import LogConfig

ROUNDS, WARM_ROUNDS = 5, 2
SHAPE, SIZE = "log100", "16k"
TICKS = os.sysconf("SC_CLK_TCK")
SETTINGS = {
    "spark_master": "local[2]",
    "spark_python_unix_domain_socket_enabled": "true",
    "spark_sql_parquet_compression_codec": "zstd",
    "spark_sql_execution_arrow_maxBytesPerBatch": "2147483647",
}


def write_log(folder, codec, times, segment_bytes):
    """Write the rows of log100 several times, in segments; return their number."""
    columns = columns_of(SHAPE)
    config = LogConfig.from_properties({"segment.bytes": str(segment_bytes)})
    folder.parent.mkdir(parents=True, exist_ok=True)
    with kafkalog.open(folder, "a", config=config) as log:
        for _ in range(times):
            log.append_records(columns, codec=codec, batch_bytes=BATCH_BYTES[SIZE])
        return log.log_end_offset


def noop(frame):
    """Read all of a frame, and discard it."""
    frame.write.format("noop").mode("overwrite").save()


def compare(ours, theirs, *, peer, of):
    """Time both in turn; return seconds for one of `of`, and theirs over ours."""
    walls, cpus = ([], []), ([], [])
    for round_number in range(-WARM_ROUNDS, ROUNDS):
        for way, wall, cpu in zip((ours, theirs), walls, cpus, strict=True):
            before, start = processor_seconds(), perf_counter()
            way()
            seconds, used = perf_counter() - start, processor_seconds() - before
            if round_number >= 0:
                wall.append(seconds)
                cpu.append(used)
    mine, other = (median(times) / of for times in walls)
    my_cpu, other_cpu = (median(times) / of for times in cpus)
    return {
        **outcome(peer, mine, other),
        "ours_processor": my_cpu,
        "theirs_processor": other_cpu,
    }


def processor_seconds():
    """Return the processor seconds of this process and its children, ended ones too."""
    used, children = {}, {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            text = (place / "stat").read_text()
        except OSError:  # it has just ended
            continue
        fields = text[text.rindex(")") + 2 :].split()
        pid, parent = int(place.name), int(fields[1])
        used[pid] = sum(map(int, fields[11:15])) / TICKS
        children.setdefault(parent, []).append(pid)
    total, waiting = 0.0, [os.getpid()]
    while waiting:
        pid = waiting.pop()
        total += used.get(pid, 0.0)
        waiting += children.get(pid, [])
    return total
