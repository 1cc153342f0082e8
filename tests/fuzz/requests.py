"""Target: frames of requests, as a client sends them to a server."""

from __future__ import annotations

from kafkalog.errors import (
    CorruptMessageError,
    InvalidRecordError,
    UnsupportedVersionError,
)
from kafkalog.messages.message import Schema
from kafkalog.protocol.frames import parse_request
from kafkalog.protocol.protocol_schemas import api_keys, api_of
from tests.protocol.protocol_messages import smallest
from tests.server.client import frame_of

RANGES = {
    key: (api.lowest_version, api.highest_version)
    for key in api_keys()
    for api in [api_of(key)]
}


def check_request(data: bytes) -> None:
    """Parse the bytes as a request; the general decoder reads the same message."""
    try:
        request = parse_request(data, RANGES)
    except UnsupportedVersionError:
        return
    except CorruptMessageError as error:
        assert error.position is not None, error
        assert 0 <= error.position <= len(data), error
        return
    if request.answered_version != request.version:
        return
    schema: Schema = request.api.request
    try:
        written = schema.encode(request.message, request.version)
    except InvalidRecordError as error:  # a tag below 0 is read, and never written
        assert "length or tag -" in str(error), error
        return
    assert schema.decode(written, request.version)[0] == request.message


def seeds() -> list[bytes]:
    """Return the smallest request of each API, in its first and its last version."""
    return [
        frame_of(key, version, smallest(api_of(key).request.fields, version))
        for key, versions in RANGES.items()
        for version in {*versions}
    ]
