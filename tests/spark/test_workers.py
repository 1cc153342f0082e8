"""Worker processes that Spark keeps freeze their imports; others do not."""

from __future__ import annotations

import gc
import json
import subprocess
import sys

import pytest

from kafkalog.spark.workers import REUSED
from tests import golden_data

LOGS = str(golden_data.logs("k431-clean"))
PROGRAM = """
import gc, json
from kafkalog.spark.workers import freeze_imports

objects, callbacks = len(gc.get_objects()), list(gc.callbacks)
freeze_imports()
made = [[]]
made.append(made)
print(json.dumps({
    "frozen": gc.get_freeze_count() / objects,
    "new objects are collected": any(one is made for one in gc.get_objects()),
    "callbacks are as before": gc.callbacks == callbacks,
}))
"""


def run_program():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def test_a_kept_process_freezes_existing_objects_only(monkeypatch):
    monkeypatch.setenv(REUSED, "1")
    seen = run_program()
    assert seen.pop("frozen") > 0.5
    assert all(seen.values())


def test_a_process_that_is_not_kept_is_unchanged(monkeypatch):
    monkeypatch.delenv(REUSED, raising=False)
    seen = run_program()
    assert seen.pop("frozen") == 0
    assert all(seen.values())


@pytest.mark.spark
def test_a_worker_freezes_its_imports_after_reading_and_the_driver_does_not(spark):
    from kafkalog.spark import map_batches

    def count_frozen(batches):
        import pyarrow as pa

        for _ in batches:
            yield pa.record_batch({"count": [gc.get_freeze_count()]})

    columns = ("offset bigint", ["offset"])
    assert map_batches(spark, LOGS, lambda batch: batch, *columns).count()
    counts = spark.range(0, 8, 1, 8).mapInArrow(count_frozen, "count bigint").collect()
    assert max(row["count"] for row in counts) > 10_000
    assert gc.get_freeze_count() == 0
