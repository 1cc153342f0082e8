"""Every golden record read with Spark equals Kafka's, in Spark's columns."""

from __future__ import annotations

import datetime

import pytest

from kafkalog import RecordBatchBuilder
from kafkalog.query.scan_columns import COLUMNS
from tests import golden_data
from tests.query import kafka_rows

pytestmark = pytest.mark.spark

FIXED = ("topic", "partition", "offset", "timestamp", "timestampType")
IN_LOG = ("topic", "partition", "offset", "timestamp", "timestamp_type")
SELECTED = [
    *("key", "value", "topic", "partition", "offset"),
    "unix_millis(timestamp) timestamp",
    *("timestampType", "headers"),
]
LOG_STARTS = {("k431-clean", "cutoff-0"): 77}
BEFORE_1970 = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_000)
FAR_MS = [-1, 0, 253_402_300_800_000, 9_000_000_000_000_000]  # from the year 10000 on


def load(spark, path, **options):
    options = {"includeHeaders": "true"} | options
    return spark.read.format("kafkalog").options(**options).load(str(path))


def expected_rows(name):
    """Return Kafka's records of a log directory in the columns of Spark's source."""
    found = []
    for set_name, directory in kafka_rows.DIRECTORIES:
        if set_name != name or directory.endswith(("-delete", ".checkpoint")):
            continue
        start = LOG_STARTS.get((name, directory), 0)
        for file, row in kafka_rows.records(name, directory):
            told_row = dict(zip(COLUMNS, row, strict=True))
            if (
                file.endswith(".log")
                and told_row["offset"] >= start
                and not told_row["is_control"]
            ):
                found.append(from_log(told_row))
    return sorted(found)


def from_log(row):
    time_ms = -1 if row["timestamp"] is None else row["timestamp"]
    fixed = [row[name] for name in IN_LOG]
    fixed[IN_LOG.index("timestamp")] = time_ms
    return (*fixed, repr(row["key"]), repr(row["value"]), repr(row["headers"] or None))


def from_spark(row):
    headers = row["headers"]
    if headers is not None:
        headers = tuple(
            (one["key"], kafka_rows.shorten(one["value"])) for one in headers
        )
    key, value = (told_cell(row[name]) for name in ("key", "value"))
    return (*(row[name] for name in FIXED), key, value, repr(headers))


def told_cell(cell):
    return repr(kafka_rows.shorten(None if cell is None else bytes(cell)))


@pytest.mark.parametrize("name", golden_data.SETS)
def test_a_log_directory_equals_kafkas_records(spark, name):
    frame = load(spark, golden_data.logs(name)).selectExpr(*SELECTED)
    expected = expected_rows(name)
    assert expected
    assert sorted(map(from_spark, frame.toArrow().to_pylist())) == expected
    assert sorted(map(from_spark, frame.collect())) == expected


@pytest.mark.parametrize("name", golden_data.SETS)
def test_count_does_not_depend_on_columns(spark, name):
    reader = spark.read.format("kafkalog").schema("offset bigint")
    assert reader.load(str(golden_data.logs(name))).count() == len(expected_rows(name))


@pytest.mark.parametrize("name", golden_data.SETS)
def test_rows_of_a_partition_are_in_offset_order(spark, name):
    frame = load(spark, golden_data.logs(name)).select("topic", "partition", "offset")
    last = {}
    for topic, partition, offset in frame.collect():
        assert offset > last.get((topic, partition), -1)
        last[topic, partition] = offset
    assert last


def test_sql_aggregates_equal_kafkas(spark):
    load(spark, golden_data.logs("k431-clean")).createOrReplaceTempView("golden")
    grouped = "select topic, count(*), max(offset) from golden group by topic"
    expected = {}
    for topic, _, offset, *_ in expected_rows("k431-clean"):
        count, highest = expected.get(topic, (0, -1))
        expected[topic] = count + 1, max(highest, offset)
    found = spark.sql(grouped).collect()
    assert {topic: (count, top) for topic, count, top in found} == expected


@pytest.fixture(scope="module")
def far(tmp_path_factory):
    folder = tmp_path_factory.mktemp("far") / "far-0"
    folder.mkdir()
    builder = RecordBatchBuilder(base_offset=0)
    for time_ms in FAR_MS:
        builder.append(b"", None, timestamp=time_ms)
    (folder / f"{0:020d}.log").write_bytes(builder.build())
    return folder.parent


def test_timestamps_beyond_pythons_range_are_kept(spark, far):
    frame = load(spark, far)
    millis = frame.selectExpr("unix_millis(timestamp) ms", "offset").orderBy("offset")
    assert [row.ms for row in millis.collect()] == FAR_MS
    years = frame.selectExpr("year(timestamp) y", "offset").orderBy("offset")
    assert [row.y for row in years.collect()] == [1969, 1970, 10000, 287168]


def test_a_missing_timestamp_is_the_millisecond_before_1970(spark, far):
    first = load(spark, far).where("offset = 0").collect()[0]
    assert first.timestamp == BEFORE_1970
    assert (bytes(first.key), first.value, first.headers) == (b"", None, None)


def test_headers_are_returned_on_request_only(spark, far):
    names = ["key", "value", "topic", "partition", "offset", "timestamp"]
    frame = load(spark, far, includeHeaders="false")
    assert frame.columns == [*names, "timestampType"]
    assert load(spark, far).columns == [*names, "timestampType", "headers"]
    assert all(field.nullable for field in load(spark, far).schema)
