"""Frames: a request with its header, and a response with its header.

A frame is an int32, the size of what follows, then a header and a message. The size is
not part of the bytes that are read here.

Source: ``RequestHeader.java``, ``RequestContext.java``, ``ApiKeys.java``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Final

from kafkalog.errors import CorruptMessageError, UnsupportedVersionError
from kafkalog.messages.compiled_messages import FileRange, MessageCodec
from kafkalog.messages.schema import Message
from kafkalog.protocol.protocol_schemas import (
    API_VERSIONS,
    Api,
    api_of,
    header_schema,
)

SIZE: Final = Struct(">i")
_START: Final = Struct(">hh")

Pieces = list["bytes | bytearray | FileRange"]
"""Bytes, and ranges of files, in the order in which they are sent."""

_REQUEST_HEADERS: Final = [
    MessageCodec.of(header_schema("RequestHeader"), version) for version in (1, 2)
]
_RESPONSE_HEADERS: Final = [
    MessageCodec.of(header_schema("ResponseHeader"), version) for version in (0, 1)
]


@dataclass(frozen=True, slots=True)
class Request:
    """A request: its API, version and message, and what the header says."""

    api: Api
    version: int
    answered_version: int
    """The version of the response, 0 if the client's version is not known."""
    correlation_id: int
    client_id: str | None
    message: Message

    def response(self, message: Message) -> Pieces:
        """Return the frame of a response."""
        codec = self.api.response_codec(self.answered_version)
        return frame(self.correlation_id, codec, message, self._response_header())

    def _response_header(self) -> int:
        # A client that is too old for the flexible header must read it, too.
        if self.api.key == API_VERSIONS:
            return 0
        return int(self.api.is_flexible(self.version))


def parse_request(data: bytes, ranges: Mapping[int, tuple[int, int]]) -> Request:
    """Return the request in a frame; `ranges` are the versions that are served.

    A request for the versions themselves may have any version, and then has no message.

    Raises `UnsupportedVersionError` for an API or a version that is not served, and
    `CorruptMessageError` for bytes that are no such request.
    """
    if len(data) < _START.size:
        reason = f"request of {len(data)} bytes, expected a header"
        raise CorruptMessageError(reason, position=0)
    key, version = _START.unpack_from(data)
    if key not in ranges:
        raise UnsupportedVersionError(f"API key {key}, expected one that is served")
    api, (low, high) = api_of(key), ranges[key]
    is_known = max(low, api.lowest_version) <= version <= high
    if not is_known and key != API_VERSIONS:
        reason = f"{api.name} version {version}, expected {low} to {high}"
        raise UnsupportedVersionError(reason)
    is_flexible = api.is_flexible(version)
    header, position = _REQUEST_HEADERS[int(is_flexible)].decode(data)
    message: Message = {}
    if is_known:
        message, position = api.request_codec(version).decode(data, position)
        if position != len(data):
            raise CorruptMessageError(
                f"{len(data) - position} bytes after a request", position=position
            )
    answered = version if is_known else 0
    return Request(
        api, version, answered, header["correlationId"], header["clientId"], message
    )


def frame(
    correlation_id: int, codec: MessageCodec, message: Message, header_version: int
) -> Pieces:
    """Return the frame of a response: its size, its header, and its message."""
    header, _ = _RESPONSE_HEADERS[header_version].encode(
        {"correlationId": correlation_id}
    )
    body, ranges = codec.encode(message)
    size = len(header) + len(body) + sum(part.size for _, part in ranges)
    pieces: Pieces = [SIZE.pack(size) + header]
    start = 0
    for position, part in ranges:
        pieces += [body[start:position], part]
        start = position
    pieces.append(body[start:])
    return pieces
