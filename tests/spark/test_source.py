"""The source in Spark: options, schemas, SQL and errors."""

from __future__ import annotations

import shutil

import pytest
from pyspark.errors import PySparkException

from kafkalog.spark import count_records, list_problems
from tests import golden_data
from tests.query.batches import build

pytestmark = pytest.mark.spark
ROOT = golden_data.logs("k431-clean")


def load(spark, path=ROOT, **options):
    return spark.read.format("kafkalog").options(**options).load(str(path))


def error_of(spark, path=ROOT, **options):
    with pytest.raises(PySparkException) as caught:
        load(spark, path, **options).collect()
    return str(caught.value)


def offsets(frame):
    return sorted(tuple(row) for row in frame.select("topic", "offset").collect())


def test_a_dataframe_may_be_used_twice_with_different_filters(spark):
    frame = load(spark, subscribe="orders.none")
    total, late = frame.count(), frame.filter("offset >= 50").count()
    assert 0 < late < total
    assert frame.count() == total
    both = frame.filter("offset < 5").union(frame.filter("offset >= 50"))
    assert both.count() == 5 + late


def test_a_temporary_view_takes_the_options(spark):
    spark.sql(
        "create or replace temporary view orders using kafkalog options"
        f" (path '{ROOT}', subscribe 'orders.none,orders.gzip', includeHeaders 'true')"
    )
    topics = spark.sql("select distinct topic from orders order by 1").collect()
    assert [row.topic for row in topics] == ["orders.gzip", "orders.none"]
    some = spark.sql("select count(*) from orders where headers is not null")
    assert some.collect()[0][0] > 0


def test_several_paths_are_read_as_one(spark, tmp_path):
    for tp in ("once-0", "once-1"):
        shutil.copytree(ROOT / tp, tmp_path / tp)
    paths = [str(tmp_path / "once-0"), str(tmp_path / "once-1")]
    both = spark.read.format("kafkalog").load(paths)
    assert offsets(both) == offsets(load(spark, subscribe="once"))


def test_a_url_of_a_local_file_is_its_path(spark):
    by_url = load(spark, f"file://{ROOT}", subscribe="once")
    assert offsets(by_url) == offsets(load(spark, subscribe="once"))


def test_columns_are_in_the_requested_order(spark):
    frame = load(spark, columns="offset,producerId,segment,topic", subscribe="once")
    assert frame.columns == ["offset", "producerId", "segment", "topic"]
    first = frame.orderBy("offset").first()
    assert first.segment == "00000000000000000000.log"
    assert first.producerId >= 0
    schema = "value binary, offset bigint not null"
    reader = spark.read.format("kafkalog").schema(schema).option("subscribe", "once")
    pruned = reader.load(str(ROOT))
    assert pruned.columns == ["value", "offset"]
    assert pruned.count() == frame.count()


def test_column_names_are_case_insensitive_and_keep_their_case(spark):
    reader = spark.read.format("kafkalog").option("subscribe", "once")
    ours = reader.schema("OFFSET bigint, Topic string, key binary").load(str(ROOT))
    assert ours.columns == ["OFFSET", "Topic", "key"]
    same = load(spark, columns="OFFSET,Topic,key", subscribe="once")
    assert same.columns == ["offset", "topic", "key"]
    found = [sorted(map(repr, map(tuple, one.collect()))) for one in (ours, same)]
    assert found[0] == found[1]
    assert ours.where("offset = 0 and TOPIC = 'once'").count() > 0
    with pytest.raises(PySparkException, match=r"(?i)offset"):
        reader.schema("offset bigint, OFFSET bigint").load(str(ROOT)).collect()


def test_control_records_are_returned_on_request(spark):
    data = load(spark, subscribe="ledger").count()
    options = {"controlRecords": "true", "columns": "isControl"}
    control = load(spark, subscribe="ledger", **options)
    assert control.where("isControl").count() == control.count() - data > 0


def test_ranges_are_divided_as_the_options_state(spark):
    one = load(spark, subscribe="orders.none")
    assert one.rdd.getNumPartitions() == 1
    many = load(spark, subscribe="orders.none", minPartitions="7")
    assert many.rdd.getNumPartitions() == 7
    few = load(spark, subscribe="orders.none,orders.lz4", minPartitions="1")
    assert few.rdd.getNumPartitions() == 1
    apart = load(spark, subscribe="orders.none,orders.lz4", minPartitions="2")
    assert apart.rdd.getNumPartitions() == 2
    assert offsets(few) == offsets(apart) != offsets(one)
    small = load(spark, subscribe="orders.none", maxRecordsPerPartition="10")
    assert small.rdd.getNumPartitions() >= 10
    fine = load(spark, subscribe="orders.none", targetPartitionBytes="2000")
    assert fine.rdd.getNumPartitions() > 5
    assert offsets(one) == offsets(many) == offsets(small) == offsets(fine)


