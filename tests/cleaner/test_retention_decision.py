"""The decisions about batches and records, checked for all inputs."""

from itertools import product

import numpy as np
import pytest

from kafkalog.cleaner.retention_decision import (
    BatchInputs,
    Fate,
    RecordInputs,
    decide_batch,
    decide_batches,
    decide_record,
    decide_records,
)

ANY = None

# The first row that matches decides. Columns: dropped with its batch, control, after
# the map, has a key, latest of its key, has a value, tombstone protected.
RECORDS = [
    (1, ANY, ANY, ANY, ANY, ANY, ANY, Fate.DROPPED_WITH_BATCH),
    (0, 1, ANY, ANY, ANY, ANY, ANY, Fate.CONTROL),
    (0, 0, 1, ANY, ANY, ANY, ANY, Fate.AFTER_MAP),
    (0, 0, 0, 0, ANY, ANY, ANY, Fate.WITHOUT_KEY),
    (0, 0, 0, 1, 0, ANY, ANY, Fate.SUPERSEDED),
    (0, 0, 0, 1, 1, 1, ANY, Fate.LATEST_VALUE),
    (0, 0, 0, 1, 1, 0, 1, Fate.TOMBSTONE_PROTECTED),
    (0, 0, 0, 1, 1, 0, 0, Fate.TOMBSTONE_DUE),
]
KEPT = {Fate.CONTROL, Fate.AFTER_MAP, Fate.LATEST_VALUE, Fate.TOMBSTONE_PROTECTED}

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


def test_columns_are_decided_row_by_row():
    rows = list(product((False, True), repeat=7))
    found = decide_records(RecordInputs(*np.array(rows).T))
    assert found.tolist() == [decide_record(RecordInputs(*row)) for row in rows]
    rows = list(product((False, True), repeat=5))
    columns = decide_batches(BatchInputs(*np.array(rows).T))
    found = list(zip(*(column.tolist() for column in columns), strict=True))
    assert found == [tuple(decide_batch(BatchInputs(*row))) for row in rows]
