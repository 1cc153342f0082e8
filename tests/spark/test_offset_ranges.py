"""Offsets are resolved, and data loss reported, as in Spark's own Kafka source."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import pytest

from kafkalog.errors import ConfigError, DataLossError
from kafkalog.query.task_planning import OffsetRange
from kafkalog.spark.offset_ranges import (
    batch_ranges,
    ending_offsets,
    latest_offsets,
    new_partition_starts,
    starting_offsets,
    stream_ranges,
)
from kafkalog.spark.read_options import parse_options

A, B, C = ("orders", 0), ("orders", 1), ("audit", 0)


@dataclass
class FakePartitions:
    """Partitions with offsets [first, end), each with timestamp ten times itself."""

    spans: dict = field(default_factory=lambda: {A: (5, 20), B: (0, 10), C: (0, 0)})

    def topic_partitions(self):
        return sorted(self.spans)

    def earliest_offsets(self, tps):
        return {tp: self.spans[tp][0] for tp in tps}

    def latest_offsets(self, tps):
        return {tp: self.spans[tp][1] for tp in tps}

    def offsets_for_times(self, times):
        return {tp: self._for_time(tp, at) for tp, at in times.items()}

    def _for_time(self, tp, at):
        first, end = self.spans[tp]
        offset = max(first, -(-at // 10))
        return offset if offset < end else None


def options(streaming=False, **given):
    return parse_options({"path": "/data"} | given, streaming=streaming)


def batch(partitions=None, **given):
    found = batch_ranges(options(**given), partitions or FakePartitions())
    return {one.topic_partition: (one.start, one.end) for one in found}


def stream(start, end, partitions=None, **given):
    found = stream_ranges(
        options(streaming=True, **given), partitions or FakePartitions(), start, end
    )
    return {one.topic_partition: (one.start, one.end) for one in found}


def test_a_batch_reads_all_nonempty_partitions():
    assert batch_ranges(options(), FakePartitions()) == [
        OffsetRange("orders", 0, 5, 20),
        OffsetRange("orders", 1, 0, 10),
    ]


def test_earliest_and_latest_are_those_of_the_selected_partitions():
    requested = options(subscribe="orders")
    assert starting_offsets(requested, FakePartitions()) == {A: 5, B: 0}
    assert ending_offsets(requested, FakePartitions()) == {A: 20, B: 10}
    assert latest_offsets(requested, FakePartitions()) == {A: 20, B: 10}


def test_specific_offsets_may_be_minus_one_and_minus_two():
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
def test_offsets_must_be_for_exactly_the_selected_partitions(option, what, given, got):
    with pytest.raises(ConfigError) as caught:
        batch(subscribe="orders", **{option: given})
    assert str(caught.value) == (
        f"expected {what} for exactly the selected partitions, [orders-0, orders-1], "
        f"got them for {got}"
    )


def test_a_timestamp_is_the_first_offset_at_or_after_it():
    assert batch(subscribe="orders", startingTimestamp="61") == {A: (7, 20), B: (7, 10)}
    found = batch(
        subscribe="orders",
        startingOffsetsByTimestamp='{"orders":{"0":100,"1":0}}',
        endingOffsetsByTimestamp='{"orders":{"0":110,"1":55}}',
    )
    assert found == {A: (10, 11), B: (0, 6)}


def test_an_ending_timestamp_without_records_is_the_latest():
    assert batch(subscribe="orders", endingTimestamp="150") == {A: (5, 15), B: (0, 10)}


def test_a_starting_timestamp_without_records_is_an_error_or_the_latest():
    given = {"subscribe": "orders", "startingTimestamp": "150"}
    with pytest.raises(
        ConfigError, match="no record of orders-1 is at or after timestamp 150"
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
def test_a_start_after_its_end_is_always_an_error(given):
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
def test_missing_offsets_are_an_error_or_skipped(start, end, kept, caplog):
    given = {
        "assign": '{"orders":[0]}',
        "startingOffsets": f'{{"orders":{{"0":{start}}}}}',
        "endingOffsets": f'{{"orders":{{"0":{end}}}}}',
    }
    with pytest.raises(DataLossError) as caught:
        batch(**given)
    found = f"requested offsets [{start}, {end}) of orders-0, found [5, 20)"
    assert found in str(caught.value)
    assert "failOnDataLoss=false" in str(caught.value)
    with caplog.at_level(logging.WARNING):
        assert batch(failOnDataLoss="false", **given) == kept
    assert found in caplog.text


def test_an_empty_range_after_the_log_end_is_no_data_loss():
    at = '{"orders":{"0":99}}'
    assert batch(assign='{"orders":[0]}', startingOffsets=at, endingOffsets=at) == {}


def test_a_pattern_without_matches_reads_nothing():
    assert batch(subscribePattern="nothing") == {}


def test_a_missing_topic_is_an_error():
    for options_ in ({"subscribe": "gone"}, {"assign": '{"gone":[0]}'}):
        with pytest.raises(ConfigError, match="no partition found of topics gone"):
            batch(**options_)


def test_a_missing_partition_is_ignored():
    assert batch(assign='{"orders":[0,9]}') == {A: (5, 20)}


def test_a_stream_starts_at_its_starting_offsets():
    requested = options(streaming=True, subscribe="orders")
    assert starting_offsets(requested, FakePartitions()) == {A: 20, B: 10}
    requested = options(
        streaming=True, subscribe="orders", startingOffsets='{"orders":{"0":-1,"1":-2}}'
    )
    assert starting_offsets(requested, FakePartitions()) == {A: 20, B: 0}


def test_a_micro_batch_is_between_two_offsets():
    assert stream({A: 6, B: 10}, {A: 9, B: 10}) == {A: (6, 9)}


def test_new_partitions_are_read_from_their_earliest():
    assert new_partition_starts(
        FakePartitions(), {A: 6}, {A: 9, B: 3, ("gone", 0): 3}
    ) == {B: 0}
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
            "the offset of orders-1 decreased from 9 to 3",
            {A: (6, 9)},
        ),
        (
            {A: 2, B: 0},
            {A: 9, B: 3},
            "requested offsets [2, 9) of orders-0, found [5, 20)",
            {A: (5, 9), B: (0, 3)},
        ),
        (
            {("gone", 1): 2, B: 0},
            {("gone", 1): 9, B: 3},
            "requested offsets [2, 9) of gone-1, found [0, 0)",
            {B: (0, 3)},
        ),
    ],
)
def test_a_stream_with_data_loss_fails_or_continues(start, end, found, kept, caplog):
    with pytest.raises(DataLossError) as caught:
        stream(start, end)
    assert found in str(caught.value)
    assert "\n" not in str(caught.value)
    with caplog.at_level(logging.WARNING):
        assert stream(start, end, failOnDataLoss="false") == kept
    assert found in caplog.text
