"""The job with ``--to delta`` where Spark has no Delta, and options that it rejects.

``tests/interop/test_delta_job.py`` runs it with Delta's jars.
"""

from __future__ import annotations

import pytest

from kafkalog.export.delta_table import application_id
from kafkalog.spark import job_delta
from kafkalog.spark.job_delta import find_ranges
from kafkalog.spark.job_output import locked
from kafkalog.spark.log_partitions import LogPartitions
from kafkalog.spark.offset_ranges import OffsetRange
from kafkalog.spark.read_options import parse_options
from tests.spark import lakes
from tests.spark.lakes import ended


@pytest.fixture
def logs(tmp_path):
    return lakes.orders_and_audit(tmp_path / "logs")


def call(logs, out, *arguments):
    return lakes.call(logs, out, *arguments, "--to", "delta")


def ranges(logs, known, **options):
    parsed = parse_options({"path": str(logs), **options}, streaming=False)
    lost = []
    partitions = LogPartitions([logs])
    found = find_ranges(parsed, partitions, known, lost.append)
    return [tuple(one) for one in found if one.length], lost


@pytest.mark.spark
def test_without_deltas_jars_the_error_names_the_package(spark, logs, tmp_path):
    ran = call(logs, tmp_path / "out")
    error = ended(ran, 3)
    assert (
        f"Delta is missing in Spark: --conf spark.jars.packages={job_delta.PACKAGE}"
        in error
    )
    assert not list((tmp_path / "out").glob("_delta_log"))
    # The job is for a process of its own; here other tests have the session after it.
    spark.conf.unset("spark.sql.catalog.spark_catalog")


def test_a_run_while_another_one_is_writing_is_refused(logs, tmp_path):
    with locked(tmp_path / "out"):
        ran = call(logs, tmp_path / "out")
    assert "another job is writing" in ended(ran, 4)


def test_a_directory_with_other_files_is_refused(logs, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "kept").touch()
    assert "not empty" in ended(call(logs, tmp_path / "out"), 4)
    ended(call(logs, logs / "orders-0"), 4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--columns", "offset,topic"], "without timestamp"),
        (["--columns", "offset,timestamp"], "without topic"),
        (["--on-corruption", "skip"], "expected without --on-corruption skip"),
        (["--starting-offsets", "never"], "--starting-offsets"),
    ],
)
def test_options_that_do_not_apply_are_a_usage_error(logs, tmp_path, options, message):
    assert message in ended(call(logs, tmp_path / "out", *options), 2)
    assert not (tmp_path / "out").exists()


def test_partitions_begin_where_the_table_ends_and_new_ones_at_the_first_offset(logs):
    known = {("orders", 0): 120, ("audit", 0): 50}
    found, lost = ranges(logs, known)
    assert found == [("orders", 0, 120, 300), ("orders", 1, 0, 100)]
    assert not lost
    found, _ = ranges(
        logs, known, endingOffsets='{"orders":{"0":100,"1":7},"audit":{"0":9}}'
    )
    assert found == [("orders", 1, 0, 7)]


def test_starting_offsets_are_those_of_partitions_that_the_table_does_not_have(logs):
    starting = '{"orders":{"0":5,"1":6},"audit":{"0":7}}'
    found, _ = ranges(logs, {("orders", 0): 120}, startingOffsets=starting)
    assert found == [
        ("audit", 0, 7, 50), ("orders", 0, 120, 300), ("orders", 1, 6, 100),
    ]  # fmt: skip


def test_a_log_that_has_become_shorter_is_reported(logs):
    known = {("orders", 0): 320, ("audit", 0): 50, ("orders", 1): 100}
    found, lost = ranges(logs, known, failOnDataLoss="false")
    assert not found
    assert any("320" in text for text in lost)


def test_application_ids_are_those_of_the_command():
    assert application_id(*OffsetRange("a-b", 7, 0, 1).topic_partition) == (
        "kafkalog/a-b-7"
    )
