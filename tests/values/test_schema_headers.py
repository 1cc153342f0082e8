"""`kafkalog.values` agrees with the reference, in each form that a column can have."""

import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import kafkalog
from kafkalog import _speedups
from kafkalog.query.chunk_columns import BytesColumn, ViewColumn
from kafkalog.values import message_indexes, payloads, schema_ids
from tests import reference
from tests.guarded import at_the_end, at_the_start

ROOT = Path(__file__).parents[2]
KINDS = (pa.binary(), pa.large_binary())

ids = st.integers(0, 2**31 - 1) | st.integers(-(2**31), 2**31 - 1)
indexes = st.lists(st.integers(0, 300) | st.integers(0, 2**31 - 1), max_size=4)


def framed(number, rest=b""):
    return struct.pack(">bi", 0, number) + rest


def protobuf(number, path, rest=b""):
    varints = b"".join(map(reference.varlong, [len(path), *path]))
    return framed(number, varints + rest)


# Most arbitrary bytes are not in the wire format: draw headers, and cuts of them.
whole = st.one_of(
    st.none(),
    st.binary(max_size=12),
    st.builds(framed, ids, st.binary(max_size=12)),
    st.builds(protobuf, ids, indexes, st.binary(max_size=20)),
)
values = st.builds(
    lambda value, cut: value if value is None else value[: len(value) - cut],
    whole,
    st.sampled_from([0, 0, 0, 1, 2, 7]),
)
columns = st.lists(values, max_size=24)
EDGES = [
    None,
    b"",
    b"\0" * 4,
    b"\0" * 5,
    b"\1" + b"\0" * 8,
    framed(-1),
    framed(7, b"\x80"),  # truncated
    framed(7, b"\x80" * 5 + b"\0"),  # more than 5 bytes
    framed(7, b"\x80\x80\x80\x80\0payload"),  # 5 bytes
    framed(7, b"\1"),  # a negative count
    framed(7, b"\x06\0\0"),  # a count above the bytes left
    framed(7, b"\xfe\xff\xff\xff\x0f\0\0"),  # the greatest count
    protobuf(7, [2**31 - 1, 0], b"payload"),
]


def expected(column):
    """Return ids, payloads, and payloads and indexes of Protobuf."""
    found = [reference.schema_id(value) for value in column]
    bodies = [
        None if number is None else value[5:]
        for number, value in zip(found, column, strict=True)
    ]
    pairs = [reference.message_indexes(value) for value in column]
    return found, bodies, [body for _, body in pairs], [path for path, _ in pairs]


def as_bytes_column(column, at=bytes):
    """Return values as `Records` has them; null rows take no bytes."""
    data = np.frombuffer(at(b"".join(value or b"" for value in column)), np.uint8)
    ends = np.cumsum([0, *(len(value or b"") for value in column)])
    valid = np.array([value is not None for value in column], bool)
    return BytesColumn(data, ends.astype(np.int32), None if valid.all() else valid)


def as_view_column(column):
    """Return values in another order than their bytes, with bytes between them."""
    data, starts = b"??", []
    for value in reversed(column):
        starts.append(len(data))
        data += (value or b"") + b"??"
    lengths = [-1 if value is None else len(value) for value in column]
    return ViewColumn(
        np.frombuffer(data, np.uint8),
        np.array(starts[::-1], np.int32),
        np.array(lengths, np.int32),
    )


@given(column=columns)
@example(column=EDGES)
@example(column=[])
def test_columns_of_records_agree_with_the_reference(column):
    found, bodies, stripped, paths = expected(column)
    for form in (as_bytes_column(column), as_view_column(column)):
        numbers = schema_ids(form)
        assert numbers.dtype == np.int32
        assert numbers.tolist() == [
            -1 if number is None else number for number in found
        ]
        assert payloads(form).to_list() == bodies
        assert payloads(form, protobuf=True).to_list() == stripped
        assert message_indexes(form).to_list() == paths
        assert len(message_indexes(form)) == len(column)


@given(column=columns, before=columns, after=columns, kind=st.sampled_from(KINDS))
@example(column=EDGES, before=[], after=[], kind=KINDS[0])
@example(column=EDGES, before=[None] * 9, after=[b"x"], kind=KINDS[1])
def test_slices_of_arrow_arrays_agree_with_the_reference(column, before, after, kind):
    found, bodies, stripped, paths = expected(column)
    array = pa.array([*before, *column, *after], kind)
    array = array.slice(len(before), len(column))
    for result, type_, rows in (
        (schema_ids(array), pa.int32(), found),
        (payloads(array), kind, bodies),
        (payloads(array, protobuf=True), kind, stripped),
        (message_indexes(array), pa.list_(pa.int32()), paths),
    ):
        result.validate(full=True)
        assert result.type == type_
        assert result.to_pylist() == rows


