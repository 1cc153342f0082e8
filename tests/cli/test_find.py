"""``find``: locations of records, compared with what Kafka reports of each."""

import re
from collections import Counter

import pytest

import kafkalog
from kafkalog.query.scan_columns import COLUMNS
from tests import golden_data
from tests.query import batches, kafka_rows

from . import golden
from .shell import call, objects

AT = {name: slot for slot, name in enumerate(COLUMNS)}
PLACE = ("topic", "partition", "offset", "timestamp")
CLEAN = "k431-clean"
MEMBERS = [*PLACE, "path", "position", "record_index"]


def found(*arguments):
    ran = call("find", *arguments)
    assert ran.exit_code == 0, ran.output
    return objects(ran.stdout)


def expected_places(name, meets, *, first=False, control=False):
    """Return the locations of a set's records that meet a condition, from Kafka."""
    places = []
    for directory in golden.partitions(name):
        start = golden.LOG_STARTS.get((name, directory), 0)
        before, here = Counter(), []
        for file, row in kafka_rows.records(name, directory):
            if not file.endswith(".log"):
                continue
            batch = file, row[AT["position"]]
            index, before[batch] = before[batch], before[batch] + 1
            expected = row[AT["offset"]] >= start and (
                control or not row[AT["is_control"]]
            )
            if expected and meets(row):
                path = kafka_rows.path_of(name, directory, file)
                cells = [row[AT[one]] for one in PLACE]
                here.append([*cells, str(path), batch[1], index])
        places += here[:1] if first else here
    return [dict(zip(MEMBERS, one, strict=True)) for one in places]


@pytest.mark.parametrize("name", golden_data.SETS)
def test_every_record_is_found_at_its_location(name):
    places = found(golden_data.logs(name), "--value-pattern", "", "--key-pattern", "")
    expected = expected_places(
        name, lambda row: None not in (row[AT["key"]], row[AT["value"]])
    )
    assert places == expected
    assert [list(one) for one in places] == [MEMBERS] * len(places)


@pytest.mark.parametrize("name", golden_data.SETS)
def test_a_key_is_found_by_its_pattern(name):
    pattern = re.compile(rb"^key-[1-3]\d$")

    def meets(row):
        key = row[AT["key"]]
        return isinstance(key, str) and bool(pattern.search(bytes.fromhex(key)))

    assert found(
        golden_data.logs(name), "--key-pattern", r"^key-[1-3]\d$"
    ) == expected_places(name, meets)


def test_the_first_record_at_or_after_a_time_is_found_in_each_partition():
    time = 1_700_000_050_000
    places = found(golden.CLEAN, "--timestamp", str(time))
    expected = expected_places(
        CLEAN, lambda row: (row[AT["timestamp"]] or -1) >= time, first=True
    )
    assert places == expected
    assert found(golden.CLEAN, "--timestamp", "2023-11-14T22:14:10Z") == expected


def test_a_producer_is_found_and_any_of_several():
    expected = expected_places(CLEAN, lambda row: row[AT["producer_id"]] in (1, 3))
    assert expected
    assert found(golden.CLEAN, "--producer-id", "1", "--producer-id", "3") == expected
    with_control = expected_places(
        CLEAN, lambda row: row[AT["producer_id"]] == 3, control=True
    )
    options = ("--producer-id", "3", "--control-records")
    assert found(golden.CLEAN, *options) == with_control
    assert len(with_control) > len(found(golden.CLEAN, "--producer-id", "3"))


def test_headers_are_found_by_name_by_value_and_several():
    def has(row, name):
        return any(key == name for key, _ in row[AT["headers"]])

    def both(row):
        return has(row, "h3") and has(row, "h2")

    assert found(golden.CLEAN, "--header-pattern", "h3") == expected_places(
        CLEAN, lambda row: has(row, "h3")
    )
    assert found(
        golden.CLEAN, "--header-pattern", "h3", "--header-pattern", "h2"
    ) == expected_places(CLEAN, both)


def test_all_conditions_must_match(tmp_path):
    path = tmp_path / "0.log"
    path.write_bytes(batches.build(2, "lz4", 0) + batches.build(2, "none", 3, 4))
    options = {
        ("--key-pattern", "4"): [4],
        ("--key-pattern", "k"): [1, 2, 4, 5],
        ("--key-pattern", ""): [1, 2, 4, 5],
        ("--value-pattern", "^value [35]$"): [3, 5],
        ("--header-pattern", "h"): [1, 3, 5],
        ("--header-pattern", "h=^x$"): [1, 3, 5],
        ("--header-pattern", "h=y"): [],
        ("--header-pattern", "n=x"): [],
        ("--header-pattern", "n="): [],
        ("--key-pattern", "k", "--header-pattern", "n"): [1, 5],
        ("--offset", "5", "--key-pattern", "k"): [5],
        ("--offset", "3", "--key-pattern", "k"): [],
        ("--value-pattern", "value", "--start-offset", "2", "--end-offset", "5"): [
            2,
            3,
            4,
        ],
        ("--offset", "5", "--end-offset", "5"): [],
        ("--timestamp", str(batches.T + 3), "--header-pattern", "h"): [3],
        ("--timestamp", str(batches.T + 3), "--key-pattern", "k"): [4],
        ("--value-pattern", "value", "-n", "2"): [0, 1],
        ("--producer-id", "7"): [0, 1, 2, 3, 4, 5, 6],
        ("--producer-id", "8"): [],
    }
    for arguments, offsets in options.items():
        assert [one["offset"] for one in found(path, *arguments)] == offsets, arguments


