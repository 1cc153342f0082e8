"""Decode many batches at once: headers, then payloads, then the records in them.

A step of about 4 MB of batches is decoded by one call of a kernel.

    data, origin      bytes of a file or buffer, and the file position of ``data[0]``
    rows              headers of batches in `data`: an array of `layout.BATCH`
    Payloads          where the records of each batch are: in `data`, or decompressed
    DecodedRecords    the records found, as spans of bytes or as columns

Generators yield errors among their results, in the order of the batches: the caller
raises the first or reports them all.

Source: ``DefaultRecordBatch.java``, ``DefaultRecord.java``,
``AbstractLegacyRecordBatch.java``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog._speedups import Status
from kafkalog.array_types import Bytes
from kafkalog.decoding.decompression import Payloads, decompress_batches
from kafkalog.decoding.large_batches import record_error, split_large_batches
from kafkalog.decoding.read_policy import Bounds
from kafkalog.decoding.workspace import DecodedForm, DecodeWorkspace, RecordSpans
from kafkalog.errors import CorruptRecordError, LocatedError
from kafkalog.formats.batch_headers import BatchHeaders, crc_error, decode_error
from kafkalog.formats.layout import (
    CODEC_MASK,
    MIN_MESSAGE_BYTES,
    MIN_RECORD_BYTES,
    RECORD_BATCH_OVERHEAD,
)
from kafkalog.formats.offset_order import find_overlap


@dataclass(frozen=True, slots=True)
class DecodedRecords(Generic[DecodedForm]):
    """Records of the batches `rows` in `data`, `counts` of them for each batch.

    `records` may be in the buffers of a `DecodeWorkspace`, valid until its next use.
    `lengths` are the bytes of each batch's records, uncompressed, if `find_records` has
    read them.
    """

    data: Bytes
    rows: BatchHeaders
    records: DecodedForm
    counts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64] | None = None


RecordViews = DecodedRecords[RecordSpans]
"""Records as spans: the positions in `data` of the parts of each record."""


def find_records(
    payloads: Payloads,
    bounds: Bounds,
    workspace: DecodeWorkspace[DecodedForm],
    before: int | None = None,
    *,
    check: bool = False,
) -> Iterator[DecodedRecords[DecodedForm] | LocatedError]:
    """Yield the records of `payloads` within `bounds`, and errors.

    A result is valid until the next is taken. `before` is the last offset before these
    batches where offsets have to increase, else None. With `check`, CRCs are verified.
    """
    data, rows = payloads.data, payloads.rows
    starts, lengths = payloads.starts, payloads.lengths
    within = (bounds.as_array(), bounds.timed)
    while len(rows):
        error: LocatedError | None = None
        good, wrapped = _speedups.check_counts(rows, lengths)
        if good < len(rows):
            error = _count_error(rows[good], int(lengths[good]))
        valid_rows, base_offsets = rows[:good], np.zeros(good, np.int64)
        if wrapped:
            # A copy: after an error the following batches are measured again.
            valid_rows = valid_rows.copy()
            wrong = _measure(data, valid_rows, starts, lengths, base_offsets, before)
            good, error = wrong or (good, error)
        valid_rows = valid_rows[:good]
        counts = np.zeros(good, np.int64)
        places = (starts[:good], lengths[:good], base_offsets[:good])
        status, stop, place, kept = workspace.find(
            data, valid_rows, places, within, counts, check=check
        )
        if status == Status.CHECKSUM:
            row = valid_rows[stop]
            start = int(starts[stop]) - RECORD_BATCH_OVERHEAD
            error = crc_error(data, int(row["position"]) - start, row)
            good = stop
        elif status != Status.OK:
            passed = len(payloads.rows) - len(rows)
            error = record_error(payloads, passed + stop, status, place)
            good = stop
            # The valid records of the batch are dropped with it.
            kept -= int(counts[stop])
        if kept:
            records = workspace.first(kept)
            found = (records, counts[:good], lengths[:good])
            yield DecodedRecords(data, valid_rows[:good], *found)
        if error is not None:
            yield error
        if good and before is not None:
            before = int(rows["last_offset"][good - 1])
        skipped = good + (error is not None)
        if skipped == len(rows):
            return
        rows, starts, lengths = rows[skipped:], starts[skipped:], lengths[skipped:]


def _count_error(row: np.void, length: int) -> CorruptRecordError:
    most = length // (MIN_RECORD_BYTES if row["magic"] == 2 else MIN_MESSAGE_BYTES)
    reason = f"record count {row['count']}, expected at most {most} in {length} bytes"
    if row["count"] < 0:
        reason = f"record count {row['count']}, expected at least 0"
    return decode_error(Status.ENTRY_COUNT, int(row["position"]), reason)


def first_records(data: Bytes, origin: int, row: np.void, most: int) -> np.void:
    """Return a batch's header as if the batch ended after its first `most` records.

    It ends before a corrupt record if that is one of them. The header is unchanged if
    the batch is compressed, is a message, or has no more records.
    """
    compressed = int(row["attributes"]) & CODEC_MASK
    if row["magic"] < 2 or compressed or row["count"] <= most:
        return row
    start = int(row["position"]) - origin
    first, end = start + RECORD_BATCH_OVERHEAD, start + int(row["size_in_bytes"])
    status, stop, count = _speedups.skip_records(
        data, np.array([row]), first, end, most, end - first
    )
    if status != Status.OK:  # `stop` is inside the corrupt record
        return first_records(data, origin, row, count)
    cut = row.copy()
    cut["count"], cut["size_in_bytes"] = count, stop - start
    return cut


def _measure(
    data: Bytes,
    rows: BatchHeaders,
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    base_offsets: npt.NDArray[np.int64],
    before: int | None,
) -> tuple[int, LocatedError] | None:
    """Set offsets and counts of wrapper messages; return the first invalid one."""
    good, wrong = len(rows), None
    status, stop = _speedups.measure_wrappers(
        data, rows, starts[:good], lengths[:good], base_offsets
    )
    if status != Status.OK:
        good, wrong = stop, (stop, decode_error(status, int(rows["position"][stop])))
    if before is not None and (misplaced := find_overlap(rows[:good], before)):
        return misplaced
    return wrong


def decode(
    data: Bytes,
    origin: int,
    rows: BatchHeaders,
    *,
    bounds: Bounds,
    limit: int,
    workspace: DecodeWorkspace[DecodedForm],
    before: int | None = None,
    split_large: bool = False,
    check: bool = False,
) -> Iterator[DecodedRecords[DecodedForm] | LocatedError]:
    """Yield the records of `rows` within `bounds`, and errors.

    Parameters
    ----------
    data, origin, rows
        Bytes, the file position of the first, and the headers of batches in them.
    bounds
        Offsets and timestamps of the records to return.
    limit
        Greatest size of a decompressed batch, in bytes.
    workspace
        Buffers for decompressed bytes and for the records.
    before
        Last offset before `rows` where offsets have to increase, else None.
    split_large
        Whether the records of a very large batch may be yielded in several parts.
    check
        Whether to verify CRCs. The batches have to be uncompressed then.
    """
    for payloads in decompress_batches(data, origin, rows, limit, workspace):
        if isinstance(payloads, LocatedError):
            yield payloads
            continue
        for part in split_large_batches(payloads) if split_large else (payloads,):
            if isinstance(part, LocatedError):
                yield part
                continue
            yield from find_records(part, bounds, workspace, before, check=check)
            if before is not None:
                before = int(part.rows["last_offset"][-1])


def find_headers(
    views: RecordViews,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return where the headers of the records in `views` are.

    The first array has n + 1 offsets: record i has the headers from ``offsets[i]`` to
    ``offsets[i + 1]``. The second has four rows: key start and length, value start and
    length.
    """
    counts = views.records["header_count"]
    offsets = np.empty(len(counts) + 1, np.int32)
    unused = np.empty(len(counts), np.uint8)
    total, _ = _speedups.lengths_to_offsets(counts, offsets, unused)
    places = np.empty((4, total), np.int32)
    if total:
        starts = views.records["headers_start"]
        status = _speedups.decode_headers(views.data, starts, offsets, places)
        if status != Status.OK:
            raise decode_error(status, int(views.rows["position"][0]))
    return offsets, places
