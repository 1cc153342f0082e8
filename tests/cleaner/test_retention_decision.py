"""The decisions about batches and records, checked for all inputs."""

from itertools import product

import numpy as np
import pytest

from kafkalog.cleaner.retention_decision import (
    BatchInputs,
    RecordInputs,
    RetentionReason,
    decide_batch,
    decide_batches,
    decide_record,
    decide_records,
    sums_of_batches,
)
from kafkalog.decoding.workspace import RecordSpans

ANY = None

# The first row that matches decides. Columns: dropped with its batch, control, after
# the map, has a key, latest of its key, has a value, tombstone protected.
RECORDS = [
    (1, ANY, ANY, ANY, ANY, ANY, ANY, RetentionReason.DROPPED_WITH_BATCH),
    (0, 1, ANY, ANY, ANY, ANY, ANY, RetentionReason.CONTROL),
    (0, 0, 1, ANY, ANY, ANY, ANY, RetentionReason.AFTER_MAP),
    (0, 0, 0, 0, ANY, ANY, ANY, RetentionReason.WITHOUT_KEY),
    (0, 0, 0, 1, 0, ANY, ANY, RetentionReason.SUPERSEDED),
    (0, 0, 0, 1, 1, 1, ANY, RetentionReason.LATEST_VALUE),
    (0, 0, 0, 1, 1, 0, 1, RetentionReason.TOMBSTONE_PROTECTED),
    (0, 0, 0, 1, 1, 0, 0, RetentionReason.TOMBSTONE_DUE),
]
KEPT = {
    RetentionReason.CONTROL,
    RetentionReason.AFTER_MAP,
    RetentionReason.LATEST_VALUE,
    RetentionReason.TOMBSTONE_PROTECTED,
}

# Columns: control, discardable, horizon passed, last of its producer, ends the round;
# read, drops all records, kept if empty, needs a horizon.
BATCHES = [
    ((0, 0, ANY, 0, 0), (1, 0, 0, 0)),
    ((0, 0, ANY, 1, ANY), (1, 0, 1, 0)),
    ((0, 0, ANY, 0, 1), (1, 0, 1, 0)),
    ((0, 1, ANY, 0, 0), (0, 1, 0, 0)),
    ((0, 1, ANY, 1, ANY), (0, 1, 1, 0)),
    ((0, 1, ANY, 0, 1), (0, 1, 1, 0)),
    ((1, 0, ANY, 0, 0), (1, 0, 0, 0)),
    ((1, 0, ANY, 1, ANY), (1, 0, 1, 0)),
    ((1, 0, ANY, 0, 1), (1, 0, 1, 0)),
    ((1, 1, 0, 0, 0), (1, 0, 0, 1)),
    ((1, 1, 0, 1, ANY), (1, 0, 1, 1)),
    ((1, 1, 0, 0, 1), (1, 0, 1, 1)),
    ((1, 1, 1, 0, 0), (0, 1, 0, 1)),
    ((1, 1, 1, 1, ANY), (0, 1, 1, 1)),
    ((1, 1, 1, 0, 1), (0, 1, 1, 1)),
]


def matches(row, facts):
    return all(
        want is ANY or want == fact for want, fact in zip(row, facts, strict=True)
    )


@pytest.mark.parametrize("facts", [*product((False, True), repeat=7)])
def test_the_fate_of_a_record_is_that_of_the_table(facts):
    [*_, expected] = next(row for row in RECORDS if matches(row[:-1], facts))
    assert decide_record(RecordInputs(*facts)) is expected
    assert expected.is_kept == (expected in KEPT)


@pytest.mark.parametrize("facts", [*product((False, True), repeat=5)])
def test_the_decision_about_a_batch_is_that_of_the_table(facts):
    [expected] = [result for row, result in BATCHES if matches(row, facts)]
    assert decide_batch(BatchInputs(*facts)) == expected


def test_batches_are_decided_row_by_row():
    rows = list(product((False, True), repeat=5))
    columns = decide_batches(BatchInputs(*np.array(rows).T))
    found = list(zip(*(column.tolist() for column in columns), strict=True))
    assert found == [tuple(decide_batch(BatchInputs(*row))) for row in rows]


END = 100
SHARES = [(False, False), (False, True), (True, False), (True, True)]


def test_records_are_decided_row_by_row():
    # A batch for each of the facts about batches, with a record for each other input.
    inputs = list(product((False, True), repeat=4))
    expected, offsets, latest, keys, values = [], [], [], [], []
    for is_control, is_protected in SHARES:
        for after, has_key, is_latest, has_value in inputs:
            facts = (False, is_control, after, has_key, is_latest, has_value)
            expected.append(decide_record(RecordInputs(*facts, is_protected)))
            offsets.append(END + after)
            latest.append(is_latest)
            keys.append(7 if has_key else -1)
            values.append(0 if has_value else -1)
    longs = np.zeros((2, len(offsets)), np.int64)
    ints = np.zeros((6, len(offsets)), np.int32)
    records = RecordSpans(longs, ints)
    records["offset"][:], records["key_length"][:] = offsets, keys
    records["value_length"][:] = values
    counts = np.full(len(SHARES), len(inputs))
    is_control, is_protected = np.array(SHARES).T
    reasons, kept, tombstones = decide_records(
        records, counts, is_control, is_protected, np.array(latest), END
    )
    assert reasons.tolist() == expected
    survivors = np.reshape([reason.is_kept for reason in expected], (len(SHARES), -1))
    assert kept.tolist() == survivors.sum(axis=1).tolist()
    nulls = np.reshape(np.array(values) < 0, survivors.shape)
    assert tombstones.tolist() == (survivors & nulls).sum(axis=1).tolist()


def test_a_batch_without_records_has_no_sums():
    for counts in ([0, 2, 0, 0, 1, 0], [3], [0]):
        values = np.ones(sum(counts), np.bool_)
        assert sums_of_batches(values, np.array(counts)).tolist() == counts
