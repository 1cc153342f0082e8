"""The job on a cluster writes the same as on one machine, with processes killed."""

from __future__ import annotations

import os
import signal

import pytest

from tests import golden_data
from tests.doc_pages import ROOT, PageRunner
from tests.spark import cluster, lakes, session
from tests.spark.test_golden import expected_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SMALL_TASKS = ("--option", "targetPartitionBytes=3k", "--format", "json")
SOME_TASKS = 10  # of some 50


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory):
    with cluster.running(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def submit(spark_cluster, tmp_path):
    """Start the job on the cluster, with many small tasks; kill it at the end."""
    started = []

    def start():
        logs = golden_data.logs("k431-clean")
        arguments = ("--include-headers", *SMALL_TASKS)
        one = cluster.Submitted(
            logs, tmp_path / "out", *arguments, master=spark_cluster.url
        )
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


def test_the_page_about_clusters_prints_its_output(spark_cluster, tmp_path):
    environment = session.environment() | {
        "SPARK_MASTER": spark_cluster.url,
        "SPARK_SUBMIT_OPTS": session.QUICK_START,
    }
    page = ROOT / "docs" / "howto" / "spark-cluster.md"
    report = PageRunner(page, tmp_path, environment=environment).run(with_spark=True)
    assert not report, report
