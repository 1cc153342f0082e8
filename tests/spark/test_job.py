"""The job: Parquet that holds what Kafka says, run by run, and how it ends."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from kafkalog.errors import ConfigError, CorruptRecordError, KafkaLogError
from kafkalog.spark.job_output import locked
from kafkalog.spark.job_run import told_by_spark
from tests import golden_data
from tests.spark import lakes, session
from tests.spark.lakes import FORM, call, ended, spans, told_by
from tests.spark.test_golden import expected

WITH_HEADERS = ("--include-headers", *FORM)
EVERY = [
    "k431-clean",
    "k431-crash",
    "oldclients",
]


@pytest.fixture
def logs(tmp_path):
    return lakes.orders_and_audit(tmp_path / "logs")


def damage(path):
    data = bytearray(path.read_bytes())
    data[80] ^= 1
    path.write_bytes(data)


@pytest.mark.spark
@pytest.mark.parametrize("name", EVERY)
def test_the_files_hold_what_kafka_says(spark, tmp_path, name):
    ran = call(golden_data.logs(name), tmp_path / "out", *WITH_HEADERS)
    ended(ran, 0)
    wanted, told = expected(name), told_by(ran)
    assert lakes.rows(tmp_path / "out") == wanted
    assert told["rows"] == len(wanted)
    files = {file["path"]: file["rows"] for file in told["files"]}
    assert sorted(files) == lakes.files_of(tmp_path / "out")
    assert sum(files.values()) == len(wanted)
    counts = {}
    for topic, partition, *_ in wanted:
        counts[topic, partition] = counts.get((topic, partition), 0) + 1
    assert counts == {
        (topic, partition): rows for topic, partition, _, _, rows in spans(told) if rows
    }
    assert lakes.manifest(tmp_path / "out", 1)["offsets"] == told["offsets"]


@pytest.mark.spark
def test_spark_reads_the_files_back_as_it_reads_the_logs(spark, tmp_path):
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
def test_many_tasks_write_what_one_does(spark, tmp_path):
    logs = golden_data.logs("k431-clean")
    small = ("--option", "targetPartitionBytes=1k")
    ran = call(logs, tmp_path / "out", *WITH_HEADERS, *small)
    assert lakes.rows(tmp_path / "out") == expected("k431-clean")
    assert len(told_by(ran)["files"]) > 100


@pytest.mark.spark
def test_a_run_takes_up_where_the_last_one_ended(spark, logs, tmp_path):
    out = tmp_path / "out"
    assert told_by(call(logs, out, *FORM))["run"] == 1
    lakes.add_segment(logs, "orders-0", 300, 150)
    lakes.add_segment(logs, "orders-2", 0, 20)
    told = told_by(call(logs, out, *FORM))
    assert told["run"] == 2
    assert spans(told) == [("orders", 0, 300, 450, 150), ("orders", 2, 0, 20, 20)]
    assert told["offsets"] == {
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
def test_a_run_with_nothing_new_writes_nothing_and_says_so(spark, logs, tmp_path):
    out = tmp_path / "out"
    ended(call(logs, out), 0)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.*")}
    ran = call(logs, out, *FORM)
    assert "nothing new" in ended(ran, 0)
    assert told_by(ran) == {"manifest": None}
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.*")} == before


@pytest.mark.spark
def test_topics_of_other_runs_keep_their_place(spark, logs, tmp_path):
    out = tmp_path / "out"
    call(logs, out, "--subscribe", "audit")
    ran = call(logs, out, "--subscribe", "orders", *FORM)
    assert spans(told_by(ran)) == [
        ("orders", 0, 0, 300, 300),
        ("orders", 1, 0, 100, 100),
    ]
    assert told_by(call(logs, out, *FORM)) == {"manifest": None}


@pytest.mark.spark
def test_ends_that_were_asked_for_are_kept_and_the_rest_comes_later(
    spark, logs, tmp_path
):
    out = tmp_path / "out"
    some = ("--assign", '{"orders":[0]}', *FORM)
    starts = ("--starting-offsets", '{"orders":{"0":10}}')
    ends = ("--ending-offsets", '{"orders":{"0":120}}')
    first = told_by(call(logs, out, *some, *starts, *ends))
    assert spans(first) == [("orders", 0, 10, 120, 110)]
    assert told_by(call(logs, out, *some, *starts, *ends)) == {"manifest": None}
    ends = ("--ending-offsets", '{"orders":{"0":60}}')
    assert told_by(call(logs, out, *some, *ends)) == {"manifest": None}
    rest = told_by(call(logs, out, *some, *starts))
    assert spans(rest) == [("orders", 0, 120, 300, 180)]


@pytest.mark.spark
def test_damage_ends_the_job_with_file_and_byte_and_nothing_written(
    spark, logs, tmp_path
):
    out, path = tmp_path / "out", logs / "orders-0" / f"{0:020d}.log"
    damage(path)
    said = ended(call(logs, out), 1)
    assert said.startswith("kafkalog: the checksum is not")
    assert said.endswith(f"{path} at byte 0\n")
    assert said.count("\n") == 1
    assert lakes.files_of(out) == []
    assert [one.name for one in (out / "_kafkalog").iterdir()] == ["lock"]


@pytest.mark.spark
def test_damage_may_be_left_out_and_is_listed(spark, logs, tmp_path):
    out, path = tmp_path / "out", logs / "orders-0" / f"{0:020d}.log"
    damage(path)
    ran = call(logs, out, "--on-corruption", "skip", *FORM)
    assert f"{path} at byte 0, offsets 0 to 99" in ended(ran, 1)
    [told] = lakes.manifest(out, 1)["left_out"]
    assert f"{path} at byte 0, offsets 0 to 99" in told
    assert len(lakes.rows(out)) == 350
    assert ended(call(logs, out, "--on-corruption", "skip"), 0)


@pytest.mark.spark
def test_only_the_columns_asked_for_are_there_and_no_run_adds_others(
    spark, logs, tmp_path
):
    out = tmp_path / "out"
    ended(call(logs, out, "--columns", "offset,topic,leaderEpoch"), 0)
    names = set(lakes.table(out).schema.names)
    assert names == {"offset", "leaderEpoch", "topic", "date"}
    assert "has the columns offset, topic" in ended(call(logs, out), 2)


@pytest.mark.spark
def test_read_committed_leaves_out_what_was_aborted(spark, tmp_path):
    logs, out = golden_data.logs("k431-clean"), tmp_path / "out"
    some = ("--subscribe-pattern", "^ledger$", *FORM)
    everything = told_by(call(logs, out, *some))["rows"]
    committed = told_by(
        call(logs, tmp_path / "other", *some, "--isolation", "read_committed")
    )
    reader = spark.read.format("kafkalog").option("subscribe", "ledger")
    reader = reader.option("kafka.isolation.level", "read_committed")
    assert committed["rows"] == reader.load(str(logs)).count() < everything


@pytest.mark.spark
def test_compression_is_the_one_asked_for(spark, logs, tmp_path):
    import pyarrow.parquet as pq

    out = tmp_path / "out"
    call(logs, out, "--compression", "snappy")
    group = pq.ParquetFile(out / lakes.files_of(out)[0]).metadata.row_group(0)
    assert group.column(0).compression == "SNAPPY"


@pytest.mark.spark
def test_a_run_that_was_cut_off_after_its_commit_is_finished(spark, logs, tmp_path):
    out = tmp_path / "out"
    told = told_by(call(logs, out, *FORM))
    folder = out / "_kafkalog"
    (folder / "staging-00001-x").mkdir()
    for file in told["files"]:
        staged = folder / "staging-00001-x" / file["staged"].split("/")[1]
        (out / file["path"]).rename(staged)
        file["staged"] = f"staging-00001-x/{staged.name}"
    del told["manifest"]
    (folder / "pending-00001.json").write_text(json.dumps(told))
    (folder / "manifest-00001.json").unlink()
    said = ended(call(logs, out), 0)
    assert said.startswith("run 1, which had been cut off, is finished\nnothing new")
    assert len(lakes.rows(out)) == 450


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
def test_spark_submit_takes_the_job_and_its_exit_code(tmp_path, logs):
    from pyspark.find_spark_home import _find_spark_home

    job = golden_data.GOLDEN.parents[1] / "kafkalog" / "spark" / "job.py"
    submit = f"{_find_spark_home()}/bin/spark-submit"
    settings = ("--master", "local[1]", "--driver-memory", "512m")
    asked = ("--source", str(logs), "--to", "parquet", str(tmp_path / "out"))
    damage(logs / "orders-0" / f"{0:020d}.log")
    ran = subprocess.run(
        [submit, *settings, job, *asked, "--on-corruption", "skip", *FORM],
        env=session.environment() | {"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1, ran.stderr
    assert json.loads(ran.stdout.splitlines()[0])["rows"] == 350


def test_wrong_options_are_all_named(logs, tmp_path):
    wrong = ("--starting-offsets", "latest", "--columns", "x", "--option", "nope=1")
    said = ended(call(logs, tmp_path / "out", *wrong, "--isolation", "none"), 2)
    for name in ("--starting-offsets", "--columns", "nope", "--isolation"):
        assert f"{name}: " in said
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
def test_wrong_usage_ends_with_2(logs, tmp_path, wrong):
    assert ended(call(logs, tmp_path / "out", *wrong), 2)
    assert not (tmp_path / "out").exists()


def test_credentials_are_in_no_message(logs, tmp_path):
    secret = ("--option", "storage.secret_key=hush", "--conf", "hush")
    assert "secret_key" not in ended(call(logs, tmp_path / "out", *secret), 2)
    wrong = ("--option", "storage.secret_key=hush", "--columns", "x")
    assert "hush" not in ended(call(logs, tmp_path / "out", *wrong), 2)


def test_output_behind_a_url_is_refused_and_its_password_unsaid(logs):
    said = ended(call(logs, "s3://key:hush@bucket/lake"), 2)
    assert "locks and renames" in said
    assert "hush" not in said


def test_other_files_and_kafkas_own_are_let_alone(logs, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    assert "not empty" in ended(call(logs, other), 4)
    shutil.copy(golden_data.logs("k431-clean") / "meta.properties", logs)
    assert "Kafka's own files" in ended(call(logs, logs / "lake"), 4)


@pytest.mark.spark
def test_logs_that_are_not_there_end_it_with_3(logs, tmp_path):
    ended(call(tmp_path / "nowhere", tmp_path / "out"), 3)
    assert not (tmp_path / "out").exists()


@pytest.mark.spark
def test_a_second_job_is_told_of_the_first(spark, logs, tmp_path):
    with locked(tmp_path / "out"):
        said = ended(call(logs, tmp_path / "out"), 4)
    assert "another job is writing there (process" in said


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
def test_what_spark_says_of_a_task_becomes_the_tasks_error(text, kind, message):
    error = told_by_spark(text)
    assert isinstance(error, kind)
    assert str(error) == message


def test_help_needs_no_spark():
    ran = subprocess.run(
        [sys.executable, "-m", "kafkalog.spark.job", "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0
    assert "--on-corruption" in ran.stdout
