"""Decompress the payloads of many batches, into one buffer after another.

Source: ``CompressionType.java``, ``DefaultRecordBatch.java``,
``AbstractLegacyRecordBatch.java``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog._speedups import Status
from kafkalog.array_types import Bytes
from kafkalog.decoding.compressed_streams import CompressedStreams
from kafkalog.decoding.workspace import DecodeWorkspace, Workspace
from kafkalog.errors import BatchTooLargeError, LocatedError
from kafkalog.formats.batch_headers import BatchHeaders, decode_error
from kafkalog.formats.layout import CODEC_MASK

DECOMPRESSED_BYTES: Final = 5 << 18
"""Usual size of the buffer of decompressed batches; a single batch may exceed it. A
quarter more than 1 MiB, so that it holds a batch of that common size."""
EXPANSION: Final = 8
"""The ratio of decompressed to compressed bytes that a new buffer allows for."""


@dataclass(frozen=True, slots=True)
class Payloads:
    """The positions in `data` of the uncompressed records of each of `rows`."""

    data: Bytes
    rows: BatchHeaders
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    decompressed: bool

    def between(self, first: int, end: int) -> Payloads:
        """Return a view of the payloads from `first` up to `end`."""
        part = slice(first, end)
        return Payloads(
            self.data,
            self.rows[part],
            self.starts[part],
            self.lengths[part],
            self.decompressed,
        )


def decompress_batches(
    data: Bytes,
    origin: int,
    rows: BatchHeaders,
    limit: int,
    workspace: DecodeWorkspace[object],
) -> Iterator[Payloads | LocatedError]:
    """Yield the decompressed payloads of `rows`, some batches at a time, and errors.

    Payloads of uncompressed batches are views of `data`. The others are in `workspace`,
    valid until the next result is taken. `limit` is the greatest size of a decompressed
    batch, in bytes.
    """
    while len(rows):
        starts, lengths = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        status, stop = _speedups.locate_payloads(data, origin, rows, starts, lengths)
        if status == Status.OK and _speedups.all_uncompressed(rows, limit):
            yield Payloads(data, rows, starts, lengths, decompressed=False)
            return
        good = len(rows) if status == Status.OK else stop
        error = _too_large(rows[:good], lengths[:good], limit)
        if error is not None:
            good = int((lengths[:good] > limit).argmax())
        elif status != Status.OK:
            error = decode_error(status, int(rows["position"][stop]))
        part = (data, rows[:good], starts[:good], lengths[:good])
        if (rows["attributes"][:good] & CODEC_MASK).any():
            yield from _decompress(*part, limit, workspace)
        elif good:
            yield Payloads(*part, decompressed=False)
        if error is not None:
            yield error
        rows = rows[good + 1 :]


def _too_large(
    rows: BatchHeaders, lengths: npt.NDArray[np.int64], limit: int
) -> LocatedError | None:
    """Return the error for the first batch above `limit`, None if there is none."""
    if not len(lengths) or lengths.max() <= limit:
        return None
    first = int((lengths > limit).argmax())
    reason = f"batch of {lengths[first]} bytes, expected at most {limit}"
    return BatchTooLargeError(reason, position=int(rows["position"][first]))


def _decompress(
    data: Bytes,
    rows: BatchHeaders,
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    limit: int,
    workspace: DecodeWorkspace[object],
) -> Iterator[Payloads | LocatedError]:
    """Decompress `rows` into one buffer after another of about `DECOMPRESSED_BYTES`."""
    streams = CompressedStreams(data, rows, starts, lengths, limit)
    usual = min(DECOMPRESSED_BYTES, EXPANSION * int(lengths.sum()))
    buffer, first, stop, filled = workspace.bytes_for(usual), 0, 0, 0
    while first < len(rows):
        stop, filled, left = streams.decompress_into(buffer, stop, filled)
        if first < stop:
            yield _payloads(buffer, rows[first:stop], streams.sizes[first:stop])
        if left is None:
            return
        first, stop, filled = stop, stop + 1, 0
        if isinstance(left, LocatedError):
            yield _of_batch(left, int(rows["position"][first]))
        elif 2 * len(left) <= usual:
            buffer, filled = workspace.bytes_for(usual), len(left)
            buffer.data[:filled] = left
            continue
        else:  # a batch of more than half the buffer is not copied into it
            alone = np.frombuffer(left, np.uint8)
            yield _payloads(alone, rows[first:stop], streams.sizes[first:stop])
        first, buffer = stop, workspace.bytes_for(usual)


def _of_batch(error: LocatedError, position: int) -> LocatedError:
    """Place an error in a compressed stream at the position of its batch."""
    error.position = position
    if error.cause == "format":  # codecs have no other cause
        error.cause = "compression"
    return error.with_traceback(None)  # its frames refer to large buffers


def _payloads(
    buffer: Bytes, rows: BatchHeaders, lengths: npt.NDArray[np.int64]
) -> Payloads:
    ends = np.cumsum(lengths)
    return Payloads(
        buffer[: ends[-1]], rows, ends - lengths, lengths, decompressed=True
    )


def first_offsets(
    data: Bytes, origin: int, rows: BatchHeaders, limit: int
) -> npt.NDArray[np.int64]:
    """Return the first offset of each batch; wrapper messages are decompressed for it.

    For an invalid wrapper this is its own offset. `limit` is the greatest size of a
    decompressed batch, in bytes.
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
