"""Avro values as columns are those that fastavro reads one by one."""

import datetime
import io
import json
import struct
from decimal import Decimal
from urllib.error import HTTPError

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkalog
from kafkalog.errors import ConfigError, InvalidValueError
from kafkalog.values import decode
from tests.values.registry import serving

FIELDS = [
    {"name": "id", "type": "int"},
    {"name": "customer", "type": ["null", "string"]},
    {"name": "amount", "type": "double", "default": 0.5},
]


def record(*fields, name="Order"):
    return {"type": "record", "name": name, "fields": list(fields)}


LONG_ID = {"name": "id", "type": "long"}
SCHEMAS = {
    1: record(*FIELDS[:2]),
    4: record(*FIELDS),
    9: record(LONG_ID, *FIELDS[1:]),
    12: record({"name": "x", "type": "string"}, name="Other"),
}
ORDER = pa.struct(
    [("id", pa.int64()), ("customer", pa.string()), ("amount", pa.float64())]
)


def datum(schema, value):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def framed(schema_id, value, schemas=SCHEMAS):
    return struct.pack(">bi", 0, schema_id) + datum(schemas[schema_id], value)


def table(values, **columns):
    return pa.table({**columns, "value": pa.array(values, pa.binary())})


names = st.none() | st.text(max_size=5)
orders = st.one_of(
    st.tuples(
        st.just(1), st.fixed_dictionaries({"id": st.integers(-9, 9), "customer": names})
    ),
    st.tuples(
        st.sampled_from([4, 9]),
        st.fixed_dictionaries(
            {"id": st.integers(-9, 9), "customer": names, "amount": st.floats(-1, 1)}
        ),
    ),
)


@given(values=st.lists(st.none() | orders, max_size=20), cut=st.integers(0, 20))
def test_values_of_several_schemas_are_resolved_to_the_newest(values, cut):
    column = [
        value and framed(*value)
        for value in [(9, {"id": 1, "customer": None, "amount": 2.0}), *values]
    ]
    rows = [None if value is None else {"amount": 0.5, **value[1]} for value in values]
    source = pa.chunked_array([column[:cut], column[cut:]], pa.binary())
    found = decode(pa.table({"value": source}), "avro", schemas=SCHEMAS)["value"]
    assert found.type == ORDER
    assert found.to_pylist()[1:] == rows


def test_the_newest_schema_is_that_of_the_same_name(tmp_path):
    for schema_id, schema in SCHEMAS.items():
        (tmp_path / f"{schema_id}.avsc").write_text(json.dumps(schema))
    (tmp_path / "notes.txt").write_text("no schema")
    values = [None, framed(1, {"id": 1, "customer": "ada"})]
    found = decode(table(values), "avro", schemas=tmp_path)
    assert found["value"].to_pylist() == [
        None,
        {"id": 1, "customer": "ada", "amount": 0.5},
    ]
    other = decode(table([framed(12, {"x": "y"})]), "avro", schemas=str(tmp_path))
    assert other["value"].to_pylist() == [{"x": "y"}]


def test_a_schema_may_be_given():
    values = [framed(9, {"id": 1, "customer": "ada", "amount": 2.0})]
    reader = record(FIELDS[1])
    for schema in (reader, json.dumps(reader)):
        found = decode(table(values), "avro", schemas=SCHEMAS, schema=schema)
        assert found["value"].to_pylist() == [{"customer": "ada"}]


def test_values_without_a_header_have_the_schema_that_is_given(tmp_path):
    path = tmp_path / "order.avsc"
    path.write_text(json.dumps(SCHEMAS[9]))
    rows = [{"id": i, "customer": None, "amount": 1.0} for i in range(3)]
    values = [datum(SCHEMAS[9], row) for row in rows]
    found = decode(
        table([*values, None, b"", values[0] + b"x"]),
        "avro",
        schema=path,
        errors="column",
    )
    assert found["value"].to_pylist() == [*rows, None, None, None]
    reasons = [error and error["reason"] for error in found["value_error"].to_pylist()]
    assert reasons[:4] == [None] * 4
    assert reasons[4:] == [
        f"expected a value of {size} bytes, found 10" for size in (0, 11)
    ]


def test_an_error_names_topic_partition_and_offset():
    good = framed(4, {"id": 1, "customer": "ada", "amount": 2.0})
    batch = kafkalog.RecordBatchBuilder(base_offset=40)
    for value in (good, good[:-1]):
        batch.append(None, value, timestamp=1)
    scan = kafkalog.scan(batch.build(), columns=["value"])
    with pytest.raises(InvalidValueError, match=r": offset 41\n") as caught:
        decode(scan, "avro", schemas=SCHEMAS).read_all()
    assert (caught.value.column, caught.value.offset) == ("value", 41)
    source = table(
        [good, b"text"], topic=["orders"] * 2, partition=[3, 3], offset=[7, 8]
    )
    with pytest.raises(InvalidValueError, match="orders-3 at offset 8\n") as caught:
        decode(source, "avro", schemas=SCHEMAS)
    error = caught.value
    assert (error.topic, error.partition, error.offset) == ("orders", 3, 8)


