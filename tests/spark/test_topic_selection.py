"""Topics are selected as in Spark's Kafka source, with Java patterns."""

from __future__ import annotations

import pytest

from kafkalog.errors import ConfigError
from kafkalog.spark.topic_selection import (
    AllTopics,
    Assign,
    Subscribe,
    SubscribePattern,
    compile_java_pattern,
)

PLACES = [
    ("reorders", 0),
    ("orders", 1),
    ("orders", 0),
    ("audit", 0),
    ("__consumer_offsets", 3),
]


def test_all_topics_selects_every_partition_in_order():
    assert AllTopics().select(PLACES) == sorted(PLACES)


def test_subscribe_selects_all_partitions_of_its_topics():
    chosen = Subscribe(("orders", "audit")).select(PLACES)
    assert chosen == [("audit", 0), ("orders", 0), ("orders", 1)]


def test_an_error_names_a_missing_topic():
    with pytest.raises(
        ConfigError, match=r"option subscribe: .* of topics absent, gone$"
    ):
        Subscribe(("orders", "gone", "absent")).select(PLACES)
    with pytest.raises(ConfigError, match=r"option assign: .* topics gone$"):
        Assign((("orders", 0), ("gone", 0))).select(PLACES)


def test_assign_ignores_a_missing_partition():
    assert Assign((("orders", 1), ("orders", 7))).select(PLACES) == [("orders", 1)]


def test_a_named_internal_topic_is_selected():
    assert Subscribe(("__consumer_offsets",)).select(PLACES) == [PLACES[-1]]
    assert Assign((PLACES[-1],)).select(PLACES) == [PLACES[-1]]


def test_a_pattern_may_match_part_of_a_name():
    assert SubscribePattern("orders").select(PLACES) == [
        ("orders", 0),
        ("orders", 1),
        ("reorders", 0),
    ]
    assert SubscribePattern("^orders").select(PLACES) == [("orders", 0), ("orders", 1)]


def test_a_pattern_selects_no_internal_topics():
    assert SubscribePattern("consumer").select(PLACES) == []
    assert ("__consumer_offsets", 3) not in SubscribePattern(".").select(PLACES)


@pytest.mark.parametrize(
    "pattern",
    [
        r"\p{L}",
        r"\Qa\E",
        r"[a-z&&[^o]]",
        "[a[b]]",
        "[[]",
        "(?u)a",
        "(?P<x>a)",
        r"(?<x>a)\k<x>",
        r"\07",
        "a{,2}",
        "a(?i)b",
    ],
)
def test_patterns_that_python_reads_differently_are_rejected(pattern):
    with pytest.raises(ConfigError, match="expected a pattern"):
        compile_java_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "name", "finds"),
    [
        ("order", "reorders", True),
        ("^order", "reorders", False),
        (r"(?<kind>or)ders\z", "orders", True),
        (r"[\[a]udit", "audit", True),
        ("o++rders", "orders", True),
        ("(?i)ORDERS", "orders", True),
        (r"a\.b", "a.b", True),
        (r"\\z", "z", False),
    ],
)
def test_patterns_are_searched_as_in_java(pattern, name, finds):
    assert bool(compile_java_pattern(pattern).search(name)) is finds
