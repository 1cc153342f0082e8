"""Every golden record through every surface is what Kafka says it is, in 18 columns."""

from __future__ import annotations

import warnings

import duckdb
import polars
import pyarrow as pa
import pytest

import kafkalog
from kafkalog.query.scan_columns import COLUMNS
from tests import golden_data
from tests.query import told

SURFACES = {
    "chunks": lambda scan: told.from_chunks(scan.chunks()),
    "views": lambda scan: told.from_chunks(scan.chunks(views=True)),
    "reused": lambda scan: told.from_chunks(scan.chunks(reuse=True)),
    "reused views": lambda scan: told.from_chunks(scan.chunks(reuse=True, views=True)),
    "arrow": lambda scan: told.from_arrow(scan.to_arrow()),
    "polars": lambda scan: told.from_arrow(polars.DataFrame(scan).to_arrow()),
    "to_polars": lambda scan: told.from_arrow(scan.to_polars().to_arrow()),
    "stream": lambda scan: told.from_arrow(
        pa.RecordBatchReader.from_stream(scan).read_all()
    ),
    "duckdb": lambda scan: told.from_arrow(
        in_milliseconds(duckdb.sql("from scan").to_arrow_table(), scan)
    ),
    "pandas": lambda scan: told.from_arrow(
        pa.Table.from_pandas(scan.to_pandas(), schema=scan.schema)
    ),
}


def in_milliseconds(table, scan):
    """DuckDB's timestamps with a zone are microseconds; take them back."""
    field = scan.schema.field("timestamp")
    place = table.schema.get_field_index("timestamp")
    return table.set_column(place, field, table["timestamp"].cast(field.type))


DIRECTORIES = [
    (name, directory)
    for name, directory in told.DIRECTORIES
    if not directory.endswith(".checkpoint")
]
LOG_STARTS = {("k431-clean", "cutoff-0"): 77}


def all_columns(source, **options):
    return kafkalog.scan(source, columns=COLUMNS, control_records=True, **options)


def expected(name, directory, start=None):
    """Return what a partition's segments hold from its log start offset on."""
    start = LOG_STARTS.get((name, directory), 0) if start is None else start
    rows = [row for file, row in told.records(name, directory) if file.endswith(".log")]
    return [row for row in rows if row[COLUMNS.index("offset")] >= start]


@pytest.mark.parametrize(("name", "directory"), told.DIRECTORIES)
def test_every_file_alone_gives_what_kafka_says(name, directory):
    for file in told.files(name, directory):
        scan = all_columns(told.path_of(name, directory, file))
        wanted = [row for one, row in told.records(name, directory) if one == file]
        assert told.from_chunks(scan.chunks()) == wanted
        assert scan.count() == len(wanted)
        assert scan.problems == []


@pytest.mark.parametrize(("name", "directory"), DIRECTORIES)
def test_every_partition_gives_what_kafka_says(name, directory):
    place = golden_data.logs(name) / directory
    wanted = expected(name, directory)
    assert told.from_chunks(all_columns(place).chunks()) == wanted
    side_by_side = all_columns(place, threads=2)
    assert told.from_chunks(side_by_side.chunks(views=True)) == wanted
    assert all_columns(place).count() == len(wanted)
    control = COLUMNS.index("is_control")
    data_only = kafkalog.scan(place, columns=COLUMNS)
    data = [row for row in wanted if not row[control]]
    assert told.from_chunks(data_only.chunks()) == data
    assert data_only.count() == len(data)


def whole(name):
    """Return what a log directory holds, partition by partition."""
    ordinary = [one for one in DIRECTORIES if one[0] == name]
    ordinary = [one for one in ordinary if not one[1].endswith("-delete")]
    ordinary.sort(key=lambda one: told.split_name(one[1]))
    return [row for _, directory in ordinary for row in expected(name, directory)]


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("name", golden_data.SETS)
def test_a_log_directory_gives_what_kafka_says_to_every_surface(name, surface):
    scan = all_columns(golden_data.logs(name))
    assert SURFACES[surface](scan) == whole(name)
    assert scan.count() == len(whole(name))


@pytest.mark.parametrize("name", golden_data.SETS)
def test_a_table_is_sound_arrow_of_the_promised_types(name):
    scan = all_columns(golden_data.logs(name), threads=2)
    table = scan.to_arrow()
    table.validate(full=True)
    assert table.schema == scan.schema
    assert table.column_names == list(COLUMNS)
    assert told.from_arrow(table) == whole(name)


def test_the_log_start_offset_of_the_checkpoint_is_where_reading_begins():
    place = golden_data.logs("k431-clean") / "cutoff-0"
    offsets = kafkalog.scan(place, columns=["offset"]).to_arrow()["offset"].to_pylist()
    assert offsets[0] == 77
    before = kafkalog.scan(place, columns=["offset"], start_offset=0).to_arrow()
    assert before["offset"].to_pylist() == [
        row[2] for row in expected("k431-clean", "cutoff-0", 0) if not row[13]
    ]
    assert before["offset"][0].as_py() < 77


def test_a_file_alone_is_read_whole_whatever_the_checkpoint_says():
    place = golden_data.logs("k431-clean") / "cutoff-0" / f"{60:020d}.log"
    assert kafkalog.scan(place).to_arrow()["offset"][0].as_py() < 77


def test_columns_come_in_the_order_asked_for_and_eight_by_default():
    place = golden_data.logs("k431-clean") / "ledger-0"
    assert kafkalog.scan(place).to_arrow().column_names == list(COLUMNS[:8])
    turned = list(reversed(COLUMNS))
    assert kafkalog.scan(place, columns=turned).to_arrow().column_names == turned
    for column in COLUMNS:
        table = kafkalog.scan(place, columns=[column]).to_arrow()
        assert table.equals(all_data(place).select([column]))


def all_data(place):
    return kafkalog.scan(place, columns=COLUMNS).to_arrow()


def test_no_columns_are_rows_nonetheless():
    place = golden_data.logs("k431-clean") / "ledger-0"
    assert sum(map(len, kafkalog.scan(place, columns=[]).chunks())) == len(
        all_data(place)
    )


def test_several_sources_come_in_their_order():
    logs = golden_data.logs("k431-clean")
    scan = all_columns([logs / "once-1", logs / "once-0"])
    assert told.from_chunks(scan.chunks()) == expected(
        "k431-clean", "once-1"
    ) + expected("k431-clean", "once-0")


@pytest.mark.parametrize("name", golden_data.SETS)
def test_batches_in_memory_give_what_the_file_gives(name):
    directory = next(one for one in DIRECTORIES if one[0] == name)[1]
    file = told.files(name, directory)[0]
    data = told.path_of(name, directory, file).read_bytes()
    nowhere = {"topic": "", "partition": -1, "segment": ""}
    wanted = [
        tuple(
            nowhere.get(column, value)
            for column, value in zip(COLUMNS, row, strict=True)
        )
        for one, row in told.records(name, directory)
        if one == file
    ]
    for source in (data, bytearray(data), memoryview(data)):
        assert told.from_chunks(all_columns(source).chunks()) == wanted


def test_a_directory_marked_as_deleted_is_read_when_it_is_named():
    name, directory = next(one for one in DIRECTORIES if one[1].endswith("-delete"))
    scan = all_columns(golden_data.logs(name) / directory)
    assert told.from_chunks(scan.chunks()) == expected(name, directory)
    topics = {part.topic for part, _ in all_columns(golden_data.logs(name)).sources}
    assert told.split_name(directory)[0] not in topics


def test_surfaces_warn_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for surface in SURFACES.values():
            surface(all_columns(golden_data.logs("oldclients")))
