"""Micro-batches have the limits and delays of Spark's own Kafka source."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.spark.stream_query import delay_batch, limit_offsets

A, B, C = ("orders", 0), ("orders", 1), ("orders", 2)


@pytest.mark.parametrize(
    ("end", "most", "limited"),
    [
        ({A: 100, B: 10, C: 1}, 10, {A: 9, B: 1, C: 1}),
        ({A: 100, B: 100}, 3, {A: 1, B: 1}),
        ({A: 5, B: 5}, 100, {A: 5, B: 5}),
        ({A: 0, B: 0}, 10, {A: 0, B: 0}),
        ({A: 2**63 - 1, B: 1}, 2**63 - 1, {A: 2**63 - 1, B: 1}),
    ],
)
def test_a_maximum_is_shared_in_proportion_to_the_backlog(end, most, limited):
    assert limit_offsets(dict.fromkeys(end, 0), end, most) == limited


def test_new_partitions_count_from_their_earliest_offset():
    limited = limit_offsets({A: 0}, {A: 100, B: 150}, 10, {B: 50})
    assert limited == {A: 5, B: 55}


def test_partitions_without_a_backlog_keep_their_end():
    assert limit_offsets({A: 9}, {A: 3, B: 7}, 1) == {A: 3, B: 7}


LAGS = st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)), max_size=6)


@given(LAGS, st.integers(1, 2**40))
def test_a_limited_batch_advances_within_its_bounds(lags, most):
    start = {("t", n): begin for n, (begin, _) in enumerate(lags)}
    end = {("t", n): begin + lag for n, (begin, lag) in enumerate(lags)}
    limited = limit_offsets(start, end, most)
    taken = {tp: limited[tp] - start[tp] for tp in start}
    assert all(0 <= taken[tp] <= end[tp] - start[tp] for tp in start)
    assert all(taken[tp] > 0 for tp in start if end[tp] > start[tp])
    assert sum(taken.values()) <= most + len(lags)


@given(LAGS.map(lambda lags: [(begin, lag % 500) for begin, lag in lags]))
def test_limited_batches_reach_the_end(lags):
    start = {("t", n): begin for n, (begin, _) in enumerate(lags)}
    end = {("t", n): begin + lag for n, (begin, lag) in enumerate(lags)}
    for _ in range(sum(lag for _, lag in lags) + 1):
        start = limit_offsets(start, end, 7)
    assert start == end


@pytest.mark.parametrize(
    ("waiting", "since_ms", "delays"),
    [(9, 0, True), (10, 0, False), (9, 999, True), (9, 1000, False)],
)
def test_a_batch_is_delayed_for_the_minimum_up_to_the_maximum_delay(
    waiting, since_ms, delays
):
    now_ms = 1_763_750_000_000
    times = {"now_ms": now_ms, "last_batch_ms": now_ms - since_ms}
    assert delay_batch(10, 1000, {A: 3}, {A: 3 + waiting}, **times) is delays


def test_the_first_batch_of_a_stream_is_not_delayed():
    times = {"now_ms": 1_763_750_000_000, "last_batch_ms": 0}
    assert not delay_batch(10, 900_000, {A: 0}, {A: 1}, **times)


def test_a_new_partition_counts_from_zero():
    times = {"now_ms": 1_763_750_000_000, "last_batch_ms": 1_763_750_000_000}
    assert not delay_batch(10, 900_000, {A: 0}, {A: 0, B: 10}, **times)
