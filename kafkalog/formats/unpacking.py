"""Payloads out of their compression: many entries' at a time, in runs of bounded size.

The only thing done once a batch is the call of its decompressor; what it gives is put
together for all batches of a run at once.

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
from kafkalog.codecs.compression import decompress
from kafkalog.errors import BatchTooLargeError, LocatedError
from kafkalog.formats.headers import Bytes, Rows, corrupt
from kafkalog.formats.layout import CODEC_MASK
from kafkalog.formats.workspace import Room

UNPACKED_BYTES: Final = 1 << 20
"""How much is unpacked before it is decoded; one batch may exceed it."""


@dataclass(frozen=True, slots=True)
class Payloads:
    """Where the payload of each of `rows` lies in `data`, not compressed any more."""

    data: Bytes
    rows: Rows
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    unpacked: bool


def unpack(
    data: Bytes, origin: int, rows: Rows, limit: int, workspace: Room[object]
) -> Iterator[Payloads | LocatedError]:
    """Bring payloads into a form that has no compression, in runs of bounded size.

    Where none of `rows` is compressed that is `data` itself; else it lies in
    `workspace`, until the next is taken. `limit` bounds a batch, unpacked, in bytes.
    """
    while len(rows):
        starts, lengths = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        status, stop = _speedups.locate_payloads(data, origin, rows, starts, lengths)
        if (
            status == Status.OK
            and _speedups.all_plain(rows)
            and int(lengths.max()) <= limit
        ):
            yield Payloads(data, rows, starts, lengths, unpacked=False)
            return
        good = len(rows) if status == Status.OK else stop
        error = _too_large(rows[:good], lengths[:good], limit)
        if error is not None:
            good = int((lengths[:good] > limit).argmax())
        elif status != Status.OK:
            error = corrupt(status, int(rows["position"][stop]))
        part = (data, rows[:good], starts[:good], lengths[:good])
        if (rows["attributes"][:good] & CODEC_MASK).any():
            yield from _unpack_runs(*part, limit, workspace)
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
    workspace: Room[object],
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
                yield _joined(rows[first:end], pieces, sizes, workspace)
            if error:
                yield error
            pieces, sizes, first, total = [], [], i + 1, 0


def _joined(
    rows: Rows,
    pieces: list[bytes | memoryview],
    sizes: list[int],
    workspace: Room[object],
) -> Payloads:
    lengths = np.array(sizes, np.int64)
    ends = np.cumsum(lengths)
    joined = workspace.bytes_for(int(ends[-1]))
    _speedups.join(pieces, joined)
    return Payloads(joined, rows, ends - lengths, lengths, unpacked=True)
