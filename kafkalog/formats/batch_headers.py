"""Headers of record batches and messages, single fields and many at a time.

A *batch* here is what Kafka's ``RecordBatch`` interface calls one: a record batch of
magic 2, or a message of magic 0 or 1, which may be a wrapper of compressed messages.

    data, origin     bytes of a file or buffer, and the file position of ``data[0]``
    rows             headers of batches in `data`: an array of `layout.BATCH`

Source: ``DefaultRecordBatch.java``, ``AbstractLegacyRecordBatch.java``,
``ByteBufferLogInputStream.java``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog._speedups import Status
from kafkalog.array_types import Bytes, Int32s
from kafkalog.codecs.checksum import crc32, crc32c, crc_mismatch
from kafkalog.errors import CorruptRecordError
from kafkalog.formats.layout import (
    BATCH,
    BATCH_CRC_FROM,
    CODEC_MASK,
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    MESSAGE_CRC_FROM,
    MIN_RECORD_BYTES,
    MIN_SIZES,
    RECORD_BATCH_OVERHEAD,
    SEQUENCE_MASK,
    SIZE_OFFSET,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

BytesLike: TypeAlias = "Buffer | Bytes"
BatchHeaders = npt.NDArray[np.void]

RECORDS_COUNT: Final = slice(57, 61)
PLAUSIBLE_OFFSETS: Final = (0, 2**56 - 1)
"""Offsets that a log may have where nothing else bounds them. A million records a
second take two thousand years to reach the last; text read as an offset is greater."""

REASONS: Final[dict[int, str]] = {
    Status.TRUNCATED: "record ends after the end of its batch",
    Status.OVERLONG: "varint continues after the last byte of its type",
    Status.ENTRY_INCOMPLETE: "incomplete batch: it ends after the end of the data",
    Status.ENTRY_TOO_SMALL: "batch size is below the least of its magic",
    Status.ENTRY_MAGIC: "unknown magic, expected 0, 1 or 2",
    Status.ENTRY_COUNT: "record count exceeds what the batch's bytes can hold",
    Status.RECORD_LENGTH: "record length differs from the length of its fields",
    Status.RECORD_LEFTOVER: "trailing bytes after the last record of a batch",
    Status.RECORD_HEADERS: "invalid number or length of record headers",
    Status.MESSAGE_SIZE: "key or value ends after the end of its message",
    Status.MESSAGE_NESTED: "compressed inner message, expected an uncompressed one",
    Status.WRAPPER_OFFSET: "offset of a wrapper message is below its last message's",
    Status.WRAPPER_EMPTY: "wrapper message without messages, expected at least 1",
}
"""The reason of an error, by the status that a kernel returns."""

PARTITION_LEADER_EPOCH: Final = slice(12, 16)
"""The leader epoch of a batch of magic 2, which its CRC does not cover."""

_LAST_OFFSET_DELTA: Final = slice(23, 27)
_MESSAGE_ATTRIBUTES: Final = 17
_BATCH_ATTRIBUTES: Final = 22  # the low byte: no bit of the high one is in use


def decode_error(status: int, position: int, reason: str = "") -> CorruptRecordError:
    """Return the error for a kernel's `status`, with a more exact `reason` if given."""
    return CorruptRecordError(
        reason or REASONS[status], position=position, cause="records"
    )


def crc_error(data: Bytes, origin: int, row: np.void) -> CorruptRecordError:
    """Return the error for a batch in `data` that does not match its CRC."""
    position = int(row["position"])
    start = position - origin
    batch = data[start : start + int(row["size_in_bytes"])]
    if row["magic"] < 2:
        computed = crc32(batch[MESSAGE_CRC_FROM:].data)
    else:
        computed = crc32c(batch[BATCH_CRC_FROM:].data)
    reason = crc_mismatch(int(row["crc"]), computed)
    return CorruptRecordError(reason, position=position, cause="crc")


def increment_sequences(base: Int32s, increment: Int32s) -> Int32s:
    """Return sequences after `base`, where 0 follows 2**31 - 1.

    As ``DefaultRecordBatch.incrementSequence``, whose sums wrap as in Java.

    >>> increment_sequences(np.int32([5, 2**31 - 1]), np.int32([3, 1]))
    array([8, 0], dtype=int32)
    """
    wraps = base > SEQUENCE_MASK - increment
    return np.where(wraps, increment - (SEQUENCE_MASK - base) - 1, base + increment)


def scan_headers(
    data: Bytes,
    start: int = 0,
    origin: int = 0,
    capacity: int = 1 << 16,
    *,
    any_magic: bool = False,
) -> tuple[BatchHeaders, int, int]:
    """Read the headers of the complete batches in `data` from index `start` on.

    Returns at most `capacity` rows, with positions that count from `origin`; a status,
    which is OK where `capacity` is reached or `data` ends with a batch; and the index
    after the last batch.

    With `any_magic`, a magic above 2 is read as 2 and one below 0 as 1, as Kafka's
    storage engine reads its own files; the row has the magic it was read as.
    """
    rows = np.empty(capacity, BATCH)
    status, count, end = _speedups.scan_batches(data, start, origin, rows, any_magic)
    # This returns memory as a copy does, and is much faster for a few rows.
    rows.resize(count, refcheck=False)
    return rows, status, end


