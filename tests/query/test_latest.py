"""The latest record of each key: as a dict has it that is filled record by record."""

from __future__ import annotations

import tracemalloc

import duckdb
import numpy as np
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkalog
from kafkalog.errors import LogArgumentError
from kafkalog.query import latest_records
from kafkalog.query.latest_records import LEAST_MEMORY_BYTES, latest_of
from tests import golden_data
from tests.cli.shell import call, objects

from .batches import KINDS, build

CLEAN = golden_data.logs("k431-clean")
COLUMNS = ("topic", "partition", "offset", "key", "value")
LOGS = [
    (name, path.name)
    for name in golden_data.SETS
    for path in golden_data.partitions(name)
]


def plain(scan, **more):
    return [tuple(row) for chunk in scan.chunks(**more) for row in chunk]


def last_of(rows, *, tombstones=False):
    """Return the last row of each partition and key, in order of their places."""
    last = {}
    for row in rows:
        if row[3] is not None:
            last.pop((row[0], row[1], row[3]), None)
            last[row[0], row[1], row[3]] = row
    found = [row for row in last.values() if tombstones or row[4] is not None]
    return sorted(found, key=lambda row: (rows.index(row),))


@pytest.mark.parametrize(("name", "directory"), LOGS)
def test_the_latest_records_of_a_log_are_those_of_a_dict(name, directory):
    place = golden_data.logs(name) / directory
    try:
        rows = plain(kafkalog.scan(place, columns=COLUMNS))
    except kafkalog.CorruptionError:
        rows = None
    for tombstones in (False, True):
        scan = kafkalog.latest(place, columns=COLUMNS, tombstones=tombstones)
        if rows is None:
            with pytest.raises(kafkalog.CorruptionError):
                plain(scan)
            continue
        assert plain(scan) == last_of(rows, tombstones=tombstones)


KEYS = st.sampled_from([None, b"", b"a", b"b", b"key", b"key\0"])
VALUES = st.none() | st.binary(max_size=3)


@given(
    batches=st.lists(
        st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=9), min_size=1
    ),
    gap=st.integers(0, 3),
    tombstones=st.booleans(),
    start=st.integers(0, 20),
)
def test_the_latest_records_of_batches_are_those_of_a_dict(
    batches, gap, tombstones, start
):
    data, offset = b"", 0
    for records in batches:
        builder = kafkalog.RecordBatchBuilder(base_offset=offset)
        for key, value in records:
            builder.append(key, value, timestamp=offset, offset=offset)
            offset += 1 + gap
        data += builder.build()
    for bounds in ({"start_offset": start}, {"end_timestamp": start}):
        rows = plain(kafkalog.scan(data, columns=COLUMNS, **bounds))
        scan = kafkalog.latest(data, columns=COLUMNS, tombstones=tombstones, **bounds)
        expected = last_of(rows, tombstones=tombstones)
        assert plain(scan) == expected
        assert scan.count() == len(expected)


@pytest.mark.parametrize(("magic", "codec"), KINDS)
def test_batches_of_every_format_have_latest_records(magic, codec):
    data = b"".join(build(magic, codec, first, 5) for first in range(0, 50, 5))
    rows = plain(kafkalog.scan(data, columns=COLUMNS))
    assert plain(kafkalog.latest(data, columns=COLUMNS)) == last_of(rows)


def test_every_output_has_the_latest_records():
    topics = ["state.*", "ledger"]
    scan = kafkalog.latest(CLEAN, topics=topics, columns=COLUMNS)
    rows = plain(scan)
    assert rows == last_of(plain(kafkalog.scan(CLEAN, topics=topics, columns=COLUMNS)))
    assert len(rows) > 100
    views = [tuple(row) for chunk in scan.chunks(views=True) for row in chunk]
    assert views == rows
    again = kafkalog.latest(CLEAN, topics=topics, columns=COLUMNS, threads=2)
    assert plain(again) == rows
    table = scan.to_arrow()
    assert table["offset"].to_pylist() == [row[2] for row in rows]
    assert scan.count() == len(rows)
    assert len(scan.to_pandas()) == scan.to_polars().height == len(rows)
    assert polars.DataFrame(scan).height == len(rows)
    assert duckdb.sql("select count(*) from scan").fetchall() == [(len(rows),)]
    assert scan.head(3).to_pylist() == table[:3].to_pylist()
    limited = kafkalog.latest(CLEAN, topics=topics, columns=COLUMNS, limit=7)
    assert plain(limited) == rows[:7]
    assert "latest of each key" in repr(scan)


