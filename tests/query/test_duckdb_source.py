"""DuckDB gets an estimate of a log's rows, and plans its joins by it."""

from __future__ import annotations

import json
from collections import Counter

import duckdb
import pyarrow as pa
import pytest

import kafkalog
from kafkalog.query.splits import estimate_records
from tests import golden_data

LOGS = golden_data.logs("k431-clean")


def uniform_log(codec, batches=300):
    """Return batches of a hundred records each, all of the same size."""
    built = []
    for i in range(batches):
        batch = kafkalog.RecordBatchBuilder(base_offset=100 * i, codec=codec)
        for number in range(100):
            batch.append(b"k", b"%020d" % number, timestamp=1)
        built.append(batch.build())
    return b"".join(built)


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("batches", [1, 3, 300])
def test_records_of_one_size_are_counted_by_their_bytes(codec, batches, tmp_path):
    data, count = uniform_log(codec, batches), 100 * batches
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(data)
    for source in (data, path):
        estimate = estimate_records(kafkalog.scan(source))
        assert count * 0.98 <= estimate <= count * 1.02
    bounded = kafkalog.scan(path, start_offset=count)
    assert estimate_records(bounded) <= count


@pytest.mark.parametrize("name", golden_data.SETS)
def test_an_estimate_of_a_log_directory_is_of_the_size_of_its_count(name):
    scan = kafkalog.scan(golden_data.logs(name), on_corruption="skip")
    count = scan.count()
    assert count / 4 <= estimate_records(scan) <= 4 * count


def test_nothing_has_no_records(tmp_path):
    assert estimate_records(kafkalog.scan(b"")) == 0
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(b"")
    assert estimate_records(kafkalog.scan(path)) == 0
    path.write_bytes(bytes(99))
    assert estimate_records(kafkalog.scan(path)) == 0


def test_damage_in_what_a_query_does_not_read_does_not_end_it(tmp_path):
    data = bytearray(uniform_log("none"))
    data[30] ^= 1  # in what the CRC of the first batch covers
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(data)
    log = kafkalog.duckdb_source(path)
    last = duckdb.sql('select "offset" from log where "offset" > 29998')
    assert last.fetchall() == [(29_999,)]
    assert 0 < log.rows() <= 30_000
    with pytest.raises(duckdb.Error, match="CRC mismatch"):
        duckdb.sql("select sum(octet_length(value)) from log").fetchall()


def plan_of(database, query):
    """Return the plan of a query as a tree."""
    [(_, text)] = database.sql(f"explain (format json) {query}").fetchall()
    return json.loads(text)[0]


def find_join(plan):
    """Return the node of the only join in a plan."""
    if "JOIN" in plan["name"].upper():
        return plan
    [child] = plan["children"]
    return find_join(child)


def rows_of(plan):
    """Return the estimate of the rows that are read below a node."""
    while plan["children"]:
        [plan] = plan["children"]
    return int(plan["extra_info"]["Estimated Cardinality"].replace(",", ""))


@pytest.mark.parametrize("sides", ["log join known", "known join log"])
def test_the_smaller_side_of_a_join_is_held_in_memory(sides):
    query = f'select topic, value from {sides} using ("offset")'
    known = pa.table({"offset": [3, 5]})
    log = kafkalog.duckdb_source(LOGS)
    with duckdb.connect() as database:
        database.register("known", known)
        database.register("log", log)
        probed, held = find_join(plan_of(database, query))["children"]
        assert rows_of(held) == 2
        assert rows_of(probed) == log.rows() > 1_000
        found = database.sql(query).fetchall()
        database.register("log", kafkalog.scan(LOGS).to_arrow())
        assert Counter(found) == Counter(database.sql(query).fetchall())


def test_a_source_can_be_joined_with_itself_and_counted():
    log = kafkalog.duckdb_source(LOGS, topics="ledger")
    count = kafkalog.scan(LOGS, topics="ledger").count()
    query = 'select count(*) from log a join log b using (topic, partition, "offset")'
    assert duckdb.sql(query).fetchall() == [(count,)]
    assert duckdb.sql("select count(*) from log").fetchall() == [(count,)]
    assert repr(log) == f"<DuckDBSource of {log.obj.request!r}>"


def test_a_source_is_an_arrow_stream_of_all_records():
    table = pa.table(kafkalog.duckdb_source(LOGS, columns=["topic", "offset"]))
    assert table.schema.names == ["topic", "offset"]
    assert len(table) == kafkalog.scan(LOGS).count()
