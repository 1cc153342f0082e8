"""The keys of control records, which hold their type.

A batch with the control flag has control records only. Their keys are

    0         2      4
    | version | type |           int16 each; version 0

Readers are tolerant: a version above 0 is read as 0, and an unknown type is
`ControlRecordType.UNKNOWN`.

Source: ``ControlRecordType.java``.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

import numpy as np

from kafkalog.array_types import Bytes, Int32s, Int64s
from kafkalog.errors import CorruptRecordError

KEY: Final = struct.Struct(">hh")
_SIGN: Final = 1 << 15


class ControlRecordType(IntEnum):
    """The type of a control record; any other number is `UNKNOWN`.

    >>> ControlRecordType(77)
    <ControlRecordType.UNKNOWN: -1>
    """

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6

    @classmethod
    def _missing_(cls, value: object) -> ControlRecordType:
        return cls.UNKNOWN

    @property
    def is_marker(self) -> bool:
        """Whether the record ends a transaction."""
        return self in (ControlRecordType.ABORT, ControlRecordType.COMMIT)


def parse_control_key(key: bytes | None) -> tuple[int, int]:
    """Return the version and the type in the key of a control record.

    Raises `CorruptRecordError`.

    >>> parse_control_key(bytes.fromhex("00000001"))
    (0, 1)
    """
    if key is None or len(key) < KEY.size:
        length = -1 if key is None else len(key)
        reason = f"control record key of {length} bytes, expected at least {KEY.size}"
        raise CorruptRecordError(reason, position=0)
    version, type_id = KEY.unpack_from(key)
    if version < 0:
        reason = f"control record key version {version}, expected at least 0"
        raise CorruptRecordError(reason, position=0)
    return version, type_id


def control_types(data: Bytes, starts: Int32s, lengths: Int32s) -> Int64s:
    """Return the type in each key in `data`; shape (n,).

    A key without a type, too short or null (a length of -1), has -1.

    >>> keys = np.frombuffer(bytes.fromhex("000000010000"), np.uint8)
    >>> control_types(keys, np.array([0, 4], np.int32), np.array([4, 2], np.int32))
    array([ 1, -1])
    """
    keyed = lengths >= KEY.size
    place = np.where(keyed, starts, 0)
    high, low = data[place + 2].astype(np.int64), data[place + 3].astype(np.int64)
    types = ((high << 8 | low) ^ _SIGN) - _SIGN
    return np.where(keyed, types, int(ControlRecordType.UNKNOWN))
