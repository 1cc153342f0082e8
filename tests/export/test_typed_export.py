"""Exports of text, of typed columns and by date have the records of the log."""

import datetime
import json
from collections import Counter

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import kafkalog
from kafkalog.errors import ConfigError, InvalidValueError
from kafkalog.export import file_export
from kafkalog.export.delta_table import append_new
from kafkalog.export.file_export import write_files

DAY = 86_400_000
SCHEMA = pa.schema([("id", pa.int64()), ("timestamp", pa.string())])


@pytest.fixture
def logs(tmp_path):
    """A log directory: the days of a topic's records are in no order."""
    for name, days in (("orders-0", [1, 0, 2, 1, -1, 0]), ("orders-1", [0, 0])):
        batch = kafkalog.RecordBatchBuilder()
        for i, day in enumerate(days):
            value = json.dumps({"id": i, "timestamp": "x"}).encode()
            time = -1 if day < 0 else day * DAY + 5
            batch.append(f"k{i}".encode(), value, timestamp=time)
        with kafkalog.open(tmp_path / "logs" / name, "a") as log:
            log.append(batch.build())
    return tmp_path / "logs"


def dated(rows):
    return Counter((row["partition"], row["offset"], row["date"]) for row in rows)


def expected(logs):
    table = kafkalog.scan(logs, columns=["partition", "offset", "timestamp"]).to_arrow()
    return Counter(
        (row["partition"], row["offset"], row["timestamp"] and row["timestamp"].date())
        for row in table.to_pylist()
    )


@pytest.mark.parametrize("open_files", [1, 2, 16])
def test_files_by_date_have_each_record_once(logs, tmp_path, monkeypatch, open_files):
    monkeypatch.setattr(file_export, "OPEN_FILES", open_files)
    monkeypatch.setattr(file_export, "ROW_GROUP_BYTES", 100)
    out = tmp_path / "lake"
    done = write_files(kafkalog.scan(logs), out, "parquet", partition_by="date")
    assert done.records == 8
    found = duckdb.sql(f"""
        select "partition", "offset", date from
        read_parquet('{out}/**/*.parquet', hive_partitioning = true)
    """).to_arrow_table()
    rows = [
        {**row, "date": row["date"] and datetime.date.fromisoformat(str(row["date"]))}
        for row in found.to_pylist()
    ]
    assert dated(rows) == expected(logs)
    names = {str(path.relative_to(out)) for path in done.files}
    assert "topic=orders/partition=0/date=1970-01-02/part-00000.parquet" in names
    null = "topic=orders/partition=0/date=__HIVE_DEFAULT_PARTITION__/part-00000.parquet"
    assert null in names
    if open_files == 16:
        assert len(names) == 5
    again = write_files(kafkalog.scan(logs), out, "parquet")
    assert set(out.rglob("*.parquet")) == set(again.files)


def test_a_damaged_export_by_date_has_the_records_before(logs, tmp_path):
    file = logs / "orders-1" / f"{0:020}.log"
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    with pytest.raises(kafkalog.errors.CorruptRecordError):
        write_files(
            kafkalog.scan(logs), tmp_path / "lake", "parquet", partition_by="date"
        )
    files = list((tmp_path / "lake").rglob("part-*"))
    assert sum(pq.ParquetFile(path).metadata.num_rows for path in files) == 6


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_values_are_typed_columns_of_files(logs, tmp_path, form):
    scan = kafkalog.scan(
        logs, columns=["offset", "value"], topics="orders", partitions=0
    )
    out = tmp_path / f"orders.{form}"
    options = {"value_format": "json", "schema": SCHEMA}
    write_files(scan, out, form, **options)
    read = (
        pq.read_table
        if form == "parquet"
        else lambda path: pa.ipc.open_file(path).read_all()
    )
    table = read(out)
    assert table.schema.names == ["offset", "value"]
    assert table["value"].type == pa.struct(list(SCHEMA))
    assert pc.struct_field(table["value"], "id").to_pylist() == list(range(6))
    write_files(
        scan, tmp_path / "lake", form, partition_by="date", flatten=True, **options
    )
    assert len([*(tmp_path / "lake").rglob("part-*")]) == 4


def test_text_is_text_in_files(logs, tmp_path):
    out = tmp_path / "orders.parquet"
    write_files(kafkalog.scan(logs, text="key"), out, "parquet")
    schema = pq.read_schema(out)
    assert (schema.field("key").type, schema.field("value").type) == (
        pa.string(),
        pa.binary(),
    )


def test_a_table_has_typed_columns_and_continues(logs, tmp_path):
    deltalake = pytest.importorskip("deltalake")
    scan = kafkalog.scan(logs)
    options = {"value_format": "json", "schema": SCHEMA, "flatten": True}
    out = tmp_path / "table"
    assert append_new(scan, out, partition_by="date", **options).records == 8
    with kafkalog.open(logs / "orders-1", "a") as log:
        log.append_records({"value": [b'{"id": 9}']})
    scan = kafkalog.scan(logs)
    assert append_new(scan, out, partition_by="date", **options).records == 1
    table = deltalake.DeltaTable(out).to_pyarrow_table()
    assert sorted(table["id"].to_pylist()) == [0, 0, 1, 1, 2, 3, 4, 5, 9]
    assert table["value_timestamp"].to_pylist().count("x") == 8
    with pytest.raises(
        ConfigError, match="by date: add --partition-by date, in Python"
    ):
        append_new(scan, out, **options)


def test_a_table_has_a_column_of_structs_and_of_text(logs, tmp_path):
    deltalake = pytest.importorskip("deltalake")
    kind = pa.schema([("id", pa.uint64()), ("timestamp", pa.string())])
    scan = kafkalog.scan(logs, text="key", columns=["topic", "key", "value"])
    append_new(scan, tmp_path / "table", value_format="json", schema=kind)
    table = deltalake.DeltaTable(tmp_path / "table").to_pyarrow_table()
    assert table.schema.names == ["topic", "key", "value"]
    assert pa.types.is_string(table.schema.field("key").type)
    assert len(table["value"][0].as_py()) == 2


def test_what_does_not_go_together_is_an_error(logs, tmp_path):
    scan = kafkalog.scan(logs)
    with pytest.raises(ConfigError, match="expected parquet or arrow with formats"):
        write_files(scan, tmp_path / "lake", "csv", partition_by="date")
    with pytest.raises(ConfigError, match="expected a directory with partition_by"):
        write_files(scan, tmp_path / "a.parquet", "parquet", partition_by="date")
    with pytest.raises(ConfigError, match="no partition_by with reversible"):
        write_files(
            scan, tmp_path / "lake", "parquet", partition_by="date", reversible=True
        )
    with pytest.raises(ValueError, match="partition_by 'day', expected date"):
        write_files(scan, tmp_path / "lake", "parquet", partition_by="day")
    with pytest.raises(ValueError, match="flatten, expected with key_format or value"):
        write_files(scan, tmp_path / "lake", "parquet", flatten=True)
    bad = pa.schema([("id", pa.string())])
    with pytest.raises(InvalidValueError, match="orders-0 at offset 0"):
        write_files(scan, tmp_path / "lake", "parquet", value_format="json", schema=bad)
    assert not [*tmp_path.glob("lake*")]
