"""Columns of records -> batches of magic 2, many at once.

Each batch is a row of `layout.BATCH`: what the header says. `encode` adds what follows
from the records (count, size, CRC), and packs the records of those rows whose
attributes name a codec.

Knows: how a batch is put together. Does not know: files; who assigns offsets.
Source: ``DefaultRecordBatch.java``, ``MemoryRecordsBuilder.java``.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog.codecs.compression import Codec, compress
from kafkalog.encoding.record_columns import Int64s, RecordColumns
from kafkalog.errors import InvalidRecordError
from kafkalog.formats import layout

BatchHeaders: TypeAlias = npt.NDArray[np.void]
Bytes: TypeAlias = npt.NDArray[np.uint8]

DEFAULT_BATCH_BYTES: Final = 16384
"""Kafka's ``batch.size``: what a producer puts into a batch."""

_EVERY: Final = 2**63 - 1


class BatchSplit(NamedTuple):
    """Where batches begin (batches + 1,), and the bytes that what they hold takes."""

    bounds: Int64s
    payloads: Int64s


def encode(
    columns: RecordColumns,
    batches: BatchHeaders,
    bounds: Int64s,
    *,
    level: int | None = None,
) -> memoryview:
    """Encode batches one behind another: row i of `batches` heads the records
    ``bounds[i]`` to ``bounds[i + 1]``, all of which are used, in order.

    Of each row the offsets, timestamps, attributes, epochs, producer and sequence are
    taken as they are; `position`, `size_in_bytes` and `count` are filled in. `level` is
    that of the codec in the attributes, None for Kafka's default. What comes out is
    the memory it was written to.

    Raises `InvalidRecordError` where a record or a batch cannot be written.
    """  # noqa: D205
    check_columns(columns)
    payloads = np.empty(len(batches), np.int64)
    done = _speedups.measure_records(*columns, bounds, batches, payloads)
    if done < len(columns.offset):
        raise InvalidRecordError(f"record {done} does not fit its batch or its column")
    return encode_measured(columns, batches, BatchSplit(bounds, payloads), level=level)


def encode_measured(
    columns: RecordColumns,
    batches: BatchHeaders,
    cut: BatchSplit,
    *,
    level: int | None = None,
    out: Bytes | None = None,
) -> memoryview:
    """Encode batches from the lengths that `split_into_batches` measured.

    They hold for base offsets and timestamps that are the first records'. `out` is
    memory to write to, so that none is touched for the first time; what comes out then
    lies in it, where no codec is at work, until it is written to again.
    """
    batches["count"] = np.diff(cut.bounds)
    packed = (batches["attributes"] & layout.CODEC_MASK) != Codec.NONE
    if packed.any():
        plain = _memory(int(cut.payloads.sum()), out)
        starts = np.cumsum(cut.payloads) - cut.payloads
        _write(columns, batches, cut, starts, plain)
        return _seal(batches, _packed(batches, plain, starts, cut.payloads, level))
    _place(batches, cut.payloads)
    out = _memory(int(batches["size_in_bytes"].sum()), out)
    starts = batches["position"] + layout.RECORD_BATCH_OVERHEAD
    _write(columns, batches, cut, starts, out)
    return _seal(batches, out)


def split_into_batches(
    columns: RecordColumns,
    *,
    batch_bytes: int | None = DEFAULT_BATCH_BYTES,
    rows_per_batch: int | None = None,
) -> BatchSplit:
    """Cut records into batches: as many in each as fit, but at least one.

    `batch_bytes` bounds a batch with its header, uncompressed; `rows_per_batch` its
    records.
    """
    check_columns(columns)
    records = len(columns.offset)
    bounds, payloads = np.empty(records + 1, np.int64), np.empty(records, np.int64)
    batches, rows = _speedups.split_records(
        *columns,
        _EVERY if batch_bytes is None else batch_bytes,
        _EVERY if rows_per_batch is None else rows_per_batch,
        bounds,
        payloads,
    )
    if rows < len(columns.offset):
        raise InvalidRecordError(f"record {rows} does not lie in its column")
    return BatchSplit(bounds[: batches + 1], payloads[:batches])


def batch_rows(columns: RecordColumns, bounds: Int64s) -> BatchHeaders:
    """Head each batch as a producer without an id does: offsets and timestamps.

    The base timestamp is the first record's, the max timestamp the greatest.
    """
    first = bounds[:-1]
    rows = np.zeros(first.size, layout.BATCH)
    rows["magic"] = 2
    rows["base_offset"] = columns.offset[first]
    rows["last_offset"] = columns.offset[bounds[1:] - 1]
    rows["base_timestamp"] = columns.timestamp[first]
    if first.size:
        rows["max_timestamp"] = np.maximum.reduceat(columns.timestamp, first)
    for name in ("leader_epoch", "producer_id", "producer_epoch", "base_sequence"):
        rows[name] = -1
    return rows


def check_columns(columns: RecordColumns) -> None:
    """Refuse offsets that do not rise, and negative timestamps other than -1."""
    offset, timestamp = columns.offset, columns.timestamp
    if offset.size and offset[0] < 0:
        raise InvalidRecordError(f"offset {offset[0]} is negative")
    falls = offset[1:] <= offset[:-1]
    if falls.any():
        row = int(falls.argmax()) + 1
        reason = f"offset {offset[row]} does not rise above {offset[row - 1]}"
        raise InvalidRecordError(reason)
    if timestamp.size and timestamp.min() < layout.NO_TIMESTAMP:
        raise InvalidRecordError(f"timestamp {timestamp.min()} is negative")


def _memory(size: int, out: Bytes | None) -> Bytes:
    """Take `size` bytes of `out`, or fresh ones where it has not that many."""
    if out is None or out.size < size:
        return np.empty(size, np.uint8)
    return out[:size]


def _write(
    columns: RecordColumns,
    batches: BatchHeaders,
    cut: BatchSplit,
    starts: Int64s,
    out: Bytes,
) -> None:
    done = _speedups.write_records(*columns, cut.bounds, batches, starts, out)
    if done < len(columns.offset):
        raise InvalidRecordError(f"record {done} changed while it was written")


def _packed(
    batches: BatchHeaders,
    plain: Bytes,
    starts: Int64s,
    payloads: Int64s,
    level: int | None,
) -> Bytes:
    """Compress each batch's records, and leave space for the headers."""
    source = plain.data
    codecs = (batches["attributes"] & layout.CODEC_MASK).tolist()
    streams = [
        compress(codec, source[start : start + size], level=level)
        for codec, start, size in zip(
            codecs, starts.tolist(), payloads.tolist(), strict=True
        )
    ]
    _place(batches, np.array([len(stream) for stream in streams], np.int64))
    space = bytes(layout.RECORD_BATCH_OVERHEAD)
    parts = [part for stream in streams for part in (space, stream)]
    return np.frombuffer(bytearray().join(parts), np.uint8)


def _place(batches: BatchHeaders, payloads: Int64s) -> None:
    """Say where each batch lies when they follow one another."""
    size = payloads + layout.RECORD_BATCH_OVERHEAD
    batches["size_in_bytes"] = size
    batches["position"] = np.cumsum(size) - size


def _seal(batches: BatchHeaders, out: Bytes) -> memoryview:
    done = _speedups.write_headers(batches, out)
    if done < len(batches):
        raise InvalidRecordError(f"batch {done} exceeds 2147483647 bytes")
    return out.data
