"""``dump --format``: the same as data, compared with what Kafka's classes read."""

import base64
import csv
import io
import json

import pytest

from kafkalog import RecordBatchBuilder
from kafkalog.cli import command_output
from kafkalog.cli.row_printer import RowPrinter
from kafkalog.cli.text_table import SAMPLE_ROWS
from tests import golden_data
from tests.dump.dump_command import dump

CLEAN = golden_data.logs("k431-clean")
LOGS = [
    ("k431-clean", "orders.gzip-0"),
    ("k431-clean", "ledger-0"),
    ("k431-clean", "once-0"),
    ("k282-clean", "legacy.m0.gzip-0"),
    ("k282-clean", "legacy.m1.clock.gzip-0"),
]


def rows_of(*arguments):
    ran = dump("--format", "jsonl", *arguments)
    assert ran.exit_code == 0
    return [json.loads(line) for line in ran.stdout.decode().splitlines()]


def logs_of(name, directory):
    """Return the paths of a directory's ``.log`` files; there is at least one."""
    found = sorted((golden_data.logs(name) / directory).glob("*.log"))
    assert found
    return found


def is_whole(record):
    """Return whether the truth has key and value, and not only their hashes."""
    return not any(isinstance(record[name], dict) for name in ("key", "value"))


def raw(content):
    """Return the bytes of a row's cell, as hex."""
    if isinstance(content, dict):
        return base64.b64decode(content["base64"], validate=True).hex()
    return None if content is None else content.encode().hex()


@pytest.mark.parametrize(("name", "directory"), LOGS)
def test_batches_equal_those_read_by_kafka(name, directory):
    truth = golden_data.truth(name, directory, "batches")
    for path in logs_of(name, directory):
        rows = [row for row in rows_of("--files", path) if row["kind"] == "batch"]
        expected = [row for row in truth if row["file"] == path.name]
        assert [row["position"] for row in rows] == [
            row["position"] for row in expected
        ]
        assert [row["crc"] for row in rows] == [row["crc"] for row in expected]
        assert [row["isvalid"] for row in rows] == [row["valid"] for row in expected]


@pytest.mark.parametrize(("name", "directory"), LOGS)
def test_records_equal_those_read_by_kafka(name, directory):
    truth = golden_data.truth(name, directory, "records")
    for path in logs_of(name, directory):
        rows = rows_of("--print-data-log", "--files", path)
        rows = [row for row in rows if row["kind"] in ("record", "control")]
        expected = [row for row in truth if row["file"] == path.name]
        assert [row["offset"] for row in rows] == [row["offset"] for row in expected]
        for row, one in zip(rows, expected, strict=True):
            assert row["timestamp"] == one["timestamp"]
            if row["kind"] == "control":
                assert row["endTxnMarker"] in ("COMMIT", "ABORT")
            elif is_whole(one):
                contents = [raw(row["key"]), raw(row["payload"])]
                assert contents == [one["key"], one["value"]]
            if "headerKeys" in row:
                keys = [key for key, _ in one["headers"]]
                assert row["headerKeys"] == keys


def test_decoded_messages_are_objects():
    path = next(CLEAN.glob("__transaction_state-*/*.log"))
    rows = rows_of("--transaction-log-decoder", "--files", path)
    keys = [row["key"] for row in rows if row["kind"] == "record"]
    assert keys
    assert all(key["type"] == "0" for key in keys)


def test_indexes_and_snapshots_are_rows():
    folder = CLEAN / "orders.gzip-0"
    index = folder / f"{20 * '0'}.timeindex"
    rows = rows_of("--files", index)
    assert {row["kind"] for row in rows} <= {"entry"}
    for path in sorted(folder.glob("*.snapshot")):
        assert {row["kind"] for row in rows_of("--files", path)} <= {"producer"}


def test_every_format_has_the_same_content():
    path = logs_of("k431-clean", "once-0")[0]
    rows = rows_of("--files", path)
    assert json.loads(dump("--format", "json", "--files", path).stdout) == rows
    table = dump("--format", "table", "--files", path).stdout.decode()
    assert len(table.splitlines()) == len(rows) + 1


INTERNAL = [
    ("k431-clean", "__cluster_metadata-0"),
    ("k431-clean", "__consumer_offsets-0"),
    ("k431-clean", "__share_group_state-0"),
]
FLAGS = [
    [],
    ["--deep-iteration"],
    ["--print-data-log"],
    ["--offsets-decoder", "--skip-record-metadata"],
    ["--index-sanity-check"],
]


