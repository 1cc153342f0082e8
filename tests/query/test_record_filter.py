"""Records by key, header and producer: those picked one by one, in all outputs."""

from __future__ import annotations

import pickle

import duckdb
import polars
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkalog
from kafkalog.query.tailing import last_records
from tests import golden_data

from .batches import KINDS, build

CLEAN = golden_data.logs("k431-clean")
TOPICS = ["orders.*", "state.*", "clock.*", "ledger"]


def plain(records):
    """Return the rows of chunks or views: columns that all filters need, and others."""
    return [
        (
            chunk.topic,
            *row,
        )
        for chunk in records
        for row in zip(
            chunk.partition.tolist(),
            chunk.offset.tolist(),
            chunk.timestamp.tolist(),
            chunk.key.to_list(),
            chunk.value.to_list(),
            map(tuple, chunk.headers.to_list()),
            chunk.producer_id.tolist(),
            chunk.sequence.tolist(),
            chunk.position.tolist(),
            strict=True,
        )
    ]


COLUMNS = (
    *("topic", "partition", "offset", "timestamp", "key", "value", "headers"),
    *("producer_id", "sequence", "position"),
)
EVERY = plain(kafkalog.scan(CLEAN, columns=COLUMNS, topics=TOPICS).chunks())


def is_selected(row, keys=None, headers=(), producer_ids=None):
    """Return whether a record meets conditions, one after another."""
    return (
        (keys is None or row[4] in keys)
        and all(
            any(key == name and value in (None, found) for key, found in row[6])
            for name, value in headers
        )
        and (producer_ids is None or row[7] in producer_ids)
    )


def values_of(column):
    return sorted({row[column] for row in EVERY}, key=repr)


KEYS = st.sampled_from([*values_of(4), b"", b"key-1\0", b"missing"])
HEADERS = sorted({pair for row in EVERY for pair in row[6]}, key=repr)
HEADER = st.sampled_from([*HEADERS, (b"missing", None)]).flatmap(
    lambda pair: st.sampled_from([pair, (pair[0], None), (pair[0], b"other")])
)


@given(
    keys=st.none() | st.frozensets(KEYS, max_size=4),
    headers=st.lists(HEADER, max_size=2),
    producer_ids=st.none() | st.frozensets(st.sampled_from([*values_of(7), 99])),
)
def test_records_are_those_picked_one_by_one(keys, headers, producer_ids):
    filters = {"keys": keys, "headers": headers, "producer_ids": producer_ids}
    scan = kafkalog.scan(CLEAN, columns=COLUMNS, topics=TOPICS, **filters)
    expected = [row for row in EVERY if is_selected(row, **filters)]
    assert plain(scan.chunks()) == expected
    assert scan.count() == len(expected)


def test_conditions_are_of_records_that_the_golden_data_has():
    assert len(HEADERS) > 3
    assert {len(pair) for pair in HEADERS} == {2}
    assert len(values_of(4)) > 20
    assert None in values_of(4)
    assert len(values_of(7)) > 3


CASES = {
    "a key": {"keys": "key-16"},
    "the null key": {"keys": [None]},
    "several keys": {"keys": [b"key-1", "key-22", None]},
    "a header": {"headers": [HEADERS[0][0]]},
    "a producer": {"producer_ids": values_of(7)[-1]},
    "a key and a producer": {"keys": b"key-1", "producer_ids": values_of(7)},
}


@pytest.mark.parametrize("filters", CASES.values(), ids=CASES)
def test_every_output_has_the_same_records(filters):
    def scanned(**more):
        return kafkalog.scan(CLEAN, topics=TOPICS, columns=COLUMNS, **filters, **more)

    scan = scanned()
    rows = plain(scan.chunks())
    assert 0 < len(rows) < len(EVERY)
    assert plain(scan.chunks(views=True)) == rows
    assert [row for chunk in scan.chunks(reuse=True) for row in plain([chunk])] == rows
    assert plain(scanned(threads=2).chunks()) == rows
    assert plain(scanned(threads=2).chunks(views=True)) == rows
    table = scan.to_arrow()
    assert table["offset"].to_pylist() == [row[2] for row in rows]
    assert table["value"].to_pylist() == [row[5] for row in rows]
    assert [[(p["key"].encode(), p["value"]) for p in h] for h in
            table["headers"].to_pylist()] == [list(row[6]) for row in rows]  # fmt: skip
    stream = pa.RecordBatchReader.from_stream(scan)
    assert stream.read_all().to_pylist() == table.to_pylist()
    assert len(scan.to_pandas()) == len(rows)
    assert scan.to_polars().height == len(rows)
    assert duckdb.sql("select count(*) from scan").fetchall() == [(len(rows),)]
    offset = polars.col("offset")
    assert scan.lazy().filter(offset > 9).collect().height == sum(
        row[2] > 9 for row in rows
    )
    for some in (["offset"], ["topic", "position"], []):
        for checked in (True, False):
            fewer = kafkalog.scan(
                CLEAN, topics=TOPICS, columns=some, check_crcs=checked, **filters
            )
            assert fewer.to_arrow() == table.select(some)
            assert fewer.count() == len(rows)
    limited = scanned(limit=3)
    assert plain(limited.chunks()) == rows[:3]
    assert limited.count() == min(3, len(rows))
    assert scan.head(2).to_pylist() == table[:2].to_pylist()
    dataset = kafkalog.dataset(CLEAN, topics=TOPICS, columns=COLUMNS, **filters)
    assert dataset.to_table() == table
    assert dataset.count_rows() == len(rows)
    source = kafkalog.duckdb_source(CLEAN, topics=TOPICS, columns=COLUMNS, **filters)
    with duckdb.connect() as database:
        database.register("log", source)
        found = database.sql("select count(*) from log").fetchall()
    assert found == [(len(rows),)]
    parts = kafkalog.splits(CLEAN, 3000, topics=TOPICS, columns=COLUMNS, **filters)
    assert len(parts) > 5
    scans = [pickle.loads(pickle.dumps(part)).scan() for part in parts]
    assert [row for part in scans for row in plain(part.chunks())] == rows


