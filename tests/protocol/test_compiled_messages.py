"""Generated readers and writers do what the general decoder and encoder do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.errors import CorruptMessageError
from kafkalog.messages.compiled_messages import MessageCodec, NotPlainError
from kafkalog.messages.message import Schema
from kafkalog.messages.schema import Field
from kafkalog.protocol.protocol_schemas import api_keys, api_of
from tests.protocol.protocol_messages import (
    VERSIONS,
    is_flexible,
    messages_of,
    name_of,
    smallest,
)


def codec_of(schema, version):
    return MessageCodec.of(schema, version)


def test_all_apis_of_the_release_are_there():
    assert len(api_keys()) == 89
    assert len(VERSIONS) == 607
    names = {api_of(key).name: api_of(key).highest_version for key in api_keys()}
    assert (names["Fetch"], names["Produce"], names["InitProducerId"]) == (18, 13, 5)


@pytest.mark.parametrize(("schema", "version"), VERSIONS, ids=name_of)
def test_every_version_is_written_and_read_as_by_the_general_code(schema, version):
    codec, message = codec_of(schema, version), smallest(schema.fields, version)
    written, ranges = codec.encode(message)
    assert written == schema.encode(message, version)
    assert ranges == []
    data = b"before" + bytes(written) + b"after"
    end = 6 + len(written)
    assert codec.read(data, 6, len(data)) == (message, end)
    assert schema.decode(data, version, 6) == (message, end)


@given(st.sampled_from(VERSIONS), st.data())
def test_any_message_is_read_and_written_alike(case, data):
    schema, version = case
    flexible = is_flexible(schema, version)
    message = data.draw(messages_of(schema.fields, version, flexible))
    codec = codec_of(schema, version)
    written = schema.encode(message, version)
    assert codec.encode(message)[0] == written
    assert codec.decode(written) == (message, len(written))


@pytest.mark.parametrize(("schema", "version"), VERSIONS, ids=name_of)
def test_a_message_cut_at_any_byte_is_an_error(schema, version):
    codec, message = codec_of(schema, version), smallest(schema.fields, version)
    written = bytes(codec.encode(message)[0])
    for cut in range(len(written)):
        with pytest.raises(CorruptMessageError) as caught:
            codec.decode(written[:cut])
        assert 0 <= caught.value.position <= cut


@given(st.sampled_from(VERSIONS), st.binary(max_size=60))
def test_any_bytes_are_read_alike_or_are_the_same_error(case, data):
    schema, version = case
    outcomes = []
    for decode in (
        codec_of(schema, version).decode,
        lambda d: schema.decode(d, version),
    ):
        try:
            outcomes.append(decode(data))
        except CorruptMessageError as error:
            outcomes.append((str(error), error.position))
    assert outcomes[0] == outcomes[1]


def test_a_plain_message_is_read_by_the_generated_code_alone():
    api = api_of(3)
    codec = api.request_codec(12)
    message = smallest(api.request.fields, 12)
    written = bytes(codec.encode(message)[0])
    assert codec.read(written, 0, len(written)) == (message, len(written))
    tagged = {**message, "_unknown_tags": {9: b"x"}}
    written = bytes(codec.encode(tagged)[0])
    with pytest.raises(NotPlainError):
        codec.read(written, 0, len(written))
    assert codec.decode(written) == (tagged, len(written))


def test_missing_fields_get_their_defaults_and_others_are_left_out():
    point = Schema(
        "Point",
        (
            Field("x", "int32", default=-1),
            Field("name", "string", since=1),
            Field("inner", (Field("y", "int8", default=7),), since=1),
        ),
        0,
        1,
    )
    old, new = codec_of(point, 0), codec_of(point, 1)
    assert old.encode({"name": "left out"})[0] == b"\xff\xff\xff\xff"
    assert new.encode({"x": 1})[0] == b"\0\0\0\1\0\0\7"


class Hole:
    size = 300


@pytest.mark.parametrize("flexible_since", [0, 9])
def test_records_may_be_a_range_whose_bytes_are_sent_by_the_caller(flexible_since):
    fields = (Field("before", "int8"), Field("data", "records"), Field("after", "int8"))
    schema = Schema("Answer", fields, flexible_since=flexible_since)
    hole = Hole()
    message = {"before": 1, "data": hole, "after": 2}
    written, [(position, part)] = codec_of(schema, 0).encode(message)
    assert part is hole
    whole = bytes(written[:position]) + b"r" * hole.size + bytes(written[position:])
    assert whole == schema.encode({**message, "data": b"r" * hole.size}, 0)