@pytest.fixture
def long_cells():
    """Make Python's CSV reader accept cells of any length."""
    before = csv.field_size_limit(1 << 30)
    yield
    csv.field_size_limit(before)


def cell_of(value):
    if isinstance(value, bool | dict | list):
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else str(value)


@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
def test_csv_is_one_line_of_names_and_then_a_line_a_row(flags, long_cells):
    for name, directory in (*LOGS, *INTERNAL):
        directory = golden_data.logs(name) / directory
        ran = dump("--format", "jsonl", *flags, directory)
        rows = [json.loads(line) for line in ran.stdout.decode().splitlines()]
        text = dump("--format", "csv", *flags, directory).stdout.decode()
        lines = list(csv.reader(io.StringIO(text, newline="")))
        names = lines.pop(0)
        assert len(names) == len(set(names))
        assert [dict(zip(names, line, strict=True)) for line in lines] == [
            {one: cell_of(row.get(one)) for one in names} for row in rows
        ]
        assert {one for row in rows for one in row} <= set(names)


def test_records_without_metadata_are_rows_even_if_they_are_empty():
    path = logs_of("k431-clean", "ledger-0")[1]
    flags = ["--deep-iteration", "--skip-record-metadata"]
    rows = [row for row in rows_of(*flags, "--files", path) if row["kind"] != "batch"]
    assert {"kind": "control", "file": str(path)} in rows
    assert {"kind": "record", "file": str(path)} in rows


def test_csv_names_its_columns_where_there_are_no_rows(tmp_path):
    path = tmp_path / f"{20 * '0'}.txnindex"
    path.touch()
    assert dump("--format", "csv", path).stdout == (
        b"file,kind,version,producerId,firstOffset,lastOffset,lastStableOffset\n"
    )


def test_in_csv_an_empty_payload_differs_from_null(tmp_path):
    path = tmp_path / f"{20 * '0'}.log"
    builder = RecordBatchBuilder()
    builder.append(None, b"", timestamp=1)
    path.write_bytes(builder.build())
    text = dump("--format", "csv", "--print-data-log", path).stdout.decode()
    names, *_, record = text.splitlines()
    cells = dict(zip(names.split(","), record.split(","), strict=True))
    assert (cells["key"], cells["payload"]) == ("", '""')


def test_json_is_closed_where_the_tool_ends_early(tmp_path):
    path = tmp_path / f"{20 * '0'}.log"
    path.write_bytes(bytes(100))
    ran = dump("--format", "json", "--files", path)
    assert ran.exit_code == 1
    assert [row["kind"] for row in json.loads(ran.stdout)] == ["log"]


def test_files_and_directories_may_be_given_without_the_flag():
    log = logs_of("k431-clean", "once-0")[0]
    by_flag = dump("--print-data-log", "--files", log)
    assert dump("--print-data-log", log) == by_flag
    known = {".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint"}
    inside = sorted(file for file in log.parent.iterdir() if file.suffix in known)
    assert dump(log.parent) == dump("--files", ",".join(map(str, inside)))


def test_without_files_the_tool_ends_with_1():
    ran = dump("--print-data-log")
    assert ran.exit_code == 1
    assert ran.stderr.startswith('Missing required argument "[files]"\n')
    assert not ran.stdout


def test_a_table_is_printed_as_its_rows_arrive(monkeypatch):
    emitted = []
    monkeypatch.setattr(command_output, "emit", emitted.append)
    with RowPrinter("table") as printer:
        for number in range(SAMPLE_ROWS + 2):
            printer.print({"file": "7.log", "kind": "entry", "offset": number})
            rows = number + 1
            assert len(emitted) == (0 if rows < SAMPLE_ROWS else rows + 1)
    assert len(emitted) == SAMPLE_ROWS + 3
    assert emitted[0].split() == ["file", "kind", "members"]
    assert emitted[-1].split() == ["7.log", "entry", "offset", str(SAMPLE_ROWS + 1)]


def test_a_table_without_rows_is_only_a_heading(monkeypatch):
    emitted = []
    monkeypatch.setattr(command_output, "emit", emitted.append)
    with RowPrinter("table"):
        pass
    assert "".join(emitted).split() == ["file", "kind", "members"]
