"""The job on a cluster writes what it writes on one machine, whoever is killed."""

from __future__ import annotations

import os
import signal

import pytest

from tests import golden_data
from tests.spark import cluster, lakes
from tests.spark.test_golden import expected

pytestmark = pytest.mark.spark

SMALL_TASKS = ("--option", "targetPartitionBytes=3k", "--format", "json")
SOME_TASKS = 10  # of some 50


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory):
    with cluster.running(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def submit(spark_cluster, tmp_path):
    """Start the job on the cluster, with many small tasks; kill it if it is left."""
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


def check_whole(out, told):
    """Hold what is there, and what was told of it, to what Kafka says."""
    assert lakes.rows(out) == expected("k431-clean")
    assert told["rows"] == len(expected("k431-clean"))
    assert lakes.files_of(out) == sorted(file["path"] for file in told["files"])
    left = {path.name for path in (out / "_kafkalog").iterdir()}
    assert left == {"lock", "manifest-00001.json"}


def test_a_driver_that_is_killed_has_written_nothing_and_the_next_run_all(
    submit, spark_cluster
):
    killed = submit()
    killed.until_written(SOME_TASKS)
    assert len(spark_cluster.executors()) == 2
    killed.kill()
    assert lakes.files_of(killed.out) == []
    again = submit()
    check_whole(again.out, again.told())


def test_tasks_of_an_executor_that_is_killed_are_done_by_others(submit, spark_cluster):
    job = submit()
    job.until_written(SOME_TASKS)
    victim = spark_cluster.executors()[0]
    os.kill(victim, signal.SIGKILL)
    cluster.until(lambda: victim not in spark_cluster.executors(), "an executor less")
    check_whole(job.out, job.told())
