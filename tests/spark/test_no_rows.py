"""A read without records returns no rows, and is no error."""

from __future__ import annotations

import pytest

from tests import golden_data

pytestmark = pytest.mark.spark

LOGS = str(golden_data.logs("k431-clean"))
NOTHING = [
    {"subscribePattern": "^nothing$"},
    {"assign": "{}"},
    {"subscribe": "orders.zstd", "startingTimestamp": "9999999999999"}
    | {"startingOffsetsByTimestampStrategy": "latest"},
]


@pytest.mark.parametrize("options", NOTHING)
def test_a_batch_without_records_has_no_rows(spark, options):
    frame = spark.read.format("kafkalog").options(**options).load(LOGS)
    assert frame.collect() == []
    assert frame.count() == 0


def test_a_stream_without_records_ends_without_rows(spark, tmp_path):
    stream = spark.readStream.format("kafkalog").option("subscribePattern", "^nothing$")
    query = (
        stream.option("startingOffsets", "earliest")
        .load(LOGS)
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "out"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert sum(one["numInputRows"] for one in query.recentProgress) == 0
