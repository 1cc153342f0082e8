"""The index kernels agree with simple implementations."""

from bisect import bisect_right

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import _speedups

WIDTHS = {4: ">i4", 8: ">i8"}
INT64 = st.integers(-(2**63), 2**63 - 1)
EDGES = st.sampled_from([-(2**63), -(2**31), -1, 0, 1, 2**31 - 1, 2**63 - 1])


def integers(width):
    """Draw integers of `width` bytes, often the extremes."""
    low, high = -(2 ** (8 * width - 1)), 2 ** (8 * width - 1) - 1
    return EDGES.filter(lambda n: low <= n <= high) | st.integers(low, high)


@st.composite
def tables(draw, max_size=60):
    """Draw slots with a key and a value field: bytes, fields, columns."""
    key_width, value_width = (
        draw(st.sampled_from([4, 8])),
        draw(st.sampled_from([4, 8])),
    )
    gaps = [draw(st.integers(0, 3)) for _ in range(3)]
    keys = draw(st.lists(integers(key_width), max_size=max_size))
    values = draw(
        st.lists(integers(value_width), min_size=len(keys), max_size=len(keys))
    )
    key_at = gaps[0]
    value_at = key_at + key_width + gaps[1]
    stride = value_at + value_width + gaps[2]
    names = {
        "key": (WIDTHS[key_width], key_at),
        "value": (WIDTHS[value_width], value_at),
    }
    dtype = np.dtype(
        {
            "names": list(names),
            "formats": [kind for kind, _ in names.values()],
            "offsets": [at for _, at in names.values()],
            "itemsize": stride,
        }
    )
    rows = np.zeros(len(keys), dtype)
    rows["key"], rows["value"] = keys, values
    incomplete = draw(st.binary(max_size=stride - 1))
    data = np.frombuffer(rows.tobytes() + incomplete, np.uint8)
    return data, stride, (key_at, key_width), (value_at, value_width), keys, values


@st.composite
def sorted_tables(draw):
    """Draw `tables` with ascending keys."""
    data, stride, key, value, keys, values = draw(tables())
    keys.sort()
    whole = bytearray(data.tobytes())
    for slot, number in enumerate(keys):
        start = slot * stride + key[0]
        whole[start : start + key[1]] = number.to_bytes(key[1], "big", signed=True)
    return np.frombuffer(bytes(whole), np.uint8), stride, key, value, keys, values


def near(keys, base):
    """Draw targets: any integers, and those next to keys."""
    adjacent = [n for key in keys for n in (key + base - 1, key + base, key + base + 1)]
    inside = [n for n in adjacent if -(2**63) <= n < 2**63]
    return st.lists(
        INT64 | EDGES | st.sampled_from(inside) if inside else INT64, max_size=50
    )


@given(st.data(), sorted_tables(), st.booleans())
def test_a_search_equals_bisect(data, table, ordered):
    src, stride, key, value, keys, values = table
    base = 0 if key[1] == 8 else data.draw(INT64)
    targets = data.draw(near(keys, base))
    if ordered:
        targets.sort()
    expected = [bisect_right(keys, t - base) - 1 for t in targets]
    column, out = np.array(targets, np.int64), np.empty(len(targets), np.int64)
    _speedups.search_slots(src, stride, (*key, base), column, out)
    assert out.tolist() == expected
    taken = [-7 if slot < 0 else values[slot] for slot in expected]
    single = [
        _speedups.search_value(src, stride, (*key, base), (*value, 0), -7, t)
        for t in targets
    ]
    _speedups.take_field(src, stride, (*value, 0), -7, out)
    assert out.tolist() == single == taken


@given(st.data(), sorted_tables())
def test_a_search_equals_searchsorted(data, table):
    src, stride, key, _, keys, _ = table
    targets = np.array(data.draw(near(keys, 0)), np.int64)
    out = np.empty(len(targets), np.int64)
    _speedups.search_slots(src, stride, (*key, 0), targets, out)
    column = np.array(keys, np.int64)
    np.testing.assert_array_equal(
        out, np.searchsorted(column, targets, side="right") - 1
    )


@pytest.mark.parametrize("count", [0, 1, 2, 3, 15, 16, 17, 1000, 1024, 1025, 30_000])
def test_large_searches_agree_with_numpy_in_any_order(count):
    random = np.random.default_rng(count)
    column = np.sort(random.integers(0, 5 * count + 1, count))
    src = np.frombuffer(column.astype(">i4").tobytes(), np.uint8)
    targets = random.integers(-2, 5 * count + 3, 1000)
    for order in (targets, np.sort(targets), np.sort(targets)[::-1].copy()):
        out = np.empty(1000, np.int64)
        _speedups.search_slots(src, 4, (0, 4, 0), order, out)
        expected = np.searchsorted(column, order, side="right") - 1
        np.testing.assert_array_equal(out, expected)


