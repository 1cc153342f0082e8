"""What headers of batches tell alone: how many records there are, and most columns.

A batch of magic 2 that compaction took nothing from has all offsets from its first to
its last. So where neither bytes nor times are asked for, nothing need be unpacked.

Knows: when a header's word is enough. Does not know: files, checksums.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from kafkalog.decoding.batch_decoder import Bounds, Run
from kafkalog.decoding.column_gathering import GatheredRecords
from kafkalog.formats.entry_headers import Bytes, Rows
from kafkalog.formats.layout import (
    BATCH_HEADER_BYTES,
    CODEC_MASK,
    CODECS,
    CONTROL_FLAG,
    LEAST_RECORD_BYTES,
    LOG_APPEND_TIME_FLAG,
)
from kafkalog.query.scan_columns import COLUMNS
from kafkalog.segment.file_records import Step

TOLD_COLUMNS: Final = frozenset(COLUMNS) - {"key", "value", "headers", "timestamp"}
"""Those that a header and the offset in its batch tell."""

MOST_RECORDS: Final = 1 << 17
"""What a run of records has, whatever a header says."""

MOST_STRETCHES: Final = 16
"""Of a step; where told and not told change more often, all of it is unpacked."""

Bools = npt.NDArray[np.bool_]


def tell_count(rows: Rows, bounds: Bounds) -> Bools:
    """Say of which batches all records lie within the bounds, going by headers.

    Not of a control batch: whether it is one is known by its checksum.
    """
    told: Bools = (rows["magic"] == 2) & (rows["count"] >= 0)
    told &= rows["attributes"] & CONTROL_FLAG == 0
    told &= rows["base_offset"] >= bounds.start_offset
    told &= rows["last_offset"] < bounds.end_offset
    if bounds.timed:
        told &= rows["attributes"] & LOG_APPEND_TIME_FLAG != 0
        told &= rows["max_timestamp"] >= 0
        if bounds.start_timestamp is not None:
            told &= rows["max_timestamp"] >= bounds.start_timestamp
        if bounds.end_timestamp is not None:
            told &= rows["max_timestamp"] < bounds.end_timestamp
    return told


def tell_all(rows: Rows, _bounds: Bounds) -> Bools:
    """Say that headers tell all that is asked of them alone: not of a control batch.

    Whether a batch is one is known by its checksum.
    """
    control: Bools = rows["attributes"] & CONTROL_FLAG != 0
    return (rows["magic"] < 2) | ~control


def tell_offsets(rows: Rows, bounds: Bounds, most_bytes: int) -> Bools:
    """Say of which batches headers tell every offset: none is missing.

    `most_bytes` is what a batch may hold once unpacked; no more records are believed
    than there is room for.
    """
    count = rows["count"]
    told = tell_count(rows, bounds)
    told &= count == rows["last_offset"] - rows["base_offset"] + 1
    codec = rows["attributes"] & CODEC_MASK
    plain = rows["size_in_bytes"] - BATCH_HEADER_BYTES
    room = np.where(codec == 0, plain, most_bytes)
    return told & (codec < len(CODECS)) & (count <= room // LEAST_RECORD_BYTES)


def stretches(step: Step, told: Bools) -> Iterator[tuple[Step, bool]]:
    """Cut a step where batches that are told change with such that are not."""
    rows, before = step.rows, step.before
    changes = np.flatnonzero(told[1:] != told[:-1]) + 1
    if len(changes) >= MOST_STRETCHES:
        yield step, False
        return
    for first, end in pairwise((0, *changes.tolist(), len(rows))):
        if first and step.before is not None:
            before = int(rows["last_offset"][first - 1])
        yield replace(step, rows=rows[first:end], before=before), bool(told[first])


def runs_of_offsets(data: Bytes, rows: Rows) -> Iterator[Run[GatheredRecords]]:
    """Yield the offsets of batches that headers tell, run by run.

    >>> from kafkalog import RecordBatchBuilder
    >>> from kafkalog.formats.entry_headers import scan_headers
    >>> batch = RecordBatchBuilder(base_offset=7)
    >>> for value in (b"one", b"two", b"three"):
    ...     batch.append(None, value, timestamp=1)
    >>> data = np.frombuffer(batch.build(), np.uint8)
    >>> rows, _, _ = scan_headers(data)
    >>> [run.records.offset.tolist() for run in runs_of_offsets(data, rows)]
    [[7, 8, 9]]
    """
    counts = rows["count"].astype(np.int64)
    ends = np.cumsum(counts)
    starts = ends - counts
    above = rows["base_offset"] - starts  # what an offset is above its place
    total = int(ends[-1])
    for start in range(0, total, MOST_RECORDS):
        stop = min(start + MOST_RECORDS, total)
        first, last = np.searchsorted(ends, (start, stop - 1), side="right").tolist()
        held = slice(first, last + 1)
        parts = np.minimum(ends[held], stop) - np.maximum(starts[held], start)
        offset = np.arange(start, stop)
        if (above[held] == above[first]).all():
            offset += above[first]
        else:
            offset += np.repeat(above[held], parts)
        yield Run(data, rows[held], GatheredRecords(offset), parts)
