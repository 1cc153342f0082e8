"""Many entries at a time: bytes -> headers -> places of records.

What is done here is done for all the entries of a step of about 4 MB at once: one
call of a kernel finds every record.

    data, origin     bytes of a file or buffer, and the position of the first of them
    rows             their entries' headers, `layout.BATCH`
    Payloads         where the records are: in `data`, or unpacked
    Views            every record wanted: where its key, value and headers lie

Errors come in place of what they spoil, and in order, so that a caller may raise them
or note them and go on: a generator here yields `RecordViews` and errors alike.

Knows: how entries hold records. Does not know: files, or what is wanted of a record.
Source: ``DefaultRecordBatch.java``, ``AbstractLegacyRecordBatch.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog._speedups import Status
from kafkalog.codecs.varint_arrays import MAX_VARINT_BYTES, decode_varints
from kafkalog.decoding.decompression import Payloads, decompress_batches
from kafkalog.decoding.large_batches import record_error, split_large_batches
from kafkalog.decoding.read_policy import Bounds
from kafkalog.decoding.workspace import DecodeWorkspace, Found, RecordSpans
from kafkalog.errors import CorruptRecordError, LocatedError
from kafkalog.formats.batch_headers import BatchHeaders, Bytes, crc_error, decode_error
from kafkalog.formats.layout import CODEC_MASK, RECORD_BATCH_OVERHEAD
from kafkalog.formats.offset_order import find_overlap


@dataclass(frozen=True, slots=True)
class DecodedRecords(Generic[Found]):
    """Records found in `data`: `counts` of them for each of `rows`.

    `records` lies in a `DecodeWorkspace`, and may be valid
    only until that is used again.
    """

    data: Bytes
    rows: BatchHeaders
    records: Found
    counts: npt.NDArray[np.int64]


RecordViews = DecodedRecords[RecordSpans]
"""A run of which the places are known."""


def find_records(
    payloads: Payloads,
    bounds: Bounds,
    room: DecodeWorkspace[Found],
    before: int | None = None,
    *,
    check: bool = False,
) -> Iterator[DecodedRecords[Found] | LocatedError]:
    """Find the records of all payloads that lie within `bounds`.

    A run is valid until the next is taken. Where offsets must rise, `before` is the
    last of what precedes them. With `check`, checksums are looked at, too.
    """
    data, rows = payloads.data, payloads.rows
    starts, lengths = payloads.starts, payloads.lengths
    within = (bounds.as_array(), bounds.timed)
    while len(rows):
        error: LocatedError | None = None
        good, wrapped = _speedups.check_counts(rows, lengths)
        if good < len(rows):
            error = decode_error(Status.ENTRY_COUNT, int(rows["position"][good]))
        found, base_offsets = rows[:good], np.zeros(good, np.int64)
        if wrapped:
            # In a copy: behind an error those that follow are measured anew.
            found = found.copy()
            wrong = _measure(data, found, starts, lengths, base_offsets, before)
            good, error = wrong or (good, error)
        found = found[:good]
        counts = np.zeros(good, np.int64)
        places = (starts[:good], lengths[:good], base_offsets[:good])
        status, stop, place, kept = room.find(
            data, found, places, within, counts, check=check
        )
        if status == Status.CHECKSUM:
            row = found[stop]
            start = int(starts[stop]) - RECORD_BATCH_OVERHEAD
            error = crc_error(data, int(row["position"]) - start, row)
            good = stop
        elif status != Status.OK:
            passed = len(payloads.rows) - len(rows)
            error = record_error(payloads, passed + stop, status, place)
            good = stop
            kept -= int(counts[stop])
        if kept:
            yield DecodedRecords(data, found[:good], room.first(kept), counts[:good])
        if error is not None:
            yield error
        if good and before is not None:
            before = int(rows["last_offset"][good - 1])
        skipped = good + (error is not None)
        if skipped == len(rows):
            return
        rows, starts, lengths = rows[skipped:], starts[skipped:], lengths[skipped:]


def truncate_header(data: Bytes, origin: int, row: np.void, most: int) -> np.void:
    """Return the header of a batch as if it ended behind its first `most` records.

    As it is where it is compressed, has no more, or these cannot be told apart.
    """
    packed = int(row["attributes"]) & CODEC_MASK
    if row["magic"] < 2 or packed or row["count"] <= most:
        return row
    start = int(row["position"]) - origin
    end = start + int(row["size_in_bytes"])
    position = start + RECORD_BATCH_OVERHEAD
    for _ in range(most):
        head = data[position:end][:MAX_VARINT_BYTES].tobytes()
        try:
            [length], taken = decode_varints(head, 1)
        except CorruptRecordError:
            return row
        position += taken + int(length)
        if length < 0 or position > end:
            return row
    cut = row.copy()
    cut["count"], cut["size_in_bytes"] = most, position - start
    return cut


def _measure(
    data: Bytes,
    rows: BatchHeaders,
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    base_offsets: npt.NDArray[np.int64],
    before: int | None,
) -> tuple[int, LocatedError] | None:
    """Measure the wrappers among `rows`; answer the first that cannot be, and why."""
    good, wrong = len(rows), None
    status, stop = _speedups.measure_wrappers(
        data, rows, starts[:good], lengths[:good], base_offsets
    )
    if status != Status.OK:
        good, wrong = stop, (stop, decode_error(status, int(rows["position"][stop])))
    if before is not None and (stray := find_overlap(rows[:good], before)):
        return stray
    return wrong


def decode(
    data: Bytes,
    origin: int,
    rows: BatchHeaders,
    *,
    bounds: Bounds,
    limit: int,
    workspace: DecodeWorkspace[Found],
    before: int | None = None,
    split_large: bool = False,
    check: bool = False,
) -> Iterator[DecodedRecords[Found] | LocatedError]:
    """Find the records of `rows` within `bounds`: unpack, then find, run by run.

    Where offsets must rise, `before` is the last of what precedes `rows`. `split_large`
    says that the records of a very large batch may come in several runs; `check` that
    nobody has looked at the checksums of `rows`, which are plain batches then, each of
    one run.
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


Take = Callable[[str, int, npt.DTypeLike], npt.NDArray[Any]]


def fresh(name: str, length: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Take new memory; `name` is for those who keep it."""
    del name
    return np.empty(length, dtype)


def find_headers(
    views: RecordViews, take: Take = fresh
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Find the headers of the records in `views`.

    Answers n + 1 offsets, between which record i's headers lie, and four rows of
    places: key start and length, value start and length.
    """
    counts = views.records["header_count"]
    offsets = take("header offsets", len(counts) + 1, np.int32)
    unused = take("header valid", len(counts), np.uint8)
    total, _ = _speedups.lengths_to_offsets(counts, offsets, unused)
    places = take("header places", 4 * total, np.int32).reshape(4, total)
    if total:
        starts = views.records["headers_start"]
        status = _speedups.decode_headers(views.data, starts, offsets, places)
        if status != Status.OK:
            raise decode_error(status, int(views.rows["position"][0]))
    return offsets, places
