"""A log of 1 GB joined with 100 rows in DuckDB, compared with the same in Parquet.

Each join is in a process of its own; its time is wall time.
"""

import subprocess
import sys
from pathlib import Path
from statistics import median

import duckdb
import pytest
from duckdb_join import join
from interleaved import ROUNDS, outcome
from segments import large_segment

import kafkalog

ROOT = Path(__file__).parents[1]
BYTES = 1 << 30
PEER = "duckdb-parquet"


@pytest.fixture(scope="module")
def sources():
    """Return a segment, and a Parquet file with the same records."""
    log = large_segment("log100", "none", "16k", BYTES)
    parquet = log.with_suffix(".parquet")
    if not parquet.exists():
        partial = parquet.with_suffix(".partial")
        with duckdb.connect() as database:
            database.register("log", kafkalog.duckdb_source(log))
            database.sql("from log").write_parquet(str(partial))
        partial.rename(parquet)
    return log, parquet


def joined(source):
    """Return the seconds and the peak memory of a join."""
    command = [sys.executable, "-m", "benchmarks.duckdb_join", source]
    done = subprocess.run(command, capture_output=True, check=True, cwd=ROOT)
    seconds, peak = done.stdout.split()
    return float(seconds), int(peak)


@pytest.fixture(scope="module")
def measured(sources):
    """Return the seconds and peaks of both sources, joined in turn."""
    runs = [joined(source) for _ in range(ROUNDS) for source in sources]
    return [tuple(map(median, zip(*runs[i::2], strict=True))) for i in (0, 1)]


@pytest.mark.parametrize("measure", ["time", "memory"])
def bench_join(benchmark, sources, measured, measure):
    log, parquet = (join(str(source)) for source in sources)
    assert sorted(log) == sorted(parquet)
    benchmark.pedantic(join, (str(sources[0]),), rounds=1)
    field, unit = (1, "bytes") if measure == "memory" else (0, "s")
    mine, theirs = (each[field] for each in measured)
    benchmark.extra_info.update(outcome(PEER, mine, theirs, unit=unit))
