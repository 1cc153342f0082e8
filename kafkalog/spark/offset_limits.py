"""Limits of a read, as given in the options.

A limit is the earliest or latest offset, an offset for each partition, a timestamp for
each partition, or one timestamp for all. `kafkalog.spark.offset_ranges` resolves limits
to offsets; this module parses them and checks what needs no log.

Source: ``KafkaOffsetRangeLimit.scala`` and ``KafkaSourceProvider.scala``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from kafkalog.errors import ConfigError
from kafkalog.spark.offset_json import (
    TIMESTAMPS_EXAMPLE,
    TopicPartition,
    format_partition,
    format_partitions,
    offsets_from_json,
)
from kafkalog.spark.option_values import parse_timestamp_ms


class Edge(IntEnum):
    """The first or last offset of a log, as the number that stands for it in JSON."""

    LATEST = -1
    EARLIEST = -2


LATEST: Final = Edge.LATEST
EARLIEST: Final = Edge.EARLIEST


@dataclass(frozen=True, slots=True)
class SpecificOffsets:
    """An offset for each partition; -1 is the latest, -2 the earliest."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class SpecificTimestamps:
    """The first offset of each partition at or after its timestamp, in ms."""

    times_ms: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class GlobalTimestamp:
    """The first offset of each partition at or after one timestamp, in ms."""

    time_ms: int


OffsetLimit = Edge | SpecificOffsets | SpecificTimestamps | GlobalTimestamp


def parse_offsets(text: str) -> OffsetLimit:
    """Parse ``earliest``, ``latest`` or an offset for each partition.

    >>> parse_offsets("Earliest")
    <Edge.EARLIEST: -2>
    >>> parse_offsets('{"orders":{"0":23}}')
    SpecificOffsets(offsets={('orders', 0): 23})
    """
    match text.strip().lower():
        case "latest":
            return LATEST
        case "earliest":
            return EARLIEST
    offsets = offsets_from_json(text.strip())
    for topic_partition, offset in offsets.items():
        if offset < EARLIEST:
            raise ConfigError(
                "expected offsets, -1 for latest or -2 for earliest, got "
                f"{offset} for {format_partition(topic_partition)}"
            )
    return SpecificOffsets(offsets)


def parse_timestamps(text: str) -> OffsetLimit:
    """Parse a timestamp for each partition.

    >>> parse_timestamps('{"orders":{"0":1763750000000}}')
    SpecificTimestamps(times_ms={('orders', 0): 1763750000000})
    """
    times_ms = offsets_from_json(text.strip(), TIMESTAMPS_EXAMPLE)
    for topic_partition, time_ms in times_ms.items():
        if time_ms < 0:
            raise ConfigError(
                f"expected milliseconds since 1970, got {time_ms} for "
                f"{format_partition(topic_partition)}"
            )
    return SpecificTimestamps(times_ms)


def parse_timestamp(text: str) -> OffsetLimit:
    """Parse one timestamp for all partitions.

    >>> parse_timestamp("1763750000000")
    GlobalTimestamp(time_ms=1763750000000)
    """
    return GlobalTimestamp(parse_timestamp_ms(text))


def check_batch_start(limit: OffsetLimit) -> None:
    """Raise `ConfigError` if a batch would start at a partition's latest offset.

    >>> check_batch_start(LATEST)
    Traceback (most recent call last):
    kafkalog.errors.ConfigError: expected a start other than latest in a batch, got...
    """
    _reject_edge(limit, LATEST, "a start other than latest")


def check_batch_end(limit: OffsetLimit) -> None:
    """Raise `ConfigError` if a batch would end at a partition's earliest offset."""
    _reject_edge(limit, EARLIEST, "an end other than earliest")


def check_order(start: OffsetLimit, end: OffsetLimit) -> None:
    """Raise `ConfigError` if start and end name other partitions, or start is greater.

    Only limits of the same kind are compared. The others are compared as offsets once
    they are resolved.

    >>> check_order(SpecificOffsets({("a", 0): 5}), SpecificOffsets({("a", 0): 3}))
    Traceback (most recent call last):
    kafkalog.errors.ConfigError: the start offset 5 is greater than the end offset 3...
    """
    match start, end:
        case SpecificOffsets(starts), SpecificOffsets(ends):
            noun = "offset"
        case SpecificTimestamps(starts), SpecificTimestamps(ends):
            noun = "timestamp"
        case _:
            return
    if starts.keys() != ends.keys():
        raise ConfigError(
            "expected the same partitions in start and end, got "
            f"{format_partitions(starts)} and {format_partitions(ends)}"
        )
    for tp in sorted(starts):
        if starts[tp] > ends[tp] >= 0:
            raise ConfigError(
                f"the start {noun} {starts[tp]} is greater than the end {noun} "
                f"{ends[tp]} for {format_partition(tp)}"
            )


def _reject_edge(limit: OffsetLimit, edge: Edge, expected: str) -> None:
    partitions: list[TopicPartition] = []
    if isinstance(limit, SpecificOffsets):
        partitions = [tp for tp, offset in limit.offsets.items() if offset == edge]
    if limit is edge or partitions:
        where = f" for {format_partitions(partitions)}" if partitions else ""
        raise ConfigError(
            f"expected {expected} in a batch, got {edge.name.lower()}{where}"
        )
