"""Large record batches in parts, so that no column holds all of their records.

A batch of 60 MiB may have nine million records, whose columns take five times as much
memory. Such a batch is read twice: first all of its records are validated, so that a
corrupt batch yields no record at all; then they are decoded part by part.

Source: ``DefaultRecordBatch.java``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from kafkalog import _speedups
from kafkalog._speedups import Status
from kafkalog.decoding.decompression import Payloads
from kafkalog.decoding.read_policy import LARGE_BATCH_BYTES
from kafkalog.errors import LocatedError
from kafkalog.formats.batch_headers import BatchHeaders, decode_error
from kafkalog.formats.layout import MIN_RECORD_BYTES, RECORD_BATCH_OVERHEAD

MOST_RECORDS: Final = 1 << 16


def split_large_batches(payloads: Payloads) -> Iterator[Payloads | LocatedError]:
    """Yield the payloads, with batches of magic 2 above 4 MiB split into parts.

    A part is a payload whose row is the header of its batch, with the count of the
    part. A batch with a corrupt record is an error.
    """
    if payloads.lengths.max(initial=0) <= LARGE_BATCH_BYTES:
        yield payloads
        return
    count, lengths = payloads.rows["count"], payloads.lengths
    large = (lengths > LARGE_BATCH_BYTES) & (payloads.rows["magic"] == 2) & (count > 0)
    # A greater count is corrupt, which the decoder reports.
    large &= count <= lengths // MIN_RECORD_BYTES
    first = 0
    for i in np.flatnonzero(large).tolist():
        if first < i:
            yield payloads.between(first, i)
        parts = _split(payloads, i)
        yield from [parts] if isinstance(parts, LocatedError) else parts
        first = i + 1
    if first < len(payloads.rows):
        yield payloads.between(first, len(payloads.rows))


def record_error(
    payloads: Payloads, index: int, status: int, place: int
) -> LocatedError:
    """Return the error for `status` at `place` in the records of batch `index`.

    Its position is that of the batch if the records were compressed.
    """
    row = payloads.rows[index]
    at = int(row["position"])
    if not payloads.decompressed:
        at += RECORD_BATCH_OVERHEAD * int(row["magic"] == 2)
        at += place - int(payloads.starts[index])
    return decode_error(status, at)


def _split(payloads: Payloads, index: int) -> Iterator[Payloads] | LocatedError:
    """Validate the records of a batch, and return its parts."""
    row = payloads.rows[index : index + 1]
    place, left = int(payloads.starts[index]), int(row["count"][0])
    end = place + int(payloads.lengths[index])
    spans = []
    while left:
        most = (min(left, MOST_RECORDS), LARGE_BATCH_BYTES)
        status, stop, count = _speedups.skip_records(
            payloads.data, row, place, end, *most
        )
        if status != Status.OK:
            return record_error(payloads, index, status, stop)
        spans.append((place, stop - place, count))
        place, left = stop, left - count
    if place != end:
        return record_error(payloads, index, Status.RECORD_LEFTOVER, place)
    return (_part(payloads, row.copy(), *span) for span in spans)


def _part(
    payloads: Payloads, row: BatchHeaders, start: int, length: int, count: int
) -> Payloads:
    row["count"] = count
    starts, lengths = np.array([start], np.int64), np.array([length], np.int64)
    return replace(payloads, rows=row, starts=starts, lengths=lengths)
