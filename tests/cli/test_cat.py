"""``cat`` and ``head``: every record, in every format, as Kafka has it."""

import csv
import io
import json

import pytest

import kafkalog
from kafkalog.export.text_lines import json_lines
from kafkalog.query.scan_columns import COLUMNS
from tests import golden_data

from . import golden
from .shell import as_bytes, call, comparable, objects, run

ALL = "--columns", ",".join(COLUMNS), "--control-records"
ORDERS = golden.CLEAN / "orders.zstd-0"
LEDGER = golden.CLEAN / "ledger-0"


@pytest.mark.parametrize("name", golden_data.SETS)
def test_every_golden_record_is_printed_as_kafka_has_it(name):
    ran = call("cat", golden_data.logs(name), *ALL, "--format", "jsonl")
    assert ran.exit_code == 0
    assert [comparable(row) for row in objects(ran.stdout)] == golden.all_records(name)


def test_the_default_columns_are_the_first_eight_in_a_pipe_as_json_lines():
    ran = run("cat", ORDERS, "-n", 1)
    assert ran.stderr == b""
    [row] = objects(ran.stdout.decode())
    assert list(row) == list(COLUMNS[:8])
    assert row["timestamp"] == 1_700_000_000_003


def test_a_json_list_has_the_same_records_as_json_lines():
    lines = objects(call("cat", ORDERS).stdout)
    assert json.loads(call("cat", ORDERS, "--format", "json").stdout) == lines
    assert len(lines) == len(golden.records("k431-clean", "orders.zstd-0"))
    nothing = call("cat", ORDERS, "-n", 0, "--format", "json")
    assert json.loads(nothing.stdout) == []


@pytest.fixture
def long_cells():
    """Make Python's CSV reader accept cells of any length."""
    before = csv.field_size_limit(1 << 30)
    yield
    csv.field_size_limit(before)


@pytest.mark.parametrize("name", golden_data.SETS)
def test_csv_has_the_same_records_as_json_lines(name, long_cells):
    place = golden_data.logs(name)
    lines = objects(call("cat", place).stdout)
    text = call("cat", place, "--format", "csv").stdout_bytes.decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert len(rows) == len(lines)
    for row, line in zip(rows, lines, strict=True):
        assert row["timestamp"] == (
            "" if line["timestamp"] is None else row["timestamp"]
        )
        assert int(row["offset"]) == line["offset"]
        assert json.loads(row["headers"]) == line["headers"]
        for name_ in ("key", "value"):
            value = line[name_]
            spelled = json.dumps(value) if isinstance(value, dict) else value or ""
            assert row[name_] == spelled


@pytest.mark.parametrize(
    "value", [b"", b"\x7f", b"a\x7fb", b'"\\\x00\n', b"\xff", "é\u2028".encode(), None]
)
@pytest.mark.parametrize("other", [b"plain", b"", None, b"\x7f", b"\xff\xfe"])
def test_any_bytes_survive_json(value, other):
    batch = kafkalog.RecordBatchBuilder(base_offset=7)
    batch.append(value, other, timestamp=-1, headers=[("h", value), ("h", other)])
    batch.append(other, value, timestamp=5)
    columns = ("offset", "timestamp", "key", "value", "headers")
    [records] = kafkalog.scan(batch.build(), columns=columns).chunks()
    first, second = map(json.loads, json_lines(records, columns))
    assert (first["offset"], first["timestamp"]) == (7, None)
    assert second["timestamp"] == 5
    pairs = [as_bytes(text) for _, text in first["headers"]]
    assert [as_bytes(first["key"]), as_bytes(first["value"])] == [value, other]
    assert [as_bytes(second["key"]), as_bytes(second["value"])] == [other, value]
    assert pairs == [value, other]
    assert second["headers"] == []


def test_bounds_isolation_and_columns_are_applied():
    some = call(
        "cat", LEDGER, "--start-offset", 10, "--end-offset", 20, "--columns", "offset"
    )
    assert {row["offset"] for row in objects(some.stdout)} <= set(range(10, 20))
    committed = call("cat", LEDGER, "--isolation-level", "read_committed").stdout
    expected = kafkalog.scan(LEDGER, isolation="read_committed").count()
    assert len(objects(committed)) == expected < kafkalog.scan(LEDGER).count()
    threads = call("cat", golden.CLEAN, "--threads", 2).stdout
    assert threads == call("cat", golden.CLEAN).stdout


@pytest.mark.parametrize("time", ["1700000100000", "2023-11-14T23:15:00+01:00"])
def test_times_are_milliseconds_or_iso_8601_with_a_time_zone(time):
    ran = call("cat", ORDERS, "--start-timestamp", time)
    times = [row["timestamp"] for row in objects(ran.stdout)]
    assert (
        len(times) == kafkalog.scan(ORDERS, start_timestamp=1_700_000_100_000).count()
    )
    assert min(times) >= 1_700_000_100_000


def test_topics_and_partitions_are_chosen():
    ran = call("cat", golden.CLEAN, "--topic", "ledger", "--topic", "once",
               "--partition", 1, "--columns", "topic,partition")  # fmt: skip
    places = {tuple(row.values()) for row in objects(ran.stdout)}
    assert places == {("ledger", 1), ("once", 1)}


@pytest.mark.parametrize("option", [("--topic", "nowhere"), ("--partition", "77")])
@pytest.mark.parametrize("command", ["cat", "ls"])
def test_a_missing_topic_is_an_error(command, option):
    ran = call(command, golden.CLEAN, *option)
    assert ran.exit_code == 3
    assert ran.stdout == ""
    assert option[1] in ran.stderr


def test_head_prints_ten_records_or_as_many_as_requested():
    assert len(objects(call("head", golden.CLEAN).stdout)) == 10
    assert len(objects(call("head", ORDERS, "-n", 3).stdout)) == 3
    assert call("head", ORDERS, "-n", 0).stdout == ""
    few = golden.CLEAN / "sizes-0"
    assert call("head", few).stdout == call("cat", few).stdout


def test_head_reads_no_further_than_needed(tmp_path):
    damaged, first = with_damage(tmp_path)
    ran = call("head", damaged, "-n", first)
    assert ran.exit_code == 0
    assert len(objects(ran.stdout)) == first


def with_damage(tmp_path):
    """Write three batches, the second corrupt; return how many records precede it."""
    batches = []
    for base in (0, 3, 6):
        builder = kafkalog.RecordBatchBuilder(base_offset=base)
        for i in range(3):
            builder.append(None, b"value %d" % i, timestamp=1_700_000_000_000 + i)
        batches.append(bytearray(builder.build()))
    batches[1][-1] ^= 1
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(batches))
    return path, 3


@pytest.mark.parametrize("form", ["jsonl", "json", "csv", "table"])
def test_valid_records_before_damage_are_printed(tmp_path, form):
    path, first = with_damage(tmp_path)
    ran = call("cat", path, "--format", form)
    assert ran.exit_code == 1
    assert str(path) in ran.stderr
    assert "at byte" in ran.stderr
    if form == "json":
        assert len(json.loads(ran.stdout)) == first
    else:
        assert len(ran.stdout.splitlines()) == first + (form != "jsonl")


def test_valid_records_after_damage_are_printed_when_it_is_skipped(tmp_path):
    path, _ = with_damage(tmp_path)
    ran = call("cat", path, "--on-corruption", "skip")
    assert [row["offset"] for row in objects(ran.stdout)] == [0, 1, 2, 6, 7, 8]
    assert ran.exit_code == 1
    assert "offsets 3 to 5" in ran.stderr
    assert f"{path} at byte" in ran.stderr
