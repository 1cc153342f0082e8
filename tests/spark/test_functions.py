"""`read`, `map_batches` and `list_splits` return the same records as the source."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.fs
import pytest

from kafkalog import RecordBatchBuilder
from kafkalog.errors import ConfigError
from kafkalog.spark.functions import format_options, format_source_options
from kafkalog.spark.offset_limits import (
    GlobalTimestamp,
    SpecificOffsets,
    SpecificTimestamps,
)
from kafkalog.spark.read_options import parse_options
from kafkalog.spark.topic_selection import Assign, Subscribe
from kafkalog.storage import stores
from tests import golden_data
from tests.spark.test_golden import SELECTED, expected_rows, from_spark

LOGS = golden_data.logs("k431-clean")
T = datetime(2025, 11, 21, 18, 33, 20, tzinfo=UTC)
T_MS = 1_763_750_000_000


def parsed(columns=None, **options):
    texts = format_source_options(["/a", "/b,c"], columns, options)
    return parse_options(texts, streaming=False)


def test_options_may_be_python_values():
    options = parsed(["offset", "key"], subscribe=["a", "b"], failOnDataLoss=False)
    assert options.paths == ("/a", "/b,c")
    assert options.columns == ("offset", "key")
    assert options.topics == Subscribe(("a", "b"))
    assert not options.fail_on_data_loss
    assert parsed(startingTimestamp=T).starting == GlobalTimestamp(T_MS)
    assert parsed(minPartitions=3, columns=None).min_partitions == 3
    assert parsed(assign={"a": [0, 1]}).topics == Assign((("a", 0), ("a", 1)))


@pytest.mark.parametrize("form", [{("a", 0): 23}, {"a": {"0": 23}}, {"a": {0: 23}}])
def test_offsets_and_times_may_be_mappings(form):
    by_place = {("a", 0): 23}
    assert parsed(startingOffsets=form).starting == SpecificOffsets(by_place)
    times = parsed(startingOffsetsByTimestamp=form).starting
    assert times == SpecificTimestamps(by_place)


@pytest.mark.parametrize("form", [{("a", 0): T}, {"a": {"0": T}}])
def test_timestamps_of_partitions_may_be_datetimes(form):
    times = parsed(endingOffsetsByTimestamp=form).ending
    assert times == SpecificTimestamps({("a", 0): T_MS})


def test_a_naive_datetime_and_a_string_of_columns_are_rejected():
    with pytest.raises(ValueError, match="without a time zone"):
        format_options(None, {"startingTimestamp": T.replace(tzinfo=None)})
    with pytest.raises(ConfigError, match="columns: expected a list of names"):
        format_options("key", {})


def test_importing_the_package_does_not_import_pyspark():
    import subprocess
    import sys

    program = (
        "import sys, kafkalog.spark as s; dir(s); before = set(sys.modules);"
        "print({'pyspark', 'pyarrow', 'pandas', 'numpy'} & before);"
        "assert set(s.__all__) <= set(dir(s))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=golden_data.GOLDEN.parents[1],
    )
    assert ran.stdout.strip() == "set()"


def test_every_public_function_is_imported_on_first_use():
    import kafkalog.spark

    for name in kafkalog.spark.__all__:
        first = getattr(kafkalog.spark, name)
        assert callable(first)
        assert getattr(kafkalog.spark, name) is first
    with pytest.raises(AttributeError, match="no attribute 'reader_of'"):
        _ = kafkalog.spark.reader_of


def as_rows(frame):
    return sorted(map(from_spark, frame.selectExpr(*SELECTED).toArrow().to_pylist()))


@pytest.mark.spark
@pytest.mark.parametrize("name", golden_data.SETS)
def test_each_function_reads_every_golden_record(spark, name):
    from kafkalog.spark import list_splits, map_batches, read

    logs, expected = golden_data.logs(name), expected_rows(name)
    by_read = read(spark, logs, includeHeaders=True)
    assert as_rows(by_read) == expected
    requested = {"includeHeaders": True, "targetPartitionBytes": 100_000}
    mapped = map_batches(spark, logs, lambda batch: batch, by_read.schema, **requested)
    assert as_rows(mapped) == expected
    splits = list_splits(spark, logs, **requested)
    assert as_rows(splits.mapInArrow(read_splits, by_read.schema)) == expected
    shuffled = splits.repartition(3, "path")
    assert as_rows(shuffled.mapInArrow(read_splits, by_read.schema)) == expected


@pytest.mark.spark
@pytest.mark.parametrize("name", golden_data.SETS)
@pytest.mark.parametrize("checksums", [True, False])
def test_counts_are_those_of_the_golden_files(spark, name, checksums):
    from kafkalog.spark import count_records

    requested = {"kafka.check.crcs": checksums, "targetPartitionBytes": 100_000}
    counts = count_records(spark, golden_data.logs(name), **requested)
    assert counts == Counter(row[:2] for row in expected_rows(name))


CHOSEN = {
    "a_topic": {"subscribe": "orders.zstd"},
    "none": {"subscribePattern": "nothing.*"},
    "offsets": {"subscribe": "orders.lz4", "startingOffsets": {("orders.lz4", 0): 23}},
    "tasks": {"minPartitions": 40},
    "committed": {"kafka.isolation.level": "read_committed"},
    "markers": {"controlRecords": True},
}


@pytest.mark.spark
@pytest.mark.parametrize("case", CHOSEN)
def test_read_and_count_records_agree(spark, case):
    from kafkalog.spark import count_records, read

    options = CHOSEN[case]
    found = read(spark, LOGS, ["topic", "partition"], **options).collect()
    assert count_records(spark, LOGS, **options) == Counter(map(tuple, found))


def read_splits(batches):
    from kafkalog.spark import read_split

    for batch in batches:
        for split in batch.column("split").to_pylist():
            yield from read_split(split)


@pytest.mark.spark
def test_read_takes_a_schema_and_several_paths(spark):
    from kafkalog.spark import read

    partitions = [LOGS / "orders.zstd-0", LOGS / "orders.lz4-0"]
    frame = read(spark, partitions, schema="offset bigint, topic string")
    assert frame.columns == ["offset", "topic"]
    topics = {row.topic for row in frame.select("topic").distinct().collect()}
    assert topics == {"orders.zstd", "orders.lz4"}
    of_one = read(spark, LOGS, ["topic"], assign={"orders.zstd": [0]})
    assert {row.topic for row in of_one.collect()} == {"orders.zstd"}
    with pytest.raises(ConfigError, match="columns or a schema, got both"):
        read(spark, LOGS, ["topic"], schema="topic string")


@pytest.fixture
def growing(tmp_path):
    directory = tmp_path / "growing-0"
    directory.mkdir()
    append(directory, 0)
    return directory


def append(directory, offset):
    builder = RecordBatchBuilder(base_offset=offset)
    for _ in range(10):
        builder.append(b"key", b"value", timestamp=T_MS + offset)
    with (directory / f"{0:020d}.log").open("ab") as file:
        file.write(builder.build())


@pytest.mark.spark
def test_each_call_reads_new_records_and_a_dataframe_keeps_its_own(spark, growing):
    from kafkalog.spark import map_batches, read

    def reading():
        mapped = map_batches(spark, growing, lambda b: b, "offset bigint", ["offset"])
        return [read(spark, growing, ["offset"]), mapped]

    before = reading()
    assert [frame.count() for frame in before] == [10, 10]
    append(growing, 10)
    assert before[1].count() == 10  # `read` may list again: Spark 4.0 does
    for frame in reading():
        assert frame.count() == 20
        low, high = frame.where("offset < 5"), frame.where("offset >= 12")
        assert low.union(high).count() == 13
        assert frame.count() == 20


@pytest.mark.spark
def test_a_function_may_return_one_batch_several_or_none(spark):
    from kafkalog.spark import map_batches, read

    def lengths(batch):
        import pyarrow.compute as pc

        if batch.column("topic")[0].as_py() == "orders.lz4":
            return None
        half = batch.num_rows // 2
        made = pa.record_batch(
            {"topic": batch["topic"], "n": pc.binary_length(batch["value"])}
        )
        if batch.column("topic")[0].as_py() == "orders.none":
            return (made.slice(*cut) for cut in ((0, half), (half,)))
        return made

    named = {"subscribePattern": "^orders"}
    schema, columns = "topic string, n int", ["topic", "value"]
    mapped = map_batches(spark, LOGS, lengths, schema, columns, **named)
    filtered = read(spark, LOGS, columns, **named).where("topic <> 'orders.lz4'")
    expected = filtered.selectExpr("topic", "length(value) n").groupBy("topic").sum("n")
    found = mapped.groupBy("topic").sum("n")
    assert sorted(found.collect()) == sorted(expected.collect())
    assert found.count() == 4


WRONG = {
    "an_int": (lambda batch: 3, "returned builtins.int, expected a pyarrow"),
    "rows": (lambda batch: batch.to_pylist(), "returned builtins.dict"),
    "table": (
        lambda batch: pa.table(batch),
        r"returned pyarrow.lib.Table",
    ),
    "other_names": (lambda batch: batch, r"columns \['offset'\], expected \['n'\]"),
    "other_type": (
        lambda batch: batch.rename_columns(["n"]).cast(pa.schema([("n", "int32")])),
        "column 'n' as int32, expected int64",
    ),
    "nulls": (
        lambda batch: pa.record_batch({"n": pa.nulls(1, "int64")}),
        "returned nulls in column 'n'",
    ),
}


@pytest.mark.spark
@pytest.mark.parametrize("case", WRONG)
def test_an_invalid_result_of_a_function_is_an_error(spark, case):
    from kafkalog.spark import map_batches

    fn, text = WRONG[case]
    only = {"subscribe": "orders.lz4"}
    frame = map_batches(spark, LOGS, fn, "n bigint not null", ["offset"], **only)
    with pytest.raises(Exception, match=f"TypeError: the function .*{text}"):
        frame.collect()


@pytest.mark.spark
def test_splits_cover_each_offset_once_and_a_task_is_a_partition(spark):
    from kafkalog.spark import list_splits

    splits = list_splits(spark, LOGS, ["offset"], targetPartitionBytes=20_000)
    rows = splits.selectExpr("*", "spark_partition_id() id").collect()
    tasks = {row.task for row in rows}
    assert len(tasks) > 10
    assert tasks == set(range(splits.rdd.getNumPartitions()))
    assert {(row.task, row.id) for row in rows} == {(task, task) for task in tasks}
    ends = {}
    for row in sorted(
        rows, key=lambda row: (row.topic, row.partition, row.startOffset)
    ):
        tp = row.topic, row.partition
        assert row.startOffset >= ends.get(tp, 0)
        assert row.endOffset > row.startOffset
        assert row.sizeInBytes == row.endPosition - row.beginPosition
        assert row.path.endswith(".log")
        ends[tp] = row.endOffset


@pytest.mark.spark
def test_an_empty_range_has_no_splits_and_no_rows(spark):
    from kafkalog.spark import list_splits, map_batches

    nothing = {"subscribePattern": "^nothing$"}
    assert list_splits(spark, LOGS, **nothing).collect() == []
    mapped = map_batches(
        spark, LOGS, lambda b: b, "offset bigint", ["offset"], **nothing
    )
    assert mapped.collect() == []


@pytest.mark.spark
def test_invalid_options_are_reported_before_reading(spark):
    from kafkalog.spark import map_batches

    wrong = {"minPartitions": 0, "onCorruption": "ignore"}
    with pytest.raises(ConfigError, match=r"option minPartitions: .*onCorruption: "):
        map_batches(spark, LOGS, lambda b: b, "offset bigint", ["offset"], **wrong)
    with pytest.raises(ConfigError, match=r"expected columns of .*, got nothing"):
        map_batches(spark, LOGS, lambda b: b, "offset bigint", ["nothing"])


@pytest.mark.spark
def test_splits_contain_no_credentials(spark, growing, monkeypatch):
    from kafkalog.spark import list_splits, read_split

    tree = pyarrow.fs.SubTreeFileSystem(
        str(growing.parent), pyarrow.fs.LocalFileSystem()
    )
    requested = []

    def connect(scheme, authority, options):
        requested.append(options)
        return stores.ArrowStore(tree, "")

    monkeypatch.setitem(stores.CONNECT, "tree", connect)
    secret = {"storage.password": "xyzzy"}
    [row] = list_splits(spark, "tree://host/", ["offset"], **secret).collect()
    assert requested == [{"password": "xyzzy"}]
    assert row.path == f"tree://host/growing-0/{0:020d}.log"
    assert b"xyzzy" not in bytes(row.split)
    assert sum(map(len, read_split(row.split))) == 10
    assert requested.pop() == {}
    assert sum(map(len, read_split(row.split, {"password": "plugh"}))) == 10
    assert requested.pop() == {"password": "plugh"}
