"""Conditions: what expressions of Arrow and Polars state, and what that excludes."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkalog
from kafkalog.export.filter_terms import read_filter
from kafkalog.export.polars_source import read_predicate
from kafkalog.integer_limits import MAX_INT64, MIN_INT64
from kafkalog.query.conditions import (
    ALL,
    ANYTHING,
    MAX_DEPTH,
    NOTHING,
    Comparison,
    Either,
    Every,
    NullTest,
    ValueRange,
    batch_ranges,
)
from kafkalog.query.scan_columns import COLUMNS
from tests import golden_data

HALF_A_MS = datetime(2026, 1, 1, 0, 0, 0, 500, tzinfo=UTC)
NEW_YEAR = 1_767_225_600_000
OFFSET, TOPIC, TIME = map(pc.field, ("offset", "topic", "timestamp"))
P_OFFSET, P_TOPIC, P_TIME = map(pl.col, ("offset", "topic", "timestamp"))
ABOVE = Comparison("offset", ">", 4)


@pytest.mark.parametrize(
    ("arrow", "polars", "condition"),
    [
        (OFFSET > 4, P_OFFSET > 4, ABOVE),
        (pc.scalar(4) < OFFSET, pl.lit(4) < P_OFFSET, ABOVE),
        (OFFSET > 4.5, None, ABOVE),
        (OFFSET < 4.5, None, Comparison("offset", "<", 5)),
        (OFFSET == 4.5, None, ANYTHING),
        (~(OFFSET <= 4), ~(P_OFFSET <= 4), ABOVE),
        (TOPIC == "a", P_TOPIC == "a", Comparison("topic", "==", "a")),
        (
            (OFFSET > 4) & (OFFSET <= 9),
            P_OFFSET.is_between(4, 9, closed="right"),
            Every((ABOVE, Comparison("offset", "<=", 9))),
        ),
        (
            (OFFSET > 4) | (pc.field("is_control")) | (TOPIC == "a"),
            (P_OFFSET > 4) | (pl.col("is_control")) | (P_TOPIC == "a"),
            Either(
                (
                    ABOVE,
                    Comparison("is_control", "==", True),
                    Comparison("topic", "==", "a"),
                )
            ),
        ),
        (TIME.is_null(), P_TIME.is_null(), NullTest("timestamp")),
        (TIME.is_valid(), P_TIME.is_not_null(), NullTest("timestamp", inverted=True)),
        (TIME >= HALF_A_MS, None, Comparison("timestamp", ">=", NEW_YEAR + 1)),
        (TIME <= HALF_A_MS, None, Comparison("timestamp", "<=", NEW_YEAR)),
        (pc.scalar(False), None, NOTHING),
        (pa.scalar(None, pa.int64()) == OFFSET, None, NOTHING),
        (pc.field("value") == b"x", pl.col("value") == b"x", ANYTHING),
        (OFFSET + 1 > 4, P_OFFSET + 1 > 4, ANYTHING),
        (pc.field("headers", "key") == "x", None, ANYTHING),
    ],
    ids=str,
)
def test_an_expression_states_a_condition(arrow, polars, condition):
    assert read_filter(arrow).condition == condition
    if polars is not None:
        assert read_predicate(polars) == condition


LONG, P_LONG = pc.field("value") == b"x", pl.col("value") == b"x"


@pytest.mark.parametrize(
    ("arrow", "polars", "condition"),
    [
        (LONG & (OFFSET > 4), P_LONG & (P_OFFSET > 4), Every((ABOVE, ANYTHING))),
        (LONG & (LONG & LONG), P_LONG & P_LONG, ANYTHING),
        (~(LONG & (OFFSET > 4)), ~(P_LONG & (P_OFFSET > 4)), ANYTHING),
        (~~(LONG & (OFFSET > 4)), None, ANYTHING),
        (
            ~((TOPIC == "a") | (LONG & (OFFSET > 4))),
            ~((P_TOPIC == "a") | (P_LONG & (P_OFFSET > 4))),
            Every((Comparison("topic", "!=", "a"), ANYTHING)),
        ),
    ],
    ids=str,
)
def test_the_opposite_of_a_conjunction_depends_on_its_unknown_parts(
    arrow, polars, condition
):
    assert read_filter(arrow).condition == condition
    if polars is not None:
        assert read_predicate(polars) == condition


@pytest.mark.parametrize(
    ("polars", "condition"),
    [
        (P_OFFSET == 10**30, Comparison("offset", "==", 10**30)),
        (P_OFFSET < 4.5, Comparison("offset", "<", 5)),
        (P_OFFSET <= 2.0**53, ANYTHING),  # which 2**53 + 1 as a float is, too
        (pl.lit(2.0**53, pl.Float64) >= P_OFFSET, ANYTHING),
        (float("inf") > P_OFFSET, ANYTHING),
        (float("nan") > P_OFFSET, ANYTHING),
        (P_OFFSET.cast(pl.Float64) < 4.5, Comparison("offset", "<", 5)),
        (P_OFFSET.cast(pl.Float32) < 4.5, ANYTHING),
        (P_OFFSET.cast(pl.String) < "5", ANYTHING),
        (P_TIME.cast(pl.String) < "2", ANYTHING),
        (pl.col("is_control").cast(pl.String) == "true", ANYTHING),
        (pl.col("is_control").cast(pl.Float64) == 1.0, ANYTHING),
        (P_TOPIC.cast(pl.String) == "a", Comparison("topic", "==", "a")),
        (P_TOPIC.cast(pl.String) <= "a", Comparison("topic", "<=", "a")),
        (P_OFFSET.eq_missing(4), Comparison("offset", "==", 4)),
        (P_OFFSET.ne_missing(4), Comparison("offset", "!=", 4)),
        (P_TIME.eq_missing(None), ANYTHING),
        (P_OFFSET == "4", ANYTHING),
        (pl.lit(True) == P_OFFSET, ANYTHING),
        (P_TOPIC == 4, ANYTHING),
        (P_TIME == 4, ANYTHING),
    ],
    ids=str,
)
def test_a_predicate_of_polars_states_what_its_numbers_are_compared_as(
    polars, condition
):
    assert read_predicate(polars) == condition


def test_a_condition_has_a_limited_depth_and_terms_of_one_kind_are_not_deep():
    deep, p_deep, long = OFFSET > 4, P_OFFSET > 4, OFFSET > 4
    for number in range(1000):
        deep = (deep & (OFFSET > 5)) | (number == OFFSET)
        p_deep = (p_deep & (P_OFFSET > 5)) | (number == P_OFFSET)
        long = long | (number == OFFSET)
    assert read_filter(deep).condition.depth <= MAX_DEPTH
    assert read_predicate(p_deep).depth <= MAX_DEPTH
    assert read_filter(long).condition.depth == 1


INTEGERS = st.integers(-3, 9) | st.sampled_from([MIN_INT64, MAX_INT64])
LISTS = st.lists(INTEGERS, max_size=5) | st.lists(
    st.sampled_from(["", "a", "a\0", "b"])
)


@given(LISTS, st.data(), st.booleans())
def test_a_list_of_values_matches_where_one_of_them_does(values, data, is_opposite):
    is_text = bool(values) and isinstance(values[0], str)
    kind = st.sampled_from(["", "a", "a\0", "ab", "c"]) if is_text else INTEGERS
    column, name = (TOPIC, "topic") if is_text else (OFFSET, "offset")
    least, greatest, nulls = data.draw(kind), data.draw(kind), data.draw(st.booleans())
    ranges = {name: ValueRange(least, greatest, nulls)}
    term, each = column.isin(values), [Comparison(name, "==", v) for v in values]
    if least > greatest and values:
        assert not read_filter(term).condition.may_match(ranges)
        return
    expected = Either(tuple(each)).negated() if is_opposite else Either(tuple(each))
    found = read_filter(~term if is_opposite else term).condition
    assert found.may_match(ranges) == expected.may_match(ranges)
    polars = pl.col(name).is_in(values)
    found = read_predicate(~polars if is_opposite else polars)
    assert found.may_match(ranges) == expected.may_match(ranges)
    if not is_text:
        assert found.interval("offset") == expected.interval("offset")


@pytest.mark.parametrize("skip_nulls", [False, True])
@pytest.mark.parametrize("is_opposite", [False, True])
def test_null_is_in_a_set_as_arrow_has_it(skip_nulls, is_opposite):
    data = pa.table({"timestamp": pa.array([None], pa.timestamp("ms", "UTC"))})
    values = pa.array([1, None], pa.timestamp("ms", "UTC"))
    term = pc.is_in(TIME, values, skip_nulls=skip_nulls)
    term = ~term if is_opposite else term
    ranges = {"timestamp": ValueRange(MAX_INT64, MIN_INT64, True)}
    has_match = data.filter(term).num_rows == 1
    assert has_match == (is_opposite == skip_nulls)
    assert read_filter(term).condition.may_match(ranges) or not has_match


def test_an_expression_names_its_columns():
    expression = (OFFSET > 4) & ((pc.field("headers", "key") == "x") | TIME.is_null())
    assert read_filter(expression).columns == {"offset", "headers", "timestamp"}


def test_a_thousand_alternatives_are_no_deeper_than_two():
    expression = OFFSET == 0
    for offset in range(1, 2000):
        expression = (offset == OFFSET) | expression
    condition = read_filter(expression).condition
    assert len(condition.parts) == 2000
    assert condition.interval("offset") == (0, 1999)


@pytest.mark.parametrize(
    ("condition", "interval"),
    [
        (ABOVE, (5, MAX_INT64)),
        (Comparison("offset", ">=", 5), (5, MAX_INT64)),
        (Comparison("offset", "<", 5), (MIN_INT64, 4)),
        (Comparison("offset", "==", 5), (5, 5)),
        (Comparison("offset", "!=", 5), ALL),
        (Comparison("topic", "==", "a"), ALL),
        (NullTest("offset"), ALL),
        (Every((ABOVE, Comparison("offset", "<", 9), ANYTHING)), (5, 8)),
        (Either((ABOVE, Comparison("offset", "==", 1))), (1, MAX_INT64)),
        (Either((ABOVE, NullTest("offset"))), ALL),
    ],
    ids=str,
)
def test_a_condition_has_an_interval(condition, interval):
    assert condition.interval("offset") == interval


def test_no_interval_is_left_of_a_contradiction():
    least, greatest = Every((ABOVE, Comparison("offset", "<", 3))).interval("offset")
    assert least > greatest
    least, greatest = NOTHING.interval("offset")
    assert least > greatest


@given(
    st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
    st.integers(-3, 3),
    st.lists(st.integers(-3, 3) | st.none(), min_size=1),
)
def test_a_range_is_excluded_only_if_no_value_in_it_compares(sign, value, values):
    known = [found for found in values if found is not None]
    least, greatest = (min(known), max(known)) if known else (MAX_INT64, MIN_INT64)
    ranges = {"offset": ValueRange(least, greatest, len(known) < len(values))}
    comparison = Comparison("offset", sign, value)
    for condition in (comparison, comparison.negated()):
        true_of = {
            "==": value.__eq__,
            "!=": value.__ne__,
            "<": value.__gt__,
            "<=": value.__ge__,
            ">": value.__lt__,
            ">=": value.__le__,
        }[condition.sign]
        if any(map(true_of, known)):
            assert condition.may_match(ranges)


@pytest.mark.parametrize(
    "name", [name for name in golden_data.SETS if name != "k431-crash"]
)
def test_the_ranges_of_batches_enclose_the_values_of_their_records(name):
    scan = kafkalog.scan(golden_data.logs(name), columns=COLUMNS, control_records=True)
    batches = 0
    for source, _ in scan.sources:
        if source.directory is None:
            continue
        for file in sorted(source.directory.glob("*.log")):
            of_file = kafkalog.scan(file, columns=COLUMNS, control_records=True)
            records = [row for chunk in of_file.chunks() for row in chunk]
            rows = headers_of(file)
            ranges = batch_ranges(rows)
            for row in records:
                [i] = np.flatnonzero(rows["position"] == row.position)
                batches += 1
                for column, (least, greatest, nulls) in ranges.items():
                    value = getattr(row, column)
                    if value is None:
                        assert np.broadcast_to(nulls, len(rows))[i], (column, row)
                    else:
                        assert least[i] <= value <= greatest[i], (column, row)
    assert batches


def headers_of(file):
    """Return the headers of all batches of a file."""
    from kafkalog.formats.batch_headers import scan_headers

    rows, _, _ = scan_headers(np.fromfile(file, np.uint8))
    return rows
