"""Keys and values as text: the same in every table, or an error with the record."""

import pickle

import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import kafkalog
from kafkalog.errors import InternalTopicsWarning, InvalidTextError
from tests import golden_data

from .batches import build

STATE = golden_data.logs("k431-clean") / "state.gzip-0"


def batch_of(pairs, first=0):
    batch = kafkalog.RecordBatchBuilder(base_offset=first)
    for key, value in pairs:
        batch.append(key, value, timestamp=1)
    return batch.build()


def test_text_is_the_same_in_every_table():
    scan = kafkalog.scan(STATE, text=True)
    table = scan.to_arrow()
    assert table.schema == scan.schema
    assert table.schema.field("value").type == pa.string()
    assert table.num_rows > 40
    raw = kafkalog.scan(STATE).to_arrow()
    for name in ("key", "value"):
        texts = [row if row is None else row.decode() for row in raw[name].to_pylist()]
        assert table[name].to_pylist() == texts
        assert pa.RecordBatchReader.from_stream(scan).read_all()[name] == table[name]
        assert scan.to_pandas()[name].tolist() == texts
        assert scan.to_polars()[name].dtype == polars.String
        assert polars.DataFrame(scan)[name].to_list() == texts
        found = duckdb.sql(f"select {name} from scan")
        assert found.types == ["VARCHAR"]
        assert [text for (text,) in found.fetchall()] == texts
    assert table.drop(["key", "value"]) == raw.drop(["key", "value"])


@pytest.mark.parametrize(("text", "other"), [("key", "value"), ("value", "key")])
def test_one_of_the_columns_may_be_text(text, other):
    bad = (b"k", b"\xff") if text == "key" else (b"\xff", b"v")
    source = batch_of([bad, (None, None)])
    table = kafkalog.scan(source, text=text).to_arrow()
    assert table.schema.field(text).type == pa.string()
    assert table.schema.field(other).type == pa.binary()
    assert table[text].to_pylist() == [{"key": "k", "value": "v"}[text], None]
    assert kafkalog.dataset(source, text=text).to_table()[text] == table[text]
    with pytest.raises(InvalidTextError, match=f"of the {other}"):
        kafkalog.scan(source, text=other).to_arrow()
    with pytest.raises(ValueError, match="text 'values', expected one of False, True"):
        kafkalog.scan(source, text="values")


@pytest.fixture
def logs(tmp_path):
    for name, value in (("orders-0", b"v"), ("__consumer_offsets-3", b"\xff")):
        with kafkalog.open(tmp_path / name, "a") as log:
            log.append(batch_of([(None, value)]))
    return tmp_path


def test_internal_topics_are_text_only_if_they_are_named(logs):
    topics = kafkalog.scan(logs, columns=["topic"]).to_arrow()["topic"].to_pylist()
    assert topics == ["__consumer_offsets", "orders"]
    line = "^internal topics are read only if they are named: __consumer_offsets$"
    with pytest.warns(InternalTopicsWarning, match=line):
        scan = kafkalog.scan(logs, text="value")
    assert scan.to_arrow()["value"].to_pylist() == ["v"]
    with pytest.warns(InternalTopicsWarning, match=line):
        dataset = kafkalog.dataset(logs, text=True)
    assert dataset.to_table()["value"].to_pylist() == ["v"]
    for named in (
        kafkalog.scan(logs, text="value", topics="*"),
        kafkalog.scan(logs / "__consumer_offsets-3", text="value"),
    ):
        with pytest.raises(InvalidTextError, match="__consumer_offsets-3 at offset 0"):
            named.to_arrow()


def test_datasets_lazy_frames_splits_and_heads_have_text():
    scan = kafkalog.scan(STATE, columns=["offset", "key"], text=True)
    table = scan.to_arrow()
    dataset = kafkalog.dataset(STATE, columns=["offset", "key"], text=True)
    assert dataset.to_table() == table
    wanted = dataset.to_table(filter=pc.field("key") == "key-4")
    assert wanted == table.filter(pc.equal(table["key"], "key-4"))
    assert wanted.num_rows > 0
    frame = scan.lazy().filter(polars.col("key") == "key-4").collect()
    assert frame.equals(polars.DataFrame(wanted))
    parts = kafkalog.splits(STATE, 500, columns=["offset", "key"], text=True)
    assert len(parts) > 1
    tables = [pickle.loads(pickle.dumps(part)).scan().to_arrow() for part in parts]
    assert pa.concat_tables(tables) == table
    assert scan.head(3) == table[:3]


