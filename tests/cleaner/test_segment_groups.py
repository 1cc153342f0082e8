"""Segments are grouped greedily, up to the limits of one segment."""

import pytest

from kafkalog.cleaner.segment_groups import SegmentSizes, group_segments


def groups(*sizes, max_size=100, max_index=50, end=None):
    segments = [SegmentSizes(*size) for size in sizes]
    last = segments[-1].base_offset + 10 if end is None else end
    return group_segments(segments, max_size, max_index, last)


def test_a_group_is_as_large_as_a_segment_may_be():
    assert groups((0, 50, 0, 0), (5, 50, 0, 0), (9, 1, 0, 0)) == [[0, 1], [2]]


def test_a_segment_that_is_too_large_is_alone():
    assert groups((0, 500, 0, 0), (5, 1, 0, 0), (9, 1, 0, 0)) == [[0], [1, 2]]


@pytest.mark.parametrize("which", [2, 3])
def test_indexes_bound_a_group(which):
    rows = [[0, 1, 0, 0], [5, 1, 0, 0], [9, 1, 0, 0]]
    for row, size in zip(rows, (30, 20, 1), strict=True):
        row[which] = size
    assert groups(*rows) == [[0, 1], [2]]


@pytest.mark.parametrize(
    ("end", "expected"), [(2**31, [[0, 1]]), (2**31 + 1, [[0], [1]])]
)
def test_offsets_are_in_range_of_the_first_base(end, expected):
    assert groups((0, 1, 0, 0), (5, 1, 0, 0), end=end) == expected


def test_the_base_of_the_next_segment_bounds_the_offsets():
    far = 2**31 + 1
    assert groups((0, 1, 0, 0), (5, 1, 0, 0), (far, 0, 0, 0)) == [[0], [1, 2]]
    assert groups((0, 1, 0, 0), (5, 1, 0, 0), (far - 1, 0, 0, 0)) == [[0, 1, 2]]


def test_an_empty_segment_may_be_out_of_range():
    assert groups((0, 1, 0, 0), (2**40, 0, 0, 0)) == [[0, 1]]


def test_no_segment_is_no_group():
    assert group_segments([], 1, 1, 0) == []
