"""Target: messages of internal topics, which need a schema and a version."""

from __future__ import annotations

from kafkalog.errors import CorruptRecordError, InvalidRecordError
from kafkalog.messages.message import Schema
from tests.messages.message_examples import EXAMPLES

SCHEMAS: tuple[tuple[Schema, int], ...] = tuple(
    dict.fromkeys((schema, version) for schema, version, _, _ in EXAMPLES.values())
)


def check_message(data: bytes) -> None:
    """Parse the bytes with one schema; write the message, and parse it again."""
    schema, version = SCHEMAS[data[0] % len(SCHEMAS)] if data else SCHEMAS[0]
    body = data[1:]
    try:
        message, end = schema.decode(body, version)
    except CorruptRecordError as error:
        assert error.position is not None, error
        assert 0 <= error.position <= len(body), error
        return
    assert 0 <= end <= len(body)
    try:
        written = schema.encode(message, version)
    except InvalidRecordError as error:  # a tag below 0 is read, and never written
        assert "length or tag -" in str(error), error
        return
    assert schema.decode(written, version) == (message, len(written))
