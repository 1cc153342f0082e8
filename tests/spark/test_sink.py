"""Tables and streams written by Spark are in the logs, each row once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import kafkalog
from kafkalog.errors import CommitConflictError, ConfigError
from kafkalog.sink.staging import CommitIdentity
from tests.sink.commits import build, flat, stage, staged_names, values

pytestmark = pytest.mark.spark

COLUMNS = ["key", "value", "topic", "partition", "headers", "timestamp"]


def table(spark, rows, first=0):
    """Return rows with all columns, to two topics, in several tasks."""
    return spark.range(first, first + rows, 1, 3).selectExpr(
        "if(id % 5 = 0, null, cast(id as string)) key",
        "cast(concat('value ', id) as binary) value",
        "if(id % 2 = 0, 'even', 'odd') topic",
        "cast(if(id % 3 = 0, 1, null) as int) partition",
        "if(id % 7 = 0, null, "
        "array(struct('h' as key, cast(cast(id as string) as binary) as value))) "
        "headers",
        "timestamp_millis(1700000000000 + id) timestamp",
        "id",
    )


def write(df, logs, **options):
    named = {name.replace("__", "."): value for name, value in options.items()}
    chosen = {"partitions": "3"} | named
    df.write.format("kafkalog").mode("append").options(**chosen).save(str(logs))


def read(logs, isolation="read_uncommitted"):
    return kafkalog.scan(logs, isolation=isolation).to_arrow().to_pylist()


def numbers(logs, isolation="read_uncommitted"):
    return sorted(
        int(row["value"].removeprefix(b"value ")) for row in read(logs, isolation)
    )


def check(logs):
    assert not kafkalog.verify(logs).problems
    assert not staged_names(Path(logs))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression__type": "zstd", "visibility": "transaction"},
        {"kafka__compression__type": "lz4", "kafka__batch__size": "300"},
    ],
)
def test_a_table_is_read_again_as_it_was_written(spark, tmp_path, options):
    df = table(spark, 1000)
    write(df, tmp_path, **options)
    source = spark.read.format("kafkalog").option("includeHeaders", "true")
    found = source.load(str(tmp_path))
    written = df.selectExpr("cast(key as binary) key", *COLUMNS[1:])
    expected = {bytes(row.value): row for row in written.collect()}
    assert found.count() == 1000
    for row in found.collect():
        one = expected.pop(bytes(row.value))
        assert (row.key, row.topic, row.headers) == (one.key, one.topic, one.headers)
        assert row.timestamp == one.timestamp
        assert one.partition in (None, row.partition)
    assert not expected
    check(tmp_path)


def test_what_the_source_reads_is_written_as_it_is(spark, tmp_path):
    write(table(spark, 300), tmp_path / "first")
    source = spark.read.format("kafkalog").option("includeHeaders", "true")
    df = source.load(str(tmp_path / "first"))
    ordered = df.repartition("topic", "partition").sortWithinPartitions("offset")
    write(ordered, tmp_path / "second")
    key = lambda row: (row["topic"], row["partition"], row["offset"])  # noqa: E731
    first, second = (sorted(read(tmp_path / n), key=key) for n in ("first", "second"))
    assert first == second


def test_a_batch_id_is_written_once_whatever_its_plan(spark, tmp_path):
    write(table(spark, 100), tmp_path, batchId="day 1")
    write(table(spark, 100).repartition(7), tmp_path, batchId="day 1")
    write(table(spark, 50), tmp_path, batchId="day 1")
    assert numbers(tmp_path) == list(range(100))
    write(table(spark, 50, 100), tmp_path, batchId="day 2")
    assert numbers(tmp_path) == list(range(150))
    check(tmp_path)


def test_writes_without_a_batch_id_are_appended_each_time(spark, tmp_path):
    for _ in range(2):
        write(table(spark, 10).drop("topic"), tmp_path, topic="all")
    assert numbers(tmp_path) == sorted([*range(10)] * 2)


def test_a_transaction_is_visible_to_read_committed_with_all_its_rows(spark, tmp_path):
    write(table(spark, 100), tmp_path, visibility="transaction")
    assert numbers(tmp_path, "read_committed") == list(range(100))
    assert all(
        row["leader_epoch"] == 0
        for row in kafkalog.scan(tmp_path, columns=["leader_epoch"])
        .to_arrow()
        .to_pylist()
    )


@pytest.mark.parametrize(
    ("options", "change", "reason"),
    [
        (
            {"topic": "missing", "partitions": "0"},
            {},
            "an integer of at least 1, got 0",
        ),
        ({}, {"value": "cast(1 as double)"}, "value must be a.n. string or binary"),
        ({}, {"topic": "cast(null as string)"}, "null topic present in the data"),
        (
            {"max__request__size": "70"},
            {},
            "which is the value of the max.request.size",
        ),
        ({"topic__max__message__bytes": "80"}, {}, "RecordTooLargeError"),
    ],
)
def test_a_write_that_fails_writes_nothing(spark, tmp_path, options, change, reason):
    functions = pytest.importorskip("pyspark.sql.functions")
    df = table(spark, 100)
    for name, expression in change.items():
        df = df.withColumn(name, functions.expr(expression))
    with pytest.raises(Exception, match=reason):
        write(df, tmp_path, **options)
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
    assert not staged_names(tmp_path)


def test_modes_other_than_append_are_refused(spark, tmp_path):
    writer = table(spark, 10).write.format("kafkalog").option("partitions", "1")
    with pytest.raises(Exception, match="mode overwrite, expected append"):
        writer.mode("overwrite").save(str(tmp_path))


def test_a_path_that_is_no_log_directory_is_refused(spark, tmp_path):
    df = table(spark, 10)
    write(df, tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(Exception, match="log directory, got that of a partition"):
        write(df, tmp_path / "even-0")
    with pytest.raises(Exception, match="NotADirectoryError"):
        write(df, tmp_path / "kafkalog-journal")
    assert sorted(tmp_path.rglob("*")) == before


def test_an_option_precedes_a_column_topic_of_any_type(spark, tmp_path):
    write(
        table(spark, 10).withColumnRenamed("id", "n").selectExpr("n topic", "value"),
        tmp_path,
        topic="all",
    )
    assert {row["topic"] for row in read(tmp_path)} == {"all"}


def test_a_missing_topic_is_refused_before_a_task_starts(spark, tmp_path):
    writer = table(spark, 10).write.format("kafkalog").mode("append")
    with pytest.raises(Exception, match="topic new does not exist"):
        writer.option("topic", "new").save(str(tmp_path))


def test_a_directory_that_is_open_for_writing_is_refused(spark, tmp_path):
    with (
        kafkalog.LogManager(tmp_path),
        pytest.raises(Exception, match="LogLockedError"),
    ):
        write(table(spark, 10), tmp_path)
    assert not staged_names(tmp_path)


class Source:
    """A directory of Parquet files that a stream reads, a file at a time."""

    def __init__(self, spark, folder):
        self.spark, self.folder = spark, folder
        self.lake, self.logs = folder / "lake", folder / "logs"
        self.checkpoint = folder / "checkpoint"

    def add(self, rows, first):
        """Add a file of rows."""
        df = table(self.spark, rows, first).coalesce(1)
        df.write.mode("append").parquet(str(self.lake))

    def run(self, **options):
        """Run the stream until it has written all files."""
        chosen = {
            "partitions": "3",
            "checkpointLocation": str(self.checkpoint),
        } | options
        df = self.spark.read.parquet(str(self.lake))
        stream = self.spark.readStream.schema(df.schema).option("maxFilesPerTrigger", 1)
        query = (
            stream.parquet(str(self.lake))
            .writeStream.format("kafkalog")
            .options(**chosen)
            .trigger(availableNow=True)
            .start(str(self.logs))
        )
        query.awaitTermination()


@pytest.fixture
def source(spark, tmp_path):
    return Source(spark, tmp_path)


@pytest.mark.parametrize("visibility", ["record", "transaction"])
def test_a_stream_writes_each_micro_batch_once(source, visibility):
    source.add(40, 0)
    source.add(40, 40)
    source.run(visibility=visibility)
    assert numbers(source.logs, "read_committed") == list(range(80))
    source.add(20, 80)
    source.run(visibility=visibility)
    assert numbers(source.logs, "read_committed") == list(range(100))
    check(source.logs)


def test_a_stream_whose_last_commit_is_forgotten_writes_nothing_twice(source):
    source.add(40, 0)
    source.add(40, 40)
    source.run()
    commits = sorted(
        path
        for path in (source.checkpoint / "commits").iterdir()
        if path.name.isdigit()
    )
    for path in (commits[-1], commits[-1].with_name(f".{commits[-1].name}.crc")):
        path.unlink(missing_ok=True)
    source.run()
    assert numbers(source.logs) == list(range(80))
    source.add(20, 80)
    source.run()
    assert numbers(source.logs) == list(range(100))
    check(source.logs)


def test_a_stream_whose_commit_fails_writes_its_rows_after_a_restart(source):
    source.add(40, 0)
    source.run()
    source.add(40, 40)
    with kafkalog.LogManager(source.logs), pytest.raises(Exception, match="LogLocked"):
        source.run()
    assert numbers(source.logs) == list(range(40))
    source.run()
    assert numbers(source.logs) == list(range(80))
    check(source.logs)


def test_a_task_that_fails_once_leaves_no_staged_file(spark, tmp_path):
    failed = tmp_path / "failed"

    def fail_once(batches):
        yield from batches
        if not failed.exists():
            failed.touch()
            raise OSError("the first attempt")

    df = table(spark, 100).coalesce(1)
    write(df.mapInArrow(fail_once, df.schema), tmp_path / "logs")
    assert failed.exists()
    assert numbers(tmp_path / "logs") == list(range(100))
    check(tmp_path / "logs")


def test_tasks_that_saw_other_partitions_than_the_commit_finds_write_nothing(tmp_path):
    from kafkalog.spark.sink import writers

    options = writers.SinkOptions(path=tmp_path, partitions=3)
    identity = CommitIdentity("batch:1")
    tasks = [
        writers.StagedTask(identity, task, stage(tmp_path, identity, task=task), one)
        for task, one in enumerate([(("orders", 3),), (("orders", 5),)])
    ]
    with pytest.raises(ConfigError, match="3 partitions, expected the 5 that its rows"):
        writers.commit_tasks(tasks, options, identity)
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
    writers.commit_tasks(tasks[:1], options, identity)
    assert values(tmp_path) == flat()


def test_a_commit_waits_for_another_one_to_end(tmp_path):
    from kafkalog.spark.sink import writers

    options = writers.SinkOptions(path=tmp_path, partitions=3)
    identity = CommitIdentity("batch:1")
    task = writers.StagedTask(identity, 0, stage(tmp_path, identity), ())
    other = kafkalog.LogManager(tmp_path)
    closing = threading.Timer(0.5, other.close)
    closing.start()
    writers.commit_tasks([task], options, identity)
    closing.join()
    assert values(tmp_path) == flat()


def test_a_conflict_is_raised_with_its_remedy(spark, tmp_path):
    from kafkalog.sink.journal import Journal, OpenCommit
    from kafkalog.sink.staging import CommitIdentity, StagedFile

    write(table(spark, 10), tmp_path)
    lost = StagedFile("kafkalog-staged-lost", "odd", 0, 70, 1, 1)
    commit = OpenCommit(
        identity=CommitIdentity("batch:other"), files=(lost,), begins={("odd", 0): 0}
    )
    Journal(tmp_path).begin(commit)
    with kafkalog.open(tmp_path / "odd-0", "a") as log:
        log.append(build([b"value 99"]))
    with pytest.raises(Exception, match=CommitConflictError.__name__) as raised:
        write(table(spark, 10), tmp_path)
    assert "kafkalog-journal" in str(raised.value)