def test_tables_keep_their_columns_where_every_record_is_selected():
    data = b"".join(build(2, "zstd", first, 9) for first in range(0, 9000, 9))
    data += b"".join(build(2, "none", first, 9) for first in range(9000, 99_000, 9))
    for filters in (
        {"sample": 1},
        {"keys": [None, *(b"k%d" % i for i in range(99_000))]},
    ):
        scan = kafkalog.scan(data, columns=["offset", "timestamp", "key"], **filters)
        every = kafkalog.scan(data, columns=["offset", "timestamp", "key"])
        assert scan.to_arrow() == every.to_arrow()
        held = list(scan.chunks())
        offsets = [offset for records in held for offset in records.offset.tolist()]
        assert offsets == [*range(99_000)]


@pytest.mark.parametrize(("magic", "codec"), KINDS)
def test_batches_of_every_format_are_filtered(magic, codec):
    data = b"".join(build(magic, codec, first, 7) for first in range(0, 70, 7))
    scan = kafkalog.scan(data, keys=["k4", "k8", "k50", "k51"])
    [*offsets] = [at for chunk in scan.chunks() for at in chunk.offset.tolist()]
    assert offsets == [4, 8, 50]
    nulls = kafkalog.scan(data, keys=[None], columns=["offset"]).to_arrow()
    assert nulls["offset"].to_pylist() == [*range(0, 70, 3)]
    producers = {-1: 70, 7: 0} if magic < 2 else {-1: 0, 7: 70}
    for producer, count in producers.items():
        assert kafkalog.scan(data, producer_ids=producer).count() == count


def test_bounds_and_isolation_come_with_the_filters():
    state = CLEAN / "state.txn-0"
    table = kafkalog.scan(state).to_arrow()
    keys = table["key"].to_pylist()
    wanted = max(set(keys), key=keys.count)
    first, *_, last = kafkalog.scan(state, keys=wanted).to_arrow()["offset"].to_pylist()
    for bounds in (
        {"isolation": "read_committed"},
        {"start_offset": first + 1, "end_offset": last + 1},
        {"control_records": True},
    ):
        rows = kafkalog.scan(state, **bounds).to_arrow().to_pylist()
        expected = [row["offset"] for row in rows if row["key"] == wanted]
        found = kafkalog.scan(state, keys=wanted, **bounds).to_arrow()
        assert found["offset"].to_pylist() == expected
        assert len(expected) > 0


def test_damage_is_reported_whatever_is_selected():
    damaged = bytearray(build(2, "none", 0, 5) + build(2, "none", 5, 5))
    damaged[-1] ^= 1
    with pytest.raises(kafkalog.CorruptionError):
        kafkalog.scan(bytes(damaged), keys="k1").to_arrow()
    with pytest.raises(kafkalog.CorruptionError):
        kafkalog.scan(bytes(damaged), producer_ids=99).to_arrow()
    scan = kafkalog.scan(bytes(damaged), keys=["k1", "k7"], on_corruption="skip")
    assert scan.to_arrow()["offset"].to_pylist() == [1]
    assert [problem.first_offset for problem in scan.problems] == [5]
    assert scan.count() == 1
    assert [problem.first_offset for problem in scan.problems] == [5]


def test_the_last_records_are_those_with_the_key():
    scan = kafkalog.scan(CLEAN / "state.gzip-0", keys="key-16", columns=["offset"])
    offsets = scan.to_arrow()["offset"].to_pylist()
    for count in (0, 1, 3, len(offsets), 99):
        last = last_records(scan, count).to_arrow()["offset"].to_pylist()
        assert last == offsets[len(offsets) - min(count, len(offsets)) :]
    producer = values_of(7)[-1]
    scan = kafkalog.scan(CLEAN, topics=TOPICS, producer_ids=producer)
    table = scan.to_arrow()
    last = last_records(scan, len(table)).to_arrow()
    assert last == table


def test_a_header_may_be_a_mapping_a_pair_or_a_key():
    name, value = next(pair for pair in HEADERS if pair[1] is not None)
    text = name.decode()
    counts = {
        kafkalog.scan(CLEAN, topics=TOPICS, headers=headers).count()
        for headers in ({text: value}, {name: value}, [(text, value)], [(name, value)])
    }
    assert len(counts) == 1
    counts = {
        kafkalog.scan(CLEAN, topics=TOPICS, headers=headers).count()
        for headers in (text, [name], {text: None}, [(name, None)])
    }
    assert len(counts) == 1


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"keys": [7]}, "key 7, expected bytes or text"),
        ({"headers": {"name": 7}}, "header value 7, expected bytes or text"),
        ({"headers": {7: None}}, "header 7, expected bytes or text"),
        ({"producer_ids": ["7"]}, "producer id '7', expected an integer"),
        ({"producer_ids": True}, "producer id True, expected an integer"),
    ],
)
def test_other_conditions_are_rejected(filters, message):
    with pytest.raises(TypeError, match=message):
        kafkalog.scan(CLEAN, **filters)


@pytest.mark.parametrize("function", [kafkalog.stats, kafkalog.batches])
def test_what_is_not_read_by_record_has_no_filters(function):
    with pytest.raises(TypeError, match="of a scan with headers and keys"):
        function(CLEAN, keys="k", headers="h")
