"""Protobuf values as columns are the messages that protobuf parses."""

import datetime

import pyarrow as pa
import pytest
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.errors import ConfigError, InvalidValueError
from kafkalog.values import decode
from tests import reference


def field(name, number, kind, *, of=None, label=Field.LABEL_OPTIONAL, optional=False):
    made = Field(name=name, number=number, type=kind, label=label, type_name=of)
    if optional:
        made.proto3_optional, made.oneof_index = True, 0
    return made


REPEATED = Field.LABEL_REPEATED
CUSTOMER = descriptor_pb2.DescriptorProto(
    name="Customer", field=[field("name", 1, Field.TYPE_STRING)]
)
ORDER = descriptor_pb2.DescriptorProto(
    name="Order",
    field=[
        field("id", 1, Field.TYPE_INT64),
        field("customer", 2, Field.TYPE_MESSAGE, of=".shop.Customer"),
        field("tags", 3, Field.TYPE_STRING, label=REPEATED),
        field("state", 4, Field.TYPE_ENUM, of=".shop.State"),
        field("note", 5, Field.TYPE_STRING, optional=True),
        field("customers", 6, Field.TYPE_MESSAGE, of=".shop.Customer", label=REPEATED),
        field(
            "counts",
            7,
            Field.TYPE_MESSAGE,
            of=".shop.Order.CountsEntry",
            label=REPEATED,
        ),
        field("data", 8, Field.TYPE_BYTES),
        field("at", 9, Field.TYPE_MESSAGE, of=".google.protobuf.Timestamp"),
        field("limit", 10, Field.TYPE_MESSAGE, of=".google.protobuf.Int64Value"),
        field("more", 11, Field.TYPE_MESSAGE, of=".google.protobuf.Struct"),
        field("small", 12, Field.TYPE_UINT32),
        field("ratio", 13, Field.TYPE_FLOAT),
        field("line", 14, Field.TYPE_MESSAGE, of=".shop.Order.Line"),
    ],
    oneof_decl=[descriptor_pb2.OneofDescriptorProto(name="_note")],
    nested_type=[
        descriptor_pb2.DescriptorProto(
            name="CountsEntry",
            field=[
                field("key", 1, Field.TYPE_STRING),
                field("value", 2, Field.TYPE_INT32),
            ],
            options=descriptor_pb2.MessageOptions(map_entry=True),
        ),
        descriptor_pb2.DescriptorProto(
            name="Line", field=[field("sku", 1, Field.TYPE_INT32)]
        ),
    ],
)
TREE = descriptor_pb2.DescriptorProto(
    name="Tree", field=[field("left", 1, Field.TYPE_MESSAGE, of=".shop.Tree")]
)
STATE = descriptor_pb2.EnumDescriptorProto(
    name="State",
    value=[
        descriptor_pb2.EnumValueDescriptorProto(name="NEW", number=0),
        descriptor_pb2.EnumValueDescriptorProto(name="PAID", number=1),
    ],
)
IMPORTS = [struct_pb2, timestamp_pb2, wrappers_pb2]
FILE = descriptor_pb2.FileDescriptorProto(
    name="shop.proto",
    package="shop",
    syntax="proto3",
    message_type=[CUSTOMER, ORDER, TREE],
    enum_type=[STATE],
    dependency=[module.DESCRIPTOR.name for module in IMPORTS],
)


def file_of(module):
    made = descriptor_pb2.FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(made)
    return made


FILES = [*map(file_of, IMPORTS), FILE]
DESCRIPTORS = descriptor_pb2.FileDescriptorSet(file=FILES).SerializeToString()
POOL = descriptor_pool.DescriptorPool()
for one in FILES:
    POOL.Add(one)
Order, Customer = (
    message_factory.GetMessageClass(POOL.FindMessageTypeByName(f"shop.{name}"))
    for name in ("Order", "Customer")
)
HEADER = b"\0\0\0\0\7"
OF_ORDER = HEADER + b"\x02\x02"


def table(values):
    return pa.table(
        {"offset": range(len(values)), "value": pa.array(values, pa.binary())}
    )


names = st.text(max_size=4)
orders = st.builds(
    Order,
    id=st.integers(-(2**63), 2**63 - 1),
    customer=st.none() | st.builds(Customer, name=names),
    tags=st.lists(names, max_size=3),
    state=st.integers(0, 3),
    note=st.none() | names,
    customers=st.lists(st.builds(Customer, name=names), max_size=2),
    counts=st.dictionaries(names, st.integers(-9, 9), max_size=2),
    data=st.binary(max_size=3),
    small=st.integers(0, 2**32 - 1),
)


def row_of(order):
    """Return what a message is in columns, field by field."""
    return {
        "id": order.id,
        "customer": {"name": order.customer.name}
        if order.HasField("customer")
        else None,
        "tags": list(order.tags),
        "state": {0: "NEW", 1: "PAID"}.get(order.state, str(order.state)),
        "note": order.note if order.HasField("note") else None,
        "customers": [{"name": one.name} for one in order.customers],
        "counts": dict(order.counts),
        "data": order.data,
        "small": order.small,
    }


