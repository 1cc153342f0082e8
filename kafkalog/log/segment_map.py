"""The segments of a log that is written to, by base offset, the lowest first.

Finding one costs the same in a log of one segment and, but for a few comparisons, in
one of a thousand; nothing is listed or copied to append. Of a log that is opened most
segments are never asked for: of those no more is kept than where they begin.

Knows: the order of segments. Does not know: what is in them.
Source: ``LogSegments.java``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator

from kafkalog.errors import LogArgumentError
from kafkalog.segment.growing_segment import GrowingSegment


class SegmentMap:
    """Segments by base offset; `active`, the last, is the one that is appended to."""

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._segments: dict[int, GrowingSegment] = {}
        self._made_by: dict[int, Callable[[int], GrowingSegment]] = {}
        self._active: GrowingSegment | None = None

    def __len__(self) -> int:
        return len(self._bases)

    def __iter__(self) -> Iterator[GrowingSegment]:
        """Give the segments there are now, the lowest base offset first."""
        return map(self._at, tuple(self._bases))

    def __contains__(self, base_offset: int) -> bool:
        return base_offset in self._segments or base_offset in self._made_by

    def add(self, segment: GrowingSegment) -> None:
        """Take in a segment, in place of one with the same base offset."""
        base_offset = segment.base_offset
        if base_offset not in self:
            insort(self._bases, base_offset)
        self._segments[base_offset] = segment
        self._active = None

    def expect(
        self, base_offset: int, made_by: Callable[[int], GrowingSegment]
    ) -> None:
        """Take in a segment that `made_by` makes when it is asked for.

        In a place that no other has.
        """
        insort(self._bases, base_offset)
        self._made_by[base_offset] = made_by
        self._active = None

    def remove(self, base_offset: int) -> None:
        """Let go of a segment, if it is there."""
        if base_offset in self:
            del self._bases[bisect_left(self._bases, base_offset)]
            self._segments.pop(base_offset, None)
            self._made_by.pop(base_offset, None)
            self._active = None

    def clear(self) -> None:
        """Let go of all."""
        self._bases.clear()
        self._segments.clear()
        self._made_by.clear()
        self._active = None

    @property
    def in_use(self) -> list[GrowingSegment]:
        """The segments asked for so far, in order: only they have files open."""
        return [self._segments[base] for base in sorted(self._segments)]

    @property
    def active(self) -> GrowingSegment:
        """The last segment."""
        active = self._active
        if active is None:
            active = self._active = self._at(self._bases[-1])
        return active

    @property
    def base_offsets(self) -> list[int]:
        """The base offsets, rising."""
        return list(self._bases)

    @property
    def first(self) -> GrowingSegment:
        """The segment with the lowest base offset."""
        return self._at(self._bases[0])

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all ``.log`` files."""
        return sum(segment.size for segment in self)

    def floor(self, offset: int) -> GrowingSegment | None:
        """Return the segment with the greatest base at or below `offset`."""
        place = bisect_right(self._bases, offset)
        return self._at(self._bases[place - 1]) if place else None

    def lower(self, offset: int) -> GrowingSegment | None:
        """Return the segment with the greatest base below `offset`."""
        place = bisect_left(self._bases, offset)
        return self._at(self._bases[place - 1]) if place else None

    def higher(self, offset: int) -> GrowingSegment | None:
        """Return the segment with the lowest base above `offset`."""
        place = bisect_right(self._bases, offset)
        return self._at(self._bases[place]) if place < len(self) else None

    def above(self, offset: int) -> list[GrowingSegment]:
        """Segments with a base above `offset`."""
        places = self._bases[bisect_right(self._bases, offset) :]
        return [self._at(base) for base in places]

    def between(self, start: int, end: int) -> list[GrowingSegment]:
        """Segments that may hold offsets from `start` to below `end`.

        From the one that holds `start`, or the first, to the last that begins below
        `end`; none if both are the same.
        """
        if end < start:
            raise LogArgumentError(f"segments from offset {start} to {end}, below it")
        if start == end:
            return []
        first = max(0, bisect_right(self._bases, start) - 1)
        last = bisect_left(self._bases, end)
        return [self._at(base) for base in self._bases[first:last]]

    def _at(self, base_offset: int) -> GrowingSegment:
        segment = self._segments.get(base_offset)
        if segment is None:
            # Whoever comes first, in whatever thread, makes the one there is.
            made = self._made_by[base_offset](base_offset)
            segment = self._segments.setdefault(base_offset, made)
        return segment
