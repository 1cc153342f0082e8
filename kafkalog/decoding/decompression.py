"""Payloads out of their compression: many entries' at a time, in runs of bounded size.

What a run of batches gives lies in one buffer.

Knows: which entries are compressed, and how much may be unpacked. Does not know:
records, files.
Source: ``CompressionType.java``, ``AbstractLegacyRecordBatch.java``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog._speedups import Status
from kafkalog.decoding.compressed_streams import CompressedStreams
from kafkalog.decoding.workspace import DecodeWorkspace, Workspace
from kafkalog.errors import BatchTooLargeError, LocatedError
from kafkalog.formats.batch_headers import BatchHeaders, Bytes, decode_error
from kafkalog.formats.layout import CODEC_MASK

DECOMPRESSED_BYTES: Final = 5 << 18
"""How much is unpacked before it is decoded; one batch may exceed it.

A quarter more than 1 MB, so that a batch of that size, which is common, has room."""
SWELLING: Final = 8


@dataclass(frozen=True, slots=True)
class Payloads:
    """Where the payload of each of `rows` lies in `data`, not compressed any more."""

    data: Bytes
    rows: BatchHeaders
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    unpacked: bool

    def between(self, first: int, end: int) -> Payloads:
        """See the payloads from `first` up to `end`."""
        part = slice(first, end)
        return Payloads(
            self.data,
            self.rows[part],
            self.starts[part],
            self.lengths[part],
            self.unpacked,
        )


def decompress_batches(
    data: Bytes,
    origin: int,
    rows: BatchHeaders,
    limit: int,
    workspace: DecodeWorkspace[object],
) -> Iterator[Payloads | LocatedError]:
    """Bring payloads into a form that has no compression, in runs of bounded size.

    Where none of `rows` is compressed that is `data` itself; else it lies in
    `workspace`, until the next is taken. `limit` bounds a batch, unpacked, in bytes.
    """
    while len(rows):
        starts, lengths = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        status, stop = _speedups.locate_payloads(data, origin, rows, starts, lengths)
        if status == Status.OK and _speedups.all_uncompressed(rows, limit):
            yield Payloads(data, rows, starts, lengths, unpacked=False)
            return
        good = len(rows) if status == Status.OK else stop
        error = _too_large(rows[:good], lengths[:good], limit)
        if error is not None:
            good = int((lengths[:good] > limit).argmax())
        elif status != Status.OK:
            error = decode_error(status, int(rows["position"][stop]))
        part = (data, rows[:good], starts[:good], lengths[:good])
        if (rows["attributes"][:good] & CODEC_MASK).any():
            yield from _unpack_runs(*part, limit, workspace)
        elif good:
            yield Payloads(*part, unpacked=False)
        if error is not None:
            yield error
        rows = rows[good + 1 :]


def _too_large(
    rows: BatchHeaders, lengths: npt.NDArray[np.int64], limit: int
) -> LocatedError | None:
    """Say which entry comes first that exceeds `limit` as it is."""
    if not len(lengths) or lengths.max() <= limit:
        return None
    first = int((lengths > limit).argmax())
    reason = f"a batch of {lengths[first]} bytes exceeds {limit}"
    return BatchTooLargeError(reason, position=int(rows["position"][first]))


def _unpack_runs(
    data: Bytes,
    rows: BatchHeaders,
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    limit: int,
    workspace: DecodeWorkspace[object],
) -> Iterator[Payloads | LocatedError]:
    """Unpack `rows` into one buffer after another of about `DECOMPRESSED_BYTES`."""
    streams = CompressedStreams(data, rows, starts, lengths, limit)
    usual = min(DECOMPRESSED_BYTES, SWELLING * int(lengths.sum()))
    room, first, stop, filled = workspace.bytes_for(usual), 0, 0, 0
    while first < len(rows):
        stop, filled, left = streams.unpack_into(room, stop, filled)
        if first < stop:
            yield _run(room, rows[first:stop], streams.sizes[first:stop])
        if left is None:
            return
        first, stop, filled = stop, stop + 1, 0
        if isinstance(left, LocatedError):
            yield _of_batch(left, int(rows["position"][first]))
        elif 2 * len(left) <= usual:
            room, filled = workspace.bytes_for(usual), len(left)
            room.data[:filled] = left
            continue
        else:  # no other of its size has room beside it: a run by itself, not copied
            alone = np.frombuffer(left, np.uint8)
            yield _run(alone, rows[first:stop], streams.sizes[first:stop])
        first, room = stop, workspace.bytes_for(usual)


def _of_batch(error: LocatedError, position: int) -> LocatedError:
    """Say of an error in a stream where its batch lies."""
    error.position = position
    if error.cause == "format":  # a codec knows no other
        error.cause = "compression"
    return error.with_traceback(None)  # whose frames hold what was unpacked


def _run(room: Bytes, rows: BatchHeaders, lengths: npt.NDArray[np.int64]) -> Payloads:
    ends = np.cumsum(lengths)
    return Payloads(room[: ends[-1]], rows, ends - lengths, lengths, unpacked=True)


def first_offsets(
    data: Bytes, origin: int, rows: BatchHeaders, limit: int
) -> npt.NDArray[np.int64]:
    """Return the first offset of each entry, of wrappers too.

    Of a wrapper that cannot be it is what the wrapper says of its last. `limit` bounds
    each, unpacked, in bytes.
    """
    first = np.where(rows["count"] < 0, rows["last_offset"], rows["base_offset"])
    wrappers = (rows["magic"] < 2) & (rows["count"] < 0)
    measured = rows[wrappers]
    for payloads in decompress_batches(data, origin, measured, limit, Workspace()):
        if isinstance(payloads, Payloads):
            part = (payloads.rows, payloads.starts, payloads.lengths)
            bases = np.zeros(len(payloads.rows), np.int64)
            _speedups.measure_wrappers(payloads.data, *part, bases)
    known = measured["count"] >= 0
    first[np.flatnonzero(wrappers)[known]] = measured["base_offset"][known]
    return first
