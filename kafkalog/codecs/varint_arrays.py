"""Zig-zag varints, whole columns at a time.

    value   0  -1   1  -2 ... 63  -64     64         -2147483648
    bytes  00  01  02  03     7e   7f  80 01      ff ff ff ff 0f

Seven bits a byte, least significant first; bit 7 of a byte marks that another follows.
An int32 takes at most 5 bytes and an int64 at most 10. As in Kafka, a longer form than
necessary is accepted, and bits beyond the width are dropped.

Source: ``ByteUtils.java``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog._speedups import Status
from kafkalog.errors import CorruptRecordError

MAX_VARINT_BYTES: Final = 5
MAX_VARLONG_BYTES: Final = 10

_REASON: Final[dict[int, str]] = {
    Status.TRUNCATED: "varint {} of {} truncated at the end of the buffer",
    Status.OVERLONG: "varint {} of {} has no end in the bytes of its width",
}


def decode_varints(
    data: bytes | memoryview, count: int
) -> tuple[npt.NDArray[np.int32], int]:
    """Decode `count` int32 varints at the start of `data`: values, bytes read.

    Raises `CorruptRecordError` with the `position` where the invalid varint begins.

    >>> decode_varints(bytes.fromhex("017e8001"), 3)
    (array([-1, 63, 64], dtype=int32), 4)
    """
    out = np.empty(_possible(data, count), np.int32)
    return out, _decode(data, count, out)


def decode_varlongs(
    data: bytes | memoryview, count: int
) -> tuple[npt.NDArray[np.int64], int]:
    """Decode `count` int64 varints at the start of `data`: values, bytes read.

    Raises `CorruptRecordError` with the `position` where the invalid varint begins.
    """
    out = np.empty(_possible(data, count), np.int64)
    return out, _decode(data, count, out)


def encode_varints(values: npt.ArrayLike) -> bytes:
    """Encode int32 `values`, shape (n,), as consecutive zig-zag varints.

    >>> encode_varints([-1, 63, 64]).hex()
    '017e8001'
    """
    column = np.ascontiguousarray(values, dtype=np.int32)
    out = np.empty(column.size * MAX_VARINT_BYTES, dtype=np.uint8)
    return out[: _speedups.encode_varints(column, out)].tobytes()


def encode_varlongs(values: npt.ArrayLike) -> bytes:
    """Encode int64 `values`, shape (n,), as consecutive zig-zag varints."""
    column = np.ascontiguousarray(values, dtype=np.int64)
    out = np.empty(column.size * MAX_VARLONG_BYTES, dtype=np.uint8)
    return out[: _speedups.encode_varints(column, out)].tobytes()


def _possible(data: bytes | memoryview, count: int) -> int:
    """Return the number of values to allocate: each varint takes at least one byte."""
    return min(count, len(data) + 1)


def _decode(
    data: bytes | memoryview,
    count: int,
    out: npt.NDArray[np.int32] | npt.NDArray[np.int64],
) -> int:
    status, decoded, consumed = _speedups.decode_varints(
        np.frombuffer(data, np.uint8), out
    )
    if status != Status.OK:
        reason = _REASON[status].format(decoded, count)
        raise CorruptRecordError(reason, position=consumed)
    return consumed