@given(
    values=st.lists(st.none() | orders, max_size=8),
    framed=st.lists(st.booleans(), min_size=8, max_size=8),
)
def test_messages_are_columns_with_and_without_headers(values, framed):
    column = [
        value and (OF_ORDER * with_header + value.SerializeToString())
        for value, with_header in zip(values, framed, strict=False)
    ]
    # A message without fields is no bytes, which is false.
    column = [
        value if value or values[i] is None else b"" for i, value in enumerate(column)
    ]
    found = decode(table(column), "protobuf", schemas=DESCRIPTORS, schema="shop.Order")
    found["value"].validate(full=True)
    rows = found["value"].to_pylist(maps_as_pydicts="strict")
    for row, value in zip(rows, values, strict=True):
        if value is None:
            assert row is None
        else:
            wanted = row_of(value)
            assert {name: row[name] for name in wanted} == wanted


def test_known_types_have_types_of_arrow(tmp_path):
    path = tmp_path / "shop.desc"
    path.write_bytes(DESCRIPTORS)
    order = Order(
        at={"seconds": -62135596800, "nanos": 1999},
        limit={"value": 0},
        ratio=0.5,
        line={"sku": 3},
    )
    order.more.update({"a": [1, None]})
    values = [order.SerializeToString(), b""]
    found = decode(table(values), "protobuf", schemas=path, schema="shop.Order")
    row, empty = found["value"].to_pylist()
    utc = datetime.UTC
    assert row["at"] == datetime.datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=utc)
    assert (row["limit"], row["ratio"], row["line"]) == (0, 0.5, {"sku": 3})
    assert row["more"] == '{"a": [1.0, null]}'
    assert (empty["at"], empty["limit"], empty["more"]) == (None, None, None)
    assert (empty["id"], empty["tags"], empty["counts"]) == (0, [], [])


def test_the_type_is_that_of_the_first_value():
    customer = HEADER + b"\0" + Customer(name="ada").SerializeToString()
    order = OF_ORDER + Order(id=7).SerializeToString()
    line = HEADER + b"\x04\x02\x02" + Order.Line(sku=1).SerializeToString()
    found = decode(table([None, customer]), "protobuf", schemas=DESCRIPTORS)
    assert found["value"].to_pylist() == [None, {"name": "ada"}]
    found = decode(table([line]), "protobuf", schemas=DESCRIPTORS)
    assert found["value"].to_pylist() == [{"sku": 1}]
    other = table([order, customer, HEADER + b"\x10", HEADER + b"\x01\0", b"\xff"])
    found = decode(other, "protobuf", schemas=DESCRIPTORS, errors="column")
    assert [row and row["id"] for row in found["value"].to_pylist()] == [7] + [None] * 4
    reasons = [error and error["reason"] for error in found["value_error"].to_pylist()]
    assert reasons[:2] == [None, "expected a shop.Order, found shop.Customer"]
    assert reasons[2] == "expected message indexes after the magic byte 0"
    assert reasons[3] == "expected message indexes after the magic byte 0"
    assert reasons[4].startswith("no shop.Order: ")
    with pytest.raises(InvalidValueError, match=r"offset 1\n"):
        decode(other, "protobuf", schemas=DESCRIPTORS)


def test_indexes_of_no_type_are_an_error():
    path = b"".join(map(reference.varlong, [1, 9]))
    values = [OF_ORDER, HEADER + path]
    found = decode(table(values), "protobuf", schemas=DESCRIPTORS, errors="column")
    reason = "expected a shop.Order, found no type of the file"
    assert found["value_error"][1].as_py()["reason"] == reason


def test_arguments_that_are_invalid_are_errors():
    source = table([b""])
    with pytest.raises(ValueError, match="protobuf without schemas"):
        decode(source, "protobuf")
    with pytest.raises(ValueError, match="no message type 'Order', expected one of"):
        decode(source, "protobuf", schemas=DESCRIPTORS, schema="Order")
    with pytest.raises(ValueError, match="no value tells the schema"):
        decode(source, "protobuf", schemas=DESCRIPTORS)
    with pytest.raises(ValueError, match="expected a descriptor set: descriptors"):
        decode(source, "protobuf", schemas=b"\xff")
    with pytest.raises(ValueError, match="a descriptor set with a file"):
        decode(source, "protobuf", schemas=b"")
    alone = descriptor_pb2.FileDescriptorSet(file=[FILE]).SerializeToString()
    with pytest.raises(ValueError, match="a descriptor set with all imports"):
        decode(source, "protobuf", schemas=alone)
    with pytest.raises(TypeError, match="schemas of type int"):
        decode(source, "protobuf", schemas=7)
    with pytest.raises(ConfigError, match=r"the type shop\.Tree contains itself"):
        decode(source, "protobuf", schemas=DESCRIPTORS, schema="shop.Tree")
