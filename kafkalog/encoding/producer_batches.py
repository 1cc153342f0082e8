"""Encoding of columns of records as a producer's batches, a few megabytes at a time.

While the caller appends the batches in one buffer, a thread encodes the following ones
into the other.

Source: ``ProducerBatch.java``, ``RecordAccumulator.java``.
"""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle, pairwise
from typing import Final

import numpy as np

from kafkalog.array_types import Bytes
from kafkalog.encoding.batch_builder import BatchSettings, header_rows
from kafkalog.encoding.batch_encoder import (
    BatchSplit,
    encode_measured,
    split_into_batches,
)
from kafkalog.encoding.record_columns import RecordColumns
from kafkalog.errors import InvalidRecordError
from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.formats.layout import LOG_OVERHEAD, RECORD_BATCH_OVERHEAD

BUFFER_BYTES: Final = 2 << 20
"""Bytes to encode at a time, before compression."""

_BASE_OFFSET: Final = bytes(8)
_MAX_PAYLOAD: Final = 2**31 - 1 + LOG_OVERHEAD - RECORD_BATCH_OVERHEAD


@dataclass(frozen=True, slots=True)
class ProducerBatches:
    """Batches of `columns`: `split` has the records of each, `rows` their headers."""

    columns: RecordColumns
    split: BatchSplit
    rows: BatchHeaders
    settings: BatchSettings

    def encode(self, buffers: tuple[Bytes, Bytes]) -> Generator[list[memoryview]]:
        """Yield the encoded batches, about as many at a time as fit one of `buffers`.

        A yielded batch is valid until the next are requested: it may be in a buffer
        that is reused. A thread, ``kafkalog-encode``, encodes the next ones into the
        other buffer. Closing the generator waits for it.
        """
        bounds = self._bounds(buffers[0].size)
        if len(bounds) <= 2:
            yield from (self._encode(*group, buffers[0]) for group in pairwise(bounds))
            return
        with ThreadPoolExecutor(1, "kafkalog-encode") as encoder:
            groups = zip(pairwise(bounds), cycle(buffers), strict=False)
            (first, last), buffer = next(groups)
            following = encoder.submit(self._encode, first, last, buffer)
            for (first, last), buffer in groups:
                encoded = following.result()
                following = encoder.submit(self._encode, first, last, buffer)
                yield encoded
            yield following.result()

    def encode_all(self, buffer: Bytes) -> list[memoryview]:
        """Return all encoded batches; they may be in `buffer`, if it is large enough.

        No thread is started.
        """
        return self._encode(0, len(self.rows), buffer)

    def _bounds(self, size: int) -> list[int]:
        """Return the bounds of groups of batches, of about `size` bytes each."""
        ends = np.cumsum(self.split.payloads + RECORD_BATCH_OVERHEAD)
        bounds, done = [0], 0
        while bounds[-1] < len(ends):
            last = int(np.searchsorted(ends, done + size, side="right"))
            bounds.append(max(last, bounds[-1] + 1))
            done = int(ends[bounds[-1] - 1])
        return bounds

    def _encode(self, first: int, last: int, buffer: Bytes) -> list[memoryview]:
        """Encode the batches ``[first, last)``, each with base offset 0."""
        bounds = self.split.bounds[first : last + 1]
        columns = self.columns.between(int(bounds[0]), int(bounds[-1]))
        rows = self.rows[first:last]
        split = BatchSplit(bounds - bounds[0], self.split.payloads[first:last])
        level = self.settings.level
        data = memoryview(
            encode_measured(columns, rows, split, level=level, out=buffer)
        )
        starts, sizes = rows["position"].tolist(), rows["size_in_bytes"].tolist()
        for start in starts:
            data[start : start + len(_BASE_OFFSET)] = _BASE_OFFSET
        return [data[at : at + size] for at, size in zip(starts, sizes, strict=True)]


def into_producer_batches(
    columns: RecordColumns, settings: BatchSettings, batch_bytes: int
) -> ProducerBatches:
    """Split records into batches of at most `batch_bytes` before compression.

    A larger record has a batch of its own. The offsets of `columns` must be
    consecutive. `settings` are those of a client's batches.

    Raises `InvalidRecordError` for a record or a batch that cannot be encoded.
    """
    split = split_into_batches(columns, batch_bytes=batch_bytes)
    if (size := split.payloads.max(initial=0)) > _MAX_PAYLOAD:
        reason = f"record of {size} bytes, expected at most {_MAX_PAYLOAD}"
        raise InvalidRecordError(reason)
    rows = header_rows(columns, split.bounds, settings)
    return ProducerBatches(columns, split, rows, settings)