@given(tables(), st.lists(INT64 | EDGES, max_size=50), st.booleans())
def test_a_search_of_an_unordered_column_returns_a_slot_in_range(
    table, targets, ordered
):
    src, stride, key, _, keys, _ = table
    column = np.array(sorted(targets) if ordered else targets, np.int64)
    out = np.empty(len(column), np.int64)
    _speedups.search_slots(src, stride, (*key, 0), column, out)
    assert ((out >= -1) & (out < max(len(keys), 1))).all()


@pytest.mark.parametrize("field", [(0, 2), (-1, 4), (5, 4), (0, 8)])
def test_a_field_outside_its_slot_is_rejected(field):
    src, out = np.zeros(16, np.uint8), np.zeros(1, np.int64)
    rows = np.zeros((2, 4), np.int64)
    stride, inside, field = 7, (0, 4, 0), (*field, 0)
    calls = [
        lambda: _speedups.search_slots(src, stride, field, out, out.copy()),
        lambda: _speedups.take_field(src, stride, field, 0, out),
        lambda: _speedups.search_value(src, stride, field, inside, 0, 0),
        lambda: _speedups.search_value(src, stride, inside, field, 0, 0),
        lambda: _speedups.find_slot(src, stride, field, 0, False),
        lambda: _speedups.count_rising(src, stride, inside, field, True),
        lambda: _speedups.widen_slots(src, stride, field, inside, 0, 0, rows),
    ]
    reason = f"field of {field[1]} bytes at byte {field[0]}, expected 4 or 8 bytes"
    for call in calls:
        with pytest.raises(ValueError, match=reason):
            call()


@pytest.mark.parametrize("stride", [0, -1, 3, -(2**63)])
def test_slots_without_space_for_a_field_are_rejected(stride):
    src, out = np.zeros(16, np.uint8), np.zeros(1, np.int64)
    with pytest.raises(ValueError, match=f"within the {stride} of a slot"):
        _speedups.take_field(src, stride, (0, 4, 0), 0, out)


def test_an_output_of_another_length_is_rejected():
    src, three, two = (
        np.zeros(16, np.uint8),
        np.zeros(3, np.int64),
        np.zeros(2, np.int64),
    )
    with pytest.raises(ValueError, match="rows of output"):
        _speedups.search_slots(src, 8, (0, 4, 0), three, two)
    with pytest.raises(ValueError, match="3 ranges and 3 of output for 2 targets"):
        _speedups.search_ranges(three, three, three, three, two, three)
    with pytest.raises(ValueError, match="2 stops of 3 starts"):
        _speedups.search_ranges(three, three, two, three, three, three)
    with pytest.raises(ValueError, match="rows of 3 numbers, expected 4"):
        _speedups.widen_slots(
            src, 8, (0, 4, 0), (4, 4, 0), 0, 0, np.zeros((2, 3), np.int64)
        )


@given(st.lists(INT64, max_size=20), st.lists(st.integers(-3, 30), max_size=20))
def test_a_slot_outside_the_table_gets_the_missing_value(values, slots):
    src = np.frombuffer(np.array(values, ">i8").tobytes(), np.uint8)
    out = np.array(slots, np.int64)
    _speedups.take_field(src, 8, (0, 8, 0), -9, out)
    expected = [values[slot] if 0 <= slot < len(values) else -9 for slot in slots]
    assert out.tolist() == expected


def rising_slots(rows, *, second_may_repeat):
    """Count the ascending rows at the start, one at a time."""
    count = 0
    for slot, (first, second) in enumerate(rows):
        last_first, last_second = rows[slot - 1] if slot else (-1, -1)
        repeats = second == last_second and second_may_repeat
        if first <= last_first or not (second > last_second or repeats):
            break
        count += 1
    return 0 if rows[:count] == [(0, 0)] else count


SMALL = st.tuples(st.integers(-1, 6), st.integers(-1, 6))


@given(st.lists(SMALL, max_size=8), st.booleans(), st.booleans(), st.booleans())
def test_ascending_slots_are_counted(rows, may_repeat, wide_first, sort):
    rows = sorted(rows) if sort else rows
    first = 8 if wide_first else 4
    dtype = np.dtype([("first", WIDTHS[first]), ("second", ">i4")])
    src = np.frombuffer(np.array(rows, dtype).tobytes(), np.uint8)
    fields = (0, first, 0), (first, 4, 0)
    counted = _speedups.count_rising(src, dtype.itemsize, *fields, may_repeat)
    assert counted == rising_slots(rows, second_may_repeat=may_repeat)


