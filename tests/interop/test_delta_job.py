"""The job with ``--to delta`` and Delta's own jars: each record once."""

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

from tests.interop.broker import JARS
from tests.spark import lakes, session

pytestmark = [pytest.mark.spark, pytest.mark.interop]

QUICK = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
}
"""Settings for small tables."""

READ = """
import sys
from kafkalog.spark.job import start_spark
from kafkalog.spark.job_delta import SETTINGS, committed_offsets
from kafkalog.spark.log_partitions import LogPartitions
from pathlib import Path
import json
jars, out, logs, quick = sys.argv[1:]
conf = {**SETTINGS, "spark.jars": jars, **json.loads(quick)}
spark = start_spark("local[2]", conf)
rows = spark.read.format("delta").load(out).selectExpr(
    "topic", "partition", "offset", "cast(date as string)").collect()
known = committed_offsets(spark, Path(out), LogPartitions([Path(logs)]))
history = spark.sql(f"describe history delta.`{out}`").count()
print(json.dumps([sorted(map(list, rows)), sorted([*k, v] for k, v in known.items()),
                  history]))
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


def start(logs, out, jars, **settings):
    arguments = ["--source", logs, "--to", "delta", out, "--master", "local[2]"]
    given = {"spark.jars": jars, **QUICK}
    conf = [text for pair in given.items() for text in ("--conf", "=".join(pair))]
    job = ["-m", "kafkalog.spark.job", *arguments, *conf, "--format", "json"]
    return python(*job, **settings)


def ended(process, code=0):
    stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == code, stderr
    return stdout


def table(out, logs, jars):
    """Return rows, next offsets, and the number of commits."""
    process = python("-c", READ, jars, out, logs, json.dumps(QUICK))
    return json.loads(ended(process).splitlines()[-1])


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
    """Kill a run some time after it has committed its first partition."""
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
    kill_after_a_commit(start(logs, out, jars, start_new_session=True), out)
    lakes.add_segment(logs, "orders-0", 300, 150)
    lakes.add_segment(logs, "orders-2", 0, 20)
    assert '"end": 450' in ended(start(logs, out, jars))
    rows, known, commits = table(out, logs, jars)
    ends = {"orders_0": 450, "orders_1": 100, "orders_2": 20, "audit_0": 50}
    assert rows == as_numbers(expected_rows(**ends))
    assert known == as_numbers(
        [*name.rsplit("_", 1), end] for name, end in ends.items()
    )
    assert '"partitions": []' in ended(start(logs, out, jars))
    assert len(list(out.glob("_delta_log/*.json"))) == commits
