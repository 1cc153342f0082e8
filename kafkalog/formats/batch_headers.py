"""The headers of many entries at a time, each a row; and what can be wrong with them.

    data, origin     bytes of a file or buffer, and the position of the first of them
    rows             their entries' headers, `layout.BATCH`

Knows: headers and checksums. Does not know: what an entry holds, files.
Source: ``DefaultRecordBatch.java``, ``AbstractLegacyRecordBatch.java``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog._speedups import Status
from kafkalog.errors import CorruptRecordError
from kafkalog.formats.layout import (
    BATCH,
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_OVERHEAD,
    MIN_SIZES,
    SEQUENCE_MASK,
    SIZE_OFFSET,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

Bytes = npt.NDArray[np.uint8]
BytesLike: TypeAlias = "Buffer | Bytes"
Int32s = npt.NDArray[np.int32]
BatchHeaders = npt.NDArray[np.void]

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


def decode_error(status: int, position: int) -> CorruptRecordError:
    """Say in an error what a kernel's status means, at `position`."""
    return CorruptRecordError(REASONS[status], position=position, cause="records")


def crc_error(row: np.void) -> CorruptRecordError:
    """Say in an error that an entry's bytes are not those its checksum was made of."""
    reason = f"the checksum is not {int(row['crc']):08x}, as stored"
    return CorruptRecordError(reason, position=int(row["position"]), cause="crc")


def increment_sequences(base: Int32s, delta: Int32s) -> Int32s:
    """Add deltas of offsets to sequences: 0 follows 2**31 - 1, and sums wrap as Java's.

    >>> increment_sequences(np.int32([5, 2**31 - 1]), np.int32([3, 1]))
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
) -> tuple[BatchHeaders, int, int]:
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


def find_crc_mismatches(
    data: Bytes, origin: int, rows: BatchHeaders
) -> npt.NDArray[np.intp]:
    """Which of `rows` have a checksum other than their bytes: their indexes."""
    sound = np.empty(len(rows), np.uint8)
    if not _speedups.check_batches(data, origin, rows, sound):
        return np.empty(0, np.intp)
    return np.flatnonzero(sound == 0)


MAGIC_AT: Final = 16
COUNT: Final = slice(57, 61)

_EPOCH: Final = slice(12, 16)
_LAST_OFFSET_DELTA: Final = slice(23, 27)
_MESSAGE_ATTRIBUTES: Final = 17
_BATCH_ATTRIBUTES: Final = 22  # the byte of them that is used


def offset_field(data: Bytes | bytes, place: int = 0) -> int:
    """Read what stands first: of magic 2 the base offset, before that the last one."""
    return _signed(data[place : place + SIZE_OFFSET])


def size_field(data: Bytes | bytes, place: int = 0) -> int:
    """Read the size, which is that of what follows it.

    >>> size_field(bytes.fromhex("0000000000000007 00000031"))
    49
    """
    return _signed(data[place + SIZE_OFFSET : place + LOG_OVERHEAD])


def magic_field(data: Bytes | bytes, place: int = 0) -> int:
    """Read the magic, below 0 from 128 on, as in Java."""
    return _signed(data[place + MAGIC_AT : place + MAGIC_AT + 1])


def attributes_field(entry: Bytes) -> int:
    """Read the byte of the attributes in which all that is known of them stands."""
    is_message = magic_field(entry) < 2
    return int(entry[_MESSAGE_ATTRIBUTES if is_message else _BATCH_ATTRIBUTES])


def epoch_field(entry: Bytes) -> int:
    """Read the leader epoch of a batch."""
    return _signed(entry[_EPOCH])


def delta_field(entry: Bytes) -> int:
    """Read how far the last offset of a batch lies above the first."""
    return _signed(entry[_LAST_OFFSET_DELTA])


def count_field(entry: Bytes) -> int:
    """Read how many records a batch says that it has."""
    return _signed(entry[COUNT])


def _signed(field: Bytes | bytes) -> int:
    """Read a whole number of so many bytes, the greatest first."""
    return int.from_bytes(bytes(field), "big", signed=True)


PLAUSIBLE_OFFSETS: Final = (0, 2**56 - 1)
"""Offsets that a log may have where nothing else bounds them: a million records a
second reach the last in two thousand years, and no text begins with less."""


class InvalidStart(NamedTuple):
    """Why no entry begins there, and the word for that kind of damage."""

    reason: str
    cause: str

    def at(self, position: int) -> CorruptRecordError:
        """Return the error that says so."""
        return CorruptRecordError(self.reason, position=position, cause=self.cause)


def find_invalid_start(
    head: Bytes, offsets: tuple[int, int] = PLAUSIBLE_OFFSETS, *, first: bool = False
) -> InvalidStart | None:
    """Return why no entry begins with `head`, None where one may.

    `head` has the first 17 bytes, or all that there are. The entry's offset would lie
    in `offsets`, both included. `first` says that nothing precedes it.

    >>> import numpy as np
    >>> text = np.frombuffer(b"a text of more bytes", np.uint8)
    >>> find_invalid_start(text, first=True).reason
    'not a Kafka log: magic 121, expected 0, 1 or 2'
    >>> find_invalid_start(text[:5]).reason
    'offset 6998721800087535616 or more, expected 0 to 72057594037927935'
    """
    if not len(head):
        return None
    # Of an offset cut short this is the least that it may be, and the greatest.
    known = head[:SIZE_OFFSET].tobytes()
    low, high = (
        int.from_bytes(known.ljust(SIZE_OFFSET, rest), signed=True)
        for rest in (b"\0", b"\xff")
    )
    within = low <= offsets[1] and high >= offsets[0]
    found = _in_size_or_magic(head)
    if found is None and not within:
        least = "" if low == high else " or more"
        reason = f"offset {low}{least}, expected {offsets[0]} to {offsets[1]}"
        found = InvalidStart(reason, "offset")
    if found is not None and first and not within:
        return InvalidStart(f"not a Kafka log: {found.reason}", found.cause)
    return found


def _in_size_or_magic(head: Bytes) -> InvalidStart | None:
    least, magic = MIN_SIZES[0], None
    if len(head) >= HEADER_SIZE_UP_TO_MAGIC:
        magic = magic_field(head)
        if not 0 <= magic < len(MIN_SIZES):
            return InvalidStart(f"magic {magic}, expected 0, 1 or 2", "magic")
        least = MIN_SIZES[magic]
    if len(head) >= LOG_OVERHEAD and (size := size_field(head)) < least:
        of_magic = "" if magic is None else f" of magic {magic}"
        return InvalidStart(f"size {size}, expected at least {least}{of_magic}", "size")
    return None
