"""`batches` has the headers that Kafka read, one row for each batch with records."""

import duckdb
import pytest

import kafkalog
from kafkalog.formats.layout import CODECS
from tests import golden_data
from tests.cli import golden
from tests.query import kafka_rows
from tests.query.batches import build

FIELDS = {
    "size_in_bytes": "size",
    "last_offset": "last_offset",
    "max_timestamp": "max_timestamp",
    "codec": "codec",
    "magic": "magic",
}
MAGIC_2 = {
    "base_offset": "base_offset",
    "producer_id": "producer_id",
    "producer_epoch": "producer_epoch",
    "sequence": "base_sequence",
    "leader_epoch": "partition_leader_epoch",
    "is_transactional": "is_transactional",
    "is_control": "is_control",
}


@pytest.mark.parametrize("name", golden_data.SETS)
def test_the_rows_are_the_headers_of_kafkas_own_reading(name):
    for directory in golden.partitions(name):
        if (name, directory) in golden.LOG_STARTS:
            continue
        headers = kafka_rows.batches(name, directory)
        expected = {
            place: row
            for place, row in headers.items()
            if place[0].endswith(".log") and row["count"] != 0
        }
        table = kafkalog.batches(golden_data.logs(name) / directory).read_all()
        times = table["max_timestamp"].cast("int64").fill_null(-1)
        table = table.set_column(9, "max_timestamp", times)
        rows = {(row["segment"], row["position"]): row for row in table.to_pylist()}
        assert rows.keys() == expected.keys()
        for place, row in rows.items():
            kafka = expected[place]
            fields = FIELDS | (MAGIC_2 if row["magic"] == 2 else {})
            assert {name: row[name] for name in fields} == {
                name: kafka[field] for name, field in fields.items()
            }
            assert (row["topic"], row["partition"]) == kafka_rows.split_name(directory)


def test_the_records_of_a_divided_batch_are_those_within_the_bounds():
    data = build(2, "zstd", 0, 10) + build(1, "gzip", 10, 5) + build(0, "none", 15, 2)
    for start in range(17):
        table = kafkalog.batches(data, start_offset=start).read_all()
        assert sum(table["records"].to_pylist()) == 17 - start
    bases = kafkalog.batches(data).read_all()["base_offset"].to_pylist()
    assert bases == [0, None, 15, 16]


def test_duckdb_reads_the_stream():
    table = kafkalog.batches(golden.CLEAN)
    query = "select codec, sum(size_in_bytes) from table group by all order by 1"
    query = query.replace("table", "batches")
    with duckdb.connect() as database:
        database.register("batches", table)
        found = database.sql(query).fetchall()
    report = kafkalog.stats(golden.CLEAN, "codec")
    assert dict(found) == {row["codec"]: row["bytes"] for row in report.rows()}
    assert {codec for codec, _ in found} <= {*CODECS}


@pytest.mark.parametrize("option", [{"columns": ["key"]}, {"text": True}])
def test_an_option_of_records_is_a_type_error(option):
    with pytest.raises(TypeError, match=f"batches of a scan with {next(iter(option))}"):
        kafkalog.batches(build(2, "none", 0), **option)
