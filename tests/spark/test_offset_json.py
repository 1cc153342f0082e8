"""Offsets in checkpoints and progress have the JSON of Spark's Kafka source."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.errors import ConfigError
from kafkalog.spark.offset_json import (
    offsets_from_json,
    offsets_to_json,
    partitions_from_json,
)

PLACES = st.tuples(st.text(max_size=5), st.integers(0, 2**31 - 1))


@given(st.dictionaries(PLACES, st.integers(-2, 2**63 - 1), max_size=6))
def test_offsets_round_trip(offsets):
    form = offsets_to_json(offsets)
    assert offsets_from_json(form) == offsets_from_json(json.dumps(form)) == offsets


def test_topics_and_partitions_are_written_in_order():
    offsets = {("b", 0): 1, ("a", 10): 2, ("a", 9): 3}
    assert (
        json.dumps(offsets_to_json(offsets))
        == '{"a": {"9": 3, "10": 2}, "b": {"0": 1}}'
    )


def test_partitions_are_sorted_without_duplicates():
    assert partitions_from_json('{"b":[1,0,1],"a":[2]}') == [
        ("a", 2),
        ("b", 0),
        ("b", 1),
    ]


@pytest.mark.parametrize("form", [None, [], 3, {"a": [1]}, {"a": {0: 1}}, {"a": "0"}])
def test_other_json_is_rejected(form):
    with pytest.raises(ConfigError, match="expected e"):
        offsets_from_json(form)
