"""Rules that decide which batches and records compaction keeps.

`decide_batch` and `decide_record` are the rules for one batch and for one record.
`decide_batches` and `decide_records` apply the rules to columns, by tables of the
results for all inputs. All four are pure functions.

Source: ``Cleaner.cleanInto``, ``Cleaner.shouldRetainRecord``,
``MemoryRecords.RecordFilter``.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from itertools import product
from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from kafkalog.array_types import Bools, Int64s
from kafkalog.decoding.workspace import RecordSpans

Codes = npt.NDArray[np.int8]
Fact = TypeVar("Fact")
"""A bool of one batch or record, or a column of bools of many."""


class BatchInputs(NamedTuple, Generic[Fact]):
    """The facts about a batch that decide whether it is kept."""

    is_control: Fact
    is_discardable: Fact
    """Data of an aborted transaction, or a marker of a transaction without data."""
    is_horizon_passed: Fact
    """The batch has a delete horizon, which is at or before the present time."""
    is_last_of_producer: Fact
    """The batch is the last one of its producer in the log."""
    ends_round: Fact
    """The offset after the batch is the first one that is not cleanable."""


class BatchDecision(NamedTuple, Generic[Fact]):
    """The decision about a batch.

    `is_read`: each of its records is decided. `drops_records`: no record is kept.
    `is_kept_empty`: if no record is kept, the header is. `needs_horizon`: if the batch
    is kept and has no delete horizon, one is set.
    """

    is_read: Fact
    drops_records: Fact
    is_kept_empty: Fact
    needs_horizon: Fact


class RecordInputs(NamedTuple, Generic[Fact]):
    """The facts about a record that decide whether it is kept."""

    is_dropped_with_batch: Fact
    is_control: Fact
    is_after_map: Fact
    """The offset is above the range that the offset map covers."""
    has_key: Fact
    is_latest: Fact
    """The offset map has no higher offset for the key."""
    has_value: Fact
    is_protected: Fact
    """Tombstones of the batch may not be removed yet."""


class RecordDecisions(NamedTuple):
    """The decisions about the records of some batches.

    `reasons` has the `RetentionReason` of each record. `kept` and `tombstones` are the
    numbers of records, and of records without a value, that are kept of each batch.
    """

    reasons: Codes
    kept: Int64s
    tombstones: Int64s


class RetentionReason(IntEnum):
    """Why a record is dropped, if negative, or else why it is kept."""

    DROPPED_WITH_BATCH = -4
    WITHOUT_KEY = -3
    SUPERSEDED = -2
    TOMBSTONE_DUE = -1
    CONTROL = 0
    AFTER_MAP = 1
    LATEST_VALUE = 2
    TOMBSTONE_PROTECTED = 3

    @property
    def is_kept(self) -> bool:
        """Whether the record is kept."""
        return self >= 0


def decide_batch(inputs: BatchInputs[bool]) -> BatchDecision[bool]:
    """Return the decision about a batch.

    >>> decide_batch(BatchInputs(False, True, False, False, False)).is_read
    False
    """
    drops = inputs.is_discardable
    if inputs.is_control:
        # A marker is kept as long as a tombstone after the data of its transaction.
        drops = drops and inputs.is_horizon_passed
    # The last batch of a producer has the producer's last sequence or epoch. The last
    # batch of the round has the last offset of the range.
    is_kept_empty = inputs.is_last_of_producer or inputs.ends_round
    return BatchDecision(
        is_read=not drops,
        drops_records=drops,
        is_kept_empty=is_kept_empty,
        needs_horizon=inputs.is_discardable and inputs.is_control,
    )


def decide_record(inputs: RecordInputs[bool]) -> RetentionReason:
    """Return why a record is dropped or kept.

    >>> decide_record(RecordInputs(False, False, False, True, True, False, True)).name
    'TOMBSTONE_PROTECTED'
    """
    if inputs.is_dropped_with_batch:
        return RetentionReason.DROPPED_WITH_BATCH
    if inputs.is_control:
        return RetentionReason.CONTROL
    if inputs.is_after_map:
        return RetentionReason.AFTER_MAP
    if not inputs.has_key:
        return RetentionReason.WITHOUT_KEY
    if not inputs.is_latest:
        return RetentionReason.SUPERSEDED
    if inputs.has_value:
        return RetentionReason.LATEST_VALUE
    return (
        RetentionReason.TOMBSTONE_PROTECTED
        if inputs.is_protected
        else RetentionReason.TOMBSTONE_DUE
    )


def _table_of(inputs: type[Any], decide: Callable[[Any], Any]) -> npt.NDArray[np.int8]:
    """Return the results for all inputs, by row; the first input is the highest bit."""
    rows = product((False, True), repeat=len(inputs._fields))
    return np.array([decide(inputs(*row)) for row in rows], np.int8)


_BATCHES: Final = _table_of(BatchInputs, decide_batch)
_RECORDS: Final = _table_of(RecordInputs, decide_record)


def _row_numbers(columns: tuple[Bools, ...]) -> npt.NDArray[np.uint8]:
    number = np.zeros(len(columns[0]), np.uint8)
    for column in columns:
        number <<= 1
        number |= column
    return number


def decide_batches(inputs: BatchInputs[Bools]) -> BatchDecision[Bools]:
    """Return the decisions about many batches; inputs and results are columns."""
    return BatchDecision(*_BATCHES[_row_numbers(inputs)].T.astype(np.bool_))


def decide_records(
    records: RecordSpans,
    counts: Int64s,
    is_control: Bools,
    is_protected: Bools,
    is_latest: Bools,
    end: int,
) -> RecordDecisions:
    """Return why records that are not dropped with their batch are dropped or kept.

    Batch i has the next ``counts[i]`` of the records. `is_latest` is whether the offset
    map has no higher offset for a key, and `end` the last offset that the map covers.
    """
    has_value = records["value_length"] >= 0
    inputs = RecordInputs(
        is_dropped_with_batch=np.zeros(len(records), np.bool_),
        is_control=np.repeat(is_control, counts),
        is_after_map=records["offset"] > end,
        has_key=records["key_length"] >= 0,
        is_latest=is_latest,
        has_value=has_value,
        is_protected=np.repeat(is_protected, counts),
    )
    reasons = _RECORDS.take(_row_numbers(inputs))
    is_kept = reasons >= 0
    return RecordDecisions(
        reasons,
        sums_of_batches(is_kept, counts),
        sums_of_batches(is_kept & ~has_value, counts),
    )


def sums_of_batches(values: Bools, counts: Int64s) -> Int64s:
    """Return the number of true values of each batch, which has `counts` values.

    >>> sums_of_batches(np.array([True, False, True]), np.array([2, 0, 1]))
    array([1, 0, 1])
    """
    sums = np.zeros(len(counts), np.int64)
    filled = np.flatnonzero(counts)
    if len(filled):
        starts = np.cumsum(counts) - counts
        sums[filled] = np.add.reduceat(values, starts[filled], dtype=np.int64)
    return sums