def test_text_beyond_a_limit_is_not_checked():
    source = batch_of([(None, b"text"), (None, b"\xff")])
    table = kafkalog.scan(source, columns=["value"], text=True, limit=1).to_arrow()
    assert table["value"].to_pylist() == ["text"]


@pytest.mark.parametrize("columns", [["value"], ["key"], ["offset"], []])
def test_the_columns_are_those_requested(columns):
    scan = kafkalog.scan(STATE, columns=columns, text=True)
    assert scan.to_arrow().column_names == columns
    assert scan.to_arrow().num_rows == scan.count()


def test_chunks_have_bytes():
    source = build(2, "none", 5)
    [records] = kafkalog.scan(source, text=True).chunks()
    [same] = kafkalog.scan(source).chunks()
    assert records.value.to_list() == same.value.to_list()


texts = st.none() | st.text(max_size=9).map(str.encode) | st.binary(max_size=9)


@given(pairs=st.lists(st.tuples(texts, texts), min_size=1, max_size=12))
@example(pairs=[(b"\xed\xa0\x80", None)])  # a surrogate
@example(pairs=[(b"\xc0\x80", None)])  # an overlong form
@example(pairs=[(b"\xc3", b"\xa9")])  # valid only together
def test_python_and_arrow_agree_on_what_is_text(pairs):
    scan = kafkalog.scan(batch_of(pairs, 100), columns=["key", "value"], text=True)
    for name, column in zip(("key", "value"), zip(*pairs, strict=True), strict=True):
        for row, value in enumerate(column):
            try:
                (value or b"").decode()
            except UnicodeDecodeError:
                with pytest.raises(InvalidTextError) as caught:
                    scan.to_arrow()
                assert (caught.value.column, caught.value.offset) == (name, 100 + row)
                return
    keys, values = scan.to_arrow().to_pydict().values()
    assert list(zip(keys, values, strict=True)) == [
        tuple(part if part is None else part.decode() for part in pair)
        for pair in pairs
    ]


@pytest.mark.parametrize("columns", [None, ["value"], ["value", "offset", "topic"]])
def test_bytes_that_are_no_text_are_an_error_with_the_record(tmp_path, columns):
    path = tmp_path / "orders-3"
    with kafkalog.open(path, "a") as log:
        log.append(batch_of([(b"k", b"text"), (b"k", b"abc\xff")]))
    scan = kafkalog.scan(path, columns=columns, text=True)
    message = "expected UTF-8, found ff at byte 3 of the value: orders-3 at offset 1"
    with pytest.raises(InvalidTextError, match=f"^{message}") as caught:
        scan.to_arrow()
    error = pickle.loads(pickle.dumps(caught.value))
    assert str(error) == message
    assert (error.topic, error.partition, error.offset) == ("orders", 3, 1)
    assert error.__notes__ == ['with text="key", each value is bytes']
    with pytest.raises(ValueError, match=message):
        scan.to_pandas()
    with pytest.raises(Exception, match=message):
        duckdb.sql("from scan").fetchall()
    assert kafkalog.scan(path, columns=["key"], text=True).to_arrow().num_rows == 2


def test_the_error_about_a_batch_in_memory_has_its_offset():
    with pytest.raises(InvalidTextError, match=r"byte 0 of the key: offset 7"):
        kafkalog.scan(batch_of([(b"\x80", None)], 7), text=True).to_arrow()


def test_what_a_scan_of_text_skips_is_listed():
    damaged = bytearray(build(2, "none", 5) + build(2, "none", 8))
    damaged[-1] ^= 1
    scan = kafkalog.scan(bytes(damaged), on_corruption="skip", text=True)
    assert scan.to_arrow().num_rows == 3
    assert [problem.first_offset for problem in scan.problems] == [8]
    threads = kafkalog.scan(bytes(damaged), on_corruption="skip", text=True, threads=2)
    assert threads.to_arrow() == scan.to_arrow()
    assert threads.problems == scan.problems