def test_a_value_never_reads_the_bytes_of_the_next():
    good = framed(1, {"id": 1, "customer": "ada"})
    values = [
        good[:-1],
        good,
        good + b"\0",
        framed(12, {"x": "y"}),
        b"\0\0\0\0\7",
        good,
    ]
    found = decode(table(values), "avro", schemas=SCHEMAS, errors="column")
    row = {"id": 1, "customer": "ada", "amount": 0.5}
    assert found["value"].to_pylist() == [None, row, None, None, None, row]
    reasons = [error and error["reason"] for error in found["value_error"].to_pylist()]
    assert "found" in reasons[0]
    assert reasons[2] == "expected a value of 7 bytes, found 6"
    assert reasons[3].startswith("SchemaResolutionError")
    assert reasons[4] == "no schema with id 7"


def test_keys_and_values_are_decoded_together():
    key, value = framed(12, {"x": "k"}), framed(12, {"x": "v"})
    source = pa.table({"key": [key, None], "value": [value, value]})
    found = decode(source, "avro", schemas=SCHEMAS, column=["key", "value"])
    assert found["key"].to_pylist() == [{"x": "k"}, None]
    assert found["value"].to_pylist() == [{"x": "v"}] * 2
    flat = decode(
        source, "avro", schemas=SCHEMAS, column=["key", "value"], flatten=True
    )
    assert flat.to_pydict() == {"x": ["k", None], "value_x": ["v", "v"]}


LOGICAL = {
    "d": (
        {"type": "int", "logicalType": "date"},
        pa.date32(),
        datetime.date(1969, 12, 31),
    ),
    "t": (
        {"type": "int", "logicalType": "time-millis"},
        pa.time32("ms"),
        datetime.time(1, 2, 3),
    ),
    "u": (
        {"type": "long", "logicalType": "time-micros"},
        pa.time64("us"),
        datetime.time(1, 2, 3, 4),
    ),
    "ms": (
        {"type": "long", "logicalType": "timestamp-millis"},
        pa.timestamp("ms", tz="UTC"),
        datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
    ),
    "us": (
        {"type": "long", "logicalType": "local-timestamp-micros"},
        pa.timestamp("us"),
        datetime.datetime(2026, 1, 2, 3, 4, 5, 6),
    ),
    "n": (
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        pa.decimal128(9, 2),
        Decimal("-1.25"),
    ),
    "big": (
        {
            "type": "fixed",
            "name": "F20",
            "size": 20,
            "logicalType": "decimal",
            "precision": 40,
        },
        pa.decimal256(40, 0),
        Decimal("12345678901234567890123456789012345678"),
    ),
    "e": ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, pa.string(), "B"),
    "f": ({"type": "fixed", "name": "F", "size": 2}, pa.binary(2), b"\0\1"),
    "l": (
        {"type": "array", "items": ["null", "long"]},
        pa.list_(pa.int64()),
        [1, None],
    ),
    "m": (
        {"type": "map", "values": "float"},
        pa.map_(pa.string(), pa.float32()),
        [("k", 1.5)],
    ),
    "w": (["int", "null", "long"], pa.int64(), 7),
    "z": ("boolean", pa.bool_(), True),
    "s": ("bytes", pa.binary(), b"x"),
    "r": (record(LONG_ID, name="Inner"), pa.struct([("id", pa.int64())]), {"id": 3}),
    "again": (["null", "Inner"], pa.struct([("id", pa.int64())]), None),
}


def test_each_type_has_one_of_arrow():
    schema = record(
        *({"name": name, "type": kind} for name, (kind, _, _) in LOGICAL.items())
    )
    row = {name: value for name, (_, _, value) in LOGICAL.items()}
    value = datum(schema, {**row, "m": dict(row["m"])})
    found = decode(table([value]), "avro", schema=schema)["value"]
    assert found.type == pa.struct(
        [(name, kind) for name, (_, kind, _) in LOGICAL.items()]
    )
    assert found.to_pylist() == [row]
    found.validate(full=True)


def test_a_timestamp_of_any_year_is_read():
    schema = record(
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}}
    )
    plain = record({"name": "t", "type": "long"})
    found = decode(table([datum(plain, {"t": 2**62})]), "avro", schema=schema)["value"]
    assert found.combine_chunks().field(0).cast(pa.int64()).to_pylist() == [2**62]


