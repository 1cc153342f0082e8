"""The job on a cluster writes the same as on one machine, with processes killed."""

from __future__ import annotations

import os
import signal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kafkalog
from tests import golden_data
from tests.doc_pages import ROOT, PageRunner
from tests.spark import cluster, lakes, session
from tests.spark.test_golden import expected_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SMALL_TASKS = ("--option", "targetPartitionBytes=3k", "--format", "json")
SOME_TASKS = 10  # of some 50
FILES, ROWS = 40, 200
STAGED = "kafkalog-staged-*"


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory):
    with cluster.running(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def submit(spark_cluster, tmp_path):
    """Start a job on the cluster, with many small tasks; kill it at the end."""
    started = []

    def start(*arguments):
        to_parquet = ("--source", golden_data.logs("k431-clean"), "--include-headers")
        arguments = arguments or (*to_parquet, *SMALL_TASKS, "--to", "parquet")
        one = cluster.Submitted(tmp_path / "out", *arguments, master=spark_cluster.url)
        started.append(one)
        return one

    yield start
    for one in started:
        if one.process.poll() is None:
            one.kill()


def check_whole(out, message):
    """Compare the files and the manifest with Kafka's records."""
    assert lakes.rows(out) == expected_rows("k431-clean")
    assert message["rows"] == len(expected_rows("k431-clean"))
    assert lakes.files_of(out) == sorted(file["path"] for file in message["files"])
    left = {path.name for path in (out / "_kafkalog").iterdir()}
    assert left == {"lock", "manifest-00001.json"}


def test_a_killed_driver_writes_nothing_and_the_next_run_writes_all(
    submit, spark_cluster
):
    killed = submit()
    killed.until_written(SOME_TASKS)
    assert len(spark_cluster.executors()) == 2
    killed.kill()
    assert lakes.files_of(killed.out) == []
    again = submit()
    check_whole(again.out, again.message())


def test_tasks_of_a_killed_executor_run_on_others(submit, spark_cluster):
    job = submit()
    job.until_written(SOME_TASKS)
    victim = spark_cluster.executors()[0]
    os.kill(victim, signal.SIGKILL)
    cluster.until(lambda: victim not in spark_cluster.executors(), "an executor less")
    check_whole(job.out, job.message())


@pytest.fixture
def lake(tmp_path):
    """Return the options of a write from files to logs, each of which is a task."""
    for number in range(FILES):
        ids = range(number * ROWS, (number + 1) * ROWS)
        columns = {"key": map(str, ids), "value": ["v" * (id % 999) for id in ids]}
        table = pa.table({name: list(column) for name, column in columns.items()})
        (tmp_path / "lake").mkdir(exist_ok=True)
        pq.write_table(table, tmp_path / "lake" / f"{number}.parquet")
    sink = ("topic=written", "partitions=3", "batchId=one", "compression.type=lz4")
    of_spark = "--conf=spark.sql.files.maxPartitionBytes=1000"
    options = (f"--option={option}" for option in sink)
    return "--from", "parquet", tmp_path / "lake", *options, of_spark, "--to", "logs"


def check_written(logs):
    """Check that each row of the files is in the logs once, and nothing else."""
    keys = kafkalog.scan(logs, columns=["key"]).to_arrow()["key"].to_pylist()
    assert sorted(map(int, keys)) == list(range(FILES * ROWS))
    assert not kafkalog.verify(logs).problems
    assert not list(logs.glob(STAGED))


def test_rows_of_a_killed_driver_and_executor_are_written_once(
    submit, spark_cluster, lake
):
    killed = submit(*lake)
    killed.until_written(SOME_TASKS, STAGED)
    killed.kill()
    staged = len(list(killed.out.glob(STAGED)))
    again = submit(*lake)
    again.until_written(staged + SOME_TASKS, STAGED)
    os.kill(spark_cluster.executors()[0], signal.SIGKILL)
    again.ended()
    check_written(again.out)


def test_the_page_about_clusters_prints_its_output(spark_cluster, tmp_path):
    environment = session.environment() | {
        "SPARK_MASTER": spark_cluster.url,
        "SPARK_SUBMIT_OPTS": session.QUICK_START,
    }
    page = ROOT / "docs" / "howto" / "spark-cluster.md"
    report = PageRunner(page, tmp_path, environment=environment).run(with_spark=True)
    assert not report, report
