"""Keys and values as text: by Kafka's decoders, and those of control records.

Whatever version a KRaft message has, the tool reads it as version 0 and prints its own
version.

Source: ``DumpLogSegments.java``, with ``printControlRecord``; ``Decoder`` and its
classes of ``tools-api``; ``EndTransactionMarker.java``, ``ControlRecordType.java``,
``ControlRecordUtils.java``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from kafkalog.codecs.java_streams import RUNTIME
from kafkalog.dump.dump_options import STRING_DECODER, DumpOptions
from kafkalog.dump.java_exceptions import (
    ILLEGAL_ARGUMENT,
    INVALID_RECORD,
    NULL_POINTER,
    UNDERFLOW,
    ToolEnded,
)
from kafkalog.errors import CorruptMessageError, InvalidRecordError
from kafkalog.formats.control_keys import ControlRecordType
from kafkalog.messages.control_records import VERSION
from kafkalog.messages.message import Schema
from kafkalog.messages.message_json import message_to_json
from kafkalog.messages.schema import Message
from kafkalog.messages.schemas import control_schemas as schemas
from kafkalog.text.bytes_text import repair_utf8
from kafkalog.text.uuid_text import ZERO_UUID

Show = Callable[[bytes], str]
Read = Callable[[], bytes | None]
"""Function that reads a key or value, which may exceed its record."""

Describe = Callable[[Read, Read, int], tuple[str | None, str | None]]
"""Function that returns the text of a key and a value, from these and the offset."""

PACKAGE: Final = "org.apache.kafka.tools.api."


def _show_number(width: int) -> Show:
    def show(data: bytes) -> str:
        if len(data) < width:
            raise ToolEnded(UNDERFLOW)
        return str(int.from_bytes(data[:width], signed=True))

    return show


def _show_array(data: bytes) -> str:
    """Return a byte array as Java prints it: its type; the address is 0."""
    del data
    return "[B@0"


DECODERS: Final[dict[str, Show]] = {
    STRING_DECODER: repair_utf8,
    f"{PACKAGE}DefaultDecoder": _show_array,
    f"{PACKAGE}IntegerDecoder": _show_number(4),
    f"{PACKAGE}LongDecoder": _show_number(8),
}


def describer(options: DumpOptions) -> Describe | None:
    """Return the function that formats key and value; None if both are just text.

    Raises `ToolEnded` for a decoder class that does not exist.
    """
    if options.decoder is not None:
        return _topic_describer(options.decoder)
    show_value = _show(options.value_decoder.text())
    show_key = _show(options.key_decoder.text())
    if show_key is repair_utf8 and show_value is repair_utf8:
        return None
    return _class_describer(show_key, show_value)


def _show(decoder: str) -> Show:
    if decoder not in DECODERS:
        missing = ToolEnded("java.lang.ClassNotFoundException", decoder)
        raise ToolEnded(RUNTIME, "Failed to load decoder class", missing)
    return DECODERS[decoder]


def _class_describer(show_key: Show, show_value: Show) -> Describe:
    def describe(
        read_key: Read, read_value: Read, offset: int
    ) -> tuple[str | None, str | None]:
        del offset
        key = read_key()
        shown = None if key is None else show_key(key)
        value = read_value()
        return shown, None if value is None else show_value(value)

    return describe


describe_text: Final = _class_describer(repair_utf8, repair_utf8)
"""Formats key and value as text."""


def _topic_describer(kind: str) -> Describe:
    from kafkalog.messages.message_parsers import describe_record

    def describe(
        read_key: Read, read_value: Read, offset: int
    ) -> tuple[str | None, str | None]:
        try:
            key, value = read_key(), read_value()
        except ToolEnded as fault:
            return _unread(kind, offset, fault)
        try:
            return describe_record(kind, key, value, offset)
        except InvalidRecordError as error:
            raise ToolEnded(RUNTIME, str(error)) from None

    return describe


def _unread(kind: str, offset: int, fault: ToolEnded) -> tuple[str | None, str | None]:
    """Return the text that topic decoders print for a truncated key or value."""
    reason = "null" if fault.reason is None else fault.reason
    if kind == "cluster-metadata":
        return None, f"Error at {offset}, skipping. {reason}"
    text = f"Error at offset {offset}, skipping. {reason}"
    return (None, text) if kind == "remote-log-metadata" else (text, None)


_KRAFT: Final = {
    ControlRecordType.LEADER_CHANGE: ("LeaderChange:", schemas.LEADER_CHANGE),
    ControlRecordType.SNAPSHOT_HEADER: ("SnapshotHeader", schemas.SNAPSHOT_HEADER),
    ControlRecordType.SNAPSHOT_FOOTER: ("SnapshotFooter", schemas.SNAPSHOT_FOOTER),
    ControlRecordType.KRAFT_VERSION: ("KRaftVersion", schemas.KRAFT_VERSION),
    ControlRecordType.KRAFT_VOTERS: ("KRaftVoters", schemas.VOTERS),
}
"""The word before each message, and its schema; one word has a colon."""

_KEY: Final = struct.Struct(">hh")
_VERSION: Final = struct.Struct(">h")
_NO_MESSAGE: Final = "null"
_TOO_LONG: Final = "Varint is too long"


def control_text(key: bytes | None, value: bytes | None) -> str:
    """Return the text of a control record after its metadata.

    Raises `ToolEnded` if it cannot be read.

    >>> control_text(bytes.fromhex("00000001"), bytes.fromhex("000000000009"))
    ' endTxnMarker: COMMIT coordinatorEpoch: 9'
    """
    type_id = _type_id(key)
    kind = ControlRecordType(type_id)
    if kind.is_marker:
        epoch = _coordinator_epoch(value)
        return f" endTxnMarker: {kind.name} coordinatorEpoch: {epoch}"
    if kind not in _KRAFT:
        return f" controlType: {kind.name}({type_id})"
    title, schema = _KRAFT[kind]
    if value is None:
        raise _is_null("slice", "data")
    message = _decoded(schema, value, 0)
    if kind == ControlRecordType.LEADER_CHANGE and message["version"] > VERSION:
        for voter in (*message["voters"], *message["grantingVoters"]):
            voter["voterDirectoryId"] = ZERO_UUID
    return f" {title} {message_to_json(message)}"


def _type_id(key: bytes | None) -> int:
    if key is None:
        raise _is_null("duplicate", "key")
    if len(key) < _KEY.size:
        reason = (
            "Invalid value size found for control record key. Must have at least "
            f"{_KEY.size} bytes, but found only {len(key)}"
        )
        raise ToolEnded(INVALID_RECORD, reason)
    version, type_id = _KEY.unpack_from(key)
    _check_version("control record", version)
    return int(type_id)


def _coordinator_epoch(value: bytes | None) -> int:
    if value is None:
        raise _is_null("getShort", "value")
    if len(value) < _VERSION.size:
        raise ToolEnded(UNDERFLOW)
    _check_version("end transaction marker", _VERSION.unpack_from(value)[0])
    marker = _decoded(schemas.END_TRANSACTION_MARKER, value, _VERSION.size)
    return int(marker["coordinatorEpoch"])


def _check_version(kind: str, version: int) -> None:
    if version < VERSION:
        reason = f"Invalid version found for {kind}: {version}. "
        raise ToolEnded(INVALID_RECORD, f"{reason}May indicate data corruption")


def _decoded(schema: Schema, value: bytes, position: int) -> Message:
    try:
        return schema.decode(value, VERSION, position)[0]
    except CorruptMessageError as error:
        if error.kafka_message == _NO_MESSAGE:
            raise ToolEnded(UNDERFLOW) from None
        too_long = error.kafka_message.startswith(_TOO_LONG)
        name = ILLEGAL_ARGUMENT if too_long else RUNTIME
        raise ToolEnded(name, error.kafka_message) from None


def _is_null(method: str, name: str) -> ToolEnded:
    reason = f'Cannot invoke "java.nio.ByteBuffer.{method}()" because "{name}" is null'
    return ToolEnded(NULL_POINTER, reason)
