"""Groups of rows have the numbers of a dictionary, and the sums of plain loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import _speedups
from kafkalog.analysis import group_totals
from kafkalog.analysis.group_totals import GroupTable, GroupTotals, Keys

KEYS = st.one_of(st.none(), st.binary(max_size=3), st.binary(min_size=7, max_size=40))
ROWS = st.lists(st.tuples(KEYS, st.integers(-2, 2), st.integers(0, 1)), max_size=80)


def keys_of(values):
    """Return keys as spans, with other bytes between them."""
    data, starts = b"?", []
    for value in values:
        starts.append(len(data))
        data += (value or b"") + b"?"
    lengths = [-1 if value is None else len(value) for value in values]
    return Keys(
        np.frombuffer(data, np.uint8),
        np.array(starts, np.int32),
        np.array(lengths, np.int32),
    )


@given(st.lists(ROWS, max_size=4))
def test_a_row_has_the_number_of_the_first_equal_row(parts):
    table, expected = GroupTable(2), {}
    for rows in parts:
        codes = np.array([row[1:] for row in rows], np.int64).reshape(-1, 2)
        found = table.find(keys_of([row[0] for row in rows]), codes)
        assert found.tolist() == [
            expected.setdefault(row, len(expected)) for row in rows
        ]
    keys = table.column(np.arange(table.count)).to_list()
    codes = map(tuple, table.codes[: table.count].tolist())
    assert [(key, *code) for key, code in zip(keys, codes, strict=True)] == [*expected]


def test_a_table_grows_and_keeps_chosen_groups(monkeypatch):
    monkeypatch.setattr(group_totals, "FIRST_GROUPS", 1)
    table, values = GroupTable(0), [b"%d" % (i * i % 1009) for i in range(3000)]
    found = table.find(keys_of(values), np.empty((len(values), 0), np.int64))
    distinct = list(dict.fromkeys(values))
    assert [distinct[group] for group in found.tolist()] == values
    chosen = np.arange(0, table.count, 3)
    table.keep(chosen)
    assert table.column(np.arange(table.count)).to_list() == distinct[::3]
    again = table.find(keys_of(distinct), np.empty((len(distinct), 0), np.int64))
    assert again[::3].tolist() == list(range(len(chosen)))
    assert table.count == len(distinct)


@given(ROWS.filter(bool), st.integers(1, 5))
def test_totals_are_those_of_a_dictionary(rows, max_groups):
    def measures_of(rows):
        numbers = np.arange(len(rows), dtype=np.int64)
        return {
            "code": np.array([row[1] for row in rows], np.int64),
            "bytes": numbers + 1,
            "first_offset": -numbers,
            "last_offset": numbers,
        }

    names = ("bytes", "last_offset", "first_offset")
    exact = GroupTotals(groups=("code",), measures=names, max_groups=1000)
    rough = GroupTotals(groups=("code",), measures=names, max_groups=max_groups)
    measures = measures_of(rows)
    for totals in (exact, rough):
        for i in range(0, len(rows), 7):
            part = slice(i, i + 7)
            keys = keys_of([row[0] for row in rows[part]])
            totals.add({name: values[part] for name, values in measures.items()}, keys)
    expected = {}
    for i, row in enumerate(rows):
        size, last, first = expected.get(row[:2], (0, -1, 0))
        expected[row[:2]] = size + i + 1, max(last, i), min(first, -i)
    every = np.arange(exact.table.count)
    found = zip(*(exact.column(name).tolist() for name in names), strict=True)
    assert list(found) == list(expected.values())
    every = np.arange(rough.table.count)
    assert rough.with_dropped(rough.sum_of(every)) == {
        "bytes": sum(range(len(rows) + 1)),
        "last_offset": len(rows) - 1,
        "first_offset": 1 - len(rows),
    }
    assert len(every) <= 2 * max_groups
    keys = rough.table.column(every).to_list()
    for key, [code], size in zip(
        keys,
        rough.table.codes[every].tolist(),
        rough.column("bytes").tolist(),
        strict=True,
    ):
        assert size <= expected[key, code][0] <= size + rough.error_bytes


@given(
    st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(1, 9)), max_size=5),
    st.data(),
)
def test_the_parts_of_a_total_add_up_to_it(totals, data):
    counts = np.array([count for _, count in totals], np.int64)
    number = int(counts.sum())
    weights = data.draw(
        st.lists(st.integers(1, 2**20), min_size=number, max_size=number)
    )
    parts = np.full(number, -1, np.int64)
    amounts = np.array([total for total, _ in totals], np.int64)
    done = _speedups.divide_totals(amounts, np.array(weights, np.int64), counts, parts)
    assert done == number
    first = 0
    for total, count in totals:
        own = weights[first : first + count]
        found = parts[first : first + count].tolist()
        assert sum(found) == total
        for part, weight in zip(found, own, strict=True):
            assert abs(part - total * weight / sum(own)) <= 1
        first += count


@pytest.mark.parametrize(("start", "length"), [(-1, 1), (4, 1), (0, 5), (2**31 - 1, 2)])
def test_hashing_stops_at_a_key_outside_of_the_data(start, length):
    data = np.zeros(4, np.uint8)
    starts, lengths = np.array([[0, start], [4, length]], np.int32)
    hashes = np.zeros(2, np.uint64)
    codes = np.empty((2, 0), np.int64)
    assert _speedups.hash_rows(data, starts, lengths, codes, 1, hashes) == 1


def table_of(*, slots=2, fields=3, width=1):
    """Return the arrays of a table for one group."""
    return (
        np.full(slots, -1, np.int32),
        np.zeros((1, fields), np.int64),
        np.zeros((1, width), np.int64),
        np.zeros(8, np.uint8),
    )


@pytest.mark.parametrize(
    ("table", "groups", "match"),
    [
        (table_of(slots=0), 0, "0 slots, expected a power of two"),
        (table_of(slots=3), 0, "3 slots, expected a power of two"),
        (table_of(fields=2), 0, "1 x 2, .* expected 3 fields and 1 codes"),
        (table_of(width=2), 0, "codes of 1 x 2, expected 3 fields and 1 codes"),
        (table_of(), 2, "2 groups in entries of shape 1 x 3"),
    ],
)
def test_a_table_of_other_shapes_is_rejected(table, groups, match):
    keys, out = keys_of([b"a"]), np.empty(1, np.int32)
    codes, hashes = np.zeros((1, 1), np.int64), np.zeros(1, np.uint64)
    with pytest.raises(ValueError, match=match):
        _speedups.find_groups(*keys, codes, hashes, table, groups, out)


def test_group_columns_of_different_lengths_are_rejected():
    keys, codes = keys_of([b"a", b"b"]), np.zeros((1, 1), np.int64)
    two, longs = np.zeros(2, np.uint64), np.zeros(1, np.int64)
    with pytest.raises(ValueError, match="a column of 1 rows, expected 2"):
        _speedups.hash_rows(*keys, codes, 1, two)
    with pytest.raises(ValueError, match="a column of 1 rows, expected 2"):
        _speedups.find_groups(*keys, codes, two, table_of(), 0, np.zeros(2, np.int32))
    with pytest.raises(ValueError, match="1 slots for 1 groups"):
        _speedups.fill_slots(np.zeros((1, 3), np.int64), np.full(1, -1, np.int32))
    totals = np.zeros((1, 2), np.int64)
    with pytest.raises(ValueError, match="1 x 1 measures and 2 totals"):
        _speedups.add_measures(np.zeros(2, np.int32), codes, 1, 0, totals)
    with pytest.raises(ValueError, match="1 weights of 2 rows"):
        _speedups.divide_totals(longs, longs, longs, np.zeros(2, np.int64))


@pytest.mark.parametrize(("start", "length"), [(-1, 1), (4, 1), (0, 5), (2**31 - 1, 2)])
def test_a_key_outside_of_the_data_has_no_group(start, length):
    data = np.zeros(4, np.uint8)
    starts, lengths = np.array([[0, start], [4, length]], np.int32)
    codes, hashes = np.empty((2, 0), np.int64), np.arange(2, dtype=np.uint64)
    out = np.empty(2, np.int32)
    table = table_of(slots=8, width=0)
    with pytest.raises(ValueError, match=f"{length} bytes at {start}, .* the 4 of"):
        _speedups.find_groups(data, starts, lengths, codes, hashes, table, 0, out)


@pytest.mark.parametrize("group", [-1, 3, 2**31 - 1, -(2**31)])
def test_measures_of_a_group_outside_of_the_totals_are_rejected(group):
    totals = np.zeros((3, 2), np.int64)
    groups = np.array([0, group, 2], np.int32)
    with pytest.raises(
        ValueError, match=f"groups {min(group, 0)} to .* expected 0 to 2"
    ):
        _speedups.add_measures(groups, np.ones((2, 3), np.int64), 1, 0, totals)
    assert not totals.any()


@pytest.mark.parametrize(
    ("total", "weights"),
    [
        (5, [0, 0]),
        (5, [3, -1]),
        (5, [2**31 - 1, 1]),
        (5, [2**63 - 1, 2**63 - 1]),
        (2**31, [1, 1]),
        (-1, [1, 1]),
    ],
)
def test_dividing_stops_at_weights_and_totals_out_of_range(total, weights):
    parts = np.full(3, -1, np.int64)
    done = _speedups.divide_totals(
        np.array([7, total]), np.array([1, *weights]), np.array([1, 2]), parts
    )
    assert done == 1
    assert parts.tolist() == [7, -1, -1]


def test_a_total_without_rows_is_divided_among_none():
    parts = np.full(1, -1, np.int64)
    done = _speedups.divide_totals(
        np.array([0, 9]), np.array([4]), np.array([0, 1]), parts
    )
    assert (done, parts.tolist()) == (1, [9])


def test_dividing_stops_at_counts_outside_of_the_rows():
    weights, parts = np.ones(2, np.int64), np.zeros(2, np.int64)
    for counts in ([1, 2], [1, -1]):
        done = _speedups.divide_totals(
            np.array([5, 5], np.int64), weights, np.array(counts, np.int64), parts
        )
        assert done == 1