@pytest.mark.parametrize(("magic", "codec"), batches.KINDS)
def test_the_record_index_counts_from_the_batchs_first_record(tmp_path, magic, codec):
    first = batches.build(magic, codec, 0)
    path = tmp_path / "0.log"
    path.write_bytes(first + batches.build(magic, codec, 3))
    [place] = found(path, "--offset", "4")
    alone = magic < 2 and codec == "none"
    size = len(first) // 3 if alone else len(first)
    assert place["record_index"] == (0 if alone else 1)
    assert place["position"] == size * (4 if alone else 1)


def test_finding_nothing_ends_with_0():
    ran = call("find", golden.CLEAN, "--offset", "99999999")
    assert (ran.exit_code, ran.stdout) == (0, "")
    assert ran.stderr.startswith("kafkalog: no record found")


def test_a_control_record_at_the_offset_is_reported():
    markers = expected_places(CLEAN, lambda row: row[AT["is_control"]], control=True)
    place = next(one for one in markers if one["topic"] == "ledger")
    at = "--offset", str(place["offset"])
    directory = golden.CLEAN / f"ledger-{place['partition']}"
    ran = call("find", directory, *at)
    assert (ran.exit_code, ran.stdout) == (0, "")
    nothing = "kafkalog: no record found, partitions and files searched: 1\n"
    hint = (
        f"kafkalog: the record at offset {place['offset']} is a control record: "
        "--control-records includes it\n"
    )
    assert ran.stderr == nothing + hint
    assert found(directory, *at, "--control-records") == [place]
    assert call("find", directory, *at, "--key-pattern", "k").stderr == nothing
    later = str(place["timestamp"] + 1)
    assert call("find", directory, *at, "--timestamp", later).stderr == nothing


def test_any_bytes_can_be_searched_for(tmp_path):
    batch = kafkalog.RecordBatchBuilder(base_offset=0)
    batch.append(b"\xff\x00", b"line\nbreak", timestamp=1)
    path = tmp_path / "0.log"
    path.write_bytes(batch.build())
    for arguments in (
        ("--key-pattern", r"\xff"),
        ("--key-pattern", "\udcff"),
        ("--value-pattern", "e$"),
    ):
        ran = call("find", path, *arguments)
        assert len(objects(ran.stdout)) == (arguments[1] != "e$"), arguments
    assert found(path, "--value-pattern", "(?m)e$")


def test_damage_is_skipped_on_request_and_reported(tmp_path):
    path = tmp_path / "0.log"
    first = batches.build(2, "none", 0)
    bad = bytearray(batches.build(2, "none", 3))
    bad[-1] ^= 1
    path.write_bytes(first + bad + batches.build(2, "none", 6))
    ran = call("find", path, "--value-pattern", "value", "--on-corruption", "skip")
    assert ran.exit_code == 1
    assert [one["offset"] for one in objects(ran.stdout)] == [0, 1, 2, 6, 7, 8]
    assert f"{path} at byte {len(first)}" in ran.stderr
    ran = call("find", path, "--value-pattern", "value")
    assert (ran.exit_code, len(objects(ran.stdout))) == (1, 3)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--key-pattern", "("),
        ("--header-pattern", "h=["),
        ("--offset", "-1"),
        ("--timestamp", "1", "--start-timestamp", "2"),
    ],
)
def test_contradicting_filters_are_a_usage_error(arguments):
    ran = call("find", golden.CLEAN, *arguments)
    assert (ran.exit_code, ran.stdout) == (2, "")


def test_the_contents_of_a_record_are_printed_on_request():
    columns = "--columns", "offset,value,headers,key,position"
    place = golden.CLEAN / "orders.none-0"
    ran = found(place, "--header", "bin", *columns)
    scan = kafkalog.scan(place, headers="bin", columns=["key", "value", "headers"])
    [record] = [row for chunk in scan.chunks() for row in chunk]
    [printed] = ran
    assert [*printed] == columns[1].split(",")
    assert printed["key"].encode() == record.key
    assert printed["value"].encode() == record.value
    assert printed["headers"] == [["頭部-🧠", "ü"], ["bin", {"base64": "AP9/gA=="}]]
    csv = call("find", place, "--header", "bin", *columns, "--format", "csv").stdout
    headers = '"[[""頭部-🧠"", ""ü""], [""bin"", {""base64"": ""AP9/gA==""}]]"'
    row = f"{printed['offset']},v,{headers},with-headers,{printed['position']}"
    assert csv.splitlines() == [columns[1], row]
    table = call("find", place, "--header", "bin", *columns, "--format", "table").stdout
    assert "bin=base64: AP9/gA==" in table


def test_null_and_an_empty_string_differ_in_csv(tmp_path):
    batch = kafkalog.RecordBatchBuilder(base_offset=0)
    for value in (None, b"", b"null"):
        batch.append(b"k", value, timestamp=1)
    path = tmp_path / "0.log"
    path.write_bytes(batch.build())
    ran = call("find", path, "--key", "k", "--columns", "value,offset")
    values = [row["value"] for row in objects(ran.stdout)]
    assert values == [None, "", "null"]
    ran = call(
        "find", path, "--key", "k", "--columns", "value,offset", "--format", "csv"
    )
    assert ran.stdout.splitlines() == ["value,offset", ",0", '"",1', "null,2"]


def test_an_unknown_column_is_a_usage_error_that_names_a_similar_one():
    ran = call("find", golden.CLEAN, "--key", "k", "--columns", "offset,valeu")
    assert ran.exit_code == 2
    assert "valeu (did you mean value?)" in ran.stderr
