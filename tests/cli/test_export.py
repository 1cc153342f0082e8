"""``export``: other libraries read back what Kafka has."""

import base64
import json
import shutil
import subprocess
import sys

import duckdb
import polars
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import kafkalog
from kafkalog.cli.exits import Exit
from kafkalog.export import file_export
from kafkalog.query.scan_columns import COLUMNS
from tests import golden_data
from tests.query import kafka_rows

from . import golden
from .shell import call, comparable, objects, run
from .test_cat import with_damage

ALL = "--columns", ",".join(COLUMNS), "--control-records"
ORDERS = golden.CLEAN / "orders.zstd-0"
LEDGER = golden.CLEAN / "ledger-0"


def exported(name, out, form, *options):
    ran = call("export", golden_data.logs(name), out, "--format", form, *options)
    assert ran.exit_code == 0, ran.output
    assert ran.stdout == ""
    return out


@pytest.mark.parametrize("form", ["parquet", "arrow"])
@pytest.mark.parametrize("name", golden_data.SETS)
def test_one_file_holds_every_record(tmp_path, name, form):
    out = exported(name, tmp_path / f"all.{form}", form, *ALL)
    table = ds.dataset(out, format=form).to_table()
    table.validate(full=True)
    assert kafka_rows.from_arrow(table) == golden.all_records(name)
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


@pytest.mark.parametrize("name", golden_data.SETS)
def test_directories_of_parquet_hold_every_record_to_pyarrow_and_polars(tmp_path, name):
    out = exported(name, tmp_path / "lake", "parquet", *ALL)
    expected = sorted(golden.all_records(name), key=repr)
    table = pq.read_table(out)
    table = table.set_column(
        table.column_names.index("partition"), "partition",
        table["partition"].cast(pa.int32()),
    )  # fmt: skip
    assert sorted(kafka_rows.from_arrow(table.select(COLUMNS)), key=repr) == expected
    frame = polars.read_parquet(out, hive_partitioning=True)
    assert sorted(kafka_rows.from_arrow(frame.to_arrow()), key=repr) == expected


@pytest.mark.parametrize("name", golden_data.SETS)
def test_directories_of_parquet_hold_every_record_to_duckdb(tmp_path, name):
    out = exported(name, tmp_path / "lake", "parquet")
    rows = duckdb.sql(
        f"""select topic, partition, "offset", epoch_ms(timestamp), key, value
        from read_parquet('{out}/**/*.parquet')
        order by topic, partition, "offset" """
    ).fetchall()
    shown = [
        COLUMNS.index(one)
        for one in ("topic", "partition", "offset", "timestamp", "key", "value")
    ]
    control = COLUMNS.index("is_control")
    expected = [row for row in golden.all_records(name) if not row[control]]
    expected = [tuple(row[i] for i in shown) for row in expected]
    read = [
        (*row[:4], kafka_rows.shorten(row[4]), kafka_rows.shorten(row[5]))
        for row in rows
    ]
    assert sorted(read, key=lambda row: row[:3]) == sorted(
        expected, key=lambda row: row[:3]
    )


@pytest.mark.parametrize("name", golden_data.SETS)
def test_json_lines_hold_every_record_with_topic_and_partition(tmp_path, name):
    out = exported(name, tmp_path / "lines", "jsonl", *ALL)
    rows = []
    for directory in golden.partitions(name):
        topic, partition = kafka_rows.split_name(directory)
        path = out / f"topic={topic}" / f"partition={partition}" / "part-00000.jsonl"
        if golden.records(name, directory):
            rows += objects(path.read_text())
    assert [comparable(row) for row in rows] == golden.all_records(name)


def test_csv_is_read_by_duckdb(tmp_path):
    out = exported("k431-clean", tmp_path / "all.csv", "csv")
    read = duckdb.sql(
        f"""select topic, partition, "offset", timestamp, value
        from read_csv('{out}', max_line_size=4000000, sample_size=-1)"""
    ).fetchall()
    lines = objects(call("cat", golden.CLEAN).stdout)
    assert len(read) == len(lines)
    for row, line in zip(read, lines, strict=True):
        assert row[:4] == (
            line["topic"],
            line["partition"],
            line["offset"],
            line["timestamp"],
        )
        value = line["value"]
        spelled = json.dumps(value) if isinstance(value, dict) else value
        assert (row[4] or None) == (spelled or None)


def test_files_without_a_topic_are_in_hives_directory_for_null(tmp_path):
    segment = tmp_path / "copy.log"
    segment.write_bytes((ORDERS / "00000000000000000000.log").read_bytes())
    assert call("export", segment, tmp_path / "out").exit_code == 0
    [path] = (tmp_path / "out").rglob("*.parquet")
    assert path.parts[-3:-1] == ("topic=__HIVE_DEFAULT_PARTITION__", "partition=-1")


