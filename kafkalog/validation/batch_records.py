"""Reading of the records of a batch that is to be appended.

Where a batch is invalid, the error is the one that Kafka raises: the first in its order
of reading.

Source: ``DefaultRecordBatch.java``, ``AbstractLegacyRecordBatch.java``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kafkalog._speedups import Status
from kafkalog.array_types import Bytes
from kafkalog.codecs.compression import find_magic_fault
from kafkalog.decoding.batch_decoder import (
    DecodedRecords,
    RecordViews,
    find_records,
    first_records,
)
from kafkalog.decoding.decompression import Payloads, decompress_batches
from kafkalog.decoding.read_policy import Bounds
from kafkalog.decoding.workspace import RecordSpans, Workspace
from kafkalog.errors import (
    BatchTooLargeError,
    InvalidRecordError,
    LocatedError,
    RecordValidationError,
)
from kafkalog.formats.batch_headers import (
    BatchHeaders,
    crc_error,
    decode_error,
    find_crc_mismatches,
    scan_headers,
)
from kafkalog.formats.layout import CODEC_MASK
from kafkalog.integer_limits import MAX_INT64
from kafkalog.validation.append_policy import AppendPolicy
from kafkalog.validation.appends import AppendMemory
from kafkalog.validation.invalid_records import read_one_by_one

_MAX_ONE_BY_ONE: Final = 100_000
"""Number of records to read one by one at most, for about a second of work."""

_NESTED_WRAPPER: Final = "compressed message in a wrapper, expected an uncompressed one"


@dataclass(frozen=True, slots=True)
class BatchRecords:
    """The records of a batch; `foreign` are those of another magic than the batch.

    They are in a buffer that the next compressed batch reuses.
    """

    views: RecordViews
    foreign: list[int]

    @property
    def spans(self) -> RecordSpans:
        """Fields of each record, and the start and length of its bytes."""
        return self.views.records


def read_batch_records(
    data: Bytes,
    row: np.void,
    policy: AppendPolicy,
    memory: AppendMemory,
    *,
    in_place: bool,
) -> BatchRecords:
    """Return the records of the batch in `data` with the header `row`.

    `in_place` states that the batch is written without being rebuilt. Kafka then does
    not check the lengths of compressed records, so only the fields that validation
    needs are set.

    Raises `InvalidRecordError` for an invalid format, `CompressionError` if the batch
    cannot be decompressed, `BatchTooLargeError` if it decompresses to too many bytes,
    and `CorruptRecordError` for a CRC mismatch of a message in a wrapper.
    """
    rows = np.array([row])
    if row["magic"] == 2 and row["count"] == 0:
        return BatchRecords(
            DecodedRecords(data, rows, Workspace().spans_for(0), np.zeros(1, np.int64)),
            [],
        )
    codec = _checked_codec(row)
    limit = max(policy.rules.max_decompressed_bytes, len(data))
    (payload,) = decompress_batches(data, 0, rows, limit, memory.decompressed)
    if isinstance(payload, LocatedError):
        return _read_invalid(data, row, payload, in_place=in_place)
    foreign = []
    if row["magic"] < 2 and codec:
        foreign = _check_wrapped(payload, int(row["magic"]))
    decoded = next(find_records(payload, Bounds(), Workspace()))
    if isinstance(decoded, LocatedError):
        return _read_invalid(data, row, decoded, in_place=in_place)
    return BatchRecords(decoded, foreign)


def _checked_codec(row: np.void) -> int:
    """Return the codec of a batch; raise for zstd below magic 2."""
    codec = int(row["attributes"]) & CODEC_MASK
    if reason := find_magic_fault(codec, int(row["magic"])):
        raise InvalidRecordError(reason)
    return codec


def _read_invalid(
    data: Bytes, row: np.void, error: LocatedError, *, in_place: bool
) -> BatchRecords:
    """Return the records of a batch that Kafka accepts in spite of `error`, or raise.

    Raises the error that a leader finds first in the batch.
    """
    compressed = row["magic"] == 2 and int(row["attributes"]) & CODEC_MASK
    large = row["count"] > _MAX_ONE_BY_ONE or isinstance(error, BatchTooLargeError)
    if not compressed or large:
        raise error.as_rejection()
    spans = read_one_by_one(data, row, in_place=in_place)
    if not in_place:
        raise error.as_rejection()
    rows, counts = np.array([row]), np.array([len(spans)], np.int64)
    return BatchRecords(DecodedRecords(data, rows, spans, counts), [])


def read_records(
    data: Bytes, rows: BatchHeaders, limit: int, max_records: int | None = None
) -> None:
    """Read the records of rejected batches, and raise the error of the first invalid.

    Kafka reads them for the message of its error. `max_records` limits the number of
    records read, `limit` the decompressed bytes of a batch. Errors are as of
    `read_batch_records`, but checksums inside of wrappers are not verified.
    """
    left = MAX_INT64 if max_records is None else max_records
    for row in rows:
        if left > 0:
            first = first_records(data, 0, row, left)
            is_valid = first["count"] == left
            left -= _read_and_count(data, first if is_valid else row, limit)


def _read_and_count(data: Bytes, row: np.void, limit: int) -> int:
    """Read the records of a batch, and return their number."""
    if row["magic"] < 2 and not int(row["attributes"]) & CODEC_MASK:
        return 1
    if row["magic"] == 2 and row["count"] == 0:
        return 0
    _checked_codec(row)
    (payload,) = decompress_batches(data, 0, np.array([row]), limit, Workspace())
    if isinstance(payload, LocatedError):
        _read_invalid(data, row, payload, in_place=False)
        raise payload.as_rejection()
    if row["magic"] < 2:
        return _count_wrapped(payload, row)
    decoded = next(find_records(payload, Bounds(), Workspace()))
    if isinstance(decoded, LocatedError):
        _read_invalid(data, row, decoded, in_place=False)
        raise decoded.as_rejection()
    return int(decoded.counts.sum())


def _count_wrapped(payload: Payloads, row: np.void) -> int:
    """Return the number of messages in a wrapper, checking their headers only."""
    start, length = int(payload.starts[0]), int(payload.lengths[0])
    rows, status, end = scan_headers(payload.data[start : start + length])
    if status == Status.ENTRY_TOO_SMALL:
        raise decode_error(status, end)
    if not len(rows):
        raise InvalidRecordError("0 messages in a wrapper, expected at least 1")
    last, outer = int(rows["last_offset"][-1]), int(row["last_offset"])
    if row["magic"] == 1 and outer and outer < last:
        reason = f"wrapper offset {outer}, expected at least that of its last message"
        raise InvalidRecordError(f"{reason}, {last}")
    if (rows["attributes"] & CODEC_MASK).any():
        raise InvalidRecordError(_NESTED_WRAPPER)
    return len(rows)


def _check_wrapped(payload: Payloads, magic: int) -> list[int]:
    """Check each message in a wrapper; return those of another magic."""
    start, length = int(payload.starts[0]), int(payload.lengths[0])
    inner = payload.data[start : start + length]
    rows, status, end = scan_headers(inner)
    nested = np.flatnonzero(rows["attributes"] & CODEC_MASK)
    checked = rows[: nested[0]] if len(nested) else rows
    foreign = np.flatnonzero(checked["magic"] != magic).tolist()
    for mismatch in find_crc_mismatches(inner, 0, checked).tolist():
        if mismatch not in foreign:
            raise crc_error(inner, 0, checked[mismatch])
    if len(nested):
        raise InvalidRecordError(_NESTED_WRAPPER)
    if status == Status.ENTRY_TOO_SMALL:
        raise decode_error(status, end)
    if status == Status.ENTRY_MAGIC or (checked["magic"] == 2).any():
        foreign += [len(checked)] * (status == Status.ENTRY_MAGIC)
        reason = foreign_magic_reason(magic)
        cause = InvalidRecordError(f"{len(foreign)} invalid records: {reason}")
        raise RecordValidationError(cause, tuple((i, reason) for i in foreign))
    return foreign


def foreign_magic_reason(magic: int) -> str:
    """Return the reason to reject a message of another magic than its batch."""
    return f"another magic than that of the batch, {magic}"
