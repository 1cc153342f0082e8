"""Times as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkalog
from kafkalog.formats import timestamps
from kafkalog.integer_limits import MAX_INT64, MIN_INT64
from kafkalog.text.time_text import parse_time
from tests import golden_data
from tests.cli.shell import call

ORDERS = golden_data.logs("k431-clean") / "orders.zstd-0"
MIDDLE = 1_700_000_050_000
NOW = MIDDLE + 3_600_000
SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


@given(
    parts=st.lists(
        st.tuples(st.integers(0, 10**6), st.sampled_from(sorted(SECONDS))), min_size=1
    )
)
def test_a_duration_is_before_now(parts):
    text = "-" + "".join(f"{number}{unit}" for number, unit in parts)
    seconds = sum(number * round(SECONDS[unit] * 1000) for number, unit in parts)
    assert parse_time(text, NOW) == max(NOW - seconds, MIN_INT64)


@given(
    moment=st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)),
    minutes=st.integers(-1439, 1439),
)
def test_a_time_with_a_zone_is_that_of_datetime(moment, minutes):
    aware = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    assert parse_time(aware.isoformat(), NOW) == timestamps.as_ms(aware)


@given(day=st.dates())
def test_a_date_begins_in_utc(day):
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    assert parse_time(day.isoformat(), NOW) == timestamps.as_ms(midnight)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("now", NOW),
        ("-0s", NOW),
        ("-1h", MIDDLE),
        ("-60m", MIDDLE),
        ("-59m60s", MIDDLE),
        ("-1", -1),
        ("1700000050000", MIDDLE),
        ("2023-11-14T22:14:10Z", MIDDLE),
        ("2023-11-14 23:14:10+01:00", MIDDLE),
        ("-9999999999999w", MIN_INT64),
        ("9999999999999999999", MAX_INT64),
    ],
)
def test_a_text_states_a_time(text, time):
    assert parse_time(text, NOW) == time


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a time, expected milliseconds since 1970, ISO 8601, a duration"),
        ("1h", "is not a time"),
        ("-1y", "is not a time"),
        ("-h", "is not a time"),
        ("-", "is not a time"),
        ("--1h", "is not a time"),
        ("-1 h", "is not a time"),
        ("-\u0661h", "is not a time"),
        ("yesterday", "is not a time"),
        ("2026-11-31", "is not a time"),
        ("2026-11-27T12:00", "has no time zone, expected one as in 2026-01-31T12:00Z"),
    ],
)
def test_any_other_text_is_rejected(text, message):
    with pytest.raises(ValueError, match=message):
        parse_time(text, NOW)
    with pytest.raises(ValueError, match=message):
        kafkalog.scan(ORDERS, start_timestamp=text)
    ran = call("cat", ORDERS, "--start-timestamp", text)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert message[:12] in ran.stderr
