"""Numbers, durations and sizes are parsed as Scala and Spark parse them."""

from __future__ import annotations

import pytest

from kafkalog.errors import ConfigError
from kafkalog.spark.option_values import parse_duration_ms, parse_integer, parse_size


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("15m", 900_000),
        ("5MIN", 300_000),
        (" 2h ", 7_200_000),
        ("3d", 259_200_000),
        ("100", 100),
        ("1us", 0),
        ("-1s", -1000),
        ("10000000000000d", 2**63 - 1),
    ],
)
def test_durations_are_parsed_as_spark_does(text, ms):
    assert parse_duration_ms(text) == ms


@pytest.mark.parametrize(
    "text",
    ["", "m", "1.5m", "1 m", "+5s", "5minutes", "1w", "\N{ARABIC-INDIC DIGIT ONE}s"],
)
def test_invalid_durations_are_rejected(text):
    with pytest.raises(ConfigError, match="expected a duration like 15m, 50s or 100ms"):
        parse_duration_ms(text)


@pytest.mark.parametrize("text", ["", "0", "1.5g", "-1", "64 m", "100000000000p", "1x"])
def test_invalid_sizes_are_rejected(text):
    with pytest.raises(ConfigError, match="expected a size like 128m or 65536"):
        parse_size(text)


@pytest.mark.parametrize(
    "text", ["", " 1", "1_0", "1L", "0x1", "1.0", "9" * 19, "9" * 99]
)
def test_integers_are_parsed_as_scala_does(text):
    with pytest.raises(ConfigError, match="expected an integer"):
        parse_integer(text)