def have_flag(rows: BatchHeaders, flag: int) -> npt.NDArray[np.bool_]:
    """Return which batches are of magic 2 and have a flag; messages have none."""
    flagged: npt.NDArray[np.bool_]
    flagged = (rows["attributes"] & flag > 0) & (rows["magic"] == 2)
    return flagged


def has_count(rows: BatchHeaders, max_batch_bytes: int) -> npt.NDArray[np.bool_]:
    """Return which headers state a number of records that their bytes can hold.

    That of a compressed batch must fit into `max_batch_bytes`. Wrapper messages state
    none.
    """
    codec = rows["attributes"] & CODEC_MASK
    uncompressed = rows["size_in_bytes"] - RECORD_BATCH_OVERHEAD
    most = np.where(codec == 0, uncompressed, max_batch_bytes) // MIN_RECORD_BYTES
    fits: npt.NDArray[np.bool_] = (rows["magic"] < 2) | (rows["count"] <= most)
    return fits & (rows["count"] >= 0)


def begin_times(rows: BatchHeaders) -> npt.NDArray[np.int64]:
    """Return the time of each batch's first record, -1 where headers lack it.

    A batch with a delete horizon lacks it: the horizon replaces the base timestamp.
    """
    times = np.empty(len(rows), np.int64)
    _speedups.fill_begin_times(np.ascontiguousarray(rows), times)
    return times


def find_crc_mismatches(
    data: Bytes, origin: int, rows: BatchHeaders
) -> npt.NDArray[np.intp]:
    """Return the indexes of the rows whose batch in `data` does not match its CRC."""
    valid = np.empty(len(rows), np.uint8)
    if not _speedups.check_batches(data, origin, rows, valid):
        return np.empty(0, np.intp)
    return np.flatnonzero(valid == 0)


def offset_field(data: Bytes | bytes, start: int = 0) -> int:
    """Return the first field: magic 2 has its base offset there, a message its own."""
    return _signed(data[start : start + SIZE_OFFSET])


def size_field(data: Bytes | bytes, start: int = 0) -> int:
    """Return the size field: the number of bytes after it.

    >>> size_field(bytes.fromhex("0000000000000007 00000031"))
    49
    """
    return _signed(data[start + SIZE_OFFSET : start + LOG_OVERHEAD])


def magic_field(data: Bytes | bytes, start: int = 0) -> int:
    """Return the magic as in Java: a signed byte."""
    return _signed(data[start + MAGIC_OFFSET : start + MAGIC_OFFSET + 1])


def attributes_field(batch: Bytes) -> int:
    """Return the attributes; for magic 2 their low byte, as the high one is unused."""
    is_message = magic_field(batch) < 2
    return int(batch[_MESSAGE_ATTRIBUTES if is_message else _BATCH_ATTRIBUTES])


def epoch_field(batch: Bytes) -> int:
    """Return the partition leader epoch of a batch of magic 2."""
    return _signed(batch[PARTITION_LEADER_EPOCH])


def delta_field(batch: Bytes) -> int:
    """Return the last offset delta of a batch of magic 2."""
    return _signed(batch[_LAST_OFFSET_DELTA])


def count_field(batch: Bytes) -> int:
    """Return the records count of a batch of magic 2."""
    return _signed(batch[RECORDS_COUNT])


def _signed(field: Bytes | bytes) -> int:
    return int.from_bytes(bytes(field), "big", signed=True)


class InvalidStart(NamedTuple):
    """A reason why no batch begins with certain bytes, and the `cause` of its error."""

    reason: str
    cause: str

    def at(self, position: int) -> CorruptRecordError:
        """Return the error for such bytes at `position`."""
        return CorruptRecordError(self.reason, position=position, cause=self.cause)


def find_invalid_start(
    head: Bytes, offsets: tuple[int, int] = PLAUSIBLE_OFFSETS, *, first: bool = False
) -> InvalidStart | None:
    """Return why no batch begins with `head`; None if one may.

    A file may end with an incomplete batch, whose rest is not written yet or was lost.
    Bytes that no batch begins with are corrupt, or the file is not a log.

    `head` has the first 17 bytes, or as many as there are. The batch's offset is
    expected in `offsets`, both included. `first` is true at the start of a file.

    >>> import numpy as np
    >>> text = np.frombuffer(b"a text of more bytes", np.uint8)
    >>> find_invalid_start(text, first=True).reason
    'not a Kafka log: magic 121, expected 0, 1 or 2'
    >>> find_invalid_start(text[:5]).reason
    'offset 6998721800087535616 or more, expected 0 to 72057594037927935'
    """
    if not len(head):
        return None
    # The least and the greatest offset that begins with the available bytes.
    known = head[:SIZE_OFFSET].tobytes()
    low, high = (
        int.from_bytes(known.ljust(SIZE_OFFSET, fill), signed=True)
        for fill in (b"\0", b"\xff")
    )
    is_plausible = low <= offsets[1] and high >= offsets[0]
    fault = find_invalid_size_or_magic(head)
    if fault is None and not is_plausible:
        or_more = "" if low == high else " or more"
        reason = f"offset {low}{or_more}, expected {offsets[0]} to {offsets[1]}"
        return InvalidStart(reason, "offset")
    if fault is not None and first and not is_plausible:
        return InvalidStart(f"not a Kafka log: {fault.reason}", fault.cause)
    return fault


def find_invalid_size_or_magic(head: Bytes) -> InvalidStart | None:
    """Return why the size or the magic in `head` is invalid, None if both are valid."""
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
