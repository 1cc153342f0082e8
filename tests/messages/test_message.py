"""Kafka's message encodings: bytes of Kafka's own classes, bounds, round trips."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.errors import CorruptMessageError, CorruptRecordError, InvalidRecordError
from kafkalog.messages.message import Schema
from kafkalog.messages.schema import UNKNOWN_TAGS, Array, Field
from kafkalog.text.uuid_text import ZERO_UUID, uuid_to_text
from tests.faults import byte_of_fault
from tests.messages.message_examples import (
    CLASSIC_MEMBER,
    COMMIT,
    EXAMPLES,
    GROUP_METADATA,
    OFFSET_COMMIT,
    TRANSACTION,
)


@pytest.fixture(params=EXAMPLES)
def example(request):
    schema, version, message, written = EXAMPLES[request.param]
    return schema, version, message, bytes.fromhex(written)


def test_the_bytes_are_those_kafka_wrote(example):
    schema, version, message, written = example
    assert schema.encode(message, version) == written


def test_the_message_is_the_one_kafka_wrote(example):
    schema, version, message, written = example
    assert schema.decode(written, version) == (message, len(written))
    around = b"before" + written + b"after"
    assert schema.decode(around, version, 6) == (message, 6 + len(written))


def test_a_message_cut_at_any_byte_is_rejected(example):
    schema, version, _, written = example
    for cut in range(len(written)):
        with pytest.raises(CorruptRecordError) as caught:
            schema.decode(written[:cut], version)
        assert 0 <= caught.value.position <= cut


# One message with a field of every type, in both encodings.
INNER = (Field("name", "string"), Field("sizes", Array("int16")))
EVERY = Schema(
    "Every",
    (
        Field("flag", "bool"),
        Field("int8", "int8"),
        Field("int16", "int16"),
        Field("uint16", "uint16"),
        Field("int32", "int32"),
        Field("uint32", "uint32"),
        Field("int64", "int64"),
        Field("float64", "float64"),
        Field("id", "uuid"),
        Field("text", "string"),
        Field("maybeText", "string", nullable_since=0),
        Field("blob", "bytes"),
        Field("maybeBlob", "bytes", nullable_since=0),
        Field("inner", INNER),
        Field("maybeInner", INNER, nullable_since=0),
        Field("inners", Array(INNER)),
        Field("ids", Array("uuid"), nullable_since=1),
        Field("tagged", "int32", since=1, tag=0, default=-1),
        Field("taggedInner", INNER, since=1, tag=3),
        Field("maybeTagged", INNER, since=1, nullable_since=1, tag=7, default=None),
    ),
    highest_version=1,
    flexible_since=1,
)


def integers(bits):
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


strings = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
blobs = st.binary(max_size=140)
uuids = st.binary(min_size=16, max_size=16).map(uuid_to_text)
inners = st.fixed_dictionaries(
    {"name": strings, "sizes": st.lists(integers(16), max_size=3)}
)
messages = st.fixed_dictionaries(
    {
        "flag": st.booleans(),
        "int8": integers(8),
        "int16": integers(16),
        "uint16": st.integers(0, 2**16 - 1),
        "int32": integers(32),
        "uint32": st.integers(0, 2**32 - 1),
        "int64": integers(64),
        "float64": st.floats(allow_nan=False),
        "id": uuids,
        "text": strings,
        "maybeText": st.none() | strings,
        "blob": blobs,
        "maybeBlob": st.none() | blobs,
        "inner": inners,
        "maybeInner": st.none() | inners,
        "inners": st.lists(inners, max_size=3),
        "ids": st.lists(uuids, max_size=2),
    }
)
tags = st.fixed_dictionaries(
    {},
    optional={
        "tagged": integers(32).filter(lambda value: value != -1),
        "taggedInner": inners.filter(lambda value: value != {"name": "", "sizes": []}),
        "maybeTagged": inners,
        UNKNOWN_TAGS: st.dictionaries(
            st.integers(8, 2**31 - 1), blobs, min_size=1, max_size=3
        ),
    },
)


@given(message=messages)
def test_a_classic_message_is_read_back(message):
    written = EVERY.encode(message, 0)
    assert EVERY.decode(written, 0) == (message, len(written))


@given(message=messages, tagged=tags, null_ids=st.booleans())
def test_a_flexible_message_is_read_back_with_its_unknown_tags(
    message, tagged, null_ids
):
    message = {**message, **tagged, **({"ids": None} if null_ids else {})}
    written = EVERY.encode(message, 1)
    assert EVERY.decode(written, 1) == (message, len(written))


@given(message=messages, tagged=tags, version=st.integers(0, 1), data=st.data())
def test_any_message_cut_at_any_byte_is_rejected(message, tagged, version, data):
    written = EVERY.encode({**message, **(tagged if version else {})}, version)
    cut = data.draw(st.integers(0, len(written) - 1))
    with pytest.raises(CorruptRecordError) as caught:
        EVERY.decode(written[:cut], version)
    assert 0 <= caught.value.position <= cut


@given(data=st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_typed_error(data):
    schemas = {schema.name: schema for schema, *_ in EXAMPLES.values()}
    for schema in (EVERY, *schemas.values()):
        for version in range(schema.highest_version + 1):
            assert 0 <= byte_of_fault(schema.decode, data, version) <= len(data)


@given(data=st.binary(max_size=60).map(lambda tail: bytes(60) + tail))
@pytest.mark.parametrize("schema", [OFFSET_COMMIT, GROUP_METADATA, TRANSACTION])
def test_every_decoded_message_can_be_encoded(schema, data):
    for version in range(schema.highest_version + 1):
        try:
            message, _ = schema.decode(data, version)
        except CorruptRecordError:
            continue
        if any(tag < 0 for tag in message.get(UNKNOWN_TAGS, ())):
            continue  # Kafka reads such a tag, and cannot write it either
        written = schema.encode(message, version)
        assert schema.decode(written, version) == (message, len(written))


def flexible(*fields):
    return Schema("Message", fields, flexible_since=0)


@pytest.mark.parametrize(
    ("kind", "data", "reason", "position"),
    [
        ("string", "00", "non-nullable field field was serialized as null", 0),
        ("bytes", "00", "non-nullable field field was serialized as null", 0),
        (Array("int8"), "00", "non-nullable field field was serialized as null", 0),
        (Array("string"), "0200", "non-nullable field field element was", 1),
        ("string", "0541", "Error reading byte array of 4 byte(s): only 1 byte(s)", 1),
        ("bytes", "ffffffff0700", "Error reading byte array of 2147483646 byte(s)", 5),
        (Array("int8"), "ffffffff0700", "Tried to allocate a collection of size 21", 5),
        (
            Array("int64"),
            "0300000000000000000000",
            "field element: 2 bytes left, expected 8",
            9,
        ),
        ("bytes", "ffffffffff00", "Varint is too long", 0),
        ("bytes", "8080808008", "Error reading byte array of 2147483647 byte(s)", 5),
        ("bytes", "80", "field: 0 bytes left, expected 1", 1),
        ("string", "818002" + "41" * 32768, "string field field had invalid len", 0),
    ],
)
def test_an_invalid_encoding_is_reported_with_its_position(
    kind, data, reason, position
):
    with pytest.raises(CorruptRecordError) as caught:
        flexible(Field("field", kind)).decode(bytes.fromhex(data), 0)
    assert caught.value.reason.startswith(reason)
    assert caught.value.position == position


KNOWN = Field("known", "int32", tag=0)
LATER = Field("later", "int32", since=1, tag=1)


@pytest.mark.parametrize(
    ("data", "reason", "kafka_message", "position"),
    [
        ("01 03 02 aa", "Error reading byte array of 2 byte(s): only 1", "Error re", 3),
        ("01 03 ffffffff0f", "tagged fields: size -1, expected 0 or more", "-1", 7),
        ("01 00 03 000000", "known: 3 bytes left, expected 4", "null", 3),
        ("01 01 04 00000001", "Tag 1 is not valid for version 0", "Tag 1 is not", 1),
        ("ffffffff07", "tagged fields: 0 bytes left, expected 1", "null", 5),
    ],
)
def test_tagged_fields_that_kafka_rejects_are_rejected(
    data, reason, kafka_message, position
):
    with pytest.raises(CorruptMessageError) as caught:
        flexible(KNOWN, LATER).decode(bytes.fromhex(data), 0)
    assert caught.value.reason.startswith(reason)
    assert caught.value.kafka_message.startswith(kafka_message)
    assert caught.value.position == position


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("02 04 01 aa 03 01 bb", {UNKNOWN_TAGS: {3: b"\xbb", 4: b"\xaa"}}),
        ("02 03 01 aa 03 01 bb", {UNKNOWN_TAGS: {3: b"\xbb"}}),
        ("02 00 04 00000001 00 04 00000002", {"known": 2}),
        ("02 00 04 00000001 00 04 00000000", {}),
        ("01 00 09 00000001", {"known": 1}),
        ("ffffffff0f", {}),
    ],
)
def test_tagged_fields_that_kafka_accepts_are_accepted(data, message):
    data = bytes.fromhex(data)
    assert flexible(KNOWN, LATER).decode(data, 0) == (message, len(data))


def test_fields_are_in_the_order_of_the_schema_wherever_they_are_written():
    schema = flexible(KNOWN, Field("plain", "int8"))
    message, _ = schema.decode(bytes.fromhex("07 01 00 04 00000001"), 0)
    assert list(message.items()) == [("known", 1), ("plain", 7)]


def test_invalid_utf8_is_decoded_with_replacement_characters_as_in_java():
    message, _ = flexible(Field("field", "string")).decode(b"\x03a\xff\0", 0)
    assert message == {"field": "a\N{REPLACEMENT CHARACTER}"}


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        ("int8", 128, "field: 128, expected int8"),
        ("int8", True, "field: True, expected int8"),
        ("uint16", -1, "field: -1, expected uint16"),
        ("int64", "7", "field: '7', expected int64"),
        ("float64", 10**400, "field: 1"),
        ("string", b"x", "field: b'x', expected string"),
        ("string", "x" * 32_768, "field: string of 32768 bytes, expected at most"),
        ("string", "\ud800", "field: '\\ud800', expected text that UTF-8"),
        ("string", None, "field: null, expected a value"),
        ("bytes", "x", "field: 'x', expected bytes"),
        ("uuid", "x", "field: 'x', expected 22 characters"),
        ("uuid", None, "field: null, expected a value"),
        ("uuid", 7, "field: 7, expected uuid"),
        (Array("int8"), 7, "field: 7, expected a list"),
        (Array("int8"), [1000], "field: 1000, expected int8"),
        (Array("string"), [None], "field: null element, expected a value"),
        (INNER, 7, "field: 7, expected a mapping"),
        (INNER, {"name": ""}, "field: missing fields of version 0: sizes"),
        (
            INNER,
            {"name": "", "sizes": [], "x": 1, "a": 1},
            "field: unknown fields in version 0: a, x",
        ),
    ],
)
@pytest.mark.parametrize("flexible_since", [0, 1])
def test_an_invalid_value_is_rejected_with_the_name_of_its_field(
    kind, value, reason, flexible_since
):
    schema = Schema("S", (Field("field", kind),), flexible_since=flexible_since)
    with pytest.raises(InvalidRecordError) as caught:
        schema.encode({"field": value}, 0)
    assert str(caught.value).startswith(reason)


def test_tagged_fields_are_rejected_in_a_classic_version():
    schema = Schema("S", (Field("field", "int8"),))
    with pytest.raises(
        InvalidRecordError, match="message: tagged fields, expected none"
    ):
        schema.encode({"field": 1, UNKNOWN_TAGS: {0: b""}}, 0)


def test_a_version_that_does_not_exist_is_rejected():
    for version in (-1, 5):
        with pytest.raises(ValueError, match=f"version {version}, expected 0 to 4"):
            OFFSET_COMMIT.decode(b"", version)
        with pytest.raises(ValueError, match=f"version {version}, expected 0 to 4"):
            OFFSET_COMMIT.encode(COMMIT, version)


def test_every_type_has_a_default():
    assert Field("f", CLASSIC_MEMBER).default_in(0) == {
        "sessionTimeoutMs": 0,
        "supportedProtocols": [],
    }
    kinds = {"bool": False, "string": "", "bytes": b"", "uuid": ZERO_UUID, "int8": 0}
    assert {kind: Field("f", kind).default_in(0) for kind in kinds} == kinds
