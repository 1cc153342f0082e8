"""What the tool prints of a control record.

Knows: markers, and KRaft's records. Does not know: lines.
Source: ``DumpLogSegments.java``, its ``printControlRecord``;
``ControlRecordUtils.java``.
"""

from __future__ import annotations

import json
from typing import Final

from kafkalog.dump.ending import INVALID_RECORD, ToolEnded
from kafkalog.errors import CorruptRecordError
from kafkalog.formats.control import ControlRecordType, parse_control

NULL_POINTER: Final = "java.lang.NullPointerException"
_KEY_BYTES: Final = 4
_NAMES: Final = {
    ControlRecordType.LEADER_CHANGE: "LeaderChange:",  # the only one with a colon
    ControlRecordType.SNAPSHOT_HEADER: "SnapshotHeader",
    ControlRecordType.SNAPSHOT_FOOTER: "SnapshotFooter",
    ControlRecordType.KRAFT_VERSION: "KRaftVersion",
    ControlRecordType.KRAFT_VOTERS: "KRaftVoters",
}


def control_text(key: bytes | None, value: bytes | None) -> str:
    """Spell a control record, behind its metadata.

    Raises `ToolEnded` where it cannot be read.

    >>> control_text(bytes.fromhex("00000001"), bytes.fromhex("000000000009"))
    ' endTxnMarker: COMMIT coordinatorEpoch: 9'
    """
    if key is None:
        raise ToolEnded(NULL_POINTER)
    if len(key) < _KEY_BYTES:
        reason = (
            "Invalid value size found for control record key. Must have at least "
            f"{_KEY_BYTES} bytes, but found only {len(key)}"
        )
        raise ToolEnded(INVALID_RECORD, reason)
    try:
        record = parse_control(key, value)
    except CorruptRecordError as error:
        raise ToolEnded(INVALID_RECORD, error.reason) from None
    if record.type.is_marker:
        epoch = record.coordinator_epoch
        return f" endTxnMarker: {record.type.name} coordinatorEpoch: {epoch}"
    if record.message is None:
        return f" controlType: {record.type.name}({record.type_id})"
    text = json.dumps(record.message, separators=(",", ":"), ensure_ascii=False)
    return f" {_NAMES[record.type]} {text}"
