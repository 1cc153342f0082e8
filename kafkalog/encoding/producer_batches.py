"""Record batches as a producer sends them, made of columns of records.

Some megabytes are encoded at a time, into buffers that are used again. While the caller
appends them, a thread encodes those that follow.

Source: ``ProducerBatch.java``, ``RecordAccumulator.java``.
"""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle, pairwise
from typing import Final

import numpy as np

from kafkalog.encoding.batch_builder import BatchSettings, head_batches
from kafkalog.encoding.batch_encoder import (
    BatchSplit,
    encode_measured,
    split_into_batches,
)
from kafkalog.encoding.record_columns import RecordColumns
from kafkalog.errors import InvalidRecordError
from kafkalog.formats.batch_headers import BatchHeaders, Bytes
from kafkalog.formats.layout import LOG_OVERHEAD, RECORD_BATCH_OVERHEAD

BUFFER_BYTES: Final = 2 << 20
"""Bytes that are encoded at a time, before compression."""

_BASE_OFFSET: Final = bytes(8)
_MOST_PAYLOAD: Final = 2**31 - 1 + LOG_OVERHEAD - RECORD_BATCH_OVERHEAD


@dataclass(frozen=True, slots=True)
class ProducerBatches:
    """Batches of `columns`: `cut` has the records of each, `rows` their headers."""

    columns: RecordColumns
    cut: BatchSplit
    rows: BatchHeaders
    settings: BatchSettings

    def encode(self, buffers: tuple[Bytes, Bytes]) -> Generator[list[memoryview]]:
        """Yield the encoded batches, about as many at a time as fit one of `buffers`.

        They may lie in a buffer, until the next are taken. A thread,
        ``kafkalog-encode``, encodes the next ones into the other buffer. Closing the
        generator waits for it.
        """
        bounds = self._bounds(buffers[0].size)
        if len(bounds) <= 2:
            yield from (self._encode(*one, buffers[0]) for one in pairwise(bounds))
            return
        with ThreadPoolExecutor(1, "kafkalog-encode") as encoder:
            parts = zip(pairwise(bounds), cycle(buffers), strict=False)
            (first, last), buffer = next(parts)
            coming = encoder.submit(self._encode, first, last, buffer)
            for (first, last), buffer in parts:
                ready = coming.result()
                coming = encoder.submit(self._encode, first, last, buffer)
                yield ready
            yield coming.result()

    def _bounds(self, size: int) -> list[int]:
        """Return the bounds of groups of batches, of about `size` bytes each."""
        ends = np.cumsum(self.cut.payloads + RECORD_BATCH_OVERHEAD)
        bounds, done = [0], 0
        while bounds[-1] < len(ends):
            last = int(np.searchsorted(ends, done + size, side="right"))
            bounds.append(max(last, bounds[-1] + 1))
            done = int(ends[bounds[-1] - 1])
        return bounds

    def _encode(self, first: int, last: int, buffer: Bytes) -> list[memoryview]:
        """Encode the batches ``[first, last)``, each with base offset 0."""
        bounds = self.cut.bounds[first : last + 1]
        columns = self.columns.between(int(bounds[0]), int(bounds[-1]))
        rows = self.rows[first:last]
        cut = BatchSplit(bounds - bounds[0], self.cut.payloads[first:last])
        level = self.settings.level
        data = memoryview(encode_measured(columns, rows, cut, level=level, out=buffer))
        starts, sizes = rows["position"].tolist(), rows["size_in_bytes"].tolist()
        for start in starts:
            data[start : start + len(_BASE_OFFSET)] = _BASE_OFFSET
        return [data[at : at + size] for at, size in zip(starts, sizes, strict=True)]


def cut_batches(
    columns: RecordColumns, settings: BatchSettings, batch_bytes: int
) -> ProducerBatches:
    """Cut records into batches of `batch_bytes`, before compression, or one record.

    Offsets of `columns` rise by 1. `settings` are those of a client's batches.

    Raises `InvalidRecordError` where a record or a batch cannot be written.
    """
    cut = split_into_batches(columns, batch_bytes=batch_bytes)
    if cut.payloads.max(initial=0) > _MOST_PAYLOAD:
        raise InvalidRecordError("a record takes more than a batch may")
    rows = head_batches(columns, cut.bounds, settings)
    return ProducerBatches(columns, cut, rows, settings)
