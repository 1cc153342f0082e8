"""The job: its Parquet files have Kafka's records, run by run; its exit codes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from kafkalog.errors import ConfigError, CorruptRecordError, KafkaLogError
from kafkalog.spark.job_output import locked
from kafkalog.spark.job_run import error_from_spark
from tests import golden_data
from tests.spark import lakes, session
from tests.spark.lakes import FORM, call, ended, printed_by, spans
from tests.spark.test_golden import expected_rows

WITH_HEADERS = ("--include-headers", *FORM)
EVERY = [
    "k431-clean",
    "k431-crash",
    "oldclients",
]


@pytest.fixture
def logs(tmp_path):
    return lakes.orders_and_audit(tmp_path / "logs")


def corrupt(path):
    data = bytearray(path.read_bytes())
    data[80] ^= 1
    path.write_bytes(data)


@pytest.mark.spark
@pytest.mark.parametrize("name", EVERY)
def test_the_files_have_kafkas_records(spark, tmp_path, name):
    ran = call(golden_data.logs(name), tmp_path / "out", *WITH_HEADERS)
    ended(ran, 0)
    expected, message = expected_rows(name), printed_by(ran)
    assert lakes.rows(tmp_path / "out") == expected
    assert message["rows"] == len(expected)
    files = {file["path"]: file["rows"] for file in message["files"]}
    assert sorted(files) == lakes.files_of(tmp_path / "out")
    assert sum(files.values()) == len(expected)
    counts = {}
    for topic, partition, *_ in expected:
        counts[topic, partition] = counts.get((topic, partition), 0) + 1
    assert counts == {
        (topic, partition): rows
        for topic, partition, _, _, rows in spans(message)
        if rows
    }
    assert lakes.manifest(tmp_path / "out", 1)["offsets"] == message["offsets"]


@pytest.mark.spark
def test_spark_reads_the_same_from_files_and_logs(spark, tmp_path):
    logs, out = golden_data.logs("k431-clean"), tmp_path / "out"
    ended(call(logs, out, "--include-headers"), 0)
    read = spark.read.format("kafkalog").option("includeHeaders", True).load(str(logs))
    back = spark.read.parquet(str(out)).select(*read.columns, "date")
    assert [(field.name, field.dataType) for field in back.drop("date").schema] == [
        (field.name, field.dataType) for field in read.schema
    ]
    assert back.where("date != to_date(timestamp)").count() == 0
    assert back.drop("date").exceptAll(read).count() == 0
    assert back.count() == read.count()


@pytest.mark.spark
def test_many_tasks_write_the_same_rows_as_one(spark, tmp_path):
    logs = golden_data.logs("k431-clean")
    small = ("--option", "targetPartitionBytes=1k")
    ran = call(logs, tmp_path / "out", *WITH_HEADERS, *small)
    assert lakes.rows(tmp_path / "out") == expected_rows("k431-clean")
    assert len(printed_by(ran)["files"]) > 100


@pytest.mark.spark
def test_a_run_continues_where_the_last_one_ended(spark, logs, tmp_path):
    out = tmp_path / "out"
    assert printed_by(call(logs, out, *FORM))["run"] == 1
    lakes.add_segment(logs, "orders-0", 300, 150)
    lakes.add_segment(logs, "orders-2", 0, 20)
    message = printed_by(call(logs, out, *FORM))
    assert message["run"] == 2
    assert spans(message) == [("orders", 0, 300, 450, 150), ("orders", 2, 0, 20, 20)]
    assert message["offsets"] == {
        "audit": {"0": 50},
        "orders": {"0": 450, "1": 100, "2": 20},
    }
    assert {path.split("/")[-1][:9] for path in lakes.files_of(out)} == {
        "run-00001",
        "run-00002",
    }
    offsets = sorted(row[:3] for row in lakes.rows(out))
    assert offsets == [
        *(("audit", 0, offset) for offset in range(50)),
        *(("orders", 0, offset) for offset in range(450)),
        *(("orders", 1, offset) for offset in range(100)),
        *(("orders", 2, offset) for offset in range(20)),
    ]


@pytest.mark.spark
def test_a_run_without_new_records_writes_nothing(spark, logs, tmp_path):
    out = tmp_path / "out"
    ended(call(logs, out), 0)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.*")}
    ran = call(logs, out, *FORM)
    assert "nothing new" in ended(ran, 0)
    assert printed_by(ran) == {"manifest": None}
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.*")} == before


@pytest.mark.spark
def test_offsets_of_topics_of_other_runs_are_kept(spark, logs, tmp_path):
    out = tmp_path / "out"
    call(logs, out, "--subscribe", "audit")
    ran = call(logs, out, "--subscribe", "orders", *FORM)
    assert spans(printed_by(ran)) == [
        ("orders", 0, 0, 300, 300),
        ("orders", 1, 0, 100, 100),
    ]
    assert printed_by(call(logs, out, *FORM)) == {"manifest": None}


@pytest.mark.spark
def test_a_run_stops_at_ending_offsets_and_the_next_continues(spark, logs, tmp_path):
    out = tmp_path / "out"
    some = ("--assign", '{"orders":[0]}', *FORM)
    starts = ("--starting-offsets", '{"orders":{"0":10}}')
    ends = ("--ending-offsets", '{"orders":{"0":120}}')
    first = printed_by(call(logs, out, *some, *starts, *ends))
    assert spans(first) == [("orders", 0, 10, 120, 110)]
    assert printed_by(call(logs, out, *some, *starts, *ends)) == {"manifest": None}
    ends = ("--ending-offsets", '{"orders":{"0":60}}')
    assert printed_by(call(logs, out, *some, *ends)) == {"manifest": None}
    rest = printed_by(call(logs, out, *some, *starts))
    assert spans(rest) == [("orders", 0, 120, 300, 180)]


@pytest.mark.spark
def test_corruption_fails_the_job_and_nothing_is_written(spark, logs, tmp_path):
    out, path = tmp_path / "out", logs / "orders-0" / f"{0:020d}.log"
    corrupt(path)
    printed = ended(call(logs, out), 1)
    assert printed.startswith("kafkalog: CRC mismatch: stored")
    assert printed.endswith(f"{path} at byte 0\n")
    assert printed.count("\n") == 1
    assert lakes.files_of(out) == []
    assert [one.name for one in (out / "_kafkalog").iterdir()] == ["lock"]


@pytest.mark.spark
def test_a_run_that_failed_does_not_fix_the_offsets_of_the_next(spark, logs, tmp_path):
    out, path = tmp_path / "out", logs / "orders-0" / f"{0:020d}.log"
    corrupt(path)
    some = ("--assign", '{"orders":[0]}', *FORM)
    ended(call(logs, out, *some), 1)
    starts = ("--starting-offsets", '{"orders":{"0":100}}')
    ends = ("--ending-offsets", '{"orders":{"0":150}}')
    first = printed_by(call(logs, out, *some, *starts, *ends))
    assert spans(first) == [("orders", 0, 100, 150, 50)]
    assert spans(printed_by(call(logs, out, *some))) == [("orders", 0, 150, 300, 150)]
    assert sorted(row[2] for row in lakes.rows(out)) == list(range(100, 300))


@pytest.mark.spark
def test_skipped_corruption_is_listed_in_the_manifest(spark, logs, tmp_path):
    out, path = tmp_path / "out", logs / "orders-0" / f"{0:020d}.log"
    corrupt(path)
    ran = call(logs, out, "--on-corruption", "skip", *FORM)
    assert f"{path} at byte 0, offsets 0 to 99" in ended(ran, 1)
    [message] = lakes.manifest(out, 1)["left_out"]
    assert f"{path} at byte 0, offsets 0 to 99" in message
    assert len(lakes.rows(out)) == 350
    assert ended(call(logs, out, "--on-corruption", "skip"), 0)


@pytest.mark.spark
def test_runs_have_the_same_requested_columns(spark, logs, tmp_path):
    out = tmp_path / "out"
    ended(call(logs, out, "--columns", "offset,topic,leaderEpoch"), 0)
    names = set(lakes.table(out).schema.names)
    assert names == {"offset", "leaderEpoch", "topic", "date"}
    assert "expected the columns of earlier runs, offset, topic" in ended(
        call(logs, out), 2
    )


@pytest.mark.spark
def test_read_committed_skips_aborted_records(spark, tmp_path):
    logs, out = golden_data.logs("k431-clean"), tmp_path / "out"
    some = ("--subscribe-pattern", "^ledger$", *FORM)
    everything = printed_by(call(logs, out, *some))["rows"]
    committed = printed_by(
        call(logs, tmp_path / "other", *some, "--isolation", "read_committed")
    )
    reader = spark.read.format("kafkalog").option("subscribe", "ledger")
    reader = reader.option("kafka.isolation.level", "read_committed")
    assert committed["rows"] == reader.load(str(logs)).count() < everything


@pytest.mark.spark
def test_files_have_the_requested_compression(spark, logs, tmp_path):
    import pyarrow.parquet as pq

    out = tmp_path / "out"
    call(logs, out, "--compression", "snappy")
    group = pq.ParquetFile(out / lakes.files_of(out)[0]).metadata.row_group(0)
    assert group.column(0).compression == "SNAPPY"


@pytest.mark.spark
def test_a_run_interrupted_after_its_commit_is_completed(spark, logs, tmp_path):
    out = tmp_path / "out"
    message = printed_by(call(logs, out, *FORM))
    folder = out / "_kafkalog"
    committed = folder / "committed-00001"
    for file in message["files"][1:]:
        staged = committed / "data" / file["path"]
        staged.parent.mkdir(parents=True)
        (out / file["path"]).rename(staged.with_suffix(".staged"))
    (folder / "manifest-00001.json").rename(committed / "manifest.json")
    printed = ended(call(logs, out), 0)
    assert printed.startswith("completed run 1, which was interrupted\nnothing new")
    assert len(lakes.rows(out)) == 450


@pytest.mark.spark
def test_a_run_whose_files_and_manifest_are_removed_is_repeated(spark, logs, tmp_path):
    out = tmp_path / "out"
    call(logs, out, "--ending-offsets", '{"orders":{"0":9,"1":9},"audit":{"0":9}}')
    first = lakes.files_of(out)
    call(logs, out)
    (out / "_kafkalog" / "manifest-00002.json").unlink()
    for path in set(lakes.files_of(out)) - set(first):
        (out / path).unlink()
    message = printed_by(call(logs, out, *FORM))
    assert (message["run"], message["rows"]) == (2, 450 - 27)
    assert len({row[:3] for row in lakes.rows(out)}) == len(lakes.rows(out)) == 450


@pytest.mark.spark
def test_the_manifest_of_an_earlier_version_is_continued(spark, logs, tmp_path):
    out = tmp_path / "out"
    message = printed_by(call(logs, out, *FORM))
    path = out / message["manifest"]
    manifest = lakes.manifest(out, 1)
    for number, file in enumerate(manifest["files"]):
        file["staged"] = f"staging-00001-x1y2z3/{number}.staged"
    path.write_text(json.dumps(manifest))
    lakes.add_segment(logs, "orders-0", 300, 20)
    message = printed_by(call(logs, out, *FORM))
    assert message["run"] == 2
    assert spans(message) == [("orders", 0, 300, 320, 20)]
    assert len({row[:3] for row in lakes.rows(out)}) == len(lakes.rows(out)) == 470


@pytest.mark.spark
def test_a_journal_of_an_earlier_version_exits_with_4(spark, logs, tmp_path):
    folder = tmp_path / "out" / "_kafkalog"
    folder.mkdir(parents=True)
    (folder / "pending-00003.json").touch()
    printed = ended(call(logs, tmp_path / "out"), 4)
    assert "run 3 was interrupted while its files were moved" in printed
    assert "Run the job once with that version" in printed


@pytest.mark.spark
def test_the_summary_is_a_table_of_partitions(spark, logs, tmp_path):
    ran = call(logs, tmp_path / "out")
    assert [line.split() for line in ran.stdout.splitlines()] == [
        ["topic", "partition", "start", "end", "rows"],
        ["audit", "0", "0", "50", "50"],
        ["orders", "0", "0", "300", "300"],
        ["orders", "1", "0", "100", "100"],
    ]
    manifest = tmp_path / "out" / "_kafkalog" / "manifest-00001.json"
    assert "run 1: 450 rows, files: 2, " in ran.stderr
    assert f"manifest: {manifest}\n" in ran.stderr


@pytest.mark.spark
def test_spark_submit_runs_the_job_and_keeps_its_exit_code(tmp_path, logs):
    from pyspark.find_spark_home import _find_spark_home

    job = golden_data.GOLDEN.parents[1] / "kafkalog" / "spark" / "job.py"
    submit = f"{_find_spark_home()}/bin/spark-submit"
    settings = ("--master", "local[1]", "--driver-memory", "512m")
    requested = ("--source", str(logs), "--to", "parquet", str(tmp_path / "out"))
    corrupt(logs / "orders-0" / f"{0:020d}.log")
    ran = subprocess.run(
        [submit, *settings, job, *requested, "--on-corruption", "skip", *FORM],
        env=session.environment() | {"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1, ran.stderr
    assert json.loads(ran.stdout.splitlines()[0])["rows"] == 350


def test_all_invalid_options_are_reported(logs, tmp_path):
    wrong = ("--starting-offsets", "latest", "--columns", "x", "--option", "nope=1")
    printed = ended(call(logs, tmp_path / "out", *wrong, "--isolation", "none"), 2)
    for name in ("--starting-offsets", "--columns", "nope", "--isolation-level"):
        assert f"{name}: " in printed
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        ("--conf", "spark.executor.memory"),
        ("--option", "=5"),
        ("--subscribe", "a", "--option", "subscribe=b"),
        ("--columns", "topic"),
        ("--compression", "best"),
        ("--starting-timestamp", "yesterday"),
    ],
)
def test_invalid_usage_exits_with_2(logs, tmp_path, wrong):
    assert ended(call(logs, tmp_path / "out", *wrong), 2)
    assert not (tmp_path / "out").exists()


def test_credentials_are_in_no_message(logs, tmp_path):
    secret = ("--option", "storage.secret_key=hush", "--conf", "hush")
    assert "secret_key" not in ended(call(logs, tmp_path / "out", *secret), 2)
    wrong = ("--option", "storage.secret_key=hush", "--columns", "x")
    assert "hush" not in ended(call(logs, tmp_path / "out", *wrong), 2)


def test_output_to_a_url_is_rejected_without_showing_its_password(logs):
    printed = ended(call(logs, "s3://key:hush@bucket/lake"), 2)
    assert "locks and renames" in printed
    assert "hush" not in printed


def test_the_job_does_not_write_next_to_other_files_or_kafkas(logs, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    assert "not empty" in ended(call(logs, other), 4)
    shutil.copy(golden_data.logs("k431-clean") / "meta.properties", logs)
    assert "a directory without Kafka's files" in ended(call(logs, logs / "lake"), 4)


@pytest.mark.spark
def test_missing_logs_exit_with_3(logs, tmp_path):
    ended(call(tmp_path / "nowhere", tmp_path / "out"), 3)
    assert not (tmp_path / "out").exists()


@pytest.mark.spark
def test_a_second_job_fails_with_an_error_that_names_the_first(spark, logs, tmp_path):
    with locked(tmp_path / "out"):
        printed = ended(call(logs, tmp_path / "out"), 4)
    assert "another job is writing to the directory (process" in printed


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            "x: Traceback\nkafkalog.errors.ConfigError: a: b\n\n\tat org",
            ConfigError,
            "a: b",
        ),
        ("kafkalog.errors.CorruptRecordError: crc", CorruptRecordError, "crc"),
        ("FileNotFoundError: [Errno 2] no: 'a'", OSError, "[Errno 2] no: 'a'"),
        ("kafkalog.errors.MissingDependencyError: pip", KafkaLogError, "pip"),
        ("KeyError: 'a'", RuntimeError, "KeyError: 'a'"),
        ("ValueError: 1\n\nTypeError: 2\n", RuntimeError, "TypeError: 2"),
        ("Job aborted:\n lost", KafkaLogError, "Spark failed: Job aborted: lost"),
    ],
)
def test_the_error_of_a_task_is_parsed_from_sparks_text(text, kind, message):
    error = error_from_spark(text)
    assert isinstance(error, kind)
    assert str(error) == message


def test_help_does_not_import_pyspark():
    ran = subprocess.run(
        [sys.executable, "-m", "kafkalog.spark.job", "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0
    assert "--on-corruption" in ran.stdout
