"""Golden records through every surface, compared with Kafka's in 18 columns."""

from __future__ import annotations

import warnings

import duckdb
import polars
import pyarrow as pa
import pytest

import kafkalog
from kafkalog.query.scan_columns import COLUMNS
from tests import golden_data
from tests.query import kafka_rows

SURFACES = {
    "chunks": lambda scan: kafka_rows.from_chunks(scan.chunks()),
    "views": lambda scan: kafka_rows.from_chunks(scan.chunks(views=True)),
    "reused": lambda scan: kafka_rows.from_chunks(scan.chunks(reuse=True)),
    "reused views": lambda scan: kafka_rows.from_chunks(
        scan.chunks(reuse=True, views=True)
    ),
    "arrow": lambda scan: kafka_rows.from_arrow(scan.to_arrow()),
    "polars": lambda scan: kafka_rows.from_arrow(polars.DataFrame(scan).to_arrow()),
    "to_polars": lambda scan: kafka_rows.from_arrow(scan.to_polars().to_arrow()),
    "stream": lambda scan: kafka_rows.from_arrow(
        pa.RecordBatchReader.from_stream(scan).read_all()
    ),
    "duckdb": lambda scan: kafka_rows.from_arrow(
        in_milliseconds(duckdb.sql("from scan").to_arrow_table(), scan)
    ),
    "pandas": lambda scan: kafka_rows.from_arrow(
        pa.Table.from_pandas(scan.to_pandas(), schema=scan.schema)
    ),
}


def in_milliseconds(table, scan):
    """Return a table with DuckDB's microseconds as milliseconds."""
    field = scan.schema.field("timestamp")
    place = table.schema.get_field_index("timestamp")
    return table.set_column(place, field, table["timestamp"].cast(field.type))


DIRECTORIES = [
    (name, directory)
    for name, directory in kafka_rows.DIRECTORIES
    if not directory.endswith(".checkpoint")
]
LOG_STARTS = {("k431-clean", "cutoff-0"): 77}


def all_columns(source, **options):
    return kafkalog.scan(source, columns=COLUMNS, control_records=True, **options)


def expected(name, directory, start=None):
    """Return the rows of a partition's segments from its log start offset on."""
    start = LOG_STARTS.get((name, directory), 0) if start is None else start
    rows = [
        row
        for file, row in kafka_rows.records(name, directory)
        if file.endswith(".log")
    ]
    return [row for row in rows if row[COLUMNS.index("offset")] >= start]


@pytest.mark.parametrize(("name", "directory"), kafka_rows.DIRECTORIES)
def test_every_single_file_has_the_records_that_kafka_reads(name, directory):
    for file in kafka_rows.files(name, directory):
        scan = all_columns(kafka_rows.path_of(name, directory, file))
        expected_rows = [
            row for one, row in kafka_rows.records(name, directory) if one == file
        ]
        assert kafka_rows.from_chunks(scan.chunks()) == expected_rows
        assert scan.count() == len(expected_rows)
        assert scan.problems == []


@pytest.mark.parametrize(("name", "directory"), DIRECTORIES)
def test_every_partition_has_the_records_that_kafka_reads(name, directory):
    place = golden_data.logs(name) / directory
    expected_rows = expected(name, directory)
    assert kafka_rows.from_chunks(all_columns(place).chunks()) == expected_rows
    threaded = all_columns(place, threads=2)
    assert kafka_rows.from_chunks(threaded.chunks(views=True)) == expected_rows
    assert all_columns(place).count() == len(expected_rows)
    control = COLUMNS.index("is_control")
    data_only = kafkalog.scan(place, columns=COLUMNS)
    data = [row for row in expected_rows if not row[control]]
    assert kafka_rows.from_chunks(data_only.chunks()) == data
    assert data_only.count() == len(data)


