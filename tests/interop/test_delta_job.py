"""Delta's own jars read the tables of the job with ``--to delta``: each record once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime

import pytest
from deltalake import DeltaTable

from tests.interop.broker import JARS
from tests.spark import lakes, session

pytestmark = [pytest.mark.spark, pytest.mark.interop]

QUICK = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
}
"""Settings for small tables."""

OF_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": (
        "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    ),
}
READ = """
import json, sys
from kafkalog.spark.job import start_spark
out, conf = sys.argv[1:]
spark = start_spark("local[2]", json.loads(conf))
rows = spark.read.format("delta").load(out).selectExpr(
    "topic", "partition", "offset", "cast(date as string)").collect()
history = spark.sql(f"describe history delta.`{out}`").count()
print(json.dumps([sorted(map(list, rows)), history]))
"""


@pytest.fixture
def jars():
    found = sorted((JARS / "delta").glob("*.jar"))
    if not found:
        pytest.fail("no jars in build/interop/delta: make test-interop", pytrace=False)
    return ",".join(map(str, found))


def python(*arguments, **settings):
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        env=os.environ | session.environment(),
        cwd=session.ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **settings,
    )


def start(logs, out, **settings):
    arguments = ["--source", logs, "--to", "delta", out, "--master", "local[2]"]
    conf = [f"--conf={name}={value}" for name, value in QUICK.items()]
    job = ["-m", "kafkalog.spark.job", *arguments, *conf, "--format", "json"]
    return python(*job, **settings)


def ended(process, code=0):
    stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == code, stderr
    return stdout


def table(out, jars):
    """Return the rows that Delta reads, and the number of commits."""
    conf = json.dumps({**OF_DELTA, **QUICK, "spark.jars": jars})
    return json.loads(ended(python("-c", READ, out, conf)).splitlines()[-1])


def next_offsets(out, ends):
    """Return the offsets to continue from, by the names of partitions."""
    written = DeltaTable(str(out))
    return {
        name: written.transaction_version(f"kafkalog/{name.replace('_', '-')}")
        for name in ends
    }


def expected_rows(**ends):
    """Return the rows of partitions that begin at 0, by their end offsets."""
    date = str(datetime.fromtimestamp(lakes.START_MS // 1000, UTC).date())
    return sorted(
        [*name.rsplit("_", 1), offset, date]
        for name, end in ends.items()
        for offset in range(end)
    )


def as_numbers(rows):
    return sorted([topic, int(partition), *more] for topic, partition, *more in rows)


def kill_after_a_commit(process, out):
    """Kill a run some time after it has made the table."""
    began = time.monotonic()
    while process.poll() is None and time.monotonic() < began + 120:
        if any(out.glob("_delta_log/*.json")):
            break
        time.sleep(0.05)
    time.sleep(random.Random(7).random())
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


# Each run is a Spark of its own, and so there is one test.
def test_runs_append_what_is_new_even_after_one_was_killed(tmp_path, jars):
    logs, out = lakes.orders_and_audit(tmp_path / "logs"), tmp_path / "out"
    kill_after_a_commit(start(logs, out, start_new_session=True), out)
    lakes.add_segment(logs, "orders-0", 300, 150)
    lakes.add_segment(logs, "orders-2", 0, 20)
    assert '"end": 450' in ended(start(logs, out))
    rows, commits = table(out, jars)
    ends = {"orders_0": 450, "orders_1": 100, "orders_2": 20, "audit_0": 50}
    assert rows == as_numbers(expected_rows(**ends))
    assert next_offsets(out, ends) == ends
    assert '"partitions": []' in ended(start(logs, out))
    assert len(list(out.glob("_delta_log/*.json"))) == commits