def test_the_same_partition_again_is_another_part(tmp_path):
    replica = tmp_path / "another-directory" / ORDERS.name
    shutil.copytree(ORDERS, replica)
    scan = kafkalog.scan([ORDERS, golden.CLEAN / "ledger-0", replica])
    done = file_export.write_files(scan, tmp_path / "out", "jsonl")
    assert [path.name for path in done.files] == [
        "part-00000.jsonl", "part-00000.jsonl", "part-00001.jsonl",
    ]  # fmt: skip
    assert done.records == scan.count()


def test_row_groups_bound_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(file_export, "ROW_GROUP_BYTES", 4096)
    out = exported("k431-clean", tmp_path / "all.parquet", "parquet", *ALL)
    file = pq.ParquetFile(out)
    assert file.metadata.num_row_groups > 10
    assert kafka_rows.from_arrow(file.read()) == golden.all_records("k431-clean")


@pytest.mark.parametrize("compression", file_export.COMPRESSIONS)
def test_parquet_is_compressed_as_requested(tmp_path, compression):
    out = tmp_path / "o.parquet"
    ran = call("export", ORDERS, out, "--compression", compression)
    assert ran.exit_code == 0
    column = pq.ParquetFile(out).metadata.row_group(0).column(0)
    expected = "UNCOMPRESSED" if compression == "none" else compression.upper()
    assert column.compression.startswith(expected)


def test_existing_files_are_not_overwritten(tmp_path):
    out = tmp_path / "lake"
    exported("k431-repl-broker1", out, "parquet")
    before = sorted(out.rglob("*"))
    ran = call("export", ORDERS, out)
    assert (ran.exit_code, sorted(out.rglob("*"))) == (Exit.REFUSED, before)
    assert str(out) in ran.stderr
    (out / "notes.txt").write_text("mine")
    assert call("export", ORDERS, out, "--overwrite").exit_code == 0
    left = [path.name for path in out.rglob("*") if path.is_file()]
    assert sorted(left) == ["notes.txt", "part-00000.parquet"]
    one = tmp_path / "one.csv"
    one.write_text("mine")
    assert call("export", ORDERS, one).exit_code == Exit.REFUSED
    assert one.read_text() == "mine"
    assert call("export", ORDERS, one, "--overwrite").exit_code == 0
    assert one.read_text().startswith("topic,")


def test_nothing_is_written_into_kafkas_directories(tmp_path):
    logs = tmp_path / "logs"
    partition = logs / "orders-0"
    partition.mkdir(parents=True)
    segment = partition / "00000000000000000000.log"
    segment.write_bytes((ORDERS / segment.name).read_bytes())
    (logs / "meta.properties").write_text("version=1\n")
    for out in (logs, logs / "out", partition / "a.parquet", logs / "x" / "y.csv"):
        ran = call("export", partition, out, "--overwrite")
        assert ran.exit_code == Exit.REFUSED, out
    found = sorted(path.name for path in logs.rglob("*"))
    assert found == sorted(["meta.properties", "orders-0", segment.name])


@pytest.mark.parametrize("form", file_export.FORMATS)
def test_valid_records_before_damage_are_written(tmp_path, form):
    path, first = with_damage(tmp_path)
    out = tmp_path / f"out.{form}"
    ran = call("export", path, out)
    assert ran.exit_code == Exit.DAMAGE
    assert f"{path} at byte" in ran.stderr
    if form in ("jsonl", "csv"):
        assert len(out.read_text().splitlines()) == first + (form == "csv")
    else:
        assert ds.dataset(out, format=form).count_rows() == first
    ran = call("export", path, out, "--overwrite", "--on-corruption", "skip")
    assert ran.exit_code == Exit.DAMAGE
    assert "offsets 3 to 5" in ran.stderr
    if form == "parquet":
        assert pq.read_table(out)["offset"].to_pylist() == [0, 1, 2, 6, 7, 8]