@given(parts=st.lists(columns, max_size=4), kind=st.sampled_from(KINDS))
def test_chunked_arrays_agree_with_the_reference(parts, kind):
    array = pa.chunked_array([pa.array(part, kind) for part in parts], kind)
    column = [value for part in parts for value in part]
    found, bodies, stripped, paths = expected(column)
    for result, type_, rows in (
        (schema_ids(array), pa.int32(), found),
        (payloads(array), kind, bodies),
        (payloads(array, protobuf=True), kind, stripped),
        (message_indexes(array), pa.list_(pa.int32()), paths),
    ):
        assert isinstance(result, pa.ChunkedArray)
        assert result.type == type_
        assert result.to_pylist() == rows


def test_a_null_row_may_have_bytes_in_arrow():
    array = pa.array([framed(7), framed(8), framed(9)])
    bits = pa.py_buffer(b"\x05")
    array = pa.Array.from_buffers(pa.binary(), 3, [bits, *array.buffers()[1:]])
    assert schema_ids(array).to_pylist() == [7, None, 9]
    assert payloads(array).to_pylist() == [b"", None, b""]


@given(
    column=st.lists(
        st.binary(max_size=9) | st.builds(framed, ids, st.binary()), max_size=9
    )
)
@pytest.mark.parametrize("at", [at_the_end, at_the_start])
def test_no_byte_outside_of_the_data_is_read(column, at):
    form = as_bytes_column(column, at)
    assert payloads(form, protobuf=True).to_list() == expected(column)[2]
    assert message_indexes(form).to_list() == expected(column)[3]
    assert len(schema_ids(form)) == len(column)


@pytest.mark.parametrize(
    ("start", "length"),
    [(-1, 6), (0, 21), (20, 1), (16, 5), (2**31 - 1, 5), (-(2**31), 2**31 - 1)],
)
@pytest.mark.parametrize("function", [schema_ids, payloads, message_indexes])
def test_a_row_outside_of_the_data_is_an_error(start, length, function):
    data = np.zeros(20, np.uint8)
    starts, lengths = np.array([0, start], np.int32), np.array([5, length], np.int32)
    if start + length > 2**31 - 1:  # wraps: no bytes
        assert len(function(ViewColumn(data, starts, lengths))) == 2
        return
    with pytest.raises(ValueError, match=r"row 1 has bytes .* expected at most 20"):
        function(ViewColumn(data, starts, lengths))


@pytest.mark.parametrize(
    "column", [pa.array(["text"]), pa.array([1]), pa.chunked_array([[1.0]])]
)
def test_a_column_of_another_type_is_an_error(column):
    message = f"column of {column.type}, expected binary or large_binary"
    with pytest.raises(TypeError, match=message):
        schema_ids(column)


@pytest.mark.parametrize("column", [[b"x"], np.zeros(3), None])
def test_another_object_is_an_error(column):
    with pytest.raises(TypeError, match="expected an Arrow array or a column of"):
        payloads(column)


def test_the_indexes_are_not_written_beyond_their_array():
    value = np.frombuffer(protobuf(7, [1, 2, 3]), np.uint8)
    begins, ends = np.array([0]), np.array([len(value)])
    out = np.full(3, 9, np.int32)
    for offsets, capacity in (([0, 2], 3), ([0, 3], 2), ([-1, 2], 3), ([0, 4], 3)):
        places = np.array(offsets, np.int32)
        done = _speedups.read_message_indexes(
            value, begins, ends, places, out[:capacity]
        )
        assert done == 0
    assert out[2] == 9
    places = np.array([0, 3], np.int32)
    assert _speedups.read_message_indexes(value, begins, ends, places, out) == 1
    assert out.tolist() == [1, 2, 3]


def test_a_validity_of_another_length_is_an_error():
    column = as_bytes_column([b"x", None])
    short = BytesColumn(column.data, column.offsets, column.valid[:1])
    with pytest.raises(ValueError, match="validity of 1 rows, expected 2"):
        schema_ids(short)


@pytest.mark.parametrize("views", [False, True])
@pytest.mark.parametrize("reuse", [False, True])
def test_the_columns_of_a_scan_have_their_ids(views, reuse):
    batch = kafkalog.RecordBatchBuilder()
    batch.append(framed(3, b"key"), framed(4, b"value"), timestamp=1)
    batch.append(None, b"{}", timestamp=1)
    records = next(kafkalog.scan(batch.build()).chunks(reuse, views))
    assert kafkalog.values.schema_ids(records.key).tolist() == [3, -1]
    assert kafkalog.values.schema_ids(records.value).tolist() == [4, -1]
    assert kafkalog.values.payloads(records.value).to_list() == [b"value", None]
    table = kafkalog.scan(batch.build()).to_arrow()
    assert kafkalog.values.payloads(table["key"]).to_pylist() == [b"key", None]


def test_the_module_is_imported_on_first_use_and_needs_no_pyarrow():
    program = (
        "import sys, kafkalog; assert 'kafkalog.values' not in sys.modules;"
        "kafkalog.values.schema_ids; assert 'pyarrow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
