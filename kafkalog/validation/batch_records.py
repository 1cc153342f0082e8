"""The records of one batch that is to be appended: where they lie, and who they are.

Knows: what a batch or a wrapper holds. Does not know: whether a topic takes it.
Source: ``DefaultRecordBatch.java``, ``AbstractLegacyRecordBatch.java``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kafkalog._speedups import Status
from kafkalog.codecs.compression import Codec
from kafkalog.decoding.batch_decoder import (
    DecodedRecords,
    RecordViews,
    find_records,
    truncate_header,
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
    Bytes,
    crc_error,
    decode_error,
    find_crc_mismatches,
    scan_headers,
)
from kafkalog.formats.layout import CODEC_MASK
from kafkalog.validation.append_policy import Leadership
from kafkalog.validation.appends import AppendMemory
from kafkalog.validation.invalid_records import pass_over

_EVERY: Final = 2**63 - 1

_MOST_PASSED: Final = 100_000
"""How many records are read slowly, to tell what is wrong: a second's worth."""


@dataclass(frozen=True, slots=True)
class Found:
    """The records of a batch; `foreign` are of another magic than it.

    They lie in memory that is used again for the next batch that is packed.
    """

    views: RecordViews
    foreign: list[int]

    @property
    def places(self) -> RecordSpans:
        """Where the parts of each record lie."""
        return self.views.records


def find_appended(
    data: Bytes,
    row: np.void,
    as_leader: Leadership,
    memory: AppendMemory,
    *,
    as_it_came: bool,
) -> Found:
    """Find the records of the batch that `row` heads, which lies in `data`.

    With `as_it_came` the batch is to be written so, and a packed one is not held to
    how long its records say they are: of such a one is known what that needs.

    Raises `InvalidRecordError` where the format is broken, `CompressionError` where it
    does not unpack, `BatchTooLargeError` where there is too much of it, and of what is
    in a wrapper `CorruptRecordError` for a checksum.
    """
    rows = np.array([row])
    if row["magic"] == 2 and row["count"] == 0:
        return Found(
            DecodedRecords(data, rows, Workspace().spans_for(0), np.zeros(1, np.int64)),
            [],
        )
    codec = int(row["attributes"]) & CODEC_MASK
    if row["magic"] < 2 and codec == Codec.ZSTD:
        raise InvalidRecordError(f"zstd in a wrapper of magic {row['magic']}")
    limit = max(as_leader.rules.max_unpacked_bytes, len(data))
    (payload,) = decompress_batches(data, 0, rows, limit, memory.unpacked)
    if isinstance(payload, LocatedError):
        return _passed_over(data, row, payload, as_it_came=as_it_came)
    foreign = []
    if row["magic"] < 2 and codec:
        foreign = _check_wrapped(payload, int(row["magic"]))
    found = next(find_records(payload, Bounds(), Workspace()))
    if isinstance(found, LocatedError):
        return _passed_over(data, row, found, as_it_came=as_it_came)
    return Found(found, foreign)


def _passed_over(
    data: Bytes, row: np.void, error: LocatedError, *, as_it_came: bool
) -> Found:
    """Find what a leader meets first in a batch that cannot be read, if anything."""
    packed = row["magic"] == 2 and int(row["attributes"]) & CODEC_MASK
    large = row["count"] > _MOST_PASSED or isinstance(error, BatchTooLargeError)
    if not packed or large:
        raise error.as_rejection()
    places = pass_over(data, row, as_it_came=as_it_came)
    if not as_it_came:
        raise error.as_rejection()
    rows, counts = np.array([row]), np.array([len(places)], np.int64)
    return Found(DecodedRecords(data, rows, places, counts), [])


def read_through(
    data: Bytes, rows: BatchHeaders, limit: int, most_records: int | None = None
) -> None:
    """Read the records of batches that are refused, as Kafka does to tell which.

    Of all records, or of the first so many, the first that is broken is raised, as by
    `find_appended`; checksums inside of wrappers are not looked at. `limit` bounds a
    batch, unpacked, in bytes.
    """
    left = _EVERY if most_records is None else most_records
    for row in rows:
        if left > 0:
            left -= _count(data, truncate_header(data, 0, row, left), limit)


def _count(data: Bytes, row: np.void, limit: int) -> int:
    """Count the records of a batch, which are read."""
    codec = int(row["attributes"]) & CODEC_MASK
    if row["magic"] < 2 and not codec:
        return 1
    if row["magic"] == 2 and row["count"] == 0:
        return 0
    if row["magic"] < 2 and codec == Codec.ZSTD:
        raise InvalidRecordError(f"zstd in a wrapper of magic {row['magic']}")
    (payload,) = decompress_batches(data, 0, np.array([row]), limit, Workspace())
    if isinstance(payload, LocatedError):
        _passed_over(data, row, payload, as_it_came=False)
        raise payload.as_rejection()
    if row["magic"] < 2:
        return _count_wrapped(payload, row)
    found = next(find_records(payload, Bounds(), Workspace()))
    if isinstance(found, LocatedError):
        _passed_over(data, row, found, as_it_came=False)
        raise found.as_rejection()
    return int(found.counts.sum())


def _count_wrapped(payload: Payloads, row: np.void) -> int:
    """Count the messages in a wrapper; what is in them is not looked at."""
    start, length = int(payload.starts[0]), int(payload.lengths[0])
    rows, status, place = scan_headers(payload.data[start : start + length])
    if status == Status.ENTRY_TOO_SMALL:
        raise decode_error(status, place)
    if not len(rows):
        raise InvalidRecordError("a compressed message holds no message")
    last, outer = int(rows["last_offset"][-1]), int(row["last_offset"])
    if row["magic"] == 1 and outer and outer < last:
        reason = f"a compressed message of offset {outer} holds one of offset {last}"
        raise InvalidRecordError(reason)
    if (rows["attributes"] & CODEC_MASK).any():
        raise InvalidRecordError("a compressed message inside a compressed one")
    return len(rows)


def _check_wrapped(payload: Payloads, magic: int) -> list[int]:
    """Check each message in a wrapper; return which are of another magic than it."""
    start, length = int(payload.starts[0]), int(payload.lengths[0])
    inside = payload.data[start : start + length]
    rows, status, place = scan_headers(inside)
    nested = np.flatnonzero(rows["attributes"] & CODEC_MASK)
    whole = rows[: nested[0]] if len(nested) else rows
    foreign = np.flatnonzero(whole["magic"] != magic).tolist()
    for unsound in find_crc_mismatches(inside, 0, whole).tolist():
        if unsound not in foreign:
            raise crc_error(inside, 0, whole[unsound])
    if len(nested):
        raise InvalidRecordError("a compressed message inside a compressed one")
    if status == Status.ENTRY_TOO_SMALL:
        raise decode_error(status, place)
    if status == Status.ENTRY_MAGIC or (whole["magic"] == 2).any():
        foreign += [len(whole)] * (status == Status.ENTRY_MAGIC)
        reason = f"a magic other than {magic}, its batch's"
        cause = InvalidRecordError(f"{len(foreign)} records are refused: {reason}")
        raise RecordValidationError(cause, tuple((i, reason) for i in foreign))
    return foreign
