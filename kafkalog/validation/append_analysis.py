"""Validation of the batch headers and checksums of appends.

Records are not read. Each append of a call is checked independently, in Kafka's order
of checks, so that it is rejected with the error that Kafka raises.

Most appends are valid. A kernel accepts all appends of a call at once, or none of them.
In the second case each append is checked here, batch by batch.

Source: ``UnifiedLog.analyzeAndValidateRecords``, ``ByteBufferLogInputStream.java``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from kafkalog import _speedups
from kafkalog._speedups import EntryFault, Status, read_required_entry
from kafkalog.array_types import Bytes
from kafkalog.codecs.compression import Codec
from kafkalog.errors import (
    CorruptRecordError,
    InvalidRecordError,
    KafkaLogError,
    LogArgumentError,
    OffsetsOutOfOrderError,
    RecordTooLargeError,
)
from kafkalog.formats.batch_headers import (
    BatchHeaders,
    crc_error,
    decode_error,
    epoch_field,
    find_invalid_start,
    offset_field,
    scan_headers,
    size_field,
)
from kafkalog.formats.layout import (
    BATCH,
    CODEC_MASK,
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    MAX_BATCH_BYTES,
    MIN_SIZE,
    NO_LEADER_EPOCH,
)
from kafkalog.integer_limits import MAX_INT64
from kafkalog.validation.append_policy import HeaderRequirements, RecordRequirements
from kafkalog.validation.appends import APPEND, AppendMemory, Appends
from kafkalog.validation.batch_records import read_records

_MAX_SIZE: Final = 2**31 - 1 - LOG_OVERHEAD


_NO_REQUIREMENTS: Final = HeaderRequirements(False, False, False, False, -1, MAX_INT64)


def analyze_appends(
    views: list[Any], required: HeaderRequirements, memory: AppendMemory
) -> Appends:
    """Copy the appends of a call, and check their batch headers and checksums.

    Each of `views` is one append, as `as_view` returns it. Bytes after the last
    complete batch, and on a replica the first batch of a leader epoch above that of
    `required` and all after it, are dropped without an error.

    Errors, in `Appends.errors`: `InvalidRecordError`, `RecordTooLargeError`,
    `CorruptRecordError`, `OffsetsOutOfOrderError`, and `LogArgumentError` for an
    unknown codec and for a size that no batch can have.
    """
    accepted = accept_all(views, required, None, 0, memory)
    if accepted is not None:
        return accepted[0]
    singles = [_analyze(np.frombuffer(view, np.uint8), required) for view in views]
    return Appends.merged(singles, memory.joined)


def as_views(buffers: Sequence[Any]) -> list[Any]:
    """Return a view of the bytes of each of `buffers`."""
    return list(map(as_view, buffers))


def as_view(buffer: Any) -> Any:
    """Return a view of the bytes of `buffer`; raise `TypeError` if it has none."""
    return buffer if type(buffer) is bytes else memoryview(buffer).cast("B")


def accept_all(
    views: list[Any],
    required: HeaderRequirements,
    rules: RecordRequirements | None,
    now_ms: int,
    memory: AppendMemory,
) -> tuple[Appends, bool] | None:
    """Return the appends if all of them meet the requirements, None otherwise.

    A leader has `rules`; compressed records are not read yet. The second result is
    whether there are any.
    """
    data = memory.joined.bytes_for(sum(map(len, views)))
    row_bounds = np.empty(len(views) + 1, np.int64)
    byte_bounds = np.empty(len(views) + 1, np.int64)
    info = memory.info_rows(len(views))
    while True:
        rows = memory.rows
        arrays = data, rows, row_bounds, byte_bounds, info
        accepted, count, is_compressed = _speedups.take_batches(
            views, required, rules, now_ms, arrays
        )
        if accepted == len(views):
            appends = Appends(data, rows[:count], row_bounds, byte_bounds, info, {})
            return appends, is_compressed
        if count < len(rows):
            return None
        memory.grow_rows()


def _analyze(data: Bytes, required: HeaderRequirements) -> Appends:
    """Check one append, batch by batch, in Kafka's order of checks."""
    try:
        rows = _valid_batches(data, required)
    except KafkaLogError as error:
        return Appends.rejected(error.with_traceback(None))
    kept = data[: rows["size_in_bytes"].sum()]
    info = np.empty(1, APPEND)
    row_bounds, byte_bounds = np.empty((2, 2), np.int64)
    arrays = kept.copy(), rows, row_bounds, byte_bounds, info
    _speedups.take_batches([kept], _NO_REQUIREMENTS, None, 0, arrays)
    return Appends(kept, rows, row_bounds, byte_bounds, info, {})


