"""Control records: transaction markers, and KRaft's records about the metadata log.

A batch with the control flag holds control records only. The key has the type:

    0         2      4
    | version | type |           int16 each; version 0

A transaction marker (ABORT, COMMIT) ends the transaction of its batch's producer. Its
value:

    0         2                   6
    | version | coordinator_epoch |

The value of a KRaft record is a message (``schemas/control_schemas.py``).

As in Kafka, a value of a later version is read as one of a known version. A record of
an unknown type has the type `ControlRecordType.UNKNOWN`, and its value stays bytes.

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
    """A parsed control record.

    `type_id` and `version` are the fields of the key; `key` and `value` are the bytes.
    A transaction marker has a `coordinator_epoch`. A KRaft record has a `message`, a
    dictionary under Kafka's names. A record of an unknown type has neither.
    """

    type: ControlRecordType
    type_id: int
    version: int
    key: bytes
    value: bytes | None
    coordinator_epoch: int | None = None
    message: Message | None = None


def parse_control(key: bytes | None, value: bytes | None) -> ControlRecord:
    """Parse a record of a control batch.

    Raises `CorruptRecordError`. Its `position` is a byte of the key if the key is
    corrupt, else of the value.

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
    """Return the key and value of a transaction marker.

    >>> key, value = end_transaction_marker(ControlRecordType.ABORT, 9)
    >>> key.hex(), value.hex()
    ('00000000', '000000000009')
    """
    if not kind.is_marker:
        raise InvalidRecordError(
            f"control record type {kind.name}, expected ABORT or COMMIT"
        )
    message = {"coordinatorEpoch": coordinator_epoch}
    value = schemas.END_TRANSACTION_MARKER.encode(message, VERSION)
    return KEY.pack(VERSION, kind), _INT16.pack(VERSION) + value


def control_record(
    kind: ControlRecordType, message: Mapping[str, Any]
) -> tuple[bytes, bytes]:
    """Return the key and value of a KRaft control record.

    The version is that of the field ``version`` of `message`.

    >>> message = {"version": 0, "kRaftVersion": 1}
    >>> key, value = control_record(ControlRecordType.KRAFT_VERSION, message)
    >>> key.hex(), value.hex()
    ('00000005', '0000000100')
    """
    if kind not in _KRAFT:
        expected = ", ".join(known_kind.name for known_kind in _KRAFT)
        raise InvalidRecordError(
            f"control record type {kind.name}, expected one of {expected}"
        )
    schema, version = _KRAFT[kind], message.get("version")
    known = range(schema.lowest_version, schema.highest_version + 1)
    if not isinstance(version, int) or version not in known:
        raise InvalidRecordError(
            f"{schema.name} version {version}, expected {known.start} to {known[-1]}"
        )
    return KEY.pack(VERSION, kind), schema.encode(message, version)


def _coordinator_epoch(value: bytes | None) -> int:
    version = _leading_version(value)
    if version < 0:
        reason = f"transaction marker version {version}, expected 0 or more"
        raise CorruptRecordError(reason, position=0)
    marker, _ = schemas.END_TRANSACTION_MARKER.decode(
        value or b"", VERSION, _INT16.size
    )
    return int(marker["coordinatorEpoch"])


def _kraft_message(schema: Schema, value: bytes | None) -> Message:
    """Decode a message by its version, or by the lowest known if that is unknown."""
    version = _leading_version(value)
    if not schema.lowest_version <= version <= schema.highest_version:
        version = schema.lowest_version
    return schema.decode(value or b"", version)[0]


def _leading_version(value: bytes | None) -> int:
    if value is None or len(value) < _INT16.size:
        size = "null" if value is None else f"{len(value)} bytes"
        reason = f"control record value: {size}, expected an int16 version"
        raise CorruptRecordError(reason, position=0)
    version: int = _INT16.unpack_from(value)[0]
    return version
