"""The headers of many entries at a time, each a row; and what can be wrong with them.

    data, origin     bytes of a file or buffer, and the position of the first of them
    rows             their entries' headers, `layout.BATCH`

Knows: headers and checksums. Does not know: what an entry holds, files.
Source: ``DefaultRecordBatch.java``, ``AbstractLegacyRecordBatch.java``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog._speedups import Status
from kafkalog.errors import CorruptRecordError
from kafkalog.formats.layout import BATCH, SEQUENCE_MASK

if TYPE_CHECKING:
    from typing_extensions import Buffer

Bytes = npt.NDArray[np.uint8]
BytesLike: TypeAlias = "Buffer | Bytes"
Int32s = npt.NDArray[np.int32]
Rows = npt.NDArray[np.void]

REASONS: Final[dict[int, str]] = {
    Status.TRUNCATED: "a record ends past its batch",
    Status.OVERLONG: "a varint continues past its last byte",
    Status.ENTRY_INCOMPLETE: "an entry runs past the end",
    Status.ENTRY_TOO_SMALL: "the size of an entry is below what its magic needs",
    Status.ENTRY_MAGIC: "the magic is not 0, 1 or 2",
    Status.ENTRY_COUNT: "more records are declared than the bytes could hold",
    Status.RECORD_LENGTH: "a record's fields do not fill its length",
    Status.RECORD_LEFTOVER: "bytes remain behind the last record of a batch",
    Status.RECORD_HEADERS: "a record's headers cannot be",
    Status.MESSAGE_SIZE: "a message's key or value runs past it",
    Status.MESSAGE_NESTED: "a compressed message inside a compressed one",
    Status.WRAPPER_OFFSET: "a wrapper's offset is below its last message's",
    Status.WRAPPER_EMPTY: "a compressed message holds no message",
}


def corrupt(status: int, position: int) -> CorruptRecordError:
    """Say in an error what a kernel's status means, at `position`."""
    return CorruptRecordError(REASONS[status], position=position, cause="records")


def checksum_error(row: np.void) -> CorruptRecordError:
    """Say in an error that an entry's bytes are not those its checksum was made of."""
    reason = f"the checksum is not {int(row['crc']):08x}, as stored"
    return CorruptRecordError(reason, position=int(row["position"]), cause="crc")


def add_to_sequences(base: Int32s, delta: Int32s) -> Int32s:
    """Add deltas of offsets to sequences: 0 follows 2**31 - 1, and sums wrap as Java's.

    >>> add_to_sequences(np.int32([5, 2**31 - 1]), np.int32([3, 1]))
    array([8, 0], dtype=int32)
    """
    past = base > SEQUENCE_MASK - delta
    return np.where(past, delta - (SEQUENCE_MASK - base) - 1, base + delta)


def scan_headers(
    data: Bytes,
    start: int = 0,
    origin: int = 0,
    capacity: int = 1 << 16,
    *,
    any_magic: bool = False,
) -> tuple[Rows, int, int]:
    """Read the headers of the entries that lie whole in `data` from `start` on.

    Answers the rows, `capacity` of them at most, with positions counted from `origin`;
    a status, OK where the rows are as many as asked for or the bytes end with an entry;
    and the place in `data` behind the last of them.

    With `any_magic` no magic is damage: one above 2 is read as 2, and one below 0 as 1,
    as Kafka's storage engine reads its own files; the row has that magic.
    """
    rows = np.empty(capacity, BATCH)
    status, count, place = _speedups.scan_batches(data, start, origin, rows, any_magic)
    return rows[:count].copy() if count < capacity // 2 else rows[:count], status, place


def find_unsound(data: Bytes, origin: int, rows: Rows) -> npt.NDArray[np.intp]:
    """Which of `rows` have a checksum other than their bytes: their indexes."""
    sound = np.empty(len(rows), np.uint8)
    if not _speedups.check_batches(data, origin, rows, sound):
        return np.empty(0, np.intp)
    return np.flatnonzero(sound == 0)
