"""Topics are chosen as Spark's Kafka source chooses them, with patterns of Java's."""

from __future__ import annotations

import pytest

from kafkalog.errors import ConfigError
from kafkalog.spark.topic_selection import (
    Assign,
    Everything,
    Subscribe,
    SubscribePattern,
    compile_java,
)

PLACES = [
    ("reorders", 0),
    ("orders", 1),
    ("orders", 0),
    ("audit", 0),
    ("__consumer_offsets", 3),
]


def test_everything_is_every_partition_in_order():
    assert Everything().choose(PLACES) == sorted(PLACES)


def test_topics_subscribed_to_give_all_their_partitions():
    chosen = Subscribe(("orders", "audit")).choose(PLACES)
    assert chosen == [("audit", 0), ("orders", 0), ("orders", 1)]


def test_a_topic_that_is_not_there_is_an_error_that_names_it():
    with pytest.raises(ConfigError, match=r"option subscribe: .* of absent, gone$"):
        Subscribe(("orders", "gone", "absent")).choose(PLACES)
    with pytest.raises(ConfigError, match=r"option assign: .* of gone$"):
        Assign((("orders", 0), ("gone", 0))).choose(PLACES)


def test_a_partition_that_its_topic_lacks_is_left_out():
    assert Assign((("orders", 1), ("orders", 7))).choose(PLACES) == [("orders", 1)]


def test_an_internal_topic_is_read_if_it_is_named():
    assert Subscribe(("__consumer_offsets",)).choose(PLACES) == [PLACES[-1]]
    assert Assign((PLACES[-1],)).choose(PLACES) == [PLACES[-1]]


def test_a_pattern_need_not_match_the_whole_name():
    assert SubscribePattern("orders").choose(PLACES) == [
        ("orders", 0),
        ("orders", 1),
        ("reorders", 0),
    ]
    assert SubscribePattern("^orders").choose(PLACES) == [("orders", 0), ("orders", 1)]


def test_a_pattern_finds_no_internal_topic_and_perhaps_nothing():
    assert SubscribePattern("consumer").choose(PLACES) == []
    assert ("__consumer_offsets", 3) not in SubscribePattern(".").choose(PLACES)


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
def test_patterns_that_python_takes_otherwise_are_refused(pattern):
    with pytest.raises(ConfigError, match="expected a pattern"):
        compile_java(pattern)


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
def test_patterns_are_searched_for_as_java_does(pattern, name, finds):
    assert bool(compile_java(pattern).search(name)) is finds
