"""Group neighbouring segments that compaction merges into one.

Source: ``Cleaner.groupSegmentsBySize``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kafkalog.formats.layout import MAX_OFFSET_DELTA


class SegmentSizes(NamedTuple):
    """The base offset of a segment, and the bytes used in its files."""

    base_offset: int
    size: int
    index_size: int
    time_index_size: int


def group_segments(
    segments: Sequence[SegmentSizes],
    max_size: int,
    max_index_size: int,
    first_uncleanable_offset: int,
) -> list[list[int]]:
    """Return the numbers of the segments of each group, greedily and in order.

    Each group fits in one segment even if no record is removed: in bytes of the log and
    of both indexes, and in the range of offsets.

    >>> sizes = [SegmentSizes(0, 40, 0, 0), SegmentSizes(5, 60, 0, 0)]
    >>> group_segments([*sizes, SegmentSizes(9, 1, 0, 0)], 100, 100, 12)
    [[0, 1], [2]]
    """
    groups: list[list[int]] = []
    base = size = index_size = time_index_size = 0
    for number, segment in enumerate(segments):
        size += segment.size
        index_size += segment.index_size
        time_index_size += segment.time_index_size
        # The last offset is estimated, as reading it would take a scan.
        is_last = number + 1 == len(segments)
        end = first_uncleanable_offset if is_last else segments[number + 1].base_offset
        is_in_range = segment.size == 0 or end - 1 - base <= MAX_OFFSET_DELTA
        fits = size <= max_size and max(index_size, time_index_size) <= max_index_size
        if groups and fits and is_in_range:
            groups[-1].append(number)
        else:
            groups.append([number])
            base, size = segment.base_offset, segment.size
            index_size, time_index_size = segment.index_size, segment.time_index_size
    return groups
