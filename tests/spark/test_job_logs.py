"""The job from Parquet to logs: what it appends, its options and exit codes."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import kafkalog
from kafkalog.spark import job
from tests.spark import lakes
from tests.spark.lakes import ended, printed_by

READ = ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]


def call(lake, logs, *arguments):
    """Call the job as from a shell, in this process and its session."""
    given = ["--from", "parquet", str(lake), "--to", "logs", str(logs), *arguments]
    ran = CliRunner().invoke(job.command, given, prog_name="job")
    assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.output
    return ran


def rows(logs):
    return kafkalog.scan(logs, columns=READ).to_arrow().to_pylist()


@pytest.fixture
def lake(spark, tmp_path):
    """Return Parquet files that the other job wrote, and the logs that it read."""
    logs = lakes.orders_and_audit(tmp_path / "logs")
    ended(lakes.call(logs, tmp_path / "lake", "--include-headers"), 0)
    return tmp_path / "lake", logs


@pytest.mark.spark
def test_logs_exported_and_appended_again_have_the_same_records(lake, tmp_path):
    files, logs = lake
    options = "--option", "partitions=2", "--option", "batchId=1", "--format", "json"
    ran = call(files, tmp_path / "copy", *options)
    ended(ran, 0)
    assert rows(tmp_path / "copy") == rows(logs)
    assert not kafkalog.verify(tmp_path / "copy").problems
    ends = {(row["topic"], row["partition"]): row["offset"] + 1 for row in rows(logs)}
    assert printed_by(ran) == {
        "logs": str(tmp_path / "copy"),
        "partitions": [
            {"topic": topic, "partition": partition, "start": 0, "end": end}
            for (topic, partition), end in sorted(ends.items())
        ],
    }
    again = call(files, tmp_path / "copy", *options)
    assert "nothing to append" in ended(again, 0)
    assert json.loads(again.stdout)["partitions"] == []


@pytest.mark.spark
def test_a_directory_that_is_open_for_writing_is_refused(lake, tmp_path):
    with kafkalog.LogManager(tmp_path / "copy"):
        ran = call(lake[0], tmp_path / "copy", "--option", "partitions=2")
    assert "locked by a broker or another process" in ended(ran, 4)


@pytest.mark.spark
def test_a_topic_that_does_not_exist_is_a_usage_error(lake, tmp_path):
    ran = call(lake[0], tmp_path / "copy")
    assert "does not exist in the log directory" in ended(ran, 2)


def test_files_that_do_not_exist_are_an_error_before_spark_starts(tmp_path):
    ran = call(tmp_path / "missing", tmp_path / "copy")
    assert "No such file or directory" in ended(ran, 3)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--to", "logs", "out"],
        ["--to", "parquet", "out"],
        ["--from", "parquet", "lake", "--to", "parquet", "out"],
        ["--source", "logs", "--to", "logs", "out"],
        ["--source", "logs", "--from", "parquet", "lake", "--to", "logs", "out"],
    ],
)
def test_formats_without_their_source_are_a_usage_error(arguments):
    ran = CliRunner().invoke(job.command, arguments, prog_name="job")
    assert "--from parquet LAKE --to logs" in ended(ran, 2)


@pytest.mark.parametrize(
    "option",
    [["--subscribe", "a"], ["--include-headers"], ["--compression", "zstd"]],
)
def test_options_of_the_other_job_are_a_usage_error(option):
    ran = call("lake", "out", *option)
    assert f"expected without {option[0]}" in ended(ran, 2)


def test_a_remote_log_directory_is_a_usage_error():
    ran = call("lake", "s3://bucket/logs")
    assert "expected a local or shared directory" in ended(ran, 2)
