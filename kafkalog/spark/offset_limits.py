"""Where a reading starts and ends, as options say it: not yet offsets of a log.

Knows: the three kinds of options and which of them counts, and what a batch and a
stream refuse. Does not know: what the partitions hold.
Source: KafkaOffsetRangeLimit and KafkaSourceProvider of Spark's Kafka source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from kafkalog.errors import ConfigError
from kafkalog.spark.offset_json import (
    TIMES_FORM,
    Place,
    from_json,
    name_place,
    name_places,
)
from kafkalog.spark.option_values import parse_time_ms


class Edge(IntEnum):
    """An end of a log, by the number that stands for it among offsets."""

    LATEST = -1
    EARLIEST = -2


LATEST: Final = Edge.LATEST
EARLIEST: Final = Edge.EARLIEST


@dataclass(frozen=True, slots=True)
class SpecificOffsets:
    """An offset for each partition; -1 is its latest, -2 its earliest."""

    offsets: Mapping[Place, int]


@dataclass(frozen=True, slots=True)
class SpecificTimestamps:
    """For each partition a time: its first offset of that time or later, in ms."""

    times_ms: Mapping[Place, int]


@dataclass(frozen=True, slots=True)
class GlobalTimestamp:
    """One time for all partitions, in ms."""

    time_ms: int


Limit = Edge | SpecificOffsets | SpecificTimestamps | GlobalTimestamp


def parse_offsets(text: str) -> Limit:
    """Read ``earliest``, ``latest`` or an offset for each partition.

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
    offsets = from_json(text.strip())
    unknown = [place for place, offset in offsets.items() if offset < EARLIEST]
    if unknown:
        raise ConfigError(
            f"expected offsets, -1 for latest or -2 for earliest, got "
            f"{offsets[unknown[0]]} for {name_place(unknown[0])}"
        )
    return SpecificOffsets(offsets)


def parse_timestamps(text: str) -> Limit:
    """Read a time for each partition.

    >>> parse_timestamps('{"orders":{"0":1763750000000}}')
    SpecificTimestamps(times_ms={('orders', 0): 1763750000000})
    """
    times_ms = from_json(text.strip(), TIMES_FORM)
    for place, time_ms in times_ms.items():
        if time_ms < 0:
            raise ConfigError(
                f"expected milliseconds since 1970, got {time_ms} for "
                f"{name_place(place)}"
            )
    return SpecificTimestamps(times_ms)


def parse_timestamp(text: str) -> Limit:
    """Read one time for all partitions.

    >>> parse_timestamp("1763750000000")
    GlobalTimestamp(time_ms=1763750000000)
    """
    return GlobalTimestamp(parse_time_ms(text))


def check_batch_start(limit: Limit) -> None:
    """Refuse a batch that would start at the latest offset of a partition.

    >>> check_batch_start(LATEST)
    Traceback (most recent call last):
    kafkalog.errors.ConfigError: expected a start other than latest, which a batch...
    """
    _refuse_edge(limit, LATEST, "a start other than latest")


def check_batch_end(limit: Limit) -> None:
    """Refuse a batch that would end at the earliest offset of a partition."""
    _refuse_edge(limit, EARLIEST, "an end other than earliest")


def check_order(start: Limit, end: Limit) -> None:
    """Refuse a start and an end that name different partitions, or are crossed.

    Offsets are held against offsets and times against times; what has to be looked up
    is compared when it has been.

    >>> check_order(SpecificOffsets({("a", 0): 5}), SpecificOffsets({("a", 0): 3}))
    Traceback (most recent call last):
    kafkalog.errors.ConfigError: the start offset 5 is greater than the end offset 3...
    """
    match start, end:
        case SpecificOffsets(from_), SpecificOffsets(until):
            word = "offset"
        case SpecificTimestamps(from_), SpecificTimestamps(until):
            word = "timestamp"
        case _:
            return
    if from_.keys() != until.keys():
        raise ConfigError(
            f"expected the same partitions in start and end, got {name_places(from_)} "
            f"and {name_places(until)}"
        )
    for place in sorted(from_):
        if from_[place] > until[place] >= 0:
            raise ConfigError(
                f"the start {word} {from_[place]} is greater than the end {word} "
                f"{until[place]} for {name_place(place)}"
            )


def _refuse_edge(limit: Limit, edge: Edge, expected: str) -> None:
    places: list[Place] = []
    if isinstance(limit, SpecificOffsets):
        places = [place for place, offset in limit.offsets.items() if offset == edge]
    if limit is edge or places:
        of = f" for {name_places(places)}" if places else ""
        raise ConfigError(
            f"expected {expected}, which a batch cannot have, got "
            f"{edge.name.lower()}{of}"
        )