def test_a_filter_of_an_engine_comes_after_the_latest():
    scan = kafkalog.latest(CLEAN / "state.gzip-0", columns=COLUMNS)
    rows = plain(scan)
    middle = rows[len(rows) // 2][2]
    found = scan.lazy().filter(polars.col("offset") < middle).collect()
    assert found["offset"].to_list() == [row[2] for row in rows if row[2] < middle]
    assert 0 < len(found) < len(rows)


def test_options_select_the_records_of_which_the_latest_are_returned():
    state = CLEAN / "state.txn-0"
    rows = plain(kafkalog.scan(state, columns=COLUMNS))
    for options in (
        {"isolation": "read_committed"},
        {"end_offset": rows[len(rows) // 2][2]},
        {"keys": [rows[-1][3], rows[0][3]]},
        {"producer_ids": [-1]},
    ):
        some = plain(kafkalog.scan(state, columns=COLUMNS, **options))
        found = plain(kafkalog.latest(state, columns=COLUMNS, **options))
        assert found == last_of(some)
        assert some != rows


def test_columns_need_no_keys():
    scan = kafkalog.latest(CLEAN / "state.gzip-0", columns=["offset"])
    both = kafkalog.latest(CLEAN / "state.gzip-0", columns=COLUMNS)
    assert [row[0] for row in plain(scan)] == [row[2] for row in plain(both)]


def test_damage_that_is_skipped_is_listed_once():
    damaged = bytearray(build(2, "none", 0, 5) + build(2, "none", 5, 5))
    damaged[-1] ^= 1
    scan = kafkalog.latest(bytes(damaged), on_corruption="skip", columns=["offset"])
    assert [row[0] for row in plain(scan)] == [1, 2, 4]
    assert [problem.first_offset for problem in scan.problems] == [5]


def log_of(path, keys, each=2000):
    """Write a log of these keys, and return the offset of the last of each."""
    with kafkalog.open(path, "a") as log:
        for first in range(0, len(keys), each):
            some = keys[first : first + each]
            log.append_records({"key": some, "value": [b"v"] * len(some)})
    return sorted({key: offset for offset, key in enumerate(keys)}.values())


def test_more_keys_than_the_memory_holds_are_read_in_parts(tmp_path, monkeypatch):
    random = np.random.default_rng(1)
    keys = [b"key-%d" % number for number in random.integers(0, 20_000, 60_000)]
    expected = log_of(tmp_path / "state-0", keys)
    parts = []
    one = latest_records._offsets_of
    monkeypatch.setattr(
        latest_records,
        "_offsets_of",
        lambda *arguments: parts.append(arguments[2:]) or one(*arguments),
    )
    whole = kafkalog.latest(tmp_path / "state-0", columns=["offset"])
    assert whole.to_arrow()["offset"].to_pylist() == expected
    assert parts == [(0, 1)]
    small = kafkalog.latest(
        tmp_path / "state-0", columns=["offset"], memory_bytes=LEAST_MEMORY_BYTES
    )
    assert small.to_arrow()["offset"].to_pylist() == expected
    assert max(divisor for _, divisor in parts) > 8


@pytest.mark.slow
def test_the_memory_is_that_of_the_table_and_of_the_offsets(tmp_path):
    keys = [b"key-%d" % number for number in range(400_000)]
    log_of(tmp_path / "state-0", keys, 50_000)
    budget = 4 << 20
    peaks = []
    for read in (
        lambda: kafkalog.scan(tmp_path, columns=["offset", "key"]).count(),
        lambda: sum(
            map(len, kafkalog.scan(tmp_path, columns=["key"]).chunks(views=True))
        ),
        lambda: kafkalog.latest(
            tmp_path, columns=["offset"], memory_bytes=budget
        ).count(),
    ):
        read()
        tracemalloc.start()
        read()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < max(peaks[:2]) + budget + 16 * len(keys) + (8 << 20)


def test_keys_that_no_part_holds_are_an_error(tmp_path, monkeypatch):
    log_of(tmp_path / "state-0", [b"key-%d" % number for number in range(9000)])
    monkeypatch.setattr(latest_records, "MAX_PARTS", 2)
    scan = kafkalog.latest(tmp_path, memory_bytes=LEAST_MEMORY_BYTES)
    with pytest.raises(LogArgumentError, match="even in 2 parts: expected more"):
        scan.count()


def test_offsets_that_do_not_ascend_are_rejected():
    scan = kafkalog.latest(build(2, "none", 9) + build(2, "none", 0))
    with pytest.raises(LogArgumentError, match="do not ascend, expected those of one"):
        scan.to_arrow()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"sample": 0.5, "seed": 1}, TypeError, "latest of a scan with sample and see"),
        ({"control_records": True}, TypeError, "latest of a scan with control_rec"),
        ({"memory_bytes": 1}, ValueError, "memory_bytes 1, expected 65536 or more"),
    ],
)
def test_other_options_are_rejected(options, error, message):
    with pytest.raises(error, match=message):
        kafkalog.latest(CLEAN, **options)


def test_the_command_prints_the_latest_records():
    state = CLEAN / "state.gzip-0"
    for options, arguments in (
        ([], {}),
        (["--tombstones"], {"tombstones": True}),
        (["--end-offset", 350, "-n", 3], {"end_offset": 350, "limit": 3}),
        (["--key", "key-22"], {"keys": "key-22"}),
    ):
        ran = call("latest", state, *options, "--columns", "offset,value")
        assert ran.exit_code == 0, ran.output
        rows = plain(kafkalog.latest(state, columns=["offset", "value"], **arguments))
        printed = [(row["offset"], row["value"]) for row in objects(ran.stdout)]
        assert printed == [
            (offset, None if value is None else value.decode())
            for offset, value in rows
        ]
        assert rows


def test_latest_of_a_scan_is_another_scan():
    scan = kafkalog.scan(CLEAN / "state.gzip-0")
    every = scan.count()
    assert latest_of(scan).count() < every
    assert scan.count() == every
