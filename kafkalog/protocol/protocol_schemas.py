"""The requests and responses of Kafka's protocol, from Kafka's own definitions.

``messages/schemas/protocol.json`` has the content of Kafka's ``.json`` files, one
message a line. `tests.schemas.make_tables` generates it from a release of Kafka.

Source: ``ApiKeys.java``, ``ApiMessageTypeGenerator.java``.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from kafkalog.messages.compiled_messages import MessageCodec
from kafkalog.messages.message import Schema
from kafkalog.messages.schema_tables import read_table, schema_from

TABLE: Final = "schemas/protocol.json"
API_VERSIONS: Final = 18


class Api:
    """One kind of request, and its response.

    >>> api_of(3).name, api_of(3).highest_version
    ('Metadata', 13)
    """

    __slots__ = ("_codecs", "key", "name", "request", "response")

    def __init__(self, request: Schema, response: Schema, key: int) -> None:
        self.key = key
        self.name = request.name.removesuffix("Request")
        self.request = request
        self.response = response
        self._codecs: dict[tuple[bool, int], MessageCodec] = {}

    @property
    def lowest_version(self) -> int:
        """The lowest version that Kafka reads."""
        return self.request.lowest_version

    @property
    def highest_version(self) -> int:
        """The highest version that is stable."""
        return self.request.highest_version

    def is_flexible(self, version: int) -> bool:
        """Return whether a version has the flexible encoding."""
        return version >= self.request.flexible_since

    def request_codec(self, version: int) -> MessageCodec:
        """Return what reads and writes a version of the request."""
        return self._codec(self.request, version, is_request=True)

    def response_codec(self, version: int) -> MessageCodec:
        """Return what reads and writes a version of the response."""
        return self._codec(self.response, version, is_request=False)

    def _codec(self, schema: Schema, version: int, *, is_request: bool) -> MessageCodec:
        place = is_request, version
        if place not in self._codecs:
            self._codecs[place] = MessageCodec.of(schema, version)
        return self._codecs[place]


@cache
def api_of(key: int) -> Api:
    """Return the API with a key. Raises `KeyError` if Kafka has none."""
    specs = _specs()
    request, response = specs["request", key], specs["response", key]
    return Api(schema_from(request), schema_from(response), key)


def api_keys() -> list[int]:
    """Return the keys of all APIs."""
    return sorted(key for kind, key in _specs() if kind == "request")


def header_schema(name: str) -> Schema:
    """Return the schema of ``RequestHeader`` or ``ResponseHeader``."""
    return schema_from(_headers()[name])


@cache
def _specs() -> dict[tuple[str, int], dict[str, Any]]:
    return {
        (spec["type"], spec["apiKey"]): spec
        for spec in read_table(TABLE)["messages"]
        if spec["type"] != "header"
    }


@cache
def _headers() -> dict[str, dict[str, Any]]:
    messages = read_table(TABLE)["messages"]
    return {spec["name"]: spec for spec in messages if spec["type"] == "header"}
