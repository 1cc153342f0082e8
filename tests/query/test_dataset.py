"""Datasets: engines get what they would get from all records, filtered afterwards."""

from __future__ import annotations

import operator
import pickle
from collections import Counter
from functools import cache

import datafusion
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import feather

import kafkalog
from kafkalog.export.duckdb_source import DuckDBSource
from kafkalog.query.scan_columns import COLUMNS
from tests import golden_data
from tests.query import filters

SETS = [name for name in golden_data.SETS if name != "k431-crash"]
ISOLATIONS = ("read_uncommitted", "read_committed")

PLACE = operator.itemgetter("topic", "partition", "offset")
JOIN = 'select count(*) from data a join data b using (topic, partition, "offset")'


@cache
def golden(name, isolation):
    """Return a set's dataset and all its records, with control records."""
    options = {"isolation": isolation, "control_records": True}
    source = golden_data.logs(name)
    whole = kafkalog.scan(source, columns=COLUMNS, **options).to_arrow()
    return kafkalog.dataset(source, **options), plain(whole)


def plain(table):
    """Return a table without dictionaries, which engines keep or not."""
    fields = [
        field.with_type(field.type.value_type)
        if pa.types.is_dictionary(field.type)
        else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields)).combine_chunks()


@st.composite
def questions(draw):
    """Draw a dataset, all its records, and a filter."""
    name, isolation = draw(st.sampled_from(SETS)), draw(st.sampled_from(ISOLATIONS))
    data, whole = golden(name, isolation)
    times = whole["timestamp"].drop_null().cast(pa.int64()).to_pylist()
    some = [times[i * (len(times) - 1) // 9] for i in range(10)] if times else [0]
    topics = [*whole["topic"].unique().to_pylist(), "none such"]
    return data, whole, draw(filters.terms(topics, some))


@given(questions())
@settings(max_examples=50)
def test_a_scanner_returns_what_arrow_filters_from_all_records(question):
    data, whole, term = question
    expected = whole.filter(term.arrow)
    assert plain(data.to_table(filter=term.arrow)) == expected
    assert data.count_rows(filter=term.arrow) == len(expected)
    some = ["value", "offset"]
    narrow = data.to_table(some, filter=term.arrow)
    assert plain(narrow) == expected.select(some).combine_chunks()


@given(questions())
@settings(max_examples=25)
def test_fragments_have_what_a_filter_selects_once_and_state_it(question):
    data, whole, term = question
    fragments = list(data.get_fragments(term.arrow))
    tables = [plain(part.to_table(filter=term.arrow)) for part in fragments]
    empty = [whole.slice(0, 0)]
    assert pa.concat_tables(empty + tables).combine_chunks() == whole.filter(term.arrow)
    for part in fragments:
        of_part = part.to_table()
        assert len(of_part.filter(part.partition_expression)) == len(of_part)


@given(questions())
@settings(max_examples=25)
def test_duckdb_finds_the_same_rows_in_a_dataset_as_in_all_records(question):
    data, whole, term = question
    columns = 'topic, partition, "offset", "timestamp", value'
    query = f"SELECT {columns} FROM data WHERE {term.sql}"
    with duckdb.connect() as database:
        database.register("data", whole)
        expected = database.sql(query).to_arrow_table()
        for dataset in (data, DuckDBSource(data)):
            database.register("data", dataset)
            assert database.sql(query).to_arrow_table() == expected


@given(questions())
@settings(max_examples=25)
def test_polars_finds_the_same_rows_in_a_dataset_as_in_all_records(question):
    data, whole, term = question
    columns = ["topic", "partition", "offset", "timestamp", "value"]
    expected = pl.from_arrow(whole).filter(term.polars).select(columns)
    lazy = pl.scan_pyarrow_dataset(data).filter(term.polars).select(columns)
    assert lazy.collect().cast({"topic": pl.String}).equals(expected)


@given(questions())
@settings(max_examples=40)
def test_a_lazy_scan_finds_the_same_rows_as_polars_in_all_records(question):
    data, whole, term = question
    columns = ["topic", "partition", "offset", "timestamp", "value"]
    expected = pl.from_arrow(whole).filter(term.polars).select(columns)
    found = data.request.lazy().filter(term.polars).select(columns).collect()
    assert found.cast({"topic": pl.String}).equals(expected)


def test_a_column_that_the_dataset_does_not_have_is_named():
    data, _ = golden("k431-clean", "read_uncommitted")
    with pytest.raises(
        ValueError, match=r"no such columns: offsets \(did you mean offset"
    ):
        data.to_table(["offsets"])
    assert data.to_table(["__filename"]).num_rows == data.count_rows()


def test_columns_and_filters_of_other_types_are_refused_with_what_is_expected():
    data, _ = golden("k431-clean", "read_uncommitted")
    with pytest.raises(TypeError, match=r"'offset', expected a list: \['offset'\]"):
        data.to_table("offset")
    with pytest.raises(TypeError, match="'twice': expected an expression, found str"):
        data.to_table({"twice": "offset"})
    missing, text = pc.field("offsets") > 1, pc.field("offset") > pc.scalar("1")
    for nothing in (pc.scalar(True), pc.field("topic") == "none such"):
        with pytest.raises(pa.ArrowInvalid, match="No match for FieldRef"):
            data.get_fragments(nothing & missing)
        with pytest.raises(pa.ArrowNotImplementedError, match="int64, string"):
            data.get_fragments(nothing & text)
    for never in (pc.scalar(False), pa.scalar(False), pc.field("offset") > None):
        found = [part.to_table(filter=never) for part in data.get_fragments(never)]
        assert not sum(map(len, found))


def test_a_dataset_has_no_limit_since_each_fragment_would_have_it():
    with pytest.raises(TypeError, match="dataset of a scan with limit"):
        kafkalog.dataset(golden_data.logs("k431-clean"), limit=3)


def test_a_filter_of_hundreds_of_terms_within_each_other_is_evaluated():
    builder = kafkalog.RecordBatchBuilder()
    for _ in range(400):
        builder.append(None, b"", timestamp=1)
    data = kafkalog.dataset(builder.build())
    arrow, polars = pc.field("magic") > 1, pl.col("magic") > 1
    for number in range(300):
        arrow = (arrow & (pc.field("offset") != number)) | (pc.field("magic") < 0)
        polars = (polars & (pl.col("offset") != number)) | (pl.col("magic") < 0)
    found = data.to_table(["offset"], filter=arrow)
    assert found["offset"].to_pylist() == list(range(300, 400))
    lazy = data.request.lazy().filter(polars).select("offset").collect()
    assert lazy["offset"].to_list() == list(range(300, 400))


def test_numbers_beyond_64_bits_or_the_precision_of_floats_are_compared_exactly():
    builder = kafkalog.RecordBatchBuilder(base_offset=2**53 + 1)
    builder.append(None, b"", timestamp=1)
    lazy = kafkalog.scan(builder.build(), columns=["offset"]).lazy()
    offset, rounded = pl.col("offset"), pl.lit(2.0**53, pl.Float64)
    for term in (offset < 10**30, offset > -(10**30), offset <= rounded):
        assert lazy.filter(term).collect()["offset"].to_list() == [2**53 + 1]
    assert not len(lazy.filter(offset == 10**30).collect())


def test_a_codec_differs_from_its_name_with_a_zero_at_the_end():
    data, whole = golden("k431-clean", "read_uncommitted")
    zero = pc.scalar("none\0")
    for term in (pc.field("codec") != zero, pc.field("codec") < zero):
        assert data.count_rows(filter=term) == len(whole.filter(term))


def test_a_lazy_scan_reads_the_first_rows_and_then_filters_them():
    data, whole = golden("k431-clean", "read_uncommitted")
    last = pl.col("offset") == pl.col("offset").max()
    expected = pl.from_arrow(whole).head(9).filter(last).select("offset")
    assert (
        data.request.lazy()
        .head(9)
        .filter(last)
        .select("offset")
        .collect()
        .equals(expected)
    )
    some = pl.col("offset") == 1
    expected = pl.from_arrow(whole).filter(some).head(2).select("value")
    found = data.request.lazy().filter(some).head(2).select("value").collect()
    assert found.equals(expected)


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_a_lazy_scan_has_its_rows_if_only_their_numbers_are_needed(engine):
    rows = kafkalog.scan(golden_data.logs("k431-clean")).lazy()
    numbered = rows.with_row_index("number")
    length = rows.collect().height
    assert numbered.select(pl.len()).collect(engine=engine).item() == length
    numbers = numbered.select("number").collect(engine=engine)["number"]
    assert numbers.to_list() == list(range(length))
    above = numbered.filter(pl.col("offset") > 5).select("number")
    expected = numbered.collect().filter(pl.col("offset") > 5).select("number")
    assert above.collect(engine=engine).equals(expected)


@given(questions())
@settings(max_examples=15)
def test_datafusion_finds_the_same_rows_in_a_dataset_as_in_all_records(question):
    data, whole, term = question
    sql = term.sql.replace("TIMESTAMPTZ", "TIMESTAMP")
    sql = sql.replace("octet_length(value)", "length(encode(value, 'hex')) / 2")
    query = f'SELECT topic, partition, "offset", value FROM data WHERE {sql}'
    found = []
    for is_dataset in (True, False):
        context = datafusion.SessionContext()
        if is_dataset:
            context.register_dataset("data", data)
        else:
            context.register_record_batches("data", [whole.to_batches()])
        rows = plain(context.sql(query).to_arrow_table()).to_pylist()
        found.append(sorted(rows, key=PLACE))  # it repartitions rows
    assert found[0] == found[1]


@pytest.mark.parametrize("order", ["", "limit 2"])
def test_datafusion_sorts_a_dataset_of_which_no_partition_matches(order):
    data, _ = golden("k431-clean", "read_uncommitted")
    context = datafusion.SessionContext()
    context.register_dataset("data", data)
    where = "where topic = 'none such'"
    query = f'select "offset" from data {where} order by "timestamp" {order}'
    assert context.sql(query).to_arrow_table().num_rows == 0
    assert context.sql(f"select count(*) from data {where}").to_pylist() == [
        {"count(*)": 0}
    ]


def test_tables_of_several_topics_are_grouped_and_joined_by_topic(tmp_path):
    data, _ = golden("k431-clean", "read_uncommitted")
    names = ["topic", "segment", "codec", "offset"]
    parts = [part.to_table(columns=names) for part in data.get_fragments()]
    for table in (
        kafkalog.scan(golden_data.logs("k431-clean"), columns=names).to_arrow(),
        data.to_table(names, filter=~pc.field("is_control")),
        *parts,
    ):
        topics = table["topic"].to_pylist()
        grouped = table.group_by("topic").aggregate([([], "count_all")])
        assert {
            row["topic"]: row["count_all"] for row in grouped.to_pylist()
        } == Counter(topics)
        assert table.join(grouped, "topic").num_rows == len(topics)
        feather.write_feather(table, tmp_path / "records")
        assert feather.read_table(tmp_path / "records") == table
    assert max(len(part["topic"].unique()) for part in parts) > 1


def test_a_dataset_pickles():
    data, whole = golden("k431-clean", "read_uncommitted")
    assert plain(pickle.loads(pickle.dumps(data)).to_table()) == whole


def test_arrows_own_readers_refuse_a_dataset_instead_of_reading_nothing():
    data, _ = golden("k431-clean", "read_uncommitted")
    with pytest.raises(FileNotFoundError, match="read by its scanner method"):
        ds.Scanner.from_dataset(data).to_table()
    with pytest.raises(NotImplementedError, match="pass it to scanner"):
        data.filter(pc.field("offset") > 1)
    with pytest.raises(NotImplementedError, match="cannot be replaced"):
        data.replace_schema(data.schema)
    for join in (data.join, data.join_asof):
        with pytest.raises(NotImplementedError, match="join to_table"):
            join(data, "offset")


def test_a_dataset_writes_and_sorts_as_its_records_do(tmp_path):
    data, whole = golden("k431-clean", "read_uncommitted")
    columns = ["partition", "offset", "value"]
    ds.write_dataset(data.scanner(columns), tmp_path, format="parquet")
    written = ds.dataset(tmp_path).to_table().to_pylist()
    key = operator.itemgetter("partition", "offset")
    assert sorted(written, key=key) == (
        sorted(whole.select(columns).to_pylist(), key=key)
    )
    ordered = data.sort_by([("offset", "descending")]).to_table(columns=["offset"])
    assert ordered == whole.select(["offset"]).sort_by([("offset", "descending")])


def test_a_projection_of_expressions_reads_the_columns_they_need():
    data, whole = golden("k431-clean", "read_uncommitted")
    doubled = {"twice": pc.field("offset") * 2, "topic": pc.field("topic")}
    found = data.to_table(doubled, filter=pc.field("topic") == "sizes")
    sizes = whole.filter(pc.field("topic") == "sizes")
    assert found["twice"].to_pylist() == [2 * o for o in sizes["offset"].to_pylist()]


def test_a_query_opens_only_segments_that_may_match(tmp_path, monkeypatch):
    from kafkalog.segment.log_segment import LogSegment

    opened = []
    original = LogSegment.open
    monkeypatch.setattr(
        LogSegment, "open", lambda self: opened.append(self.name) or original(self)
    )
    directory = next(
        path
        for path in golden_data.partitions("k431-clean")
        if len(list(path.glob("*.log"))) > 3
    )
    data = kafkalog.dataset(directory.parent)
    names = sorted(path.name for path in directory.glob("*.log"))
    base = int(names[2].removesuffix(".log"))
    topic, _, partition = directory.name.rpartition("-")
    among = (pc.field("topic") == topic) & (pc.field("partition") == int(partition))
    edges = (pc.field("offset") == base) | (pc.field("offset") == 0)
    rows = data.to_table(["offset"], filter=among & edges)
    assert sorted(set(opened)) == [names[0], names[2]]
    assert rows["offset"].to_pylist() == [0, base]
    opened.clear()
    before = (pc.field("offset") >= base - 2) & (pc.field("offset") < base)
    data.to_table(["offset"], filter=among & before)
    assert set(opened) == {names[1]}


def test_a_lone_file_is_filtered_by_its_name():
    file = min((golden_data.logs("k431-clean") / "ledger-0").glob("*.log"))
    data, whole = kafkalog.dataset(file), kafkalog.scan(file)
    name = pc.field("segment")
    assert data.count_rows(filter=name == file.name) == whole.count()
    assert data.to_table(filter=name == "other.log").num_rows == 0
    assert data.count_rows(filter=name > file.name) == 0
    other = kafkalog.scan(file, columns=["segment"]).lazy()
    assert other.filter(pl.col("segment").is_in(["other.log"])).collect().is_empty()


def test_duckdb_counts_a_dataset_and_joins_it_with_itself():
    data, whole = golden("k431-clean", "read_uncommitted")
    with duckdb.connect() as database:
        database.register("data", data)
        count = database.sql("select count(*) from data").fetchall()
        joined = database.sql(JOIN).fetchall()
    assert count == joined == [(len(whole),)]


def test_a_timestamp_beyond_microseconds_matters_only_to_queries_that_read_it():
    builder = kafkalog.RecordBatchBuilder()
    for timestamp in (1, 9_300_000_000_000_000, 5):
        builder.append(None, b"x", timestamp=timestamp)
    data = kafkalog.dataset(builder.build())
    with duckdb.connect() as database:
        database.register("data", data)
        assert database.sql('select "offset" from data').fetchall() == [
            (0,),
            (1,),
            (2,),
        ]
        warns = pytest.warns(UserWarning, match="9300000000000000 ms .*offset 1$")
        fails = pytest.raises(duckdb.ConversionException)
        with warns, fails:
            database.sql('select "timestamp" from data').fetchall()
    with pytest.warns(UserWarning, match="partition -1, offset 1"):
        found = kafkalog.scan(builder.build()).to_arrow()["timestamp"]
    assert found.cast(pa.int64()).to_pylist() == [1, 9_300_000_000_000_000, 5]
