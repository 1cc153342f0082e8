"""A join of 100 rows with a log or a Parquet file, in a process of its own.

    python -m benchmarks.duckdb_join SOURCE

Prints the seconds of the query and the peak memory of the process, in bytes.
"""

from __future__ import annotations

import sys
from time import perf_counter

import duckdb
import pyarrow as pa

import kafkalog
from benchmarks.python_readers import resident

ROWS = 100
EACH = 10_000
"""Every so many offsets one is in the small table."""


def join(source: str) -> list[tuple[int, int]]:
    """Return the sizes of the values at some offsets of a log or a Parquet file."""
    known = pa.table({"offset": range(0, ROWS * EACH, EACH)})
    with duckdb.connect() as database:
        if source.endswith(".parquet"):
            database.register("records", database.read_parquet(source))
        else:
            database.register("records", kafkalog.duckdb_source(source))
        database.register("known", known)
        query = 'select "offset", octet_length(value) from records join known'
        found: list[tuple[int, int]] = database.sql(
            f'{query} using ("offset")'
        ).fetchall()
        return found


if __name__ == "__main__":
    start = perf_counter()
    if len(join(sys.argv[1])) != ROWS:
        raise ValueError("rows of the join are missing")
    seconds = perf_counter() - start
    print(seconds, resident("VmHWM"))