def test_options_for_brokers_are_accepted(spark):
    settings = {
        "kafka.bootstrap.servers": "nowhere:9092",
        "kafka.isolation.level": "read_committed",
        "groupIdPrefix": "x",
    }
    committed = load(spark, subscribe="ledger", **settings).count()
    assert 0 < committed < load(spark, subscribe="ledger").count()


def test_all_invalid_options_are_in_one_error(spark):
    text = error_of(
        spark,
        minPartitions="none",
        startingOffsets="latest",
        subscribe="a",
        assign='{"a":[0]}',
        includeHeader="true",
        columns="nope",
    )
    wrong = "minPartitions startingOffsets subscribe includeheader: columns"
    for part in wrong.split():
        assert part in text


def test_missing_paths_are_an_error(spark):
    for paths in ([], "", [""]):
        with pytest.raises(PySparkException, match="option path"):
            spark.read.format("kafkalog").load(paths).collect()


def test_an_invalid_schema_is_an_error(spark):
    reader = spark.read.format("kafkalog").schema("value string, valeur binary")
    with pytest.raises(PySparkException) as caught:
        reader.load(str(ROOT)).collect()
    assert "value: expected binary, got string" in str(caught.value)
    assert "no column 'valeur'" in str(caught.value)


def test_missing_directories_and_topics_are_errors(spark, tmp_path):
    assert "nowhere" in error_of(spark, tmp_path / "nowhere")
    assert f"{tmp_path}" in error_of(spark, tmp_path)
    assert "option path" in error_of_no_path(spark)
    assert "absent" in error_of(spark, subscribe="absent")
    nothing = load(spark, subscribePattern="absent.*")
    assert nothing.count() == 0
    (tmp_path / "meta.properties").touch()
    assert load(spark, tmp_path).count() == 0
    (tmp_path / "empty-0").mkdir()
    assert load(spark, tmp_path, subscribe="empty").count() == 0


def error_of_no_path(spark):
    with pytest.raises(PySparkException) as caught:
        spark.read.format("kafkalog").load().collect()
    return str(caught.value)


def test_missing_offsets_are_data_loss_or_skipped(spark):
    options = {
        "assign": '{"cutoff":[0]}',
        "startingOffsets": '{"cutoff":{"0":10}}',
    }
    assert "cutoff-0" in error_of(spark, **options)
    rest = load(spark, failOnDataLoss="false", **options)
    assert offsets(rest) == offsets(load(spark, subscribe="cutoff"))


@pytest.fixture
def corrupted(tmp_path):
    tp = tmp_path / "orders-0"
    tp.mkdir()
    batches = [build(2, "none", first) for first in range(0, 30, 3)]
    data = bytearray(b"".join(batches))
    data[len(batches[0]) + 70] ^= 1
    path = tp / f"{0:020d}.log"
    path.write_bytes(data)
    return path, len(batches[0])


@pytest.mark.parametrize("columns", ["value", "offset", "topic"])
def test_corruption_fails_the_query_with_file_and_byte(spark, corrupted, columns):
    path, position = corrupted
    text = error_of(spark, path.parent.parent, columns=columns)
    assert f"{path} at byte {position}" in text


def test_corruption_is_skipped_on_request(spark, corrupted):
    path, _ = corrupted
    frame = load(spark, path.parent.parent, onCorruption="skip")
    found = [offset for _, offset in offsets(frame)]
    assert found == [0, 1, 2, *range(6, 30)]


def test_skipped_corruption_is_listed(spark, corrupted):
    path, position = corrupted
    [problem] = list_problems(spark, path.parent.parent).collect()
    assert problem.asDict() == {
        "topic": "orders",
        "partition": 0,
        "path": str(path),
        "position": position,
        "firstOffset": 3,
        "lastOffset": 5,
        "reason": problem.reason,
    }
    assert "CRC mismatch" in problem.reason
    assert list_problems(spark, ROOT).collect() == []


def test_corruption_fails_a_count_or_is_not_counted(spark, corrupted):
    path, position = corrupted
    logs = path.parent.parent
    with pytest.raises(PySparkException) as caught:
        count_records(spark, logs)
    assert f"{path} at byte {position}" in str(caught.value)
    assert count_records(spark, logs, onCorruption="skip") == {("orders", 0): 27}


def test_a_limit_reads_only_the_rows_it_needs(spark):
    assert len(load(spark).limit(3).collect()) == 3
    assert load(spark).limit(0).collect() == []
