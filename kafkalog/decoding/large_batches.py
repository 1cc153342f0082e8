"""Very large batches in pieces, so that columns never hold all of their records.

A batch of 60 MiB may hold nine million records, whose columns take five times that.
It is read twice: first every record is looked at, and nothing is kept, so that one that
is damaged anywhere gives no record at all; then piece by piece.

Knows: where a batch may be cut. Does not know: what becomes of its records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from kafkalog import _speedups
from kafkalog._speedups import Status
from kafkalog.decoding.decompression import Payloads
from kafkalog.errors import LocatedError
from kafkalog.formats.batch_headers import BatchHeaders, decode_error
from kafkalog.formats.layout import MIN_RECORD_BYTES, RECORD_BATCH_OVERHEAD

MOST_BYTES: Final = 4 << 20
"""What a piece has of records; the last of them may exceed it."""
MOST_RECORDS: Final = 1 << 16


def split_large_batches(payloads: Payloads) -> Iterator[Payloads | LocatedError]:
    """Yield the payloads as they are, but batches of magic 2 above 4 MiB in pieces.

    Each piece is a payload whose row is that of its batch, with a count of its own. A
    batch with records that cannot be read is an error instead.
    """
    if payloads.lengths.max(initial=0) <= MOST_BYTES:
        yield payloads
        return
    count, lengths = payloads.rows["count"], payloads.lengths
    large = (lengths > MOST_BYTES) & (payloads.rows["magic"] == 2) & (count > 0)
    # More than could be there is for those who count to refuse.
    large &= count <= lengths // MIN_RECORD_BYTES
    first = 0
    for i in np.flatnonzero(large).tolist():
        if first < i:
            yield payloads.between(first, i)
        pieces = _cut(payloads, i)
        yield from [pieces] if isinstance(pieces, LocatedError) else pieces
        first = i + 1
    if first < len(payloads.rows):
        yield payloads.between(first, len(payloads.rows))


def record_error(
    payloads: Payloads, index: int, status: int, place: int
) -> LocatedError:
    """Say what is wrong at `place` in the records of entry `index`.

    Where a batch was unpacked its bytes have no place in the file.
    """
    row = payloads.rows[index]
    at = int(row["position"])
    if not payloads.unpacked:
        at += RECORD_BATCH_OVERHEAD * int(row["magic"] == 2)
        at += place - int(payloads.starts[index])
    return decode_error(status, at)


def _cut(payloads: Payloads, index: int) -> Iterator[Payloads] | LocatedError:
    """Look at every record of a batch, and find where its pieces begin."""
    row = payloads.rows[index : index + 1]
    place, left = int(payloads.starts[index]), int(row["count"][0])
    end = place + int(payloads.lengths[index])
    spans = []
    while left:
        most = (min(left, MOST_RECORDS), MOST_BYTES)
        status, stop, count = _speedups.skip_records(
            payloads.data, row, place, end, *most
        )
        if status != Status.OK:
            return record_error(payloads, index, status, stop)
        spans.append((place, stop - place, count))
        place, left = stop, left - count
    if place != end:
        return record_error(payloads, index, Status.RECORD_LEFTOVER, place)
    return (_piece(payloads, row.copy(), *span) for span in spans)


def _piece(
    payloads: Payloads, row: BatchHeaders, start: int, length: int, count: int
) -> Payloads:
    row["count"] = count
    starts, lengths = np.array([start], np.int64), np.array([length], np.int64)
    return replace(payloads, rows=row, starts=starts, lengths=lengths)
