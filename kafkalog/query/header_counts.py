"""Counts and offsets of records from batch headers alone.

A batch of magic 2 has all offsets from its first to its last, unless compaction removed
records. So its records are not decoded for a count, nor for columns other than ``key``,
``value``, ``headers`` and ``timestamp``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from kafkalog.array_types import Bools, Int64s
from kafkalog.decoding.read_policy import Bounds, ReadPolicy
from kafkalog.errors import LocatedError
from kafkalog.formats.batch_headers import (
    BatchHeaders,
    crc_error,
    find_crc_mismatches,
    has_count,
)
from kafkalog.formats.layout import (
    CODEC_MASK,
    CODECS,
    CONTROL_FLAG,
    LOG_APPEND_TIME_FLAG,
)
from kafkalog.query.partition_reader import PartitionReader, ScanProblem, SegmentStep
from kafkalog.query.record_filter import EVERY_RECORD, RecordFilter
from kafkalog.query.sources import PartitionSource

if TYPE_CHECKING:
    from kafkalog.decoding.workspace import Workspace


def not_control(rows: BatchHeaders, _bounds: Bounds) -> Bools:
    """Return which batches are not control batches, by their headers.

    Whether a batch is a control batch is certain only once its CRC is checked.
    """
    control: Bools = rows["attributes"] & CONTROL_FLAG != 0
    return (rows["magic"] < 2) | ~control


def wholly_within(
    rows: BatchHeaders,
    bounds: Bounds,
    max_batch_bytes: int,
    *,
    control_records: bool = False,
) -> Bools:
    """Return which batches are wholly within the bounds, by their headers.

    Control batches are not, unless `control_records` are requested. Neither are those
    without room for their number of records, if they are `max_batch_bytes` at most.
    """
    within: Bools = (rows["magic"] == 2) & has_count(rows, max_batch_bytes)
    if not control_records:
        within &= rows["attributes"] & CONTROL_FLAG == 0
    within &= rows["base_offset"] >= bounds.start_offset
    within &= rows["last_offset"] < bounds.end_offset
    if bounds.timed:
        within &= rows["attributes"] & LOG_APPEND_TIME_FLAG != 0
        within &= rows["max_timestamp"] >= 0
        if bounds.start_timestamp is not None:
            within &= rows["max_timestamp"] >= bounds.start_timestamp
        if bounds.end_timestamp is not None:
            within &= rows["max_timestamp"] < bounds.end_timestamp
    return within


def without_gaps(rows: BatchHeaders, bounds: Bounds, max_batch_bytes: int) -> Bools:
    """Return which batches within the bounds have every offset of their range.

    `max_batch_bytes` is the largest decompressed size of a batch.
    """
    whole = wholly_within(rows, bounds, max_batch_bytes)
    whole &= rows["count"] == rows["last_offset"] - rows["base_offset"] + 1
    return whole & (rows["attributes"] & CODEC_MASK < len(CODECS))


def counting_reader(
    source: PartitionSource,
    bounds: Bounds,
    policy: ReadPolicy,
    filter: RecordFilter = EVERY_RECORD,
) -> PartitionReader:
    """Return a reader of a partition whose steps `count_batches` counts."""
    if policy.check_crcs == "before":
        policy = replace(policy, check_crcs="while_decoding")
    return PartitionReader(
        source=source,
        bounds=bounds,
        policy=replace(policy, needs="headers"),
        filter=filter,
        headers_suffice=partial(
            wholly_within,
            max_batch_bytes=policy.max_batch_bytes,
            control_records=policy.control_records,
        ),
    )


def count_records(
    reader: PartitionReader, problems: list[ScanProblem]
) -> Iterator[int]:
    """Yield the number of records of each step; append to `problems`."""
    for _, records in count_batches(reader, problems):
        yield int(records.sum())


def count_batches(
    reader: PartitionReader, problems: list[ScanProblem]
) -> Iterator[tuple[SegmentStep, Int64s]]:
    """Yield each step, and the number of records of each of its batches.

    Records are counted within the bounds. Damage that is skipped is appended to
    `problems`.
    """
    workspace: Workspace | None = None
    for step in reader.steps():
        if isinstance(step, ScanProblem):
            problems.append(step)
            continue
        rows = step.step.rows
        whole = reader.headers_suffice(rows, step.bounds)
        records = np.where(whole, rows["count"], 0).astype(np.int64)
        if not whole.all():
            from kafkalog.decoding.workspace import Workspace  # not needed for headers

            workspace = workspace or Workspace()
            _count_decoded(step, ~whole, reader.policy, problems, workspace, records)
        yield step, records


def _count_decoded(
    step: SegmentStep,
    which: Bools,
    policy: ReadPolicy,
    problems: list[ScanProblem],
    workspace: Workspace,
    records: Int64s,
) -> None:
    """Set the number of records of batches that have to be decoded to count them."""
    from kafkalog.decoding.batch_decoder import decode

    data, origin, rows = step.step.data, step.step.origin, step.step.rows[which]
    if policy.check_crcs != "never":
        bad = find_crc_mismatches(data, origin, rows)
        problems += [
            step.skip(crc_error(data, origin, row), policy) for row in rows[bad]
        ]
        rows = np.delete(rows, bad)
    results = decode(
        data,
        origin,
        rows,
        bounds=step.bounds,
        limit=policy.max_batch_bytes,
        workspace=workspace,
        before=step.step.before,
        split_large=True,
    )
    for views in results:
        if isinstance(views, LocatedError):
            problems.append(step.skip(views, policy))
        else:
            records[step.indexes_of(views.rows)] += views.counts
