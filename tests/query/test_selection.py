"""Scans of some topics, partitions and records; records one by one; scans twice."""

from __future__ import annotations

import pickle

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import kafkalog
from kafkalog.query.scan_columns import COLUMNS
from tests import golden_data

LOGS = golden_data.logs("k431-clean")


def topics_of(scan):
    return {source.topic for source, _ in scan.sources}


def test_topics_are_chosen_by_name_and_pattern():
    assert topics_of(kafkalog.scan(LOGS, topics="sizes")) == {"sizes"}
    known = topics_of(kafkalog.scan(LOGS))
    for pattern, matches in (
        ("state*", lambda name: name.startswith("state")),
        ("*.gzip", lambda name: name.endswith(".gzip")),
        ("[cs]*", lambda name: name[0] in "cs"),
        ("size?", lambda name: name == "sizes"),
    ):
        expected = set(filter(matches, known))
        assert expected
        assert topics_of(kafkalog.scan(LOGS, topics=[pattern])) == expected
    both = kafkalog.scan(LOGS, topics=["sizes", "*.lz4"])
    assert topics_of(both) == {"sizes"} | {n for n in known if n.endswith(".lz4")}


def test_partitions_are_chosen_by_number():
    scan = kafkalog.scan(LOGS, partitions=1)
    assert {source.partition for source, _ in scan.sources} == {1}
    both = kafkalog.scan(LOGS, partitions=[0, 1])
    assert len(both.sources) > len(scan.sources)
    for chosen, expected in ((np.int64(1), scan), (np.arange(2), both)):
        assert kafkalog.scan(LOGS, partitions=chosen) == expected


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ({"topics": "none"}, "No such topic: 'none'"),
        ({"topics": ["sizes", "n*"]}, r"No such topic: 'n\*'"),
        ({"partitions": 99}, "No such partition: '99'"),
        ({"topics": ["SIZES"]}, "No such topic: 'SIZES'"),
        ({"topics": ["sizes", "o*.lz4"], "partitions": 1}, r"'1 of sizes, o\*\.lz4'"),
    ],
)
def test_a_selection_without_a_match_is_an_error(selection, message):
    with pytest.raises(FileNotFoundError, match=message):
        kafkalog.scan(LOGS, **selection)


@pytest.mark.parametrize("limit", [5.0, True])
def test_a_limit_is_an_integer(limit):
    with pytest.raises(TypeError, match=f"limit {limit}, expected an integer"):
        kafkalog.scan(LOGS, limit=limit)


@pytest.mark.parametrize("chosen", [{"topics": []}, {"partitions": ()}])
def test_an_empty_selection_does_not_stand_for_all(chosen):
    with pytest.raises(ValueError, match=r"expected at least one, or None for all"):
        kafkalog.scan(LOGS, **chosen)


@pytest.mark.parametrize(
    ("count", "error"), [(-1, ValueError), (2.5, TypeError), (True, TypeError)]
)
def test_a_head_has_no_records_or_more(count, error):
    scan = kafkalog.scan(LOGS, topics="sizes")
    for has_head in (scan, next(scan.chunks())):
        with pytest.raises(error, match=f"count {count}, expected"):
            has_head.head(count)


@pytest.mark.parametrize("read", [kafkalog.scan, kafkalog.verify, kafkalog.repair])
def test_empty_text_is_no_path(read, monkeypatch):
    monkeypatch.chdir(LOGS)
    with pytest.raises(FileNotFoundError):
        read("")


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("limit", [0, 1, 7, 150, 10_000])
def test_a_limit_keeps_the_first_records(limit, threads):
    columns = [*COLUMNS[:8], "codec", "segment"]
    whole = kafkalog.scan(LOGS, columns=columns).to_arrow()
    scan = kafkalog.scan(LOGS, columns=columns, limit=limit, threads=threads)
    expected = whole.slice(0, limit).to_pylist()
    assert scan.to_arrow().to_pylist() == expected
    assert scan.count() == len(expected)
    assert kafkalog.scan(LOGS, columns=columns).head(limit).to_pylist() == expected
    assert scan.head(3).to_pylist() == expected[:3]


@pytest.mark.parametrize("views", [False, True])
def test_records_iterate_as_named_tuples_of_the_columns(views):
    columns = ["value", "topic", "key", "headers", "timestamp", "codec", "segment"]
    scan = kafkalog.scan(LOGS, columns=columns)
    rows = [row._asdict() for chunk in scan.chunks(views=views) for row in chunk]
    expected = scan.to_arrow()
    times = expected["timestamp"].cast(pa.int64()).to_pylist()
    assert [row.pop("timestamp") for row in rows] == times
    for row in rows:
        row["headers"] = [
            {"key": key.decode(), "value": value} for key, value in row["headers"]
        ]
    assert rows == expected.drop_columns("timestamp").to_pylist()


def test_records_without_columns_iterate_as_empty_tuples():
    scan = kafkalog.scan(LOGS, columns=[])
    assert [len(list(chunk)) for chunk in scan.chunks()] == [
        len(chunk) for chunk in scan.chunks()
    ]


@pytest.mark.parametrize("column", ["key", "headers"])
def test_records_convert_to_an_arrow_batch(column):
    scan = kafkalog.scan(LOGS, columns=COLUMNS)
    batches = [chunk.to_arrow() for chunk in scan.chunks()]
    assert pa.Table.from_batches(batches).unify_dictionaries() == scan.to_arrow()
    scan = kafkalog.scan(LOGS, columns=[column], topics="sizes")
    chunk = next(scan.chunks(views=True))
    with pytest.raises(TypeError, match="views=True"):
        chunk.to_arrow()


@pytest.mark.parametrize("threads", [1, 2])
def test_headers_of_views_can_be_read_after_the_last_chunk(threads):
    scan = kafkalog.scan(LOGS, columns=["headers"], threads=threads)
    expected = [chunk.headers.to_list() for chunk in scan.chunks()]
    views = list(scan.chunks(views=True))
    copies = pickle.loads(pickle.dumps(views))
    for chunks in (views, copies):
        assert [chunk.headers.to_list() for chunk in chunks] == expected
        assert [chunk.headers.head(2).to_list() for chunk in chunks] == [
            rows[:2] for rows in expected
        ]
        assert [len(chunk.headers) for chunk in chunks] == list(map(len, expected))
    assert any(any(rows) for rows in expected)


def test_a_scan_pickles():
    scan = kafkalog.scan(LOGS, topics="s*", start_offset=3, isolation="read_committed")
    assert pickle.loads(pickle.dumps(scan)).to_arrow() == scan.to_arrow()


def test_duckdb_reads_a_scan_twice_in_a_query():
    scan = kafkalog.scan(LOGS, topics="s*")
    query = """
        select count(*), sum(a."offset" - b."offset")
        from scan a join scan b using (topic, partition, "offset")
    """
    assert duckdb.sql(query).fetchall() == [(scan.count(), 0)]
