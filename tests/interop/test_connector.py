"""Batches of a live broker's directory equal those of Spark's own Kafka source."""

from __future__ import annotations

import json

import pytest

from tests.interop import fill
from tests.interop.sources import Sources, rows

pytestmark = [pytest.mark.spark, pytest.mark.interop]

ALL = ",".join(fill.KINDS)
LAST_OF_ORDERS = fill.T + 299 * 1000


def later(seconds):
    return fill.T + seconds * 1000


SAME_ROWS = {
    "one topic": {"subscribe": "orders"},
    "several topics": {"subscribe": ALL},
    "spaces in a list": {"subscribe": " orders , stamped "},
    "headers": {"subscribe": ALL, "includeHeaders": "true"},
    "a pattern": {"subscribePattern": "or.*|mon[a-e]y"},
    "a pattern of a part of the name": {"subscribePattern": "order"},
    "every topic": {"subscribePattern": ".*"},
    "assigned": {"assign": {"orders": [0, 2], "rolled": [1]}},
    "a missing assigned partition": {"assign": {"orders": [1, 9]}},
    "no rows": {"subscribe": "empty"},
    "committed": {"subscribe": "money", "kafka__isolation__level": "read_committed"},
    "committed of all": {"subscribe": ALL, "kafka__isolation__level": "read_committed"},
    "uncommitted": {"subscribe": "money"},
    "between offsets": {
        "subscribe": "orders",
        "startingOffsets": {"orders": {"0": 5, "1": 0, "2": 99}},
        "endingOffsets": {"orders": {"0": 50, "1": 3, "2": 100}},
    },
    "signs for earliest and latest": {
        "subscribe": "orders",
        "startingOffsets": {"orders": {"0": -2, "1": 7, "2": -2}},
        "endingOffsets": {"orders": {"0": -1, "1": 9, "2": -1}},
    },
    "an empty range": {
        "assign": {"orders": [1]},
        "startingOffsets": {"orders": {"1": 7}},
        "endingOffsets": {"orders": {"1": 7}},
    },
    "inside transactions": {
        "assign": {"money": [1]},
        "startingOffsets": {"money": {"1": 7}},
        "endingOffsets": {"money": {"1": 31}},
        "kafka__isolation__level": "read_committed",
    },
    "in gaps of compaction": {
        "subscribe": "compacted",
        "startingOffsets": {"compacted": {"0": 3}},
        "endingOffsets": {"compacted": {"0": 85}},
    },
    "from a time": {"subscribe": "orders,rolled", "startingTimestamp": later(100)},
    "until a time": {"subscribe": "orders,rolled", "endingTimestamp": later(100)},
    "between times": {
        "subscribe": "orders",
        "startingTimestamp": later(10) + 1,
        "endingTimestamp": later(200),
    },
    "times of partitions": {
        "subscribe": "orders",
        "startingOffsetsByTimestamp": {
            "orders": {"0": later(10), "1": later(20), "2": later(0)}
        },
        "endingOffsetsByTimestamp": {
            "orders": {"0": later(100), "1": later(999), "2": later(77)}
        },
    },
    "an end after all": {"subscribe": "orders", "endingTimestamp": later(9999)},
    "a start after all, from the latest": {
        "subscribe": "orders",
        "startingTimestamp": later(9999),
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "a start after some, from the latest": {
        "subscribe": "orders,rolled",
        "startingTimestamp": later(1000),
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "a time before an offset": {
        "subscribe": "orders",
        "startingTimestamp": later(30),
        "startingOffsetsByTimestamp": {"orders": {"0": 0, "1": 0, "2": 0}},
        "startingOffsets": {"orders": {"0": 9, "1": 9, "2": 9}},
    },
    "times of compacted records": {
        "subscribe": "compacted",
        "startingTimestamp": later(40),
    },
    "times of transactions": {
        "subscribe": "money",
        "startingTimestamp": later(15),
        "kafka__isolation__level": "read_committed",
    },
    "times before a log's start": {"subscribe": "cut", "startingTimestamp": later(1)},
    "more splits": {"subscribe": "rolled", "minPartitions": 7},
    "fewer splits than partitions": {"subscribe": "orders", "minPartitions": 1},
    "splits of a few records": {"subscribe": "orders", "maxRecordsPerPartition": 13},
    "before a log's start, data loss or not": {
        "subscribe": "cut",
        "startingOffsets": {"cut": {"0": 3}},
        "failOnDataLoss": "false",
    },
    "all before a log's start": {
        "subscribe": "cut",
        "startingOffsets": {"cut": {"0": 3}},
        "endingOffsets": {"cut": {"0": 30}},
        "failOnDataLoss": "false",
    },
    "beyond a log's end, data loss or not": {
        "assign": {"orders": [0]},
        "startingOffsets": {"orders": {"0": 20}},
        "endingOffsets": {"orders": {"0": 5000}},
        "failOnDataLoss": "false",
    },
}
NO_ROWS = {
    "no rows",
    "an empty range",
    "a start after all, from the latest",
    "all before a log's start",
}
# Options that Spark rejects, and words that both error messages must contain.
REJECTED = {
    "a missing topic": ({"subscribe": "orders,missing"}, ["topic"]),
    "an offset before the log's start": (
        {"subscribe": "cut", "startingOffsets": {"cut": {"0": 3}}},
        ["cut"],
    ),
    "an offset beyond the log's end": (
        {
            "assign": {"orders": [0]},
            "startingOffsets": {"orders": {"0": 20}},
            "endingOffsets": {"orders": {"0": 5000}},
        },
        ["orders"],
    ),
    "a start after the end": (
        {
            "assign": {"orders": [0]},
            "startingOffsets": {"orders": {"0": 20}},
            "endingOffsets": {"orders": {"0": 10}},
        },
        ["20", "10"],
    ),
    "a start that names too few": (
        {"subscribe": "orders", "startingOffsets": {"orders": {"0": 3}}},
        ["orders"],
    ),
    "an end that names too many": (
        {"subscribe": "orders", "endingOffsets": {"orders": dict.fromkeys("0123", 3)}},
        ["orders"],
    ),
    "a time after all": (
        {"subscribe": "orders", "startingTimestamp": later(9999)},
        ["orders", str(later(9999))],
    ),
    "from the latest": (
        {"subscribe": "orders", "startingOffsets": "latest"},
        ["latest"],
    ),
    "until the earliest": (
        {"subscribe": "orders", "endingOffsets": "earliest"},
        ["earliest"],
    ),
    "a start of -1": (
        {"assign": {"orders": [0]}, "startingOffsets": {"orders": {"0": -1}}},
        ["latest"],
    ),
    "an end of -2": (
        {"assign": {"orders": [0]}, "endingOffsets": {"orders": {"0": -2}}},
        ["earliest"],
    ),
    "no JSON": ({"subscribe": "orders", "startingOffsets": "{orders"}, ["{orders"]),
    "two options that select topics": (
        {"subscribe": "orders", "assign": "{}"},
        ["assign"],
    ),
    "no splits": ({"subscribe": "orders", "minPartitions": 0}, ["minPartitions"]),
}


def as_texts(options):
    return {
        name: json.dumps(value) if isinstance(value, dict) else value
        for name, value in options.items()
    }


@pytest.fixture(scope="module")
def sources(spark, broker, topics):
    return Sources(spark, broker)


@pytest.mark.parametrize("case", SAME_ROWS)
def test_rows_equal_those_of_sparks_own_source(sources, case):
    theirs, ours = sources.frames(**as_texts(SAME_ROWS[case]))
    assert ours.schema == theirs.schema
    expected = rows(theirs)
    assert rows(ours) == expected
    assert bool(expected) == (case not in NO_ROWS)


@pytest.mark.parametrize("case", REJECTED)
def test_options_that_sparks_own_source_rejects_are_rejected(sources, case):
    options, words = REJECTED[case]
    messages = sources.errors(**as_texts(options))
    assert len(messages) == len(sources.options)
    for message in messages:
        assert [word for word in words if word not in message] == []


def test_ranges_are_divided_as_by_sparks_own_source(sources):
    """Unless there are as many tasks anyway: small ranges share tasks in kafkalog."""
    for minimum in (2, 4, 8):
        theirs, ours = sources.frames(subscribe="orders,rolled", minPartitions=minimum)
        assert ours.rdd.getNumPartitions() == theirs.rdd.getNumPartitions()
    theirs, ours = sources.frames(subscribe="orders,rolled", minPartitions=1)
    assert ours.rdd.getNumPartitions() == 1 < theirs.rdd.getNumPartitions()


def test_ranges_are_divided_by_max_records_in_batches_too(sources):
    """As in Spark's documentation; its source does it in streams only."""
    theirs, ours = sources.frames(subscribe="orders", maxRecordsPerPartition=13)
    assert theirs.rdd.getNumPartitions() == 3
    assert ours.rdd.getNumPartitions() == 3 * 8
