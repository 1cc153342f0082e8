"""The kernel of index entries agrees with the loop of Kafka's source."""

from struct import Struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import _speedups
from kafkalog._speedups import IndexFault
from kafkalog.formats.layout import BATCH

BATCHES = st.lists(
    st.tuples(st.integers(1, 60), st.integers(-1, 9), st.integers(1, 9)), max_size=30
)
MANY = 2**40
INDEX_ENTRY, TIME_ENTRY = Struct(">ii"), Struct(">qi")


def rows_of(batches):
    """Return headers of batches of (size, greatest timestamp, number of offsets)."""
    rows = np.zeros(len(batches), BATCH)
    if batches:
        sizes, rows["max_timestamp"], counts = zip(*batches, strict=True)
        rows["size_in_bytes"], rows["last_offset"] = sizes, np.cumsum(counts)
    return rows


def made(
    rows,
    position,
    interval,
    filling,
    *,
    offsets=(MANY, b""),
    times=(MANY, b""),
    skip_full=False,
):
    """Call the kernel; return the entries it made, and the rest of its result."""
    done, position, fault, index, time, filling = _speedups.make_entries(
        rows, 0, position, 0, interval, filling, offsets, times, skip_full
    )
    entries = list(INDEX_ENTRY.iter_unpack(index)), list(TIME_ENTRY.iter_unpack(time))
    return entries, (done, position, fault, filling)


@given(
    batches=BATCHES,
    position=st.integers(0, 1000),
    interval=st.integers(0, 100),
    filling=st.tuples(st.integers(0, 200), st.integers(-1, 9), st.just(0)),
)
def test_batches_get_entries_as_in_kafkas_append(batches, position, interval, filling):
    rows = rows_of(batches)
    counted, timestamp, offset = filling
    entries, times, at = [], [], position
    for row in rows:
        if row["max_timestamp"] > timestamp:
            timestamp, offset = int(row["max_timestamp"]), int(row["last_offset"])
        if counted > interval:
            entries.append((int(row["last_offset"]), at))
            if timestamp > (times[-1][0] if times else -1):
                times.append((timestamp, offset))
            counted = 0
        at += int(row["size_in_bytes"])
        counted += int(row["size_in_bytes"])
    state = len(rows), at, IndexFault.FITS, (counted, timestamp, offset)
    assert made(rows, position, interval, filling) == ((entries, times), state)


@given(batches=BATCHES, interval=st.integers(0, 100), cut=st.integers(0, 30))
def test_batches_may_come_in_several_calls(batches, interval, cut):
    rows = rows_of(batches)
    whole, state = made(rows, 0, interval, (0, -1, 0))
    front, (_, position, _, filling) = made(rows[:cut], 0, interval, (0, -1, 0))
    last = TIME_ENTRY.pack(*front[1][-1]) if front[1] else b""
    back, rest = made(rows[cut:], position, interval, filling, times=(MANY, last))
    assert (front[0] + back[0], front[1] + back[1]) == whole
    assert rest[1:] == state[1:]


@given(batches=BATCHES, interval=st.integers(0, 100))
def test_counting_from_the_start_equals_the_rule_of_recovery(batches, interval):
    positions, at, indexed = [], 0, 0
    for size, *_ in batches:
        if at - indexed > interval:
            positions.append(at)
            indexed = at
        at += size
    (entries, _), _ = made(rows_of(batches), 0, interval, (0, -1, 0))
    assert [position for _, position in entries] == positions


def test_a_batch_whose_entry_is_rejected_ends_the_call():
    rows = rows_of([(10, 1, 1), (10, 2, 1), (10, 3, 1)])
    filling = 1, -1, 0
    for offsets, times, fault, entries in (
        ((1, b""), (9, b""), IndexFault.OFFSETS_FULL, (1, 1)),
        ((9, b""), (1, b""), IndexFault.TIMES_FULL, (2, 1)),
    ):
        found, (done, position, *state) = made(
            rows, 70, 0, filling, offsets=offsets, times=times
        )
        assert (len(found[0]), len(found[1])) == entries
        assert (done, position, state) == (1, 80, [fault, (10, 2, 2)])
    for offset, time, fault in (
        (INDEX_ENTRY.pack(1, 0), b"", IndexFault.OFFSET_ORDER),
        (b"", TIME_ENTRY.pack(0, 2), IndexFault.TIME_ORDER),
        (b"", TIME_ENTRY.pack(2, 0), IndexFault.TIME_ORDER),
    ):
        ends = {"offsets": (9, offset), "times": (9, time)}
        assert made(rows, 0, 0, filling, **ends)[1][2] == fault


def test_entries_that_a_full_index_rejects_may_be_skipped():
    rows = rows_of([(10, 1, 1), (10, 2, 1), (10, 3, 1)])
    found, state = made(rows, 0, 0, (1, -1, 0), offsets=(1, b""), skip_full=True)
    assert found == ([(1, 0)], [(1, 1)])
    assert state == (3, 30, IndexFault.FITS, (10, 3, 3))


def test_one_call_makes_a_bounded_number_of_entries():
    rows = rows_of([(10, -1, 1)] * 300)
    (entries, _), (done, position, fault, _) = made(rows, 0, 0, (1, -1, 0))
    assert len(entries) == done == position // 10 < 300
    assert not fault
