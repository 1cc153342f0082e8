"""JSON values as columns: each row is its value, whatever the bytes around it are."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkalog import _speedups
from kafkalog.errors import ConfigError, InvalidValueError
from kafkalog.values import decode
from kafkalog.values.json_values import JsonFormat

ORDER = pa.schema([("id", pa.int64()), ("tags", pa.list_(pa.string()))])

documents = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "tags", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)
orders = st.fixed_dictionaries(
    {"id": st.integers(-(2**63), 2**63 - 1) | st.none()},
    optional={"tags": st.lists(st.text(max_size=5), max_size=3), "x": documents},
)
# Bytes that end objects, strings and members, alone and in between.
HOSTILE = [
    b"",
    b" ",
    b"ping",
    b"{}}",
    b"{",
    b'{"id": 1}{"id": 2}',
    b'{"id": 1}, "x": {"id": 2}',
    b'{"id": 1}},{"v": {"id": 2}',
    b'{"id": 1}}\n{"v": {"id": 2}',
    b'{"id": "1"}',
    b'{"id": 1.5}',
    b'{"id": 1, "id": 2}',
    b'{"id": 9223372036854775808}',
    b'{"tags": ["\xff"]}',
    b'{"tags": ["\\udc00"]}',
    b'{"tags": ["a\nb"]}',
    b'{"tags": ["a',
    b'"]}',
    b"[]",
    b"1",
    b'{"id": 1}\x00',
    b"\xef\xbb\xbf{}",
]
VALID = [
    (b'{\n "id" : 7,\r\n "tags": null }\n', {"id": 7, "tags": None}),
    (b"null", None),
    (b'{"tags": ["}\\"{,"]}', {"id": None, "tags": ['}"{,']}),
    (b'\0\0\0\0\7{"id": 1}', {"id": 1, "tags": None}),
]


def table(values):
    return pa.table(
        {"offset": range(len(values)), "value": pa.array(values, pa.binary())}
    )


def expected(value):
    """Return what a value of `orders` is in columns."""
    return None if value is None else {"id": value["id"], "tags": value.get("tags")}


@given(
    values=st.lists(
        st.none() | orders | st.sampled_from([*HOSTILE, *VALID]), max_size=12
    ),
    indent=st.sampled_from([None, 2]),
)
@example(values=[*HOSTILE, *VALID, *HOSTILE], indent=None)
def test_each_row_is_its_value_or_has_an_error(values, indent):
    column, rows, faulty = [], [], []
    for value in values:
        if isinstance(value, tuple):
            column.append(value[0])
            rows.append(value[1])
            faulty.append(False)
        elif isinstance(value, bytes):
            column.append(value)
            rows.append(None)
            faulty.append(True)
        else:
            column.append(value and json.dumps(value, indent=indent).encode())
            rows.append(expected(value))
            faulty.append(False)
    found = decode(table(column), "json", schema=ORDER, errors="column")
    assert found["value"].to_pylist() == rows
    errors = found["value_error"].to_pylist()
    assert [error is not None for error in errors] == faulty
    assert [error["bytes"] for error in errors if error] == [
        value for value, bad in zip(column, faulty, strict=True) if bad
    ]
    assert found["offset"].to_pylist() == list(range(len(values)))


@given(
    data=st.lists(st.sampled_from([*'{}[],:" \\1', '"a"']), max_size=12).map("".join)
)
def test_a_document_is_single_and_what_is_not_single_is_no_document(data):
    value = np.frombuffer(data.encode(), np.uint8)
    single = np.full(1, 9, np.uint8)
    begins, ends = np.zeros(1, np.int32), np.array([len(value)], np.int32)
    assert _speedups.find_single_documents(value, begins, ends, single) == 1
    try:
        json.loads(data)
    except ValueError:
        # Whatever is accepted adds no member to an object around it.
        if single[0]:
            with pytest.raises(ValueError, match=r"."):
                json.loads(f'{{"v":{data}}}')
    else:
        assert single[0] == 1


@pytest.mark.parametrize(("begin", "end"), [(-1, 2), (0, 4), (3, 5)])
def test_a_row_outside_of_the_data_ends_the_kernel(begin, end):
    single = np.zeros(2, np.uint8)
    begins, ends = np.array([0, begin]), np.array([3, end])
    data = np.frombuffer(b"[1]", np.uint8)
    assert _speedups.find_single_documents(data, begins, ends, single) == 1
    with pytest.raises(ValueError, match="a column of 1 rows, expected 2"):
        _speedups.find_single_documents(data, begins, ends, single[:1])


def test_an_error_names_the_first_value():
    values = [b'{"id": 1}', None, b'{"id": "x"}', b"ping"]
    with pytest.raises(
        InvalidValueError, match=r"^expected json in the value: .*: offset 2\n"
    ):
        decode(table(values), "json", schema=ORDER)
    with pytest.raises(InvalidValueError, match=r": row 2\n"):
        decode(table(values).select(["value"]), "json", schema=ORDER)


def test_the_schema_is_inferred_from_the_first_values():
    values = [
        b"ping",
        b'{"a": 1, "b": null, "c": [], "t": "2020-01-01T00:00:00"}',
        b'{"a": 1.5, "b": {"x": true}, "c": [null, 7], "d": "x"}',
        b'{"a": 2, "e": "not seen"}',
    ]
    found = decode(table(values), "json", errors="column", infer_schema_length=3)
    assert found["value"].type == pa.struct(
        [
            ("a", pa.float64()),
            ("b", pa.struct([("x", pa.bool_())])),
            ("c", pa.list_(pa.int64())),
            ("t", pa.string()),
            ("d", pa.string()),
        ]
    )
    assert [row and row["a"] for row in found["value"].to_pylist()] == [None, 1, 1.5, 2]


def test_values_of_several_types_need_a_schema():
    values = [b'{"a": {"b": 1}}', b'{"a": {"b": "1"}}']
    with pytest.raises(ValueError, match=r"^value\.a\.b is integer and string"):
        decode(table(values), "json")
    with pytest.raises(ValueError, match="no value tells the schema"):
        decode(table([None, b"ping"]), "json")


def test_documents_that_are_no_objects_have_columns_too():
    found = decode(table([b"1", None, b" 2 "]), "json")
    assert found["value"].to_pylist() == [1, None, 2]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.date32(), b'"2020-01-02"', "2020-01-02"),
        (
            pa.timestamp("ms", tz="UTC"),
            b'"2020-01-01T00:00:00.125Z"',
            "2020-01-01 00:00:00.125000+00:00",
        ),
        (pa.decimal128(9, 2), b"1.25", "1.25"),
        (
            pa.list_(pa.struct([("d", pa.date32())])),
            b'[{"d": "1969-12-31"}]',
            "[{'d': datetime.date(1969, 12, 31)}]",
        ),
    ],
)
def test_a_schema_may_have_dates_times_and_decimals(kind, value, expected):
    found = decode(table([value]), "json", schema=kind)
    assert found["value"].type == kind
    assert str(found["value"][0].as_py()) == expected


def test_a_type_that_is_not_read_from_json_is_an_error():
    kind = pa.map_(pa.string(), pa.int64())
    with pytest.raises(ConfigError, match="map<string, int64> is not supported"):
        decode(table([b"{}"]), "json", schema=pa.struct([("m", kind)]))
    with pytest.raises(TypeError, match="expected an Arrow schema for JSON"):
        decode(table([b"{}"]), "json", schema={"id": "int64"})


def test_a_required_member_is_required():
    kind = pa.struct([pa.field("id", pa.int64(), nullable=False)])
    array = pa.array([b'{"id": 1}', b"{}"], pa.binary())
    decoded, faults = JsonFormat(kind).decode(array)
    assert decoded.to_pylist() == [{"id": 1}, None]
    assert list(faults) == [1]
