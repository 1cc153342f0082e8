"""Uuids in Kafka's text form, against Python's own base64 and its UUID."""

import base64
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.text.uuid_text import (
    METADATA_TOPIC_ID,
    ZERO_UUID,
    uuid_from_text,
    uuid_to_text,
)


@given(raw=st.binary(min_size=16, max_size=16))
def test_the_text_is_url_safe_base64_without_padding(raw):
    text = uuid_to_text(raw)
    assert text == base64.urlsafe_b64encode(raw).decode().rstrip("=")
    assert uuid_from_text(text) == uuid_from_text(text + "==") == raw


def test_the_named_ids():
    assert uuid.UUID(bytes=uuid_from_text(METADATA_TOPIC_ID)).int == 1
    assert uuid.UUID(bytes=uuid_from_text(ZERO_UUID)).int == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A" * 21,
        "A" * 23,
        "A" * 22 + "=",
        "A" * 21 + "+",
        "A" * 21 + "é",
        "A" * 4000,
    ],
)
def test_an_invalid_uuid_is_rejected_with_a_short_message(text):
    with pytest.raises(ValueError, match="22 characters") as caught:
        uuid_from_text(text)
    assert len(str(caught.value)) < 160


@pytest.mark.parametrize("length", [0, 15, 17])
def test_a_uuid_has_sixteen_bytes(length):
    with pytest.raises(ValueError, match="expected 16"):
        uuid_to_text(bytes(length))
