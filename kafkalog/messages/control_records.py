"""Control records: what brokers log among the data for themselves.

They stand alone in batches with the control flag. The key says which kind it is:

    0         2      4
    | version | type |           int16 each; version 0

and the value depends on it. A transaction marker (ABORT, COMMIT) ends the transaction
of its batch's producer; KRaft's are messages of the metadata log (``schemas/control``):

    0         2                   6
    | version | coordinator_epoch |

Readers are to be tolerant: versions above those known are read as known ones, and types
not known are passed over. Here they are `ControlRecordType.UNKNOWN`, and kept as bytes.

Knows: keys and values. Does not know: batches, or what a marker ends.
Source: ``ControlRecordType.java``, ``EndTransactionMarker.java``,
``ControlRecordUtils.java``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafkalog.errors import CorruptRecordError, InvalidRecordError
from kafkalog.formats.control_keys import KEY, ControlRecordType, parse_control_key
from kafkalog.messages.message import Schema
from kafkalog.messages.schema import Message
from kafkalog.messages.schemas import control_schemas as schemas

VERSION: Final = 0

_INT16: Final = struct.Struct(">h")

_KRAFT: Final[Mapping[ControlRecordType, Schema]] = {
    ControlRecordType.LEADER_CHANGE: schemas.LEADER_CHANGE,
    ControlRecordType.SNAPSHOT_HEADER: schemas.SNAPSHOT_HEADER,
    ControlRecordType.SNAPSHOT_FOOTER: schemas.SNAPSHOT_FOOTER,
    ControlRecordType.KRAFT_VERSION: schemas.KRAFT_VERSION,
    ControlRecordType.KRAFT_VOTERS: schemas.VOTERS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRecord:
    """A control record, read.

    `type_id` and `version` are the key's own; `key` and `value` the bytes. A marker has
    a `coordinator_epoch`, one of KRaft's a `message` under Kafka's names; an unknown
    type has neither.
    """

    type: ControlRecordType
    type_id: int
    version: int
    key: bytes
    value: bytes | None
    coordinator_epoch: int | None = None
    message: Message | None = None


def parse_control(key: bytes | None, value: bytes | None) -> ControlRecord:
    """Read a record of a control batch.

    Raises `CorruptRecordError`: its `position` is a byte of the key where the key is at
    fault, else of the value.

    >>> marker = parse_control(*end_transaction_marker(ControlRecordType.COMMIT, 9))
    >>> marker.type, marker.coordinator_epoch
    (<ControlRecordType.COMMIT: 1>, 9)
    """
    version, type_id = parse_control_key(key)
    kind = ControlRecordType(type_id)
    epoch = _coordinator_epoch(value) if kind.is_marker else None
    message = _kraft_message(_KRAFT[kind], value) if kind in _KRAFT else None
    return ControlRecord(
        type=kind,
        type_id=type_id,
        version=version,
        key=key or b"",
        value=value,
        coordinator_epoch=epoch,
        message=message,
    )


def end_transaction_marker(
    kind: ControlRecordType, coordinator_epoch: int
) -> tuple[bytes, bytes]:
    """Write the key and value of a transaction marker.

    >>> key, value = end_transaction_marker(ControlRecordType.ABORT, 9)
    >>> key.hex(), value.hex()
    ('00000000', '000000000009')
    """
    if not kind.is_marker:
        raise InvalidRecordError(f"{kind.name} ends no transaction")
    message = {"coordinatorEpoch": coordinator_epoch}
    value = schemas.END_TRANSACTION_MARKER.encode(message, VERSION)
    return KEY.pack(VERSION, kind), _INT16.pack(VERSION) + value


def control_record(
    kind: ControlRecordType, message: Mapping[str, Any]
) -> tuple[bytes, bytes]:
    """Write the key and value of one of KRaft's records, in the message's version.

    >>> message = {"version": 0, "kRaftVersion": 1}
    >>> key, value = control_record(ControlRecordType.KRAFT_VERSION, message)
    >>> key.hex(), value.hex()
    ('00000005', '0000000100')
    """
    if kind not in _KRAFT:
        raise InvalidRecordError(f"{kind.name} is none of KRaft's control records")
    schema, version = _KRAFT[kind], message.get("version")
    known = range(schema.lowest_version, schema.highest_version + 1)
    if not isinstance(version, int) or version not in known:
        raise InvalidRecordError(f"{schema.name} has no version {version}")
    return KEY.pack(VERSION, kind), schema.encode(message, version)


def _coordinator_epoch(value: bytes | None) -> int:
    version = _leading_version(value)
    if version < 0:
        reason = f"transaction marker has version {version}"
        raise CorruptRecordError(reason, position=0)
    marker, _ = schemas.END_TRANSACTION_MARKER.decode(
        value or b"", VERSION, _INT16.size
    )
    return int(marker["coordinatorEpoch"])


def _kraft_message(schema: Schema, value: bytes | None) -> Message:
    """Read a message in its own version, or, where that is not known, in the lowest."""
    version = _leading_version(value)
    if not schema.lowest_version <= version <= schema.highest_version:
        version = schema.lowest_version
    return schema.decode(value or b"", version)[0]


def _leading_version(value: bytes | None) -> int:
    if value is None or len(value) < _INT16.size:
        length = -1 if value is None else len(value)
        reason = f"a control record's value has a version, not {length} bytes"
        raise CorruptRecordError(reason, position=0)
    version: int = _INT16.unpack_from(value)[0]
    return version
