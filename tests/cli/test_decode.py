"""``--decode``: records of internal topics as JSON, in every format."""

import csv
import io
import json

import pytest

import kafkalog
from tests import golden_data

from . import golden
from .shell import call, objects, on_terminal

KEY_AND_VALUE = "--columns", "offset,key,value"
COORDINATORS = [
    (name, directory)
    for name in golden_data.SETS
    for directory in golden_data.directories(name)
    if golden_data.truth(name, directory, "decoded") and not directory.startswith("b")
]
OFFSETS = golden.CLEAN / "__consumer_offsets-1"
METADATA = golden.CLEAN / "__cluster_metadata-0"


def lines(*arguments):
    ran = call(*arguments, *KEY_AND_VALUE, "--decode", "--format", "jsonl")
    assert ran.exit_code == 0
    return objects(ran.stdout)


@pytest.mark.parametrize(("name", "directory"), COORDINATORS)
def test_decoded_records_are_printed_as_kafka_decodes_them(name, directory):
    truth = golden_data.truth(name, directory, "decoded")
    truth = [row for row in truth if row["file"].endswith(".log")]
    rows = lines("cat", golden_data.logs(name) / directory)
    assert [row["offset"] for row in rows] == [row["offset"] for row in truth]
    for row, expected in zip(rows, truth, strict=True):
        if "key_type" in expected:
            assert row["key"]["type"] == expected["key_type"]
            assert row["key"]["name"] + "Key" == expected["key_name"]
            assert row["key"]["data"] == expected["key"]
            value = expected["value"]
            version = expected.get("value_version")
            data = None if value is None else {"version": version, "data": value}
            assert row["value"] == data
        else:
            assert row["key"] is None
            assert row["value"]["type"] == expected["type"]
            assert row["value"]["version"] == expected["version"]
            assert row["value"]["data"] == expected["data"]


def test_the_bootstrap_metadata_of_a_cluster_are_decoded():
    bootstrap = "bootstrap.checkpoint"
    truth = golden_data.truth("k431-clean", bootstrap, "decoded")
    rows = lines("cat", golden_data.logs("k431-clean") / bootstrap)
    assert [row["value"]["data"] for row in rows] == [
        expected["data"] for expected in truth
    ]


def test_csv_and_tables_hold_the_same():
    rows = lines("head", OFFSETS)
    ran = call("head", OFFSETS, *KEY_AND_VALUE, "--decode", "--format", "csv")
    for row, cells in zip(rows, csv.DictReader(io.StringIO(ran.stdout)), strict=True):
        assert json.loads(cells["key"]) == row["key"]
        assert json.loads(cells["value"] or "null") == row["value"]
    table = call("head", OFFSETS, *KEY_AND_VALUE, "--decode", "--format", "table")
    assert '{"type":2,"name":"GroupMetadata",' in table.stdout


def test_only_the_requested_columns_are_printed():
    ran = call("tail", OFFSETS, "--columns", "value", "--decode", "--format", "jsonl")
    assert [list(row) for row in objects(ran.stdout)] == [["value"]] * 10


def test_control_records_are_decoded():
    rows = lines("cat", golden_data.logs("k282-clean"), "--control-records")
    controls = [row for row in rows if row["key"] and "COMMIT" in str(row["key"])]
    assert {"type": 1, "name": "COMMIT"} in [row["key"] for row in controls]
    [first, *_] = lines("head", METADATA, "--control-records")
    assert first["key"] == {"type": 2, "name": "LEADER_CHANGE"}
    assert first["value"]["data"]["leaderId"] == 1


def test_topics_of_users_are_printed_as_without_it():
    orders = golden.CLEAN / "orders.zstd-0"
    with_it = call("cat", orders, "--decode", "--format", "jsonl")
    assert with_it.stdout == call("cat", orders, "--format", "jsonl").stdout


def test_invalid_messages_are_reported_with_their_bytes(tmp_path):
    batch = kafkalog.RecordBatchBuilder(base_offset=0)
    batch.append(b"\0\x63", b"ab", timestamp=1)
    batch.append(b"\0\3\0\1g", b"\0\0\0\0", timestamp=1)
    batch.append(b"\0\3\0\3\xe2\x80\xa8", None, timestamp=1)
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(batch.build())
    unknown, damaged, separator = lines("cat", folder)
    assert unknown["key"] == {"error": "record of unknown type 99", "base64": "AGM="}
    assert unknown["value"] == {"error": "record of unknown type 99", "base64": "YWI="}
    assert damaged["value"]["error"] == "epoch: 2 bytes left, expected 4"
    assert separator["key"]["data"] == {"groupId": "\u2028"}
    assert separator["value"] is None
    printed = call("cat", folder, "--decode", "--format", "jsonl").stdout
    assert len(printed.splitlines()) == 3


def test_a_table_wraps_decoded_cells_without_loss():
    cat = "cat", OFFSETS, "--decode", "--columns"
    shown = on_terminal(*cat, "value", width=40, NO_COLOR="1").splitlines()[1:]
    assert max(map(len, shown)) == 40
    text = call(*cat, "offset,value", "--format", "csv").stdout
    rows = csv.DictReader(io.StringIO(text))
    values = [row["value"] or "null" for row in rows]
    assert max(map(len, values)) > 100
    assert "".join(shown) == "".join(values)


def test_cells_next_to_a_wrapped_one_are_printed_once():
    shown = on_terminal("head", OFFSETS, *KEY_AND_VALUE, "--decode", width=60)
    offsets = [line[:6].strip() for line in shown.splitlines()[1:]]
    expected = [str(row["offset"]) for row in lines("head", OFFSETS)]
    assert [one for one in offsets if one] == expected
    assert len(offsets) > len(expected)
