"""Conversion of many kinds of tables and rows to the same columns of records."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import numpy as np
import pytest

import kafkalog
from kafkalog import MissingDependencyError, RecordBatchBuilder, UnfitRecordsError
from kafkalog.encoding.record_columns import ByteColumn, RecordColumns, header_columns
from kafkalog.encoding.record_input import (
    IGNORED_COLUMNS,
    WRITTEN_COLUMNS,
    record_columns,
)
from kafkalog.query.scan_columns import COLUMNS

duckdb = pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

NOW = 1_700_000_000_000
KEYS = [b"k", None, b"", b"long" * 10]
VALUES = [b"v", b"w\0", None, b"\xff"]
TIMES = [NOW, NOW - 5, -1, 0]
HEADERS = [[("a", b"1"), ("b", None)], [], [("a", b"")], []]
EXPECTED = list(zip(KEYS, VALUES, TIMES, HEADERS, strict=True))


def rows_of(columns):
    """Return the rows of columns, read one by one."""

    def cells(column):
        data = column.data.tobytes()
        return [
            None if length < 0 else data[start : start + length]
            for start, length in zip(
                column.start.tolist(), column.length.tolist(), strict=True
            )
        ]

    rows = len(columns.offset)
    assert columns.offset.tolist() == list(range(rows))
    found = [[] for _ in range(rows)]
    if columns.headers is not None:
        bounds, keys, values = columns.headers
        keys = [key.decode() for key in cells(keys)]
        pairs = list(zip(keys, cells(values), strict=True))
        found = [pairs[bounds[i] : bounds[i + 1]] for i in range(rows)]
    parts = (cells(columns.key), cells(columns.value), columns.timestamp.tolist())
    return list(zip(*parts, found, strict=True))


def faults(records):
    with pytest.raises(UnfitRecordsError) as caught:
        record_columns(records, NOW)
    assert str(caught.value) == "; ".join(caught.value.faults)
    return caught.value.faults


def arrow_table(binary=None, text=None):
    pairs = pa.struct([("key", text or pa.string()), ("value", binary or pa.binary())])
    as_dicts = [[{"key": k, "value": v} for k, v in row] for row in HEADERS]
    times = [None if time == -1 else time for time in TIMES]
    return pa.table(
        {
            "key": pa.array(KEYS, binary or pa.binary()),
            "value": pa.array(VALUES, binary or pa.binary()),
            "timestamp": pa.array(times, pa.timestamp("ms", "UTC")),
            "headers": pa.array(as_dicts, pa.list_(pairs)),
        }
    )


def chunked(table):
    return pa.concat_tables([table[:1], table[1:1], table[1:3], table[3:]])


def objects(cells):
    array = np.empty(len(cells), object)
    array[:] = cells
    return array


def batch():
    builder = RecordBatchBuilder(base_offset=70)
    for key, value, timestamp, headers in EXPECTED:
        builder.append(key, value, timestamp=timestamp, headers=headers)
    return builder.build()


ROWS = [dict(zip(WRITTEN_COLUMNS, row, strict=True)) for row in EXPECTED]
MAPPING = dict(zip(WRITTEN_COLUMNS, (KEYS, VALUES, TIMES, HEADERS), strict=True))
SHAPES = {
    "rows": lambda: ROWS,
    "a generator": lambda: (row for row in ROWS),
    "objects": lambda: [SimpleNamespace(**row) for row in ROWS],
    "records": lambda: list(kafkalog.RecordBatch(batch())),
    "lists": lambda: MAPPING,
    "object arrays": lambda: {name: objects(MAPPING[name]) for name in MAPPING},
    "byte arrays": lambda: MAPPING | {"key": [k and bytearray(k) for k in KEYS]},
    "record columns": lambda: RecordColumns(
        np.arange(4) + 9,
        np.array(TIMES),
        ByteColumn.of(KEYS),
        ByteColumn.of(VALUES),
        header_columns(HEADERS),
    ),
    "gathered records": lambda: next(kafkalog.scan(batch()).chunks()),
    "views of records": lambda: next(kafkalog.scan(batch()).chunks(views=True)),
    "a scan": lambda: kafkalog.scan(batch()),
    "pyarrow": arrow_table,
    "large": lambda: arrow_table(pa.large_binary(), pa.large_string()),
    "arrow's views": lambda: arrow_table(pa.binary_view(), pa.string_view()),
    "chunks": lambda: chunked(arrow_table()),
    "a slice": lambda: pa.concat_tables([arrow_table()] * 2).combine_chunks()[2:6][2:],
    "a record batch": lambda: arrow_table().to_batches()[0],
    "arrow arrays": lambda: dict(
        zip(WRITTEN_COLUMNS, arrow_table().to_batches()[0].columns, strict=True)
    ),
    "maps": lambda: (
        MAPPING | {"headers": pa.array(HEADERS, pa.map_(pa.string(), pa.binary()))}
    ),
    "pandas": lambda: arrow_table().to_pandas(),
    "pandas, chosen": lambda: pd.concat([arrow_table().to_pandas()] * 2)[4:],
    "polars": lambda: pl.from_arrow(arrow_table()),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_becomes_the_same_columns(shape):
    expected = EXPECTED
    if shape == "a slice":
        expected = EXPECTED[:2]
    assert rows_of(record_columns(SHAPES[shape](), NOW)) == expected


def test_a_duckdb_query_is_a_table():
    query = "select 'k' || i as key, i::varchar::blob as value from range(3) t(i)"
    found = duckdb.sql(query)
    rows = rows_of(record_columns(found, NOW))
    assert rows == [(b"k%d" % i, b"%d" % i, NOW, []) for i in range(3)]


@pytest.mark.parametrize(
    "column",
    [
        ["a", None, "é"],
        np.array(["a", "", "é"])[[0, 1, 2]],
        pa.array(["a", None, "é"]).dictionary_encode(),
        pd.Series(["a", None, "é"]),
        pd.Series(["a", None, "é"], dtype="category"),
        pl.Series(["a", None, "é"]),
    ],
    ids=lambda column: type(column).__name__,
)
def test_text_is_written_as_utf_8(column):
    rows = rows_of(record_columns({"value": column}, NOW))
    assert [value or None for _, value, _, _ in rows] == [b"a", None, "é".encode()]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (np.arange(6, dtype=np.uint8).reshape(2, 3), [b"\0\1\2", b"\3\4\5"]),
        (np.arange(12, dtype=np.uint8).reshape(2, 6)[:, ::2], [b"\0\2\4", b"\6\x08\n"]),
        (np.array([b"ab", b"c"]), [b"ab", b"c"]),
        (pa.array([b"ab", b"cd"], pa.binary(2)), [b"ab", b"cd"]),
        (pa.nulls(2), [None, None]),
        (pa.chunked_array([], pa.binary()), []),
        (pa.array([b"", None]), [b"", None]),
        ((b"ab", memoryview(b"c")), [b"ab", b"c"]),
    ],
)
def test_bytes_may_have_many_types(column, expected):
    rows = rows_of(record_columns({"key": column}, NOW))
    assert [key for key, _, _, _ in rows] == expected
    assert all(value is None for _, value, _, _ in rows)


@pytest.mark.parametrize(
    "column",
    [
        [1500, -1, 0],
        (np.int32(1500), None, datetime(1970, 1, 1, tzinfo=UTC)),
        [datetime(1970, 1, 1, 0, 0, 1, 500_999, tzinfo=UTC), -1, 0],
        np.array([1500, -1, 0], np.int32),
        np.array([0, -1, 1500], np.int64)[::-1],
        np.array([1_500_999, "NaT", 0], "datetime64[us]"),
        np.array([1500, "NaT", 0], "datetime64[ms]"),
        pa.array([1500, None, 0]),
        pa.array([1500, -1, 0], pa.int16()),
        pa.array([1_500_999_999, None, 0], pa.timestamp("ns", "Europe/Berlin")),
        pa.array([1_500_000, None, 0], pa.timestamp("us")),
        pd.Series(pd.to_datetime([1500, None, 0], unit="ms")),
        pd.Series(pd.to_datetime([1500, None, 0], unit="ms", utc=True)),
        pl.Series([1500, None, 0]).cast(pl.Datetime("ms")),
    ],
    ids=lambda column: f"{type(column).__name__}-{getattr(column, 'dtype', '')}",
)
def test_times_may_have_many_types(column):
    rows = record_columns({"value": [b""] * 3, "timestamp": column}, NOW)
    assert rows.timestamp.tolist() == [1500, -1, 0]
    assert rows.timestamp.dtype == np.int64


def test_times_in_seconds_are_converted_to_ms():
    times = pa.array([1, None], pa.timestamp("s"))
    rows = record_columns({"value": [b"", b""], "timestamp": times}, NOW)
    assert rows.timestamp.tolist() == [1000, -1]
    far = pa.array([2**62], pa.timestamp("s"))
    (fault,) = faults({"value": [b""], "timestamp": far})
    assert fault.startswith("timestamp: times from 4611686018427387904 to")


def test_a_null_list_of_headers_is_empty():
    rows = record_columns({"value": [b""] * 2, "headers": [None, [("a", "b")]]}, NOW)
    assert [headers for *_, headers in rows_of(rows)] == [[], [("a", b"b")]]
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
    headers = pa.array([None, [{"key": "a", "value": "b"}]], kind)
    rows = record_columns({"value": [b""] * 2, "headers": headers}, NOW)
    assert [headers for *_, headers in rows_of(rows)] == [[], [("a", b"b")]]
    rows = record_columns({"value": [b""] * 2, "headers": pa.nulls(2)}, NOW)
    assert rows.headers is None


def test_rows_may_have_different_fields():
    rows = [{"key": "k"}, {"value": "v", "timestamp": 5}, {"topic": "t", "offset": 3}]
    expected = [(b"k", None, -1, []), (None, b"v", 5, []), (None, None, -1, [])]
    assert rows_of(record_columns(rows, NOW)) == expected


def test_arrow_bytes_are_not_copied():
    values = pa.array([b"some", b"bytes"])
    column = record_columns({"value": values}, NOW).value
    assert column.data.ctypes.data == values.buffers()[2].address


def test_other_columns_of_a_scan_are_ignored():
    assert {*WRITTEN_COLUMNS, *IGNORED_COLUMNS} == {*COLUMNS}
    every = next(kafkalog.scan(batch(), columns=COLUMNS).chunks())
    assert rows_of(record_columns(every, NOW)) == EXPECTED


@pytest.mark.parametrize(
    ("records", "reported"),
    [
        ({}, "neither a key nor a value column"),
        ({"timestamp": [1]}, "neither a key nor a value column"),
        ({"value": [b""], "valeu": [b""], "a": 1}, "no such columns: a, valeu"),
        (
            [{"value": b"", "valeu": b""}, {"a": 1}],
            "no such columns: a, valeu",
        ),
        ({"key": [b""], "value": []}, "columns of different lengths: key 1, value 0"),
        ({"value": [b"", 1.5, 2]},
         "value: row 1 of type float, expected bytes or text, and 1 more"),
        ({"value": ["\ud800"]},
         "value: text that is not valid Unicode: 'utf-8' codec can't encode character"),
        ({"value": b"bytes"}, "value: type bytes, expected a column"),
        ({"value": 7}, "value: type int, expected a column"),
        ({"value": np.arange(3)},
         "value: type int64 in 1 dimensions, expected bytes or text in 1"),
        ({"value": pa.array([1])}, "value: type int64, expected bytes or text"),
        ({"value": pd.Series([b"", 3])}, "value: "),
        ({"value": [b""], "timestamp": [1.5]},
         "timestamp: row 0 is 1.5, expected ms or a time with a time zone"),
        ({"value": [b""], "timestamp": [2**63]},
         "timestamp: row 0 is 9223372036854775808, expected"),
        ({"value": [b""], "timestamp": [datetime(2024, 1, 1)]},
         "timestamp: row 0 is datetime"),
        ({"value": [b""], "timestamp": np.array([1.5])},
         "timestamp: row 0 is 1.5, expected"),
        ({"value": [b""], "timestamp": np.array([2**63], np.uint64)},
         "timestamp: 9223372036854775808, expected at most"),
        ({"value": [b""], "timestamp": np.array([[1]])},
         "timestamp: array of 2 dimensions, expected 1"),
        ({"value": [b""] * 3, "timestamp": [-5, 1, -2]},
         "timestamp: row 0 is -5, expected at least -1, and 1 more"),
        ({"value": [b""], "timestamp": pa.array([2**63], pa.uint64())},
         "timestamp: Integer value"),
        ({"value": [b""], "timestamp": pa.array(["x"])},
         "timestamp: type string, expected a timestamp or integers"),
        ({"value": [b""], "headers": [3]},
         "headers: row 0 is 3, expected a list of keys and values"),
        ({"value": [b""], "headers": [["abc"]]}, "headers: row 0 is ['abc'], expected"),
        ({"value": [b""], "headers": [[(None, b"")]]},
         "headers: record header without a key"),
        ({"value": [b""], "headers": [[(1, b"")]]}, "headers: row 0 of type int"),
        ({"value": [b""], "headers": pa.array([3])},
         "headers: type int64, expected lists of keys and values"),
        ({"value": [b""], "headers": pa.array([[3]])}, "headers: type list<"),
        ({"value": [b""], "headers": pa.array([[{"key": None, "value": "a"}]])},
         "headers: record header without a key"),
        (b"a batch", "records of type bytes, expected columns or rows"),
        (None, "records of type NoneType, expected columns or rows"),
        ([{"value": b""}, 5, (1, 2)],
         "row 1 of type int, expected fields key or value, and 1 more"),
        (pa.table([[b""], [b""]], names=["value", "value"]),
         "duplicate columns: value"),
    ],
)  # fmt: skip
def test_a_fault_is_reported(records, reported):
    [fault] = faults(records)
    assert fault.startswith(reported)


def test_all_faults_are_reported_in_one_error():
    records = {
        "key": [1],
        "value": [b"a", b"b"],
        "timestamp": ["now", 3, 4],
        "headers": [[], [], []],
        "valeu": [],
    }
    assert faults(records) == (
        "no such columns: valeu (did you mean value?)",
        "key: row 0 of type int, expected bytes or text",
        "timestamp: row 0 is 'now', expected ms or a time with a time zone",
        "columns of different lengths: value 2, headers 3",
    )


def test_without_pyarrow_the_error_states_what_to_install(monkeypatch):
    table = arrow_table()
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.compute", None)
    with pytest.raises(MissingDependencyError, match=r"kafkalog\[arrow\]"):
        record_columns(table, NOW)
