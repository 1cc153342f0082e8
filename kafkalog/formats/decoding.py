"""Many entries at a time: bytes -> headers -> places of records.

What is done here is done for all the entries of a step of a few megabytes at once: one
call of a kernel scans their headers, one checks them, one finds every record. The only
thing done once a batch is the call of its decompressor.

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
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog._speedups import Status
from kafkalog.codecs.compression import decompress
from kafkalog.errors import BatchTooLargeError, CorruptRecordError, LocatedError
from kafkalog.formats.layout import (
    BATCH,
    BATCH_HEADER_BYTES,
    CODEC_MASK,
    LEAST_RECORD_BYTES,
)
from kafkalog.formats.order import overlap

Bytes = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.void]

LONGS: Final = ("offset", "timestamp")
INTS: Final = (
    "key_start",
    "key_length",
    "value_start",
    "value_length",
    "headers_start",
    "header_count",
)
"""What is found of a record: offset, timestamp (ms), and where its parts lie."""

UNPACKED_BYTES: Final = 8 << 20
"""How much is unpacked before it is decoded; one batch may exceed it."""

FIRST: Final = -(2**63)
LAST: Final = 2**63 - 1

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


def corrupt(status: int, position: int) -> CorruptRecordError:
    """Say in an error what a kernel's status means, at `position`."""
    return CorruptRecordError(REASONS[status], position=position, cause="records")


def checksum_error(row: np.void) -> CorruptRecordError:
    """Say in an error that an entry's bytes are not those its checksum was made of."""
    reason = f"the checksum is not {int(row['crc']):08x}, as stored"
    return CorruptRecordError(reason, position=int(row["position"]), cause="crc")


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
        bounds = []
        for start, end in (
            (self.start_offset, None if self.end_offset == LAST else self.end_offset),
            (self.start_timestamp, self.end_timestamp),
        ):
            bounds.append(FIRST if start is None else start)
            bounds.append(LAST if end is None else max(end - 1, FIRST))
        return np.array(bounds, np.int64)


@dataclass(frozen=True, slots=True)
class RecordPlaces:
    """Records found, column by column: ``places["offset"]``; a length of -1 is null."""

    longs: npt.NDArray[np.int64]
    ints: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.longs[0])

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        column: npt.NDArray[Any]
        if name in LONGS:
            column = self.longs[LONGS.index(name)]
        else:
            column = self.ints[INTS.index(name)]
        return column

    def first(self, count: int) -> RecordPlaces:
        """See the first `count` of them."""
        return RecordPlaces(self.longs[:, :count], self.ints[:, :count])


@dataclass(slots=True)
class Workspace:
    """Buffers kept from step to step: fresh memory costs more than decoding."""

    _places: RecordPlaces | None = None

    def room_for(self, count: int) -> RecordPlaces:
        """Return room for `count` records, the same as before where it suffices."""
        if self._places is None or len(self._places) < count:
            room = count if self._places is None else max(count, 2 * len(self._places))
            self._places = RecordPlaces(
                np.empty((len(LONGS), room), np.int64),
                np.empty((len(INTS), room), np.int32),
            )
        return self._places


@dataclass(frozen=True, slots=True)
class Payloads:
    """Where the payload of each of `rows` lies in `data`, not compressed any more."""

    data: Bytes
    rows: Rows
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    unpacked: bool


@dataclass(frozen=True, slots=True)
class Views:
    """Records found in `data`: `counts` of them for each of `rows`.

    `records` lies in a `Workspace` and is valid until that is used again.
    """

    data: Bytes
    rows: Rows
    records: RecordPlaces
    counts: npt.NDArray[np.int64]


def scan_headers(
    data: Bytes, start: int = 0, origin: int = 0, capacity: int = 1 << 16
) -> tuple[Rows, int, int]:
    """Read the headers of the entries that lie whole in `data` from `start` on.

    Answers the rows, `capacity` of them at most, with positions counted from `origin`;
    a status, OK where the rows are as many as asked for or the bytes end with an entry;
    and the place in `data` behind the last of them.
    """
    rows = np.empty(capacity, BATCH)
    status, count, place = _speedups.scan_batches(data, start, origin, rows)
    return rows[:count].copy() if count < capacity // 2 else rows[:count], status, place


def find_unsound(data: Bytes, origin: int, rows: Rows) -> npt.NDArray[np.intp]:
    """Which of `rows` have a checksum other than their bytes: their indexes."""
    sound = np.empty(len(rows), np.uint8)
    if not _speedups.check_batches(data, origin, rows, sound):
        return np.empty(0, np.intp)
    return np.flatnonzero(sound == 0)


def unpack(
    data: Bytes, origin: int, rows: Rows, limit: int
) -> Iterator[Payloads | LocatedError]:
    """Bring payloads into a form that has no compression, in runs of bounded size.

    Where none of `rows` is compressed that is `data` itself. `limit` bounds a batch,
    unpacked, in bytes.
    """
    while len(rows):
        starts, lengths = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        status, stop = _speedups.locate_payloads(data, origin, rows, starts, lengths)
        good = len(rows) if status == Status.OK else stop
        error = _too_large(rows[:good], lengths[:good], limit)
        if error is not None:
            good = int((lengths[:good] > limit).argmax())
        elif status != Status.OK:
            error = corrupt(status, int(rows["position"][stop]))
        part = (data, rows[:good], starts[:good], lengths[:good])
        if (rows["attributes"][:good] & CODEC_MASK).any():
            yield from _unpack_runs(*part, limit)
        elif good:
            yield Payloads(*part, unpacked=False)
        if error is not None:
            yield error
        rows = rows[good + 1 :]


