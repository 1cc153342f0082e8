"""Producer snapshots: what a partition knew of its producers at one offset.

``<offset>.snapshot`` holds one entry for each producer that had written below that
offset: enough to refuse duplicates and to know which transactions are open.

    0         2     6       10
    | version | crc | count | entries ...     int16 (1), uint32, int32

``crc``  CRC-32C of bytes 6 to the end of the file. Kafka writes snapshots in place,
         without truncating: a shorter one over a longer one is caught by it.

    0             8                10              14            22
    | producer_id | producer_epoch | last_sequence | last_offset | ...
    22             26          34                  38                         46
    | offset_delta | timestamp | coordinator_epoch | current_txn_first_offset |

``last_sequence``, ``last_offset``  of the producer's last batch; both -1, and
                  ``offset_delta`` 0, where only a marker is known.
``offset_delta``  int32  last minus first offset of that batch.
``timestamp``     int64  ms, greatest of that batch, or of the marker.
``coordinator_epoch``         int32  of the last marker; -1 none yet.
``current_txn_first_offset``  int64  of the open transaction; -1 none.

Entries come in the order of a hash map. An empty snapshot is ten bytes.

Knows: entries. Does not know: files, or which snapshot is the newest.
Source: ``ProducerStateManager.java``, ``ProducerSnapshot.json``.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
import numpy.typing as npt

from kafkalog.codecs.checksum import crc32c
from kafkalog.errors import CorruptSnapshotError
from kafkalog.formats.layout import SEQUENCE_MASK

VERSION: Final = 1
NONE: Final = -1
"""No batch, no marker or no open transaction, in the fields that may lack one."""

ENTRY: Final = np.dtype(
    [
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("last_sequence", ">i4"),
        ("last_offset", ">i8"),
        ("offset_delta", ">i4"),
        ("timestamp", ">i8"),
        ("coordinator_epoch", ">i4"),
        ("current_txn_first_offset", ">i8"),
    ]
)
"""One producer, 46 bytes, big-endian as it lies on disk."""

_HEADER: Final = struct.Struct(">hIi")
_CRC_AT: Final = 2
_CRC_FROM: Final = 6


def parse_snapshot(data: bytes) -> npt.NDArray[np.void]:
    """Read a snapshot: its entries, an `ENTRY` array of shape (n,), viewing `data`.

    Bytes behind the entries counted are left alone, as Kafka does: the CRC, which
    covers them, says that the writer put them there.

    Raises `CorruptSnapshotError`; its `cause` is one of ``truncated``, ``version``,
    ``crc`` and ``count``.

    >>> parse_snapshot(format_snapshot(np.zeros(3, ENTRY)))["last_offset"].tolist()
    [0, 0, 0]
    """
    if len(data) < _HEADER.size:
        reason = f"{len(data)} bytes are less than a snapshot's {_HEADER.size}"
        raise CorruptSnapshotError(reason, position=len(data), cause="truncated")
    version, crc, count = _HEADER.unpack_from(data)
    if version != VERSION:
        reason = f"snapshot version {version}, not {VERSION}"
        raise CorruptSnapshotError(reason, position=0, cause="version")
    if (computed := crc32c(memoryview(data)[_CRC_FROM:])) != crc:
        reason = f"snapshot has CRC {computed:#010x}, not {crc:#010x}"
        raise CorruptSnapshotError(reason, position=_CRC_AT, cause="crc")
    room = (len(data) - _HEADER.size) // ENTRY.itemsize
    if not 0 <= count <= room:
        reason = f"{count} entries are counted where {room} have room"
        raise CorruptSnapshotError(reason, position=_CRC_FROM, cause="count")
    return np.frombuffer(data, ENTRY, count, _HEADER.size)


def format_snapshot(entries: npt.NDArray[np.void]) -> bytes:
    """Write a snapshot of `entries`, shape (n,), in their order, as Kafka does.

    Their fields are those of `ENTRY`, of the same widths, in either byte order.

    >>> format_snapshot(np.empty(0, ENTRY)).hex()
    '000148674bc700000000'
    """
    if entries.dtype.names != ENTRY.names:
        raise TypeError(f"fields {entries.dtype.names} are not those of a snapshot")
    rows = entries.astype(ENTRY, casting="equiv").tobytes()
    body = len(entries).to_bytes(4, "big", signed=True) + rows
    return struct.pack(">hI", VERSION, crc32c(body)) + body


def first_offset(entries: npt.NDArray[np.void]) -> npt.NDArray[np.int64]:
    """First offset of each producer's last batch, shape (n,); -1 where there is none.

    >>> entry = np.zeros(1, ENTRY)
    >>> entry["last_offset"], entry["offset_delta"] = 101, 1
    >>> first_offset(entry)
    array([100])
    """
    last = entries["last_offset"].astype(np.int64)
    return np.where(last < 0, NONE, last - entries["offset_delta"])


def first_sequence(entries: npt.NDArray[np.void]) -> npt.NDArray[np.int32]:
    """First sequence of each producer's last batch, shape (n,); -1 where there is none.

    Sequences follow 2**31 - 1 with 0, so a batch's last may be below its first.

    >>> entry = np.zeros(1, ENTRY)
    >>> entry["offset_delta"] = 1
    >>> int(first_sequence(entry)[0])
    2147483647
    """
    last = entries["last_sequence"].astype(np.int64)
    first = (last - entries["offset_delta"]) & SEQUENCE_MASK
    return np.where(entries["last_offset"] < 0, NONE, first).astype(np.int32)
