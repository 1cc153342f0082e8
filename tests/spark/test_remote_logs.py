"""Log directories at a URL, read with Spark: workers get the options."""

from __future__ import annotations

import pytest

from kafkalog import RecordBatchBuilder
from kafkalog.spark import list_segments, map_batches
from tests import golden_data
from tests.spark import lakes
from tests.spark.test_golden import SELECTED, expected_rows, from_spark
from tests.storage.remote_stores import SECRET, fill, s3_server

pytestmark = pytest.mark.spark

NAME = "k431-recovered"
URL = "s3a://far/logs"


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    with s3_server() as options:
        fill(options, "far/logs", golden_data.logs(NAME))
        yield {f"storage.{name}": value for name, value in options.items()}


def offsets_of(frame):
    found = frame.select("topic", "partition", "offset").collect()
    return sorted(tuple(row) for row in found)


def test_a_batch_from_s3_equals_kafkas_records(spark, storage):
    reader = spark.read.format("kafkalog").options(includeHeaders="true", **storage)
    frame = reader.load(URL).selectExpr(*SELECTED)
    assert sorted(map(from_spark, frame.collect())) == expected_rows(NAME)


def test_functions_read_s3(spark, storage):
    expected = [row[:3] for row in expected_rows(NAME)]
    mapped = map_batches(
        spark,
        URL,
        lambda batch: batch,
        "topic string, partition int, offset bigint",
        ["topic", "partition", "offset"],
        **storage,
    )
    assert offsets_of(mapped) == expected
    far = list_segments(spark, URL, **storage)
    local = list_segments(spark, str(golden_data.logs(NAME)))
    message = ("directory", "modificationTime")
    assert sorted(far.drop(*message).collect()) == sorted(
        local.drop(*message).collect()
    )
    assert {row.modificationTime for row in far.collect()} == {None}


def test_a_stream_from_s3_continues_at_its_checkpoint(spark, storage, tmp_path):
    def append(base):
        builder = RecordBatchBuilder(base_offset=base)
        for offset in range(base, base + 10):
            builder.append(None, b"%d" % offset, timestamp=offset)
        tp = tmp_path / "grown" / "orders-0"
        tp.mkdir(parents=True, exist_ok=True)
        (tp / f"{base:020d}.log").write_bytes(builder.build())
        names = {name.removeprefix("storage."): storage[name] for name in storage}
        fill(names, "far/grown", tmp_path / "grown")

    def run():
        stream = spark.readStream.format("kafkalog").options(**storage)
        stream = stream.option("startingOffsets", "earliest").load("s3://far/grown")
        writer = stream.writeStream.format("parquet").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.start(str(tmp_path / "out")).awaitTermination()
        return offsets_of(spark.read.parquet(str(tmp_path / "out")))

    append(0)
    assert run() == [("orders", 0, offset) for offset in range(10)]
    append(10)
    assert run() == [("orders", 0, offset) for offset in range(20)]


def test_the_job_reads_s3_and_writes_no_credentials(spark, storage, tmp_path):
    given = [part for pair in storage.items() for part in ("--option", "=".join(pair))]
    ran = lakes.call(URL, tmp_path / "lake", *given, *lakes.FORM)
    lakes.ended(ran, 0)
    assert lakes.printed_by(ran)["rows"] == len(expected_rows(NAME))
    expected = [row[:3] for row in expected_rows(NAME)]
    assert [row[:3] for row in lakes.rows(tmp_path / "lake")] == expected
    assert SECRET not in ran.output
    kept = b"".join(
        path.read_bytes() for path in (tmp_path / "lake").rglob("*") if path.is_file()
    )
    assert SECRET.encode() not in kept
