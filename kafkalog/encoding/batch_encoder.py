"""Encoding of columns of records as batches of magic 2, many at once.

Each batch is a row of `layout.BATCH` with its header fields. `encode` sets those that
follow from the records (count, size, CRC), and compresses the records of rows whose
attributes have a codec.

Source: ``DefaultRecordBatch.java``, ``MemoryRecordsBuilder.java``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kafkalog import _speedups
from kafkalog.array_types import Bytes, Int64s
from kafkalog.codecs.compression import Codec, compress
from kafkalog.encoding.record_columns import RecordColumns
from kafkalog.errors import InvalidRecordError
from kafkalog.formats import layout
from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.integer_limits import MAX_INT64

DEFAULT_BATCH_BYTES: Final = 16384
"""Default of Kafka's ``batch.size``, the size of a producer's batch."""


class BatchSplit(NamedTuple):
    """First record of each batch, shape (batches + 1,), and the size of its records."""

    bounds: Int64s
    payloads: Int64s


def encode(
    columns: RecordColumns,
    batches: BatchHeaders,
    bounds: Int64s,
    *,
    level: int | None = None,
    is_checked: bool = False,
) -> memoryview:
    """Return the encoded batches, one after another.

    Batch i has the header ``batches[i]`` and the records ``bounds[i]`` to
    ``bounds[i + 1]``. The first bound is 0, the last the number of records. Offsets,
    timestamps, attributes, epochs, producer and sequence are taken from the header;
    `position`, `size_in_bytes` and `count` are set. `level` is the compression level,
    None for Kafka's default. `is_checked` states that the offsets of each batch rise,
    and that timestamps are valid.

    Raises `InvalidRecordError` for a record or a batch that cannot be encoded.
    """
    if not is_checked:
        check_columns(columns)
    payloads = np.empty(len(batches), np.int64)
    done = _speedups.measure_records(columns, bounds, batches, payloads)
    if done < len(columns.offset):
        raise InvalidRecordError(
            f"record {done}, offset {columns.offset[done]}: outside of its batch, or "
            "its key, value or headers are outside of their column"
        )
    return encode_measured(columns, batches, BatchSplit(bounds, payloads), level=level)


def encode_measured(
    columns: RecordColumns,
    batches: BatchHeaders,
    split: BatchSplit,
    *,
    level: int | None = None,
    out: Bytes | None = None,
) -> memoryview:
    """Return the encoded batches, with the sizes that `split_into_batches` computed.

    The sizes are valid for base offsets and base timestamps of the first records. `out`
    is a buffer to reuse: uncompressed batches are written to it if it is large enough.
    """
    batches["count"] = np.diff(split.bounds)
    compressed = (batches["attributes"] & layout.CODEC_MASK) != Codec.NONE
    if compressed.any():
        records = _buffer(int(split.payloads.sum()), out)
        starts = np.cumsum(split.payloads) - split.payloads
        _write(columns, batches, split, starts, records)
        return _write_headers(
            batches, _compressed(batches, records, starts, split.payloads, level)
        )
    _set_positions(batches, split.payloads)
    out = _buffer(int(batches["size_in_bytes"].sum()), out)
    starts = batches["position"] + layout.RECORD_BATCH_OVERHEAD
    _write(columns, batches, split, starts, out)
    return _write_headers(batches, out)


def split_into_batches(
    columns: RecordColumns,
    *,
    batch_bytes: int | None = DEFAULT_BATCH_BYTES,
    rows_per_batch: int | None = None,
) -> BatchSplit:
    """Split records into batches with as many as fit in each, but at least one.

    `batch_bytes` limits the size of a batch with its header, before compression, and
    `rows_per_batch` the number of its records.
    """
    check_columns(columns)
    records = len(columns.offset)
    bounds, payloads = np.empty(records + 1, np.int64), np.empty(records, np.int64)
    batches, rows = _speedups.split_records(
        columns,
        MAX_INT64 if batch_bytes is None else batch_bytes,
        MAX_INT64 if rows_per_batch is None else rows_per_batch,
        bounds,
        payloads,
    )
    if rows < len(columns.offset):
        raise InvalidRecordError(f"record {rows} is outside of its column")
    return BatchSplit(bounds[: batches + 1], payloads[:batches])


def batch_rows(columns: RecordColumns, bounds: Int64s) -> BatchHeaders:
    """Return headers of batches without a producer id, with offsets and timestamps.

    The base timestamp is that of the first record, the max timestamp the greatest.
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
    """Raise for columns of different lengths, and invalid offsets or timestamps."""
    offset, timestamp = columns.offset, columns.timestamp
    lengths = {
        "timestamp": timestamp.size,
        "key": columns.key.start.size,
        "value": columns.value.start.size,
    }
    for name, length in lengths.items():
        if length != offset.size:
            reason = f"column {name} of {length} rows, expected {offset.size} as offset"
            raise ValueError(reason)
    if offset.size and offset[0] < 0:
        raise InvalidRecordError(f"offset {offset[0]}, expected at least 0")
    descending = offset[1:] <= offset[:-1]
    if descending.any():
        row = int(descending.argmax()) + 1
        reason = f"offset {offset[row]} after {offset[row - 1]}"
        raise InvalidRecordError(f"{reason}, expected ascending offsets")
    if timestamp.size and timestamp.min() < layout.NO_TIMESTAMP:
        raise InvalidRecordError(f"timestamp {timestamp.min()}, expected at least -1")


def _buffer(size: int, out: Bytes | None) -> Bytes:
    """Return `size` bytes of `out`, or a new buffer if `out` is smaller."""
    if out is None or out.size < size:
        return np.empty(size, np.uint8)
    return out[:size]


def _write(
    columns: RecordColumns,
    batches: BatchHeaders,
    split: BatchSplit,
    starts: Int64s,
    out: Bytes,
) -> None:
    done = _speedups.write_records(columns, split.bounds, batches, starts, out)
    if done < len(columns.offset):
        raise InvalidRecordError(
            f"record {done}, offset {columns.offset[done]}: its columns changed while "
            "it was encoded"
        )


def _compressed(
    batches: BatchHeaders,
    records: Bytes,
    starts: Int64s,
    payloads: Int64s,
    level: int | None,
) -> Bytes:
    """Return the compressed records of the batches, with space for the headers."""
    source = records.data
    codecs = (batches["attributes"] & layout.CODEC_MASK).tolist()
    streams = [
        compress(codec, source[start : start + size], level=level)
        for codec, start, size in zip(
            codecs, starts.tolist(), payloads.tolist(), strict=True
        )
    ]
    _set_positions(batches, np.array([len(stream) for stream in streams], np.int64))
    space = bytes(layout.RECORD_BATCH_OVERHEAD)
    parts = [part for stream in streams for part in (space, stream)]
    return np.frombuffer(bytearray().join(parts), np.uint8)


def _set_positions(batches: BatchHeaders, payloads: Int64s) -> None:
    """Set the size and position of batches that follow one another."""
    size = payloads + layout.RECORD_BATCH_OVERHEAD
    batches["size_in_bytes"] = size
    batches["position"] = np.cumsum(size) - size


def _write_headers(batches: BatchHeaders, out: Bytes) -> memoryview:
    """Write the headers with their checksums, and return the buffer."""
    done = _speedups.write_headers(batches, out)
    if done < len(batches):
        raise InvalidRecordError(f"batch {done} is larger than 2147483647 bytes")
    return out.data
