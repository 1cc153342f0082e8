"""Offsets are found, and lost ones told of, as Spark's own Kafka source does."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import pytest

from kafkalog.errors import ConfigError, DataLossError
from kafkalog.spark.offset_ranges import (
    OffsetRange,
    batch_ranges,
    ending_offsets,
    latest_offsets,
    new_starts,
    starting_offsets,
    stream_ranges,
)
from kafkalog.spark.read_options import parse_options

A, B, C = ("orders", 0), ("orders", 1), ("audit", 0)


@dataclass
class Held:
    """Partitions that hold the offsets [first, end), each with ten times it in ms."""

    spans: dict = field(default_factory=lambda: {A: (5, 20), B: (0, 10), C: (0, 0)})

    def places(self):
        return sorted(self.spans)

    def earliest(self, places):
        return {place: self.spans[place][0] for place in places}

    def latest(self, places):
        return {place: self.spans[place][1] for place in places}

    def for_times(self, times):
        return {place: self._for_time(place, at) for place, at in times.items()}

    def _for_time(self, place, at):
        first, end = self.spans[place]
        offset = max(first, -(-at // 10))
        return offset if offset < end else None


def options(streaming=False, **given):
    return parse_options({"path": "/data"} | given, streaming=streaming)


def batch(held=None, **given):
    found = batch_ranges(options(**given), held or Held())
    return {one.place: (one.start, one.end) for one in found}


def stream(start, end, held=None, **given):
    found = stream_ranges(options(streaming=True, **given), held or Held(), start, end)
    return {one.place: (one.start, one.end) for one in found}


def test_a_batch_is_all_there_is_and_nothing_empty():
    assert batch_ranges(options(), Held()) == [
        OffsetRange("orders", 0, 5, 20),
        OffsetRange("orders", 1, 0, 10),
    ]


def test_earliest_and_latest_are_those_of_the_partitions_chosen():
    asked = options(subscribe="orders")
    assert starting_offsets(asked, Held()) == {A: 5, B: 0}
    assert ending_offsets(asked, Held()) == {A: 20, B: 10}
    assert latest_offsets(asked, Held()) == {A: 20, B: 10}


def test_offsets_are_taken_as_given_with_minus_one_and_two_for_the_edges():
    found = batch(
        subscribe="orders",
        startingOffsets='{"orders":{"0":7,"1":-2}}',
        endingOffsets='{"orders":{"0":-1,"1":4}}',
    )
    assert found == {A: (7, 20), B: (0, 4)}


@pytest.mark.parametrize(
    ("option", "what"),
    [
        ("startingOffsets", "offsets"),
        ("endingOffsets", "offsets"),
        ("startingOffsetsByTimestamp", "timestamps"),
        ("endingOffsetsByTimestamp", "timestamps"),
    ],
)
@pytest.mark.parametrize(
    ("given", "got"),
    [
        ('{"orders":{"0":7}}', "[orders-0]"),
        ('{"orders":{"0":7,"1":7,"2":7}}', "[orders-0, orders-1, orders-2]"),
    ],
)
def test_offsets_must_be_given_for_all_partitions_and_no_others(
    option, what, given, got
):
    with pytest.raises(ConfigError) as caught:
        batch(subscribe="orders", **{option: given})
    assert str(caught.value) == (
        f"expected {what} for all partitions that are read, [orders-0, orders-1], and "
        f"for no others, got them for {got}"
    )


def test_a_time_is_the_first_offset_at_or_after_it():
    assert batch(subscribe="orders", startingTimestamp="61") == {A: (7, 20), B: (7, 10)}
    found = batch(
        subscribe="orders",
        startingOffsetsByTimestamp='{"orders":{"0":100,"1":0}}',
        endingOffsetsByTimestamp='{"orders":{"0":110,"1":55}}',
    )
    assert found == {A: (10, 11), B: (0, 6)}


def test_an_end_that_nothing_follows_is_the_latest():
    assert batch(subscribe="orders", endingTimestamp="150") == {A: (5, 15), B: (0, 10)}


def test_a_start_that_nothing_follows_is_an_error_or_the_latest():
    given = {"subscribe": "orders", "startingTimestamp": "150"}
    with pytest.raises(
        ConfigError, match="no offset of orders-1 has a timestamp of 150"
    ):
        batch(**given)
    assert batch(startingOffsetsByTimestampStrategy="latest", **given) == {A: (15, 20)}


@pytest.mark.parametrize(
    "given",
    [
        {"startingOffsets": '{"orders":{"0":21}}'},
        {"startingTimestamp": "120", "endingTimestamp": "110"},
        {"endingOffsets": '{"orders":{"0":4}}'},
        {"startingTimestamp": "120", "endingOffsets": '{"orders":{"0":11}}'},
    ],
)
def test_a_start_beyond_its_end_is_an_error_whatever_may_be_lost(given):
    with pytest.raises(ConfigError, match=r"the start offset \d+ is greater than the"):
        batch(assign='{"orders":[0]}', failOnDataLoss="false", **given)


@pytest.mark.parametrize(
    ("start", "end", "kept"),
    [
        (2, 12, {A: (5, 12)}),
        (7, 30, {A: (7, 20)}),
        (0, 99, {A: (5, 20)}),
        (0, 4, {}),
        (20, 30, {}),
        (25, 30, {}),
    ],
)
def test_offsets_that_are_not_there_are_an_error_or_left_out(start, end, kept, caplog):
    given = {
        "assign": '{"orders":[0]}',
        "startingOffsets": f'{{"orders":{{"0":{start}}}}}',
        "endingOffsets": f'{{"orders":{{"0":{end}}}}}',
    }
    with pytest.raises(DataLossError) as caught:
        batch(**given)
    found = (
        f"offsets [{start}, {end}) of orders-0 are to be read, and [5, 20) are there"
    )
    assert found in str(caught.value)
    assert "failOnDataLoss=false" in str(caught.value)
    with caplog.at_level(logging.WARNING):
        assert batch(failOnDataLoss="false", **given) == kept
    assert found in caplog.text


def test_an_empty_range_beyond_the_log_is_no_loss():
    at = '{"orders":{"0":99}}'
    assert batch(assign='{"orders":[0]}', startingOffsets=at, endingOffsets=at) == {}


def test_a_pattern_that_finds_nothing_reads_nothing():
    assert batch(subscribePattern="nothing") == {}


def test_a_topic_that_is_not_there_is_an_error():
    for way in ({"subscribe": "gone"}, {"assign": '{"gone":[0]}'}):
        with pytest.raises(ConfigError, match="found no partition of gone"):
            batch(**way)


def test_a_partition_that_is_not_there_is_left_out():
    assert batch(assign='{"orders":[0,9]}') == {A: (5, 20)}


def test_a_stream_starts_where_it_is_told():
    asked = options(streaming=True, subscribe="orders")
    assert starting_offsets(asked, Held()) == {A: 20, B: 10}
    asked = options(
        streaming=True, subscribe="orders", startingOffsets='{"orders":{"0":-1,"1":-2}}'
    )
    assert starting_offsets(asked, Held()) == {A: 20, B: 0}


def test_a_micro_batch_is_what_came_between_two_offsets():
    assert stream({A: 6, B: 10}, {A: 9, B: 10}) == {A: (6, 9)}


def test_new_partitions_are_read_from_their_earliest():
    assert new_starts(Held(), {A: 6}, {A: 9, B: 3, ("gone", 0): 3}) == {B: 0}
    assert stream({A: 6}, {A: 9, B: 3}) == {A: (6, 9), B: (0, 3)}


@pytest.mark.parametrize(
    ("start", "end", "found", "kept"),
    [
        (
            {B: 0},
            {A: 9, B: 3},
            "new partition orders-0 begins at 5",
            {A: (5, 9), B: (0, 3)},
        ),
        (
            {B: 0},
            {B: 3, ("gone", 1): 4},
            "no first offset found of new partitions [gone-1]",
            {B: (0, 3)},
        ),
        ({A: 6, B: 0}, {B: 3}, "partitions [orders-0] have been deleted", {B: (0, 3)}),
        (
            {A: 6, B: 9},
            {A: 9, B: 3},
            "the offset of orders-1 went back from 9 to 3",
            {A: (6, 9)},
        ),
        (
            {A: 2, B: 0},
            {A: 9, B: 3},
            "offsets [2, 9) of orders-0 are to be read, and [5, 20) are there",
            {A: (5, 9), B: (0, 3)},
        ),
        (
            {("gone", 1): 2, B: 0},
            {("gone", 1): 9, B: 3},
            "offsets [2, 9) of gone-1 are to be read, and [0, 0) are there",
            {B: (0, 3)},
        ),
    ],
)
def test_a_stream_that_lost_data_fails_or_goes_on(start, end, found, kept, caplog):
    with pytest.raises(DataLossError) as caught:
        stream(start, end)
    assert found in str(caught.value)
    assert "\n" not in str(caught.value)
    with caplog.at_level(logging.WARNING):
        assert stream(start, end, failOnDataLoss="false") == kept
    assert found in caplog.text
