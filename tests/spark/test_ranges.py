"""Ranges are divided among tasks as Spark divides them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.query.task_planning import OffsetRange
from kafkalog.spark.offset_ranges import split_ranges


def ranges(*counts):
    return [OffsetRange("t", n, 1, 1 + count) for n, count in enumerate(counts)]


def divided(counts, least=None, most=None):
    """Return the lengths of the parts of each range."""
    whole = ranges(*counts)
    parts = split_ranges(whole, least, most)
    return [
        [part.length for part in parts if part.topic_partition == one.topic_partition]
        for one in whole
    ]


@pytest.mark.parametrize(
    ("counts", "least", "most", "parts"),
    [
        ([5, 5], None, None, [[5], [5]]),
        ([5, 0], None, None, [[5], []]),
        ([5], 3, None, [[1, 2, 2]]),
        ([2], 3, None, [[1, 1]]),
        ([10, 100], 2, None, [[10], [100]]),
        ([0, 9], 2, None, [[], [4, 5]]),
        ([1, 1, 10], 4, None, [[1], [1], [5, 5]]),
        (
            [5, 5, 5, 100, 100],
            10,
            None,
            [[5], [5], [5], [25, 25, 25, 25], [25, 25, 25, 25]],
        ),
        ([2, 10, 12], 6, None, [[2], [5, 5], [4, 4, 4]]),
        ([1, 500, 3], 9, None, [[1], [71, 71, 71, 71, 72, 72, 72], [3]]),
        ([5], None, 5, [[5]]),
        ([6], None, 5, [[3, 3]]),
        ([11], 2, 4, [[3, 4, 4]]),
        ([12], 6, 4, [[2, 2, 2, 2, 2, 2]]),
        ([40], 16, 3, [[2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3]]),
        ([7, 1], 5, 3, [[2, 2, 3], [1]]),
        ([100, 7], 9, 20, [[10, 10, 10, 10, 10, 10, 10, 10, 10, 10], [7]]),
        ([1, 1], 5, None, [[1], [1]]),
    ],
)
def test_ranges_are_divided_as_spark_divides_them(counts, least, most, parts):
    # Written down from KafkaOffsetRangeCalculator of Spark 4.2.0.
    assert divided(counts, least, most) == parts


COUNTS = st.lists(st.integers(0, 5000), max_size=6)


@given(COUNTS, st.none() | st.integers(1, 40), st.none() | st.integers(1, 6000))
def test_parts_cover_the_range_and_none_is_empty_or_too_large(counts, least, most):
    whole = [one for one in ranges(*counts) if one.length]
    if most is not None and sum(counts) // most > 2000:
        most = 100
    parts = split_ranges(ranges(*counts), least, most)
    assert all(0 < part.length <= (most or part.length) for part in parts)
    for one in whole:
        mine = [part for part in parts if part.topic_partition == one.topic_partition]
        bounds = [one.start, *(part.end for part in mine)]
        assert [part.start for part in mine] == bounds[:-1]
        assert bounds[-1] == one.end
    if most is None and (least or 0) <= len(whole):
        assert parts == whole
