"""dump --format: the same as data, held to what Kafka's own classes read."""

import base64
import csv
import io
import json

import pytest

from kafkalog.cli import output
from kafkalog.cli.row_printer import RowPrinter
from kafkalog.cli.table import LOOKED_AT
from tests import golden_data
from tests.dump.called import dump

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
    return sorted((golden_data.logs(name) / directory).glob("*.log"))


def is_whole(record):
    """Whether the truth has key and value, and not only their hashes."""
    return not any(isinstance(record[name], dict) for name in ("key", "value"))


def raw(content):
    """Give the bytes of which a row spells what it does, as hex."""
    if isinstance(content, dict):
        return base64.b64decode(content["base64"], validate=True).hex()
    return None if content is None else content.encode().hex()


@pytest.mark.parametrize(("name", "directory"), LOGS)
def test_batches_are_what_kafka_reads(name, directory):
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
def test_records_are_what_kafka_reads(name, directory):
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


def test_what_a_decoder_says_is_an_object():
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


def test_every_format_tells_the_same():
    path = logs_of("k431-clean", "once-0")[0]
    rows = rows_of("--files", path)
    assert json.loads(dump("--format", "json", "--files", path).stdout) == rows
    text = dump("--format", "csv", "--files", path).stdout.decode()
    cells = list(csv.reader(io.StringIO(text)))
    assert len(cells) == len(rows) + 2
    assert cells[0] == list(rows[0])
    assert cells[2] == list(rows[1])
    table = dump("--format", "table", "--files", path).stdout.decode()
    assert len(table.splitlines()) == len(rows) + 1


def test_json_is_closed_where_the_tool_ends_early(tmp_path):
    path = tmp_path / f"{20 * '0'}.log"
    path.write_bytes(bytes(100))
    ran = dump("--format", "json", "--files", path)
    assert ran.exit_code == 1
    assert [row["kind"] for row in json.loads(ran.stdout)] == ["log"]


def test_files_may_come_without_their_flag_and_a_directory_for_what_is_in_it():
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


def test_a_table_is_printed_as_its_rows_come(monkeypatch):
    emitted = []
    monkeypatch.setattr(output, "emit", emitted.append)
    with RowPrinter("table") as printer:
        for number in range(LOOKED_AT + 2):
            printer.print({"file": "7.log", "kind": "entry", "offset": number})
            rows = number + 1
            assert len(emitted) == (0 if rows < LOOKED_AT else rows + 1)
    assert len(emitted) == LOOKED_AT + 3
    assert emitted[0].split() == ["file", "kind", "says"]
    assert emitted[-1].split() == ["7.log", "entry", "offset", str(LOOKED_AT + 1)]


def test_a_table_without_rows_is_its_heading(monkeypatch):
    emitted = []
    monkeypatch.setattr(output, "emit", emitted.append)
    with RowPrinter("table"):
        pass
    assert "".join(emitted).split() == ["file", "kind", "says"]
