"""Producer snapshots: the state of a partition's producers at one offset.

``<offset>.snapshot`` has an entry for each producer with batches below that offset.
From it a broker recognizes duplicates, and knows which transactions are open.

    0         2     6       10
    | version | crc | count | entries ...     int16 (1), uint32, int32

``crc``  CRC-32C of the bytes from 6 to the end of the file. Kafka overwrites a
         snapshot without truncating it; the CRC detects a shorter one over a longer
         one.

    0             8                10              14            22
    | producer_id | producer_epoch | last_sequence | last_offset | ...
    22             26          34                  38                         46
    | offset_delta | timestamp | coordinator_epoch | current_txn_first_offset |

``last_sequence``, ``last_offset``  of the producer's last batch; both -1, and
                  ``offset_delta`` 0, if only a marker is known.
``offset_delta``  int32  last minus first offset of that batch.
``timestamp``     int64  ms, greatest of that batch, or of the marker.
``coordinator_epoch``         int32  of the last marker; -1 none yet.
``current_txn_first_offset``  int64  of the open transaction; -1 none.

Entries have the order of Kafka's hash map. An empty snapshot has ten bytes.

Source: ``ProducerStateManager.java``, ``ProducerSnapshot.json``.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
import numpy.typing as npt

from kafkalog.codecs.checksum import crc32c, crc_mismatch
from kafkalog.errors import CorruptSnapshotError
from kafkalog.formats.layout import SEQUENCE_MASK

VERSION: Final = 1
NONE: Final = -1
"""In place of a field: no batch, no marker or no open transaction."""

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
"""The state of one producer: 46 bytes, big-endian, as on disk."""

_HEADER: Final = struct.Struct(">hIi")
_CRC_AT: Final = 2
_CRC_FROM: Final = 6


def parse_snapshot(data: bytes) -> npt.NDArray[np.void]:
    """Return the entries of a snapshot, an `ENTRY` array that is a view of `data`.

    Bytes after the last entry are ignored, as in Kafka; the CRC covers them.

    Raises `CorruptSnapshotError`; its `cause` is one of ``truncated``, ``version``,
    ``crc`` and ``count``.

    >>> parse_snapshot(format_snapshot(np.zeros(3, ENTRY)))["last_offset"].tolist()
    [0, 0, 0]
    """
    if len(data) < _HEADER.size:
        reason = f"snapshot of {len(data)} bytes, expected at least {_HEADER.size}"
        raise CorruptSnapshotError(reason, position=len(data), cause="truncated")
    version, crc, count = _HEADER.unpack_from(data)
    if version != VERSION:
        reason = f"snapshot version {version}, expected {VERSION}"
        raise CorruptSnapshotError(reason, position=0, cause="version")
    if (computed := crc32c(memoryview(data)[_CRC_FROM:])) != crc:
        reason = crc_mismatch(crc, computed)
        raise CorruptSnapshotError(reason, position=_CRC_AT, cause="crc")
    most = (len(data) - _HEADER.size) // ENTRY.itemsize
    if not 0 <= count <= most:
        reason = f"entry count {count}, expected 0 to {most} in {len(data)} bytes"
        raise CorruptSnapshotError(reason, position=_CRC_FROM, cause="count")
    return np.frombuffer(data, ENTRY, count, _HEADER.size)


def format_snapshot(entries: npt.NDArray[np.void]) -> bytes:
    """Return the bytes of a snapshot of `entries`, as Kafka writes it.

    They have the fields of `ENTRY`, in either byte order.

    >>> format_snapshot(np.empty(0, ENTRY)).hex()
    '000148674bc700000000'
    """
    if entries.dtype.names != ENTRY.names:
        raise TypeError(f"fields {entries.dtype.names}, expected {ENTRY.names}")
    rows = entries.astype(ENTRY, casting="equiv").tobytes()
    body = len(entries).to_bytes(4, "big", signed=True) + rows
    return struct.pack(">hI", VERSION, crc32c(body)) + body


def first_offset(entries: npt.NDArray[np.void]) -> npt.NDArray[np.int64]:
    """Return the first offset of each producer's last batch, -1 without a batch.

    >>> entry = np.zeros(1, ENTRY)
    >>> entry["last_offset"], entry["offset_delta"] = 101, 1
    >>> first_offset(entry)
    array([100])
    """
    last = entries["last_offset"].astype(np.int64)
    return np.where(last < 0, NONE, last - entries["offset_delta"])


def first_sequence(entries: npt.NDArray[np.void]) -> npt.NDArray[np.int32]:
    """Return the first sequence of each producer's last batch, -1 without a batch.

    0 follows 2**31 - 1, so the last sequence of a batch may be below its first.

    >>> entry = np.zeros(1, ENTRY)
    >>> entry["offset_delta"] = 1
    >>> int(first_sequence(entry)[0])
    2147483647
    """
    last = entries["last_sequence"].astype(np.int64)
    first = (last - entries["offset_delta"]) & SEQUENCE_MASK
    return np.where(entries["last_offset"] < 0, NONE, first).astype(np.int32)
