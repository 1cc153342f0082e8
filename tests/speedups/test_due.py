"""The kernel of due index entries agrees with the loop of Kafka's source."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import _speedups

BATCHES = st.lists(
    st.tuples(st.integers(1, 60), st.integers(-1, 9), st.integers(0, 99)), max_size=30
)


def due(batches, position, interval, since, greatest):
    """Call the kernel; return the rows it filled, and its result."""
    rows = np.array(batches, np.int64).reshape(-1, 3)
    out = np.full((5, len(rows) + 1), -9, np.int64)
    count, *state = _speedups.due_entries(
        rows[:, 0], rows[:, 1], rows[:, 2], position, interval, since, *greatest, out
    )
    assert (out[:, count:] == -9).all()
    return out[:, :count].T.tolist(), state


@given(
    batches=BATCHES,
    position=st.integers(0, 1000),
    interval=st.integers(0, 100),
    since=st.integers(0, 200),
    greatest=st.tuples(st.integers(-1, 9), st.integers(0, 99)),
)
def test_batches_get_entries_as_in_kafkas_append(
    batches, position, interval, since, greatest
):
    timestamp, offset = greatest
    entries, counted, at = [], since, position
    for size, max_timestamp, last_offset in batches:
        if max_timestamp > timestamp:
            timestamp, offset = max_timestamp, last_offset
        if counted > interval:
            entries.append([last_offset, at, timestamp, offset, counted])
            counted = 0
        at += size
        counted += size
    found = due(batches, position, interval, since, greatest)
    assert found == (entries, [counted, timestamp, offset])


@given(batches=BATCHES, interval=st.integers(0, 100), cut=st.integers(0, 30))
def test_batches_may_come_in_several_calls(batches, interval, cut):
    whole, state = due(batches, 0, interval, 0, (-1, 0))
    front, (since, *greatest) = due(batches[:cut], 0, interval, 0, (-1, 0))
    position = sum(size for size, *_ in batches[:cut])
    back, last = due(batches[cut:], position, interval, since, greatest)
    assert (front + back, last) == (whole, state)


@given(batches=BATCHES, interval=st.integers(0, 100))
def test_counting_from_the_start_equals_the_rule_of_recovery(batches, interval):
    positions, at, indexed = [], 0, 0
    for size, *_ in batches:
        if at - indexed > interval:
            positions.append(at)
            indexed = at
        at += size
    entries, _ = due(batches, 0, interval, 0, (-1, 0))
    assert [position for _, position, *_ in entries] == positions


def test_an_output_for_fewer_entries_than_batches_is_rejected():
    column = np.zeros(3, np.int64)
    for shape in [(5, 2), (4, 3)]:
        with pytest.raises(ValueError, match="expected 5 x 3"):
            _speedups.due_entries(
                column, column, column, 0, 0, 0, -1, 0, np.zeros(shape, np.int64)
            )
    with pytest.raises(ValueError, match="different lengths"):
        _speedups.due_entries(
            column, column[:2], column, 0, 0, 0, -1, 0, np.zeros((5, 3), np.int64)
        )
