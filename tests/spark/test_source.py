"""The source as a user of Spark meets it: options, schemas, SQL and errors."""

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


def test_a_data_frame_used_twice_gives_what_was_asked_each_time(spark):
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
    for topic_partition in ("once-0", "once-1"):
        shutil.copytree(ROOT / topic_partition, tmp_path / topic_partition)
    paths = [str(tmp_path / "once-0"), str(tmp_path / "once-1")]
    both = spark.read.format("kafkalog").load(paths)
    assert offsets(both) == offsets(load(spark, subscribe="once"))


def test_a_url_of_a_local_file_is_its_path(spark):
    by_url = load(spark, f"file://{ROOT}", subscribe="once")
    assert offsets(by_url) == offsets(load(spark, subscribe="once"))


def test_columns_are_those_asked_for_in_that_order(spark):
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


def test_the_case_of_columns_does_not_matter_and_a_schema_keeps_it(spark):
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


def test_control_records_come_when_asked_for(spark):
    plain = load(spark, subscribe="ledger").count()
    options = {"controlRecords": "true", "columns": "isControl"}
    control = load(spark, subscribe="ledger", **options)
    assert control.where("isControl").count() == control.count() - plain > 0


def test_ranges_are_divided_as_asked(spark):
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


def test_what_means_nothing_without_a_broker_is_accepted(spark):
    settings = {
        "kafka.bootstrap.servers": "nowhere:9092",
        "kafka.isolation.level": "read_committed",
        "groupIdPrefix": "x",
    }
    committed = load(spark, subscribe="ledger", **settings).count()
    assert 0 < committed < load(spark, subscribe="ledger").count()


def test_every_wrong_option_is_named_at_once(spark):
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


def test_no_paths_at_all_are_named(spark):
    for paths in ([], "", [""]):
        with pytest.raises(PySparkException, match="option path"):
            spark.read.format("kafkalog").load(paths).collect()


def test_a_schema_that_cannot_be_is_named(spark):
    reader = spark.read.format("kafkalog").schema("value string, valeur binary")
    with pytest.raises(PySparkException) as caught:
        reader.load(str(ROOT)).collect()
    assert "value is binary, not string" in str(caught.value)
    assert "no column 'valeur'" in str(caught.value)


def test_what_is_not_there_is_named(spark, tmp_path):
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


def test_offsets_that_are_not_there_are_lost_data_or_left_out(spark):
    options = {
        "assign": '{"cutoff":[0]}',
        "startingOffsets": '{"cutoff":{"0":10}}',
    }
    assert "cutoff-0" in error_of(spark, **options)
    rest = load(spark, failOnDataLoss="false", **options)
    assert offsets(rest) == offsets(load(spark, subscribe="cutoff"))


@pytest.fixture
def damaged(tmp_path):
    topic_partition = tmp_path / "orders-0"
    topic_partition.mkdir()
    batches = [build(2, "none", first) for first in range(0, 30, 3)]
    data = bytearray(b"".join(batches))
    data[len(batches[0]) + 70] ^= 1
    path = topic_partition / f"{0:020d}.log"
    path.write_bytes(data)
    return path, len(batches[0])


@pytest.mark.parametrize("columns", ["value", "offset", "topic"])
def test_damage_ends_the_query_with_file_and_byte(spark, damaged, columns):
    path, position = damaged
    text = error_of(spark, path.parent.parent, columns=columns)
    assert f"{path} at byte {position}" in text


def test_damage_is_left_out_when_asked(spark, damaged):
    path, _ = damaged
    frame = load(spark, path.parent.parent, onCorruption="skip")
    found = [offset for _, offset in offsets(frame)]
    assert found == [0, 1, 2, *range(6, 30)]


def test_what_is_left_out_is_listed(spark, damaged):
    path, position = damaged
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
    assert "checksum" in problem.reason
    assert list_problems(spark, ROOT).collect() == []


def test_damage_ends_a_count_or_is_not_counted(spark, damaged):
    path, position = damaged
    logs = path.parent.parent
    with pytest.raises(PySparkException) as caught:
        count_records(spark, logs)
    assert f"{path} at byte {position}" in str(caught.value)
    assert count_records(spark, logs, onCorruption="skip") == {("orders", 0): 27}


def test_a_limit_takes_only_what_it_needs(spark):
    assert len(load(spark).limit(3).collect()) == 3
    assert load(spark).limit(0).collect() == []
