"""Many entries at a time: bytes -> headers -> places of records.

What is done here is done for all the entries of a step of about 4 MB at once: one
call of a kernel finds every record.

    data, origin     bytes of a file or buffer, and the position of the first of them
    rows             their entries' headers, `layout.BATCH`
    Payloads         where the records are: in `data`, or unpacked
    Views            every record wanted: where its key, value and headers lie

Errors come in place of what they spoil, and in order, so that a caller may raise them
or note them and go on: a generator here yields `Views` and errors alike.

Knows: how entries hold records. Does not know: files, or what is wanted of a record.
Source: ``DefaultRecordBatch.java``, ``AbstractLegacyRecordBatch.java``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Generic

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog._speedups import Status
from kafkalog.codecs.varint_arrays import MAX_VARINT_BYTES, decode_varints
from kafkalog.decoding.decompression import Payloads, unpack
from kafkalog.decoding.large_batches import cut_up, record_error
from kafkalog.decoding.workspace import Found, RecordPlaces, Room
from kafkalog.errors import CorruptRecordError, LocatedError
from kafkalog.formats.entry_headers import Bytes, Rows, checksum_error, corrupt
from kafkalog.formats.layout import BATCH_HEADER_BYTES, CODEC_MASK
from kafkalog.formats.offset_order import overlap

FIRST: Final = -(2**63)
LAST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Which records are wanted: offsets and timestamps, each [start, end).

    Where a timestamp bounds, a record without one is outside.
    """

    start_offset: int = FIRST
    end_offset: int = LAST
    start_timestamp: int | None = None
    end_timestamp: int | None = None

    @property
    def timed(self) -> bool:
        """Whether timestamps bound at all."""
        return self.start_timestamp is not None or self.end_timestamp is not None

    def as_array(self) -> npt.NDArray[np.int64]:
        """Give the first and last offset and timestamp wanted, as the kernels do."""
        start, end = self.start_timestamp, self.end_timestamp
        bounds = (
            self.start_offset,
            LAST if self.end_offset == LAST else max(self.end_offset - 1, FIRST),
            FIRST if start is None else start,
            LAST if end is None else max(end - 1, FIRST),
        )
        return np.array(bounds, np.int64)


@dataclass(frozen=True, slots=True)
class Run(Generic[Found]):
    """Records found in `data`: `counts` of them for each of `rows`.

    `records` lies in the `Room` they were put into, and may be valid only until that is
    used again.
    """

    data: Bytes
    rows: Rows
    records: Found
    counts: npt.NDArray[np.int64]


Views = Run[RecordPlaces]
"""A run of which the places are known."""


def find_records(
    payloads: Payloads,
    bounds: Bounds,
    room: Room[Found],
    before: int | None = None,
    *,
    check: bool = False,
) -> Iterator[Run[Found] | LocatedError]:
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
            error = corrupt(Status.ENTRY_COUNT, int(rows["position"][good]))
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
            error = checksum_error(found[stop])
            good = stop
        elif status != Status.OK:
            passed = len(payloads.rows) - len(rows)
            error = record_error(payloads, passed + stop, status, place)
            good = stop
            kept -= int(counts[stop])
        if kept:
            yield Run(data, found[:good], room.first(kept), counts[:good])
        if error is not None:
            yield error
        if good and before is not None:
            before = int(rows["last_offset"][good - 1])
        skipped = good + (error is not None)
        if skipped == len(rows):
            return
        rows, starts, lengths = rows[skipped:], starts[skipped:], lengths[skipped:]


def first_records(data: Bytes, origin: int, row: np.void, most: int) -> np.void:
    """Return the header of a batch as if it ended behind its first `most` records.

    As it is where it is compressed, has no more, or these cannot be told apart.
    """
    packed = int(row["attributes"]) & CODEC_MASK
    if row["magic"] < 2 or packed or row["count"] <= most:
        return row
    start = int(row["position"]) - origin
    end = start + int(row["size_in_bytes"])
    position = start + BATCH_HEADER_BYTES
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
    rows: Rows,
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
        good, wrong = stop, (stop, corrupt(status, int(rows["position"][stop])))
    if before is not None and (stray := overlap(rows[:good], before)):
        return stray
    return wrong


def decode(
    data: Bytes,
    origin: int,
    rows: Rows,
    *,
    bounds: Bounds,
    limit: int,
    workspace: Room[Found],
    before: int | None = None,
    in_pieces: bool = False,
    check: bool = False,
) -> Iterator[Run[Found] | LocatedError]:
    """Find the records of `rows` within `bounds`: unpack, then find, run by run.

    Where offsets must rise, `before` is the last of what precedes `rows`. `in_pieces`
    says that the records of a very large batch may come in several runs; `check` that
    nobody has looked at the checksums of `rows`, which are plain batches then, each of
    one run.
    """
    for payloads in unpack(data, origin, rows, limit, workspace):
        if isinstance(payloads, LocatedError):
            yield payloads
            continue
        for part in cut_up(payloads) if in_pieces else (payloads,):
            if isinstance(part, LocatedError):
                yield part
                continue
            yield from find_records(part, bounds, workspace, before, check=check)
            if before is not None:
                before = int(part.rows["last_offset"][-1])