@given(st.binary(max_size=40), st.integers(0, 40), st.integers(0, 45))
def test_the_first_nonzero_byte_is_found(tail, zeros, start):
    data = bytes(zeros) + tail
    rest = data[start:].lstrip(b"\0")
    expected = max(len(data) - len(rest), start)
    assert _speedups.first_nonzero(np.frombuffer(data, np.uint8), start) == expected


@given(st.lists(st.tuples(integers(8), integers(4)), max_size=9), st.integers(0, 12))
def test_slots_are_widened_into_rows(rows, capacity):
    src = np.frombuffer(np.array(rows, ">i8,>i4").tobytes(), np.uint8)
    out = np.full((capacity, 4), 77, np.int64)
    filled = _speedups.widen_slots(src, 12, (0, 8, 0), (8, 4, 1000), 5, -3, out)
    assert filled == min(capacity, len(rows))
    expected = [[5, -3, first, second + 1000] for first, second in rows]
    assert out[:filled].tolist() == expected[:filled]
    assert (out[filled:] == 77).all()


@given(
    st.lists(st.integers(0, 30) | INT64, max_size=20).map(sorted),
    st.lists(st.tuples(st.integers(-3, 25), st.integers(-3, 25)), max_size=4),
    st.lists(st.tuples(st.integers(-1, 4), st.integers(-1, 31) | INT64), max_size=40),
    st.booleans(),
)
def test_each_range_of_a_column_is_searched_by_itself(column, ranges, queries, ordered):
    queries = sorted(queries) if ordered else queries
    native = np.zeros((len(column), 2), np.int64)
    native[:, 1] = column
    starts, stops = np.array(ranges, np.int64).reshape(-1, 2).T
    which, targets = np.array(queries, np.int64).reshape(-1, 2).T.copy()
    out = np.empty(len(queries), np.int64)
    _speedups.search_ranges(native[:, 1], starts, stops, which, targets, out)
    for (k, target), found in zip(queries, out.tolist(), strict=True):
        start, stop = ranges[k] if 0 <= k < len(ranges) else (0, 0)
        low, high = max(start, 0), min(stop, len(column))
        inside = bisect_right(column, target, low, high) if low < high else low
        assert found == (inside - 1 if inside > low else -1)


@given(st.lists(INT64, max_size=20), st.lists(INT64, max_size=40).map(sorted))
def test_a_search_of_an_unordered_range_returns_a_row_in_range(column, targets):
    rows, queries = np.array(column, np.int64), np.array(targets, np.int64)
    out, none = np.empty(len(queries), np.int64), np.zeros(len(queries), np.int64)
    whole = np.array([0, len(column)], np.int64)
    _speedups.search_ranges(rows, whole[:1], whole[1:], none, queries, out)
    assert ((out >= -1) & (out < max(len(column), 1))).all()


def kafkas_slot(keys, warm, target, *, above):
    """Transcribe ``AbstractIndex.indexSlotRangeFor``, comparison by comparison."""
    if not keys:
        return -1
    low, high = max(0, len(keys) - 1 - warm), len(keys) - 1
    if not keys[low] < target:
        if keys[0] > target:
            return 0 if above else -1
        low, high = 0, low
    while low < high:
        middle = (low + high + 1) // 2
        if keys[middle] > target:
            high = middle - 1
        elif keys[middle] < target:
            low = middle
        else:
            return middle
    if not above:
        return low
    return -1 if low == len(keys) - 1 else low + 1


@given(tables(), integers(8), EDGES, st.booleans())
def test_a_slot_is_found_as_a_broker_finds_it(table, target, base, above):
    data, stride, key, _, keys, _ = table
    warm = 8192 // stride
    for value in [target, *keys[:3]]:
        relative = max(-(2**63), min(value - base, 2**63 - 1))
        found = _speedups.find_slot(data, stride, (*key, base), value, above)
        assert found == kafkas_slot(keys, warm, relative, above=above)


@pytest.mark.parametrize("count", [1, 2, 1024, 1025, 1026, 5000])
def test_a_slot_of_a_sorted_index_is_the_nearest(count):
    keys = np.arange(1, count + 1, dtype=">i4") * 3
    data = np.column_stack([keys, keys]).astype(">i4").view(np.uint8).reshape(-1)
    for target in {0, 2, 4, 3 * count // 2, 3 * count - 4, 3 * count, 3 * count + 1}:
        last = np.searchsorted(keys, target, side="right") - 1
        first = np.searchsorted(keys, target, side="left")
        if target == keys[0]:
            first += 1  # Kafka does not check whether the first is equal
        find = [data, 8, (4, 4, 0), target]
        assert _speedups.find_slot(*find, False) == last
        assert _speedups.find_slot(*find, True) == (first if first < count else -1)
