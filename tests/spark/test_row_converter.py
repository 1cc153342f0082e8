"""Chunks of records are converted to batches of Spark's types and limited size."""

from __future__ import annotations

import pyarrow as pa
import pytest

import kafkalog
from kafkalog.errors import ConfigError, InvalidRecordError
from kafkalog.spark.row_converter import MAX_BYTES, MAX_ROWS, RowConverter
from kafkalog.spark.spark_columns import COLUMNS, arrow_schema

EVERY = tuple(COLUMNS)


def made(data, columns=EVERY):
    schema = pa.schema([pa.field(name, COLUMNS[name].arrow_type) for name in columns])
    converter = RowConverter(schema)
    scan = kafkalog.scan(data, columns=converter.scan_columns)
    return [batch for records in scan.chunks() for batch in converter.batches(records)]


def built(records, **settings):
    builder = kafkalog.RecordBatchBuilder(base_offset=0, **settings)
    for record in records:
        builder.append(**record)
    return builder.build()


def row(value, key=None, timestamp=0, headers=()):
    return {"key": key, "value": value, "timestamp": timestamp, "headers": headers}


def test_every_column_has_sparks_type():
    record = row(b"v", b"k", 1_700_000_000_123, [("h", b"x"), ("h", None)])
    settings = {"producer_id": 9, "producer_epoch": 3, "base_sequence": 4}
    [batch] = made(built([record], codec="zstd", leader_epoch=5, **settings))
    assert batch.schema.types == [column.arrow_type for column in COLUMNS.values()]
    [found] = batch.to_pylist()
    assert found.pop("timestamp").isoformat() == "2023-11-14T22:13:20.123000+00:00"
    assert found == {
        "key": b"k",
        "value": b"v",
        "topic": "",
        "partition": -1,
        "offset": 0,
        "timestampType": 0,
        "headers": [{"key": "h", "value": b"x"}, {"key": "h", "value": None}],
        "leaderEpoch": 5,
        "producerId": 9,
        "producerEpoch": 3,
        "sequence": 4,
        "isTransactional": False,
        "isControl": False,
        "magic": 2,
        "codec": "zstd",
        "segment": "",
        "position": 0,
    }


def test_headers_are_null_where_a_record_has_none():
    records = [row(b"a"), row(b"b", headers=[("h", b"")]), row(b"c")]
    [batch] = made(built(records), ("headers", "value"))
    assert batch["headers"].to_pylist() == [None, [{"key": "h", "value": b""}], None]
    [batch] = made(built(records[1:2]), ("headers",))
    assert batch["headers"].null_count == 0


def test_timestamps_are_microseconds_and_a_missing_one_is_the_last_of_1969():
    times = [-1, 0, 1, (2**63 - 1) // 1000]
    [batch] = made(built([row(None, timestamp=ms) for ms in times]), ("timestamp",))
    assert batch["timestamp"].cast(pa.int64()).to_pylist() == [
        ms * 1000 for ms in times
    ]


def test_a_timestamp_beyond_microseconds_is_rejected():
    data = built([row(b"v", timestamp=2**63 - 1)])
    with pytest.raises(
        InvalidRecordError,
        match=r"9223372036854775807 ms of topic .*, expected at most",
    ):
        made(data)
    [batch] = made(data, ("value", "offset"))
    assert batch.num_rows == 1


@pytest.mark.parametrize("size", [0, 16, 250, 5_000, 100_000])
def test_batches_are_within_limits_and_not_too_small(size):
    count = max(3 * MAX_ROWS if size < 200 else (30 << 20) // size, 3)
    data = built([row(b"x" * size, b"k", headers=[("h", b"12345")])] * count)
    batches = made(data)
    assert sum(batch.num_rows for batch in batches) == count
    assert max(batch.num_rows for batch in batches) <= MAX_ROWS
    assert max(batch.nbytes for batch in batches) <= MAX_BYTES
    assert len(batches) <= 3 + sum(batch.nbytes for batch in batches) / (MAX_BYTES / 3)


def test_a_large_record_has_a_batch_of_its_own():
    large = bytes(MAX_BYTES + 1)
    data = built([row(b"a"), row(large), row(large), row(b"b"), row(b"c")])
    rows = [batch.num_rows for batch in made(data)]
    assert sum(rows) == 5
    assert len(rows) == 4


class Field:
    """A field of a Spark schema."""

    def __init__(self, name, type_name, nullable=True):
        self.name, self.nullable, self.dataType = name, nullable, self
        self.simpleString = lambda: type_name


class Schema:
    def __init__(self, *fields):
        self.fields = fields


def test_a_schema_may_have_any_columns_in_any_order():
    schema = arrow_schema(
        Schema(Field("offset", "bigint", False), Field("value", "binary"))
    )
    assert schema.names == ["offset", "value"]
    assert [field.nullable for field in schema] == [False, True]


def test_column_names_keep_the_case_of_the_schema():
    schema = arrow_schema(Schema(Field("TIMESTAMPtype", "int"), Field("Key", "binary")))
    converter = RowConverter(schema)
    scan = kafkalog.scan(built([row(b"a", b"k")]), columns=converter.scan_columns)
    [batch] = [made for records in scan.chunks() for made in converter.batches(records)]
    assert batch.schema == schema
    assert batch.to_pylist() == [{"TIMESTAMPtype": 0, "Key": b"k"}]


def test_one_error_reports_all_faults_of_a_schema():
    fields = [
        Field("valeur", "binary"),
        Field("offset", "int"),
        Field("key", "binary", False),
        Field("topic", "string"),
        Field("Topic", "string"),
    ]
    with pytest.raises(ConfigError) as caught:
        arrow_schema(Schema(*fields))
    for text in (
        "'valeur'",
        "offset: expected bigint, got int",
        "key: expected nullable",
        "duplicate columns: topic",
    ):
        assert text in str(caught.value)
    with pytest.raises(ConfigError, match="no columns"):
        arrow_schema(Schema())
