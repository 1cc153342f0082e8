"""The segments of a log that is open for writing, by base offset.

A segment is found by bisection. An append neither lists nor copies the segments. Most
segments of an opened log are never used. Only the base offset of such a segment is kept
until it is requested.

Source: ``LogSegments.java``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator

from kafkalog.errors import LogArgumentError
from kafkalog.segment.growing_segment import GrowingSegment


class SegmentMap:
    """Segments by base offset; the last is the active one."""

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._segments: dict[int, GrowingSegment] = {}
        self._makers: dict[int, Callable[[int], GrowingSegment]] = {}
        self._active: GrowingSegment | None = None

    def __len__(self) -> int:
        return len(self._bases)

    def __iter__(self) -> Iterator[GrowingSegment]:
        """Yield the present segments in order of their base offsets."""
        return map(self._at, tuple(self._bases))

    def __contains__(self, base_offset: int) -> bool:
        return base_offset in self._segments or base_offset in self._makers

    def add(self, segment: GrowingSegment) -> None:
        """Add a segment; it replaces one with the same base offset."""
        base_offset = segment.base_offset
        if base_offset not in self:
            insort(self._bases, base_offset)
        self._segments[base_offset] = segment
        self._active = None

    def expect(self, base_offset: int, make: Callable[[int], GrowingSegment]) -> None:
        """Add a segment that `make` creates when it is requested.

        No other segment may have this base offset.
        """
        insort(self._bases, base_offset)
        self._makers[base_offset] = make
        self._active = None

    def remove(self, base_offset: int) -> None:
        """Remove a segment if it exists."""
        if base_offset in self:
            del self._bases[bisect_left(self._bases, base_offset)]
            self._segments.pop(base_offset, None)
            self._makers.pop(base_offset, None)
            self._active = None

    def clear(self) -> None:
        """Remove all segments."""
        self._bases.clear()
        self._segments.clear()
        self._makers.clear()
        self._active = None

    @property
    def in_use(self) -> list[GrowingSegment]:
        """The segments requested so far, in order: only these have open files."""
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
        """The base offsets, in ascending order."""
        return list(self._bases)

    def last_base_offsets(self, count: int) -> list[int]:
        """Return the base offsets of the last segments, in ascending order."""
        return self._bases[-count:]

    @property
    def first(self) -> GrowingSegment:
        """The segment with the lowest base offset."""
        return self._at(self._bases[0])

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
        """Return the segments with a base above `offset`."""
        places = self._bases[bisect_right(self._bases, offset) :]
        return [self._at(base) for base in places]

    def between(self, start: int, end: int) -> list[GrowingSegment]:
        """Return the segments that may hold offsets from `start` to below `end`.

        These are the segments from that of `start`, or the first, to the last one that
        begins below `end`; none if both are equal.
        """
        if end < start:
            raise LogArgumentError(f"end offset {end}, expected at least {start}")
        if start == end:
            return []
        first = max(0, bisect_right(self._bases, start) - 1)
        last = bisect_left(self._bases, end)
        return [self._at(base) for base in self._bases[first:last]]

    def _at(self, base_offset: int) -> GrowingSegment:
        segment = self._segments.get(base_offset)
        if segment is None:
            # Of several threads that create it the first one wins.
            made = self._makers[base_offset](base_offset)
            segment = self._segments.setdefault(base_offset, made)
        return segment
