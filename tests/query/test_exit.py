"""Scripts that end while Arrow or Polars may still read ahead."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests import golden_data

QUERIES = {
    "the head of a dataset": "data.head(2)",
    "a loop that breaks": "next(iter(data.to_batches()))",
    "a reader that is kept": "kept = data.scanner().to_reader(); next(kept)",
    "a limit in DuckDB": "import duckdb; duckdb.sql('from data limit 2').fetchall()",
    "a limit in Polars": (
        "import polars; polars.scan_pyarrow_dataset(data).head(2).collect()"
    ),
    "a filter and a limit in a lazy scan": (
        "import polars; lazy = data.request.lazy()\n"
        "lazy.filter(polars.col('offset') >= 0).head(2).collect()"
    ),
    "a limit in Polars' streaming engine": (
        "import polars; lazy = data.request.lazy()\n"
        "some = lazy.filter(polars.col('value').is_not_null())\n"
        "some.head(2).collect(engine='streaming')"
    ),
    "a limit in DataFusion": """
import datafusion
context = datafusion.SessionContext()
context.register_dataset("data", data)
context.sql("select * from data limit 2").to_pylist()
""",
    "a scan in threads": (
        "import dataclasses; scan = dataclasses.replace(data.request, threads=2)\n"
        "kept = scan.chunks(); next(kept)"
    ),
    "an Arrow scanner of a scan": (
        "import pyarrow.dataset; stream = data.request\n"
        "pyarrow.dataset.Scanner.from_batches(stream).head(2)"
    ),
}
TIMES = 2


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
def test_a_script_that_did_not_read_all_ends(query):
    logs = golden_data.logs("k431-clean")
    script = f"import kafkalog\ndata = kafkalog.dataset({str(logs)!r})\n{query}"
    for _ in range(TIMES):
        run = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, timeout=60, text=True
        )
        assert (run.returncode, run.stderr) == (0, "")
