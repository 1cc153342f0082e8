"""Segments by base offset, compared with a sorted list."""

import threading
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.errors import LogArgumentError
from kafkalog.log.segment_map import SegmentMap
from tests.log.writing import batch, load

BASES = st.lists(st.integers(0, 60), max_size=12)
OFFSET = st.integers(-1, 62)


def a_map_of(bases):
    segments = SegmentMap()
    for base in bases:
        segments.add(SimpleNamespace(base_offset=base, size=base))
    return segments


def bases_of(segments):
    return [segment.base_offset for segment in segments]


@given(added=BASES, removed=BASES)
def test_segments_are_in_the_order_of_their_bases(added, removed):
    segments = a_map_of(added)
    for base in removed:
        segments.remove(base)
    left = sorted(set(added) - set(removed))
    assert bases_of(segments) == segments.base_offsets == left
    assert len(segments) == len(left)
    assert sum(segment.size for segment in segments) == sum(left)
    if left:
        assert segments.first.base_offset == left[0]
        assert segments.active.base_offset == left[-1]


@given(bases=BASES, offset=OFFSET)
def test_neighbours_of_an_offset_are_found(bases, offset):
    segments, known = a_map_of(bases), sorted(set(bases))

    def base_of(segment):
        return None if segment is None else segment.base_offset

    below = [base for base in known if base < offset]
    above = [base for base in known if base > offset]
    at = [base for base in known if base <= offset]
    assert base_of(segments.lower(offset)) == (below[-1] if below else None)
    assert base_of(segments.higher(offset)) == (above[0] if above else None)
    assert base_of(segments.floor(offset)) == (at[-1] if at else None)
    assert bases_of(segments.above(offset)) == above


@given(bases=BASES, start=OFFSET, length=st.integers(0, 30))
def test_a_range_has_all_segments_that_may_hold_its_offsets(bases, start, length):
    segments, end = a_map_of(bases), start + length
    known = sorted(set(bases))
    holder = [offset for offset in known if offset <= start][-1:]
    inside = [offset for offset in known if start < offset < end]
    expected = holder + inside if length else []
    assert bases_of(segments.between(start, end)) == [
        offset for offset in expected if offset < end
    ]


def test_a_range_that_ends_before_it_begins_is_refused():
    with pytest.raises(LogArgumentError, match="end offset 4, expected at least 5"):
        a_map_of([0]).between(5, 4)


def test_a_segment_replaces_one_with_the_same_base():
    segments = a_map_of([0, 7])
    new = SimpleNamespace(base_offset=7, size=1)
    segments.add(new)
    assert segments.active is new
    assert segments.base_offsets == [0, 7]


@given(bases=BASES, requested=OFFSET)
def test_a_segment_is_created_once_and_only_on_request(bases, requested):
    made = []

    def make(base):
        made.append(base)
        return SimpleNamespace(base_offset=base, size=base)

    segments = SegmentMap()
    for base in sorted(set(bases)):
        segments.expect(base, make)
    found = [segments.floor(requested), segments.floor(requested)]
    assert found[0] is found[1]
    assert segments.in_use == [segment for segment in found[:1] if segment is not None]
    assert len(segments) == len(set(bases))
    assert bases_of(segments) == sorted(set(bases)) == sorted(made)


def test_a_segment_that_was_never_requested_can_be_removed():
    segments = SegmentMap()
    for base in (0, 7, 9):
        segments.expect(base, lambda base: SimpleNamespace(base_offset=base, size=1))
    segments.remove(9)
    assert 9 not in segments
    assert segments.active.base_offset == 7
    new = SimpleNamespace(base_offset=7, size=1)
    segments.add(new)
    assert segments.active is new
    assert segments.base_offsets == [0, 7]
    segments.clear()
    assert 0 not in segments


def test_a_listing_of_all_segments_waits_for_a_running_deletion(tmp_path):
    with load(tmp_path) as log:
        for _ in range(30):
            log.append(batch(3))
    log = load(tmp_path)
    log.update_high_watermark(log.log_end_offset)
    found = []
    asking = threading.Thread(target=lambda: found.append(log.growing_segments))
    with log.runtime.lock:
        asking.start()
        asking.join(timeout=0.2)
        assert not found
        log.delete_records(60)
        assert log.delete_old_segments() > 1
    asking.join(timeout=60)
    assert found == [log.growing_segments]
    log.close()