def _too_large(
    rows: Rows, lengths: npt.NDArray[np.int64], limit: int
) -> LocatedError | None:
    """Say which entry comes first that exceeds `limit` as it is."""
    if not len(lengths) or lengths.max() <= limit:
        return None
    first = int((lengths > limit).argmax())
    reason = f"a batch of {lengths[first]} bytes exceeds {limit}"
    return BatchTooLargeError(reason, position=int(rows["position"][first]))


def _unpack_runs(
    data: Bytes,
    rows: Rows,
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    limit: int,
) -> Iterator[Payloads | LocatedError]:
    """Unpack `rows` into one buffer after another of about `UNPACKED_BYTES`."""
    view = data.data
    pieces: list[bytes | memoryview] = []
    sizes: list[int] = []
    first, total = 0, 0
    codecs = (rows["attributes"] & CODEC_MASK).tolist()
    for i, (codec, start, length, magic) in enumerate(
        zip(
            codecs,
            starts.tolist(),
            lengths.tolist(),
            rows["magic"].tolist(),
            strict=True,
        )
    ):
        error, size = None, 0
        try:
            if codec and length:
                unpacked = decompress(
                    codec, view[start : start + length], limit=limit, magic=magic
                )
                size = sum(map(len, unpacked))
                pieces += unpacked
            else:
                size = length
                pieces.append(view[start : start + length])
        except LocatedError as caught:
            caught.position = int(rows["position"][i])
            if caught.cause == "format":  # a codec knows no other
                caught.cause = "compression"
            error = caught.with_traceback(None)  # whose frames hold what was unpacked
        sizes += [] if error else [size]
        total += size
        if error or total >= UNPACKED_BYTES or i + 1 == len(rows):
            end = first + len(sizes)
            if sizes:
                yield _joined(rows[first:end], pieces, sizes)
            if error:
                yield error
            pieces, sizes, first, total = [], [], i + 1, 0


def _joined(rows: Rows, pieces: list[bytes | memoryview], sizes: list[int]) -> Payloads:
    lengths = np.array(sizes, np.int64)
    ends = np.cumsum(lengths)
    joined = np.frombuffer(b"".join(pieces), np.uint8)
    return Payloads(joined, rows, ends - lengths, lengths, unpacked=True)


def find_records(
    payloads: Payloads, bounds: Bounds, workspace: Workspace, before: int | None = None
) -> Iterator[Views | LocatedError]:
    """Find the records of all payloads that lie within `bounds`.

    A `Views` is valid until the next is taken. Where offsets must rise, `before` is the
    last of what precedes them.
    """
    data, unpacked = payloads.data, payloads.unpacked
    rows, starts, lengths = payloads.rows, payloads.starts, payloads.lengths
    while len(rows):
        error: LocatedError | None
        good, error = _countable(rows, starts, lengths)
        found, base_offsets = rows[:good], np.zeros(good, np.int64)
        if (found["count"] < 0).any():
            # In a copy: behind an error those that follow are measured anew.
            found = found.copy()
            wrong = _measure(data, found, starts, lengths, base_offsets, before)
            good, error = wrong or (good, error)
        found = found[:good]
        room = workspace.room_for(int(found["count"].sum(dtype=np.int64)))
        counts = np.zeros(good, np.int64)
        status, stop, place, kept = _speedups.decode_records(
            data,
            *(found, starts[:good], lengths[:good], base_offsets[:good]),
            bounds.as_array(),
            bounds.timed,
            room.longs,
            room.ints,
            counts,
        )
        if status != Status.OK:
            # Where a batch was unpacked its bytes have no place in the file.
            at = int(rows["position"][stop])
            exact = at + BATCH_HEADER_BYTES * int(rows["magic"][stop] == 2)
            exact += place - int(starts[stop])
            good, error = stop, corrupt(status, at if unpacked else exact)
            kept -= int(counts[stop])
        if kept:
            yield Views(data, found[:good], room.first(kept), counts[:good])
        if error is not None:
            yield error
        if good and before is not None:
            before = int(rows["last_offset"][good - 1])
        skipped = good + (error is not None)
        rows, starts, lengths = rows[skipped:], starts[skipped:], lengths[skipped:]


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


def _countable(
    rows: Rows, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> tuple[int, CorruptRecordError | None]:
    """How many rows come before one whose count its bytes could not hold."""
    count = rows["count"].astype(np.int64)
    batch = rows["magic"] == 2
    wrong = batch & ((count < 0) | (count * LEAST_RECORD_BYTES > lengths))
    if not wrong.any():
        return len(rows), None
    first = int(wrong.argmax())
    return first, corrupt(Status.ENTRY_COUNT, int(rows["position"][first]))


def decode(
    data: Bytes,
    origin: int,
    rows: Rows,
    *,
    bounds: Bounds,
    limit: int,
    workspace: Workspace,
    before: int | None = None,
) -> Iterator[Views | LocatedError]:
    """Find the records of `rows` within `bounds`: unpack, then find, run by run.

    Where offsets must rise, `before` is the last of what precedes `rows`.
    """
    for payloads in unpack(data, origin, rows, limit):
        if isinstance(payloads, LocatedError):
            yield payloads
            continue
        yield from find_records(payloads, bounds, workspace, before)
        if before is not None:
            before = int(payloads.rows["last_offset"][-1])