def test_a_union_of_several_types_has_a_member_for_each():
    union = [
        "null",
        "string",
        "long",
        record(LONG_ID, name="A"),
        record({"name": "s", "type": "string"}, name="B"),
        {"type": "array", "items": "int"},
    ]
    schema = record({"name": "u", "type": union}, {"name": "a", "type": ["null", "A"]})
    rows = [None, "x", 7, ("A", {"id": 1}), ("B", {"s": "y"}), [1, 2]]
    values = [datum(schema, {"u": value, "a": {"id": 5}}) for value in rows]
    found = decode(table(values), "avro", schema=schema, flatten=True)
    members = [
        row and {name: value for name, value in row.items() if value is not None}
        for row in found["u"].to_pylist()
    ]
    assert members == [
        None,
        {"member0": "x"},
        {"member1": 7},
        {"member2": {"id": 1}},
        {"member3": {"s": "y"}},
        {"member4": [1, 2]},
    ]
    assert found["a"].to_pylist() == [{"id": 5}] * 6


def test_a_type_that_contains_itself_is_an_error():
    schema = record({"name": "next", "type": ["null", "Order"]})
    with pytest.raises(ConfigError, match="the type Order contains itself"):
        decode(table([]), "avro", schema=schema)


def test_a_registry_is_asked_once_for_each_schema():
    answers = {
        f"/schemas/ids/{key}": {"schema": json.dumps(schema)}
        for key, schema in SCHEMAS.items()
    } | {
        "/schemas/ids/1/versions": [
            {"subject": "copies-value", "version": 1},
            {"subject": "orders-value", "version": 1},
        ],
        "/subjects/orders-value/versions/latest": {"schema": json.dumps(SCHEMAS[9])},
    }
    values = [framed(1, {"id": 1, "customer": "ada"})] * 3
    values += [framed(4, {"id": 2, "customer": None, "amount": 1.0}), b"\0\0\0\0\2"]
    source = table(values, topic=["orders"] * 5)
    with serving(answers, user="Basic YWRhOnNlY3JldA==") as (url, requested):
        with_user = url.replace("://", "://ada:secret@")
        found = decode(source, "avro", schemas=f"{with_user}/", errors="column")
        with pytest.raises(HTTPError) as refused:
            decode(source, "avro", schemas=url)
        refused.value.close()
        with pytest.raises(
            ValueError, match="schema 1 is of copies-value, orders-value"
        ):
            decode(source.drop_columns(["topic"]), "avro", schemas=with_user)
    assert [row and row["id"] for row in found["value"].to_pylist()] == [
        1,
        1,
        1,
        2,
        None,
    ]
    assert found["value"].type == ORDER
    assert found["value_error"][4].as_py()["reason"] == "no schema with id 2"
    assert requested[:5] == [
        "/schemas/ids/1",
        "/schemas/ids/1/versions",
        "/subjects/orders-value/versions/latest",
        "/schemas/ids/2",
        "/schemas/ids/4",
    ]


def test_a_schema_of_a_registry_may_refer_to_others():
    outer = record(
        {"name": "a", "type": "Inner"}, {"name": "b", "type": ["null", "Inner"]}
    )
    reference = {"name": "Inner", "subject": "inner", "version": 2}
    answers = {
        "/schemas/ids/5": {"schema": json.dumps(outer), "references": [reference]},
        "/schemas/ids/5/versions": [{"subject": "s", "version": 1}],
        "/subjects/s/versions/latest": {
            "schema": json.dumps(outer),
            "references": [reference],
        },
        "/subjects/inner/versions/2": {
            "schema": json.dumps(record(LONG_ID, name="Inner"))
        },
    }
    whole = record(
        {"name": "a", "type": record(LONG_ID, name="Inner")}, outer["fields"][1]
    )
    row = {"a": {"id": 1}, "b": {"id": 2}}
    with serving(answers) as (url, _):
        found = decode(table([framed(5, row, {5: whole})]), "avro", schemas=url)
    assert found["value"].to_pylist() == [row]


def test_arguments_that_are_invalid_are_errors(tmp_path):
    source = table([framed(1, {"id": 1, "customer": "ada"})])
    with pytest.raises(ValueError, match="avro without schemas and schema"):
        decode(source, "avro")
    with pytest.raises(FileNotFoundError, match=r"No file <id>\.avsc"):
        decode(source, "avro", schemas=tmp_path)
    with pytest.raises(FileNotFoundError):
        decode(source, "avro", schemas=tmp_path / "missing")
    with pytest.raises(TypeError, match="schemas of type int"):
        decode(source, "avro", schemas=7)
    with pytest.raises(ValueError, match="no value tells the schema"):
        decode(source.slice(0, 0), "avro", schemas=SCHEMAS)
    (tmp_path / "1.avsc").write_text("{")
    with pytest.raises(ValueError, match=r"expected a schema as JSON: .*1\.avsc"):
        decode(source, "avro", schemas=tmp_path)