def _valid_batches(data: Bytes, required: HeaderRequirements) -> BatchHeaders:
    """Return the headers of the batches to be written."""
    kept: list[BatchHeaders] = []
    position, last_offset, skipping = 0, -1, False
    while (size := _entry_size(data, position)) is not None:
        if not skipping:
            row = np.empty(1, BATCH)
            fault = read_required_entry(data, position, required, last_offset, row)
            skipping = fault == EntryFault.NEWER_EPOCH
            if not fault:
                kept.append(row)
                last_offset = int(row["last_offset"][0])
            elif not skipping:
                entry = data[position : position + size]
                row["position"] = position
                if fault == EntryFault.NOT_ASCENDING:
                    _read_all_records(data)
                raise _error_of(fault, entry, row[0], last_offset, required)
        position += size
    if not position and (error := _invalid_start_error(data, position)):
        raise error
    return np.concatenate(kept) if kept else np.empty(0, BATCH)


def _read_all_records(data: Bytes) -> None:
    """Read all records, and raise the error of the first invalid one.

    Kafka lists the offsets of all records in the message of its error.
    """
    rows, _, end = scan_headers(data)
    read_records(data, rows, max(len(data), MAX_BATCH_BYTES))
    _entry_size(data, end)


def _entry_size(data: Bytes, position: int) -> int | None:
    """Return the size of the entry at `position`, None if it is not complete.

    Kafka computes it as an int32, and rejects an append for which that overflows.
    """
    left = len(data) - position
    if left < LOG_OVERHEAD:
        return None
    size, has_magic = size_field(data, position), left >= HEADER_SIZE_UP_TO_MAGIC
    invalid = size < MIN_SIZE or (has_magic and data[position + MAGIC_OFFSET] > 2)
    if invalid and (error := _invalid_start_error(data, position)):
        raise error
    entry_size = LOG_OVERHEAD + size
    if has_magic and size > _MAX_SIZE:
        raise LogArgumentError(f"batch size {size}, expected at most {_MAX_SIZE}")
    return entry_size if has_magic and entry_size <= left else None


def _invalid_start_error(data: Bytes, position: int) -> CorruptRecordError | None:
    """Return the error if no entry, not even an incomplete one, is at `position`."""
    head = data[position : position + HEADER_SIZE_UP_TO_MAGIC]
    found = find_invalid_start(head, first=position == 0)
    return None if found is None else found.at(position)


def _error_of(
    fault: EntryFault,
    entry: Bytes,
    row: np.void,
    last_offset: int,
    required: HeaderRequirements,
) -> KafkaLogError:
    """Return the error for the fault of an entry; `last_offset` is that before it."""
    position = int(row["position"])
    match fault:
        case EntryFault.LEADER_EPOCH:
            epoch = epoch_field(entry) if entry[MAGIC_OFFSET] == 2 else NO_LEADER_EPOCH
            reason = f"leader epoch {epoch}, expected {required.leader_epoch}"
            return InvalidRecordError(reason)
        case EntryFault.BASE_OFFSET:
            reason = f"base offset {offset_field(entry)}, expected 0 from a client"
            return InvalidRecordError(reason)
        case EntryFault.TOO_LARGE:
            limit = required.max_bytes
            reason = f"batch of {len(entry)} bytes, expected at most {limit}"
            too_large = RecordTooLargeError(reason)
            too_large.add_note(f"Decided by max.message.bytes={limit}.")
            return too_large
        case EntryFault.WRONG_CRC:
            return crc_error(entry, position, row)
        case EntryFault.UNKNOWN_CODEC:
            codec = int(row["attributes"]) & CODEC_MASK
            reason = f"compression type {codec}, expected 0 to {len(Codec) - 1}"
            return LogArgumentError(reason)
        case EntryFault.NOT_ASCENDING:
            return OffsetsOutOfOrderError(
                f"last offset {row['last_offset']} after last offset {last_offset}, "
                "expected ascending offsets"
            )
        case _:
            return decode_error(Status.ENTRY_TOO_SMALL, position)
