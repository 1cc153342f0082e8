"""What the tool prints of a control record.

Whatever version a message of KRaft's says it has, the tool reads it as version 0 and
prints it as the one it says.

Knows: markers, and KRaft's records. Does not know: lines.
Source: ``DumpLogSegments.java``, its ``printControlRecord``;
``EndTransactionMarker.java``, ``ControlRecordType.java``, ``ControlRecordUtils.java``.
"""

from __future__ import annotations

import struct
from typing import Final

from kafkalog.codecs.java_exceptions import (
    ILLEGAL_ARGUMENT,
    INVALID_RECORD,
    NULL_POINTER,
    RUNTIME,
    UNDERFLOW,
    ToolEnded,
)
from kafkalog.codecs.uuid_text import ZERO_UUID
from kafkalog.errors import CorruptMessageError
from kafkalog.messages.control_records import VERSION, ControlRecordType
from kafkalog.messages.message import Schema
from kafkalog.messages.message_json import message_to_json
from kafkalog.messages.schema import Message
from kafkalog.messages.schemas import control_schemas as schemas

_KRAFT: Final = {
    ControlRecordType.LEADER_CHANGE: ("LeaderChange:", schemas.LEADER_CHANGE),
    ControlRecordType.SNAPSHOT_HEADER: ("SnapshotHeader", schemas.SNAPSHOT_HEADER),
    ControlRecordType.SNAPSHOT_FOOTER: ("SnapshotFooter", schemas.SNAPSHOT_FOOTER),
    ControlRecordType.KRAFT_VERSION: ("KRaftVersion", schemas.KRAFT_VERSION),
    ControlRecordType.KRAFT_VOTERS: ("KRaftVoters", schemas.VOTERS),
}
"""What stands before each message, and its schema; one word has a colon."""

_KEY: Final = struct.Struct(">hh")
_VERSION: Final = struct.Struct(">h")
_SAYS_NOTHING: Final = "null"
_TOO_LONG: Final = "Varint is too long"


def control_text(key: bytes | None, value: bytes | None) -> str:
    """Spell a control record, behind its metadata.

    Raises `ToolEnded` where it cannot be read.

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


def _check_version(what: str, version: int) -> None:
    if version < VERSION:
        reason = f"Invalid version found for {what}: {version}. "
        raise ToolEnded(INVALID_RECORD, f"{reason}May indicate data corruption")


def _decoded(schema: Schema, value: bytes, position: int) -> Message:
    try:
        return schema.decode(value, VERSION, position)[0]
    except CorruptMessageError as error:
        if error.kafka_message == _SAYS_NOTHING:
            raise ToolEnded(UNDERFLOW) from None
        too_long = error.kafka_message.startswith(_TOO_LONG)
        name = ILLEGAL_ARGUMENT if too_long else RUNTIME
        raise ToolEnded(name, error.kafka_message) from None


def _is_null(method: str, name: str) -> ToolEnded:
    reason = f'Cannot invoke "java.nio.ByteBuffer.{method}()" because "{name}" is null'
    return ToolEnded(NULL_POINTER, reason)
