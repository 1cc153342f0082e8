"""Worker processes that Spark keeps freeze their imports; others do not."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from kafkalog.spark.workers import REUSED
from tests import golden_data

LOGS = str(golden_data.logs("k431-clean"))
PROGRAM = """
import gc
from kafkalog.spark.workers import freeze_imports
freeze_imports()
print(gc.get_freeze_count())
"""


def frozen_objects():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True
    )
    return int(done.stdout)


def test_a_kept_process_freezes_existing_objects(monkeypatch):
    monkeypatch.setenv(REUSED, "1")
    assert frozen_objects() > 0


def test_a_process_that_is_not_kept_is_unchanged(monkeypatch):
    monkeypatch.delenv(REUSED, raising=False)
    assert frozen_objects() == 0


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
    assert max(row["count"] for row in counts) > 0
    assert gc.get_freeze_count() == 0
