"""Kafka's message encodings: bytes of Kafka's own classes, bounds, round trips."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.codecs.uuid_text import ZERO_UUID, uuid_to_text
from kafkalog.errors import CorruptMessageError, CorruptRecordError, InvalidRecordError
from kafkalog.messages.message import Schema
from kafkalog.messages.schema import UNKNOWN_TAGS, Array, Field
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
    around = b"before" + written + b"behind"
    assert schema.decode(around, version, 6) == (message, 6 + len(written))


def test_every_cut_is_found(example):
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
def test_a_flexible_message_is_read_back_with_the_tags_it_does_not_know(
    message, tagged, null_ids
):
    message = {**message, **tagged, **({"ids": None} if null_ids else {})}
    written = EVERY.encode(message, 1)
    assert EVERY.decode(written, 1) == (message, len(written))


@given(message=messages, tagged=tags, version=st.integers(0, 1), data=st.data())
def test_any_cut_of_any_message_is_found(message, tagged, version, data):
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
def test_whatever_can_be_read_can_be_written(schema, data):
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
            "field element ends 6 bytes past",
            9,
        ),
        ("bytes", "ffffffffff00", "Varint is too long", 0),
        ("bytes", "8080808008", "Error reading byte array of 2147483647 byte(s)", 5),
        ("bytes", "80", "field ends 1 bytes past", 1),
        ("string", "818002" + "41" * 32768, "string field field had invalid len", 0),
    ],
)
def test_what_is_wrong_is_told_with_its_byte(kind, data, reason, position):
    with pytest.raises(CorruptRecordError) as caught:
        flexible(Field("field", kind)).decode(bytes.fromhex(data), 0)
    assert caught.value.reason.startswith(reason)
    assert caught.value.position == position


KNOWN = Field("known", "int32", tag=0)
LATER = Field("later", "int32", since=1, tag=1)


@pytest.mark.parametrize(
    ("data", "reason", "said", "position"),
    [
        ("01 03 02 aa", "Error reading byte array of 2 byte(s): only 1", "Error re", 3),
        ("01 03 ffffffff0f", "tagged fields has a size of -1", "-1", 7),
        ("01 00 03 000000", "known ends 1 bytes past", "null", 3),
        ("01 01 04 00000001", "Tag 1 is not valid for version 0", "Tag 1 is not", 1),
        ("ffffffff07", "tagged fields ends 1 bytes past", "null", 5),
    ],
)
def test_tagged_fields_are_refused_where_kafka_refuses_them(
    data, reason, said, position
):
    with pytest.raises(CorruptMessageError) as caught:
        flexible(KNOWN, LATER).decode(bytes.fromhex(data), 0)
    assert caught.value.reason.startswith(reason)
    assert caught.value.kafka_message.startswith(said)
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
def test_tagged_fields_are_taken_where_kafka_takes_them(data, message):
    data = bytes.fromhex(data)
    assert flexible(KNOWN, LATER).decode(data, 0) == (message, len(data))


def test_fields_are_in_the_order_of_the_schema_wherever_they_are_written():
    schema = flexible(KNOWN, Field("plain", "int8"))
    message, _ = schema.decode(bytes.fromhex("07 01 00 04 00000001"), 0)
    assert list(message.items()) == [("known", 1), ("plain", 7)]


def test_a_string_that_is_no_utf8_is_repaired_as_java_does():
    message, _ = flexible(Field("field", "string")).decode(b"\x03a\xff\0", 0)
    assert message == {"field": "a\N{REPLACEMENT CHARACTER}"}


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        ("int8", 128, "field is 128, not int8"),
        ("int8", True, "field is True, not int8"),
        ("uint16", -1, "field is -1, not uint16"),
        ("int64", "7", "field is '7', not int64"),
        ("float64", 10**400, "field is 1"),
        ("string", b"x", "field is b'x', not string"),
        ("string", "x" * 32_768, "field is a string of 32768 bytes"),
        ("string", "\ud800", "field cannot be UTF-8"),
        ("string", None, "field is null"),
        ("bytes", "x", "field is 'x', not bytes"),
        ("uuid", "x", "field 'x' is not 22 characters"),
        ("uuid", None, "field is null"),
        ("uuid", 7, "field "),
        (Array("int8"), 7, "field is 7, not a list"),
        (Array("int8"), [1000], "field is 1000, not int8"),
        (Array("string"), [None], "field has an element that is null"),
        (INNER, 7, "field is 7, not a mapping"),
        (INNER, {"name": ""}, "field lacks sizes"),
        (INNER, {"name": "", "sizes": [], "x": 1, "a": 1}, "field has no a, x"),
    ],
)
@pytest.mark.parametrize("flexible_since", [0, 1])
def test_a_value_that_has_no_room_is_refused_by_name(
    kind, value, reason, flexible_since
):
    schema = Schema("S", (Field("field", kind),), flexible_since=flexible_since)
    with pytest.raises(InvalidRecordError) as caught:
        schema.encode({"field": value}, 0)
    assert str(caught.value).startswith(reason)


def test_a_classic_message_has_no_tags():
    schema = Schema("S", (Field("field", "int8"),))
    with pytest.raises(InvalidRecordError, match="has tagged fields"):
        schema.encode({"field": 1, UNKNOWN_TAGS: {0: b""}}, 0)


def test_a_version_there_is_none_of_is_refused():
    for version in (-1, 5):
        with pytest.raises(ValueError, match="versions 0 to 4"):
            OFFSET_COMMIT.decode(b"", version)
        with pytest.raises(ValueError, match="versions 0 to 4"):
            OFFSET_COMMIT.encode(COMMIT, version)


def test_every_type_has_a_default():
    assert Field("f", CLASSIC_MEMBER).default_in(0) == {
        "sessionTimeoutMs": 0,
        "supportedProtocols": [],
    }
    kinds = {"bool": False, "string": "", "bytes": b"", "uuid": ZERO_UUID, "int8": 0}
    assert {kind: Field("f", kind).default_in(0) for kind in kinds} == kinds
