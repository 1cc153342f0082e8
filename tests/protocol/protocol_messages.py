"""All requests and responses in all versions, and random messages of them."""

from __future__ import annotations

from hypothesis import strategies as st

from kafkalog.messages.message import Schema
from kafkalog.messages.schema import FIXED_WIDTH, UNKNOWN_TAGS, Array
from kafkalog.protocol.protocol_schemas import api_keys, api_of, header_schema
from kafkalog.text.uuid_text import uuid_to_text

SCHEMAS: list[Schema] = [
    *(
        schema
        for key in api_keys()
        for schema in (api_of(key).request, api_of(key).response)
    ),
    *(header_schema(name) for name in ("RequestHeader", "ResponseHeader")),
]
VERSIONS = [
    (schema, version)
    for schema in SCHEMAS
    for version in range(schema.lowest_version, schema.highest_version + 1)
]
BITS = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64}


def name_of(value):
    return value.name if isinstance(value, Schema) else str(value)


def values_of(kind, version, flexible):
    """Return a strategy for values of a type."""
    if isinstance(kind, tuple):
        return messages_of(kind, version, flexible)
    if isinstance(kind, Array):
        return st.lists(values_of(kind.of, version, flexible), max_size=2)
    if kind in BITS:
        least = 0 if kind.startswith("u") else -(1 << BITS[kind] - 1)
        return st.integers(least, least + (1 << BITS[kind]) - 1)
    return {
        "bool": st.booleans(),
        "float64": st.floats(allow_nan=False),
        "uuid": st.binary(min_size=16, max_size=16).map(uuid_to_text),
        "string": st.sampled_from(["", "orders", "é" * 70]),
        "bytes": st.sampled_from([b"", b"\0\1", b"x" * 200]),
        "records": st.sampled_from([b"", b"\0\1", b"x" * 200]),
    }[kind]


@st.composite
def messages_of(draw, fields, version, flexible, *, tagged=True):
    """Return a strategy for messages with these fields in a version."""
    message = {}
    for field in fields:
        if not field.exists(version):
            continue
        if field.tag is not None and not (tagged and draw(st.booleans())):
            continue
        if field.nullable(version) and draw(st.booleans()):
            value = None
        else:
            value = draw(values_of(field.type, version, flexible))
        if field.tag is None or value != field.default_in(version):
            message[field.name] = value
    if flexible and draw(st.integers(0, 9)) == 0:
        message[UNKNOWN_TAGS] = {4711: b"unknown"}
    return message


def is_flexible(schema, version):
    return version >= schema.flexible_since


def smallest(fields, version):
    """Return a message of small values, with one element in each array."""
    message = {}
    for field in fields:
        if field.tag is None and field.exists(version):
            message[field.name] = _least(field.type, version)
    return message


def _least(kind, version):
    if isinstance(kind, tuple):
        return smallest(kind, version)
    if isinstance(kind, Array):
        return [_least(kind.of, version)]
    if kind in FIXED_WIDTH:
        return False if kind == "bool" else 0.0 if kind == "float64" else 1
    return {"uuid": uuid_to_text(bytes(range(16))), "string": "t"}.get(kind, b"b")
