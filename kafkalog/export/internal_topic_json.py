"""Keys and values of internal topics' records, decoded to JSON.

A key is ``{"type": 1, "name": "OffsetCommit", "data": {...}}``, and its value
``{"version": 3, "data": {...}}``. Metadata records have no key, and their value has all
of these. A control record is ``{"type": 1, "name": "COMMIT"}`` and ``{"data": {...}}``.
Bytes that cannot be decoded are ``{"error": "...", "base64": "..."}``. In ``data``,
bytes are base64, as in Kafka's own tools.
"""

from __future__ import annotations

from typing import Any, Final

from kafkalog.errors import CorruptRecordError, UnsupportedFormatError
from kafkalog.messages.control_records import parse_control
from kafkalog.messages.internal_records import (
    INTERNAL_TOPICS,
    InternalRecord,
)
from kafkalog.messages.message_json import message_to_json
from kafkalog.query.records import Records

NEEDED: Final = ("key", "value", "is_control")
"""Columns that decoding needs."""

LINE_ENDS: Final = {"\x85": r"\u0085", "\u2028": r"\u2028", "\u2029": r"\u2029"}
"""Characters that JSON need not escape, and at which some readers split lines."""


def decoded_cells(records: Records) -> dict[str, list[str | None]]:
    """Return the keys and values of a chunk as JSON, None for null.

    The result is empty if the topic is not an internal one.
    """
    topic = records.topic
    files = records.segments
    if files and all(name.endswith(".checkpoint") for name in files):
        topic = "__cluster_metadata"  # `bootstrap.checkpoint` has no topic directory
    if topic not in INTERNAL_TOPICS:
        return {}
    columns = records.key.to_list(), records.value.to_list()
    pairs = [
        _control(key, value) if is_control else _decoded(topic, key, value)
        for key, value, is_control in zip(
            *columns, records.is_control.tolist(), strict=True
        )
    ]
    return {"key": [key for key, _ in pairs], "value": [value for _, value in pairs]}


Pair = tuple[str | None, str | None]


def _decoded(topic: str, key: bytes | None, value: bytes | None) -> Pair:
    try:
        record = InternalRecord.decode(topic, key, value)
    except (CorruptRecordError, UnsupportedFormatError) as error:
        return undecoded_json(key, error.reason), undecoded_json(value, error.reason)
    return _key(record), _value(record)


def _key(record: InternalRecord) -> str | None:
    if record.key is None:
        return None
    return one_line_json({"type": record.type, "name": record.name, "data": record.key})


def _value(record: InternalRecord) -> str | None:
    if record.value is None:
        return None
    kind = {} if record.key is not None else {"type": record.type, "name": record.name}
    return one_line_json({**kind, "version": record.version, "data": record.value})


def _control(key: bytes | None, value: bytes | None) -> Pair:
    try:
        control = parse_control(key, value)
    except CorruptRecordError as error:
        return undecoded_json(key, error.reason), undecoded_json(value, error.reason)
    message = control.message
    if message is None:
        message = {"coordinatorEpoch": control.coordinator_epoch}
    kind = {"type": control.type_id, "name": control.type.name}
    return one_line_json(kind), one_line_json({"data": message})


def undecoded_json(part: bytes | None, reason: str) -> str | None:
    r"""Return bytes that cannot be decoded as JSON with the reason, None for null.

    >>> print(undecoded_json(b"\xff", "no type"))
    {"error":"no type","base64":"/w=="}
    """
    return None if part is None else one_line_json({"error": reason, "base64": part})


def one_line_json(value: Any) -> str:
    """Return a decoded message as JSON without line ends.

    >>> print(one_line_json({"group": "g", "partition": 0}))
    {"group":"g","partition":0}
    """
    return on_one_line(message_to_json(value))


def on_one_line(json: str) -> str:
    r"""Escape the line ends that JSON need not escape.

    >>> print(on_one_line('"a\u2028b"'))
    "a\u2028b"
    """
    if not json.isascii():
        for char, escape in LINE_ENDS.items():
            json = json.replace(char, escape)
    return json