def whole(name):
    """Return the rows of a log directory, partition by partition."""
    ordinary = [partition for partition in DIRECTORIES if partition[0] == name]
    ordinary = [
        partition for partition in ordinary if not partition[1].endswith("-delete")
    ]
    ordinary.sort(key=lambda one: kafka_rows.split_name(one[1]))
    return [row for _, directory in ordinary for row in expected(name, directory)]


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("name", golden_data.SETS)
def test_every_surface_of_a_log_directory_has_the_records_that_kafka_reads(
    name, surface
):
    scan = all_columns(golden_data.logs(name))
    assert SURFACES[surface](scan) == whole(name)
    assert scan.count() == len(whole(name))


@pytest.mark.parametrize("name", golden_data.SETS)
def test_a_table_is_valid_and_has_the_schema_of_the_scan(name):
    scan = all_columns(golden_data.logs(name), threads=2)
    table = scan.to_arrow()
    table.validate(full=True)
    assert table.schema == scan.schema
    assert table.column_names == list(COLUMNS)
    assert kafka_rows.from_arrow(table) == whole(name)


def test_a_scan_begins_at_the_log_start_offset_of_the_checkpoint():
    place = golden_data.logs("k431-clean") / "cutoff-0"
    offsets = kafkalog.scan(place, columns=["offset"]).to_arrow()["offset"].to_pylist()
    assert offsets[0] == 77
    before = kafkalog.scan(place, columns=["offset"], start_offset=0).to_arrow()
    assert before["offset"].to_pylist() == [
        row[2] for row in expected("k431-clean", "cutoff-0", 0) if not row[13]
    ]
    assert before["offset"][0].as_py() < 77


def test_a_single_file_is_read_from_its_first_record():
    place = golden_data.logs("k431-clean") / "cutoff-0" / f"{60:020d}.log"
    assert kafkalog.scan(place).to_arrow()["offset"][0].as_py() < 77


def test_columns_are_in_the_requested_order_and_eight_by_default():
    place = golden_data.logs("k431-clean") / "ledger-0"
    assert kafkalog.scan(place).to_arrow().column_names == list(COLUMNS[:8])
    turned = list(reversed(COLUMNS))
    assert kafkalog.scan(place, columns=turned).to_arrow().column_names == turned
    for column in COLUMNS:
        table = kafkalog.scan(place, columns=[column]).to_arrow()
        assert table.equals(all_data(place).select([column]))


def all_data(place):
    return kafkalog.scan(place, columns=COLUMNS).to_arrow()


def test_a_scan_without_columns_has_rows():
    place = golden_data.logs("k431-clean") / "ledger-0"
    assert sum(map(len, kafkalog.scan(place, columns=[]).chunks())) == len(
        all_data(place)
    )


def test_several_sources_are_read_in_order():
    logs = golden_data.logs("k431-clean")
    scan = all_columns([logs / "once-1", logs / "once-0"])
    assert kafka_rows.from_chunks(scan.chunks()) == expected(
        "k431-clean", "once-1"
    ) + expected("k431-clean", "once-0")


@pytest.mark.parametrize("name", golden_data.SETS)
def test_batches_in_memory_have_the_records_of_the_file(name):
    directory = next(partition for partition in DIRECTORIES if partition[0] == name)[1]
    file = kafka_rows.files(name, directory)[0]
    data = kafka_rows.path_of(name, directory, file).read_bytes()
    nowhere = {"topic": "", "partition": -1, "segment": ""}
    expected_rows = [
        tuple(
            nowhere.get(column, value)
            for column, value in zip(COLUMNS, row, strict=True)
        )
        for one, row in kafka_rows.records(name, directory)
        if one == file
    ]
    for source in (data, bytearray(data), memoryview(data)):
        assert kafka_rows.from_chunks(all_columns(source).chunks()) == expected_rows


def test_a_directory_marked_deleted_is_read_if_it_is_the_source():
    name, directory = next(
        partition for partition in DIRECTORIES if partition[1].endswith("-delete")
    )
    scan = all_columns(golden_data.logs(name) / directory)
    assert kafka_rows.from_chunks(scan.chunks()) == expected(name, directory)
    topics = {part.topic for part, _ in all_columns(golden_data.logs(name)).sources}
    assert kafka_rows.split_name(directory)[0] not in topics


def test_surfaces_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for surface in SURFACES.values():
            surface(all_columns(golden_data.logs("oldclients")))