@pytest.mark.parametrize("whole", [True, False])
def test_an_export_that_fails_leaves_nothing(tmp_path, monkeypatch, whole):
    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(file_export.TextWriter, "write", fail)
    out = tmp_path / ("a.jsonl" if whole else "out")
    ran = call("export", ORDERS, out, "--format", "jsonl")
    assert ran.exit_code == Exit.INTERRUPTED
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "arrow"])
def test_a_full_disk_is_reported_with_the_file_and_nothing_is_left(tmp_path, form):
    run = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))\n"
        "from kafkalog.cli.main import main\n"
        "sys.exit(main())"
    )
    out = tmp_path / f"a.{form}"
    ran = subprocess.run(
        [sys.executable, "-c", run, "export", str(LEDGER), str(out)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 3
    assert ran.stderr == f"kafkalog: File too large: {out}\n"
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_reported_with_the_table_by_an_export_to_delta(tmp_path):
    run = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))\n"
        "from kafkalog.cli.main import main\n"
        "sys.exit(main())"
    )
    table = tmp_path / "table"
    arguments = "export", str(LEDGER), str(table), "--format", "delta"
    ran = subprocess.run(
        [sys.executable, "-c", run, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 3
    assert ran.stderr.endswith(f"kafkalog: File too large: {table}\n")
    assert call("export", LEDGER, table, "--format", "delta").exit_code == 0
    assert ds.dataset(table, format="parquet", exclude_invalid_files=True).count_rows()


def test_an_export_without_columns_is_rejected(tmp_path):
    ran = call("export", ORDERS, tmp_path / "out", "--columns", "topic")
    assert ran.exit_code == Exit.USAGE
    assert list(tmp_path.iterdir()) == []


def test_an_empty_selection_is_an_empty_file(tmp_path):
    out = tmp_path / "none.parquet"
    assert call("export", golden.CLEAN, out, "--topic", "spare-0").exit_code == 0
    assert pq.read_table(out).num_rows == 0
    assert pq.read_schema(out).names == list(COLUMNS[:8])


def test_binary_values_are_base64_in_json_lines(tmp_path):
    out = tmp_path / "all.jsonl"
    call("export", golden.CLEAN, out)
    coded = [
        row["key"] for row in objects(out.read_text()) if isinstance(row["key"], dict)
    ]
    assert coded
    assert all(base64.b64decode(one["base64"]) for one in coded)


def test_a_missing_pyarrow_is_reported_with_the_pip_command(tmp_path):
    program = f"""
import sys
sys.modules["pyarrow"] = None
from kafkalog.cli.main import main
path = {str(ORDERS)!r}
assert main(["export", path, {str(tmp_path / "a.csv")!r}, "-q"]) == 0
sys.exit(main(["export", path, {str(tmp_path / "a.parquet")!r}]))
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ran.returncode == Exit.UNREADABLE
    assert "pip install 'kafkalog[arrow]'" in ran.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv"]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("x.txt", [], "DST ends with .txt, expected one of .parquet, .jsonl, .csv"),
        ("x.parquet.gz", [], ".gz, and files are not compressed as a whole"),
        ("x.jsonl.zst", [], ".arrow"),
        ("x.parquet.gz", ["--format", "parquet"], "DST ends with .gz"),
        ("x.csv", ["--format", "delta"], ".csv, expected the directory of a table"),
        ("x.csv", ["--format", "jsonl"], "DST ends with .csv, but --format is jsonl"),
    ],
)
def test_an_unknown_or_contradicting_extension_is_rejected(
    tmp_path, name, options, message
):
    ran = call("export", LEDGER, tmp_path / name, *options)
    assert ran.exit_code == 2
    assert message in " ".join(ran.output.split())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("options", [[], ["--format", "csv"], ["--format", "delta"]])
def test_an_export_to_standard_output_is_rejected(tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    ran = call("export", LEDGER, "-", *options)
    assert ran.exit_code == 2
    assert "kafkalog cat" in ran.output
    assert not list(tmp_path.iterdir())


def test_a_file_may_have_any_extension_if_its_format_is_given(tmp_path):
    out = tmp_path / "x.txt"
    assert call("export", LEDGER, out, "--format", "jsonl").exit_code == 0
    assert call("export", LEDGER, tmp_path / "x.JSONL").exit_code == 0
    assert out.read_bytes() == (tmp_path / "x.JSONL").read_bytes()
    assert len(objects(out.read_text())) == len(objects(call("cat", LEDGER).stdout))


def test_an_existing_directory_may_have_any_name(tmp_path):
    out = tmp_path / "lake.v2"
    out.mkdir()
    assert call("export", LEDGER, out).exit_code == 0
    assert list(out.glob("topic=*/partition=*/part-00000.parquet"))


@pytest.mark.parametrize("name", ["x.parquet", "lake"])
def test_a_missing_output_directory_is_reported(tmp_path, name):
    ran = run("export", LEDGER, tmp_path / "nowhere" / name)
    assert ran.returncode == 3
    message = f"kafkalog: No such directory: {tmp_path / 'nowhere'}\n"
    assert ran.stderr.decode() == message
    assert not list(tmp_path.iterdir())
