"""From options and what the partitions hold: which offsets a batch or a stream reads.

Knows: how Spark finds starts and ends, and what it takes for lost data. Does not know:
files.
Source: KafkaOffsetReaderAdmin, KafkaSourceRDD, KafkaMicroBatchStream and
KafkaDataConsumer of Spark's Kafka source. What its executors find out when they read,
that offsets are gone, is found out here, before anything is read.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from kafkalog.errors import ConfigError, DataLossError
from kafkalog.spark.offset_json import Place, name_place, name_places
from kafkalog.spark.offset_limits import (
    EARLIEST,
    LATEST,
    Edge,
    GlobalTimestamp,
    Limit,
    SpecificOffsets,
    SpecificTimestamps,
)
from kafkalog.spark.read_options import SourceOptions


class OffsetRange(NamedTuple):
    """The offsets of one partition from `start` to before `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def place(self) -> Place:
        """Its topic and partition."""
        return self.topic, self.partition

    @property
    def length(self) -> int:
        """How many offsets; records may be fewer."""
        return self.end - self.start


def split_ranges(
    ranges: Iterable[OffsetRange],
    min_partitions: int | None = None,
    max_records: int | None = None,
) -> list[OffsetRange]:
    """Divide ranges into as many as Spark makes tasks of; empty ones are left out.

    None has more than `max_records` offsets; then large ones are divided until there
    are about `min_partitions`.

    >>> split_ranges([OffsetRange("orders", 0, 0, 10)], max_records=4)
    [OffsetRange(topic='orders', partition=0, start=0, end=3), ...]
    >>> [part.length for part in split_ranges([OffsetRange("orders", 0, 0, 10)], 3)]
    [3, 3, 4]
    """
    parts = [one for one in ranges if one.length > 0]
    if max_records is not None:
        parts = [
            part
            for whole in parts
            for part in _divide(whole, math.ceil(whole.length / max_records))
        ]
    if min_partitions is None or min_partitions <= len(parts):
        return parts
    return _split_large(parts, min_partitions)


def _split_large(ranges: list[OffsetRange], min_partitions: int) -> list[OffsetRange]:
    """Divide in proportion; what stays whole does not count among the divided."""
    total = sum(one.length for one in ranges)
    whole = [one for one in ranges if _share(one.length, total, min_partitions) == 1]
    whole_places = {one.place for one in whole}
    divided_total = total - sum(one.length for one in whole)
    wanted = max(min_partitions - len(whole), 1)
    return [
        part
        for one in ranges
        for part in _divide(
            one,
            1
            if one.place in whole_places
            else _share(one.length, divided_total, wanted),
        )
    ]


def _share(count: int, total: int, parts: int) -> int:
    """Say how many of the parts are for a range, rounded as Java does, at least one."""
    share = float(count) / float(total) * parts
    below = math.floor(share)
    return max(below + (share - below >= 0.5), 1)


def _divide(one: OffsetRange, parts: int) -> list[OffsetRange]:
    """Divide a range evenly, the greater parts last; no part is empty."""
    divided = []
    start = one.start
    for left in range(parts, 0, -1):
        end = start + (one.end - start) // left
        if end > start:
            divided.append(one._replace(start=start, end=end))
        start = end
    return divided


LOGGER: Final = logging.getLogger(__name__)

Warn = Callable[[str], None]
"""Takes one line for each loss of data that does not end a query."""


class World(Protocol):
    """What the directories hold now; it is asked only for places that it named."""

    def places(self) -> list[Place]:
        """Name the partitions there are, sorted."""

    def earliest(self, places: Iterable[Place]) -> dict[Place, int]:
        """Give the first offset of each that can be read."""

    def latest(self, places: Iterable[Place]) -> dict[Place, int]:
        """Give one past the last of each that can be read."""

    def for_times(self, times: Mapping[Place, int]) -> dict[Place, int | None]:
        """Give the first offset with a timestamp at or above each, None for none."""


def starting_offsets(options: SourceOptions, world: World) -> dict[Place, int]:
    """Give the offset to start at of each partition chosen.

    Raises `ConfigError` where offsets or times are given for other partitions than are
    chosen, for a topic that is not there, and for a time that nothing follows.
    """
    chosen = options.topics.choose(world.places())
    return _settle(_find(options, options.starting, chosen, world, start=True), world)


def ending_offsets(options: SourceOptions, world: World) -> dict[Place, int]:
    """Give the offset to end before of each partition chosen; errors as for the start.

    After a time that nothing follows it is the latest.
    """
    chosen = options.topics.choose(world.places())
    return _settle(_find(options, options.ending, chosen, world, start=False), world)


def latest_offsets(options: SourceOptions, world: World) -> dict[Place, int]:
    """Give the latest offset of each partition chosen: as far as a stream can read."""
    return world.latest(options.topics.choose(world.places()))


def batch_ranges(
    options: SourceOptions, world: World, warn: Warn = LOGGER.warning
) -> list[OffsetRange]:
    """Give what a batch reads, by partition; nothing empty.

    Raises `ConfigError` as `starting_offsets` does, and where a start is beyond its
    end; `DataLossError` where offsets are asked for that are not there.
    """
    start = starting_offsets(options, world)
    end = ending_offsets(options, world)
    for place in sorted(start):
        if start[place] > end[place]:
            raise ConfigError(
                f"the start offset {start[place]} is greater than the end offset "
                f"{end[place]} for {name_place(place)}: the one given is beyond the "
                "other, or beyond the log"
            )
    ranges = [OffsetRange(*place, start[place], end[place]) for place in sorted(start)]
    return _readable(options, world, ranges, warn)


def new_starts(
    world: World, start: Mapping[Place, int], end: Mapping[Place, int]
) -> dict[Place, int]:
    """Give the earliest offsets of partitions that came since `start`, and are there.

    A stream reads them from there on.
    """
    return world.earliest(sorted((end.keys() - start.keys()) & set(world.places())))


def stream_ranges(
    options: SourceOptions,
    world: World,
    start: Mapping[Place, int],
    end: Mapping[Place, int],
    warn: Warn = LOGGER.warning,
) -> list[OffsetRange]:
    """Give what a micro-batch reads between two offsets, by partition; nothing empty.

    Raises `DataLossError` for partitions that went, or came without their first
    offset, for an end before its start, and for offsets that are not there.
    """
    came = new_starts(world, start, end)
    if lost := end.keys() - start.keys() - came.keys():
        found = f"no first offset found of new partitions {name_places(lost)}"
        _lose(options, found, warn)
    for place, offset in came.items():
        if offset != 0:
            found = f"new partition {name_place(place)} begins at {offset}"
            _lose(options, found, warn)
    if gone := start.keys() - end.keys():
        found = f"partitions {name_places(gone)} have been deleted"
        _lose(options, found, warn)
    begins = {**start, **came}
    ranges = []
    for place in sorted(begins.keys() & end.keys()):
        if end[place] < begins[place]:
            _lose(
                options,
                f"the offset of {name_place(place)} went back from {begins[place]} to "
                f"{end[place]}",
                warn,
            )
        ranges.append(OffsetRange(*place, begins[place], end[place]))
    return _readable(options, world, ranges, warn)


def _find(
    options: SourceOptions,
    limit: Limit,
    chosen: list[Place],
    world: World,
    *,
    start: bool,
) -> dict[Place, int]:
    """Give each partition's offset, or -1 or -2 for an edge."""
    match limit:
        case Edge():
            return dict.fromkeys(chosen, limit)
        case SpecificOffsets(offsets):
            _check_same("offsets", offsets, chosen)
            return dict(offsets)
        case SpecificTimestamps(times):
            _check_same("timestamps", times, chosen)
        case GlobalTimestamp(time):
            times = dict.fromkeys(chosen, time)
    strict = start and options.on_missing_time == "error"
    return _find_times(times, world, strict)


def _find_times(
    times: Mapping[Place, int], world: World, strict: bool
) -> dict[Place, int]:
    found = world.for_times(times)
    missing = [place for place in sorted(times) if found[place] is None]
    if strict and missing:
        raise ConfigError(
            f"no offset of {name_place(missing[0])} has a timestamp of "
            f"{times[missing[0]]} or later; with startingOffsetsByTimestampStrategy="
            "latest it would be the latest"
        )
    return {
        place: LATEST if offset is None else offset for place, offset in found.items()
    }


def _settle(offsets: Mapping[Place, int], world: World) -> dict[Place, int]:
    """Put offsets in the place of -1 and -2."""
    edges = world.latest([place for place, at in offsets.items() if at == LATEST])
    edges |= world.earliest([place for place, at in offsets.items() if at == EARLIEST])
    return {place: edges.get(place, offsets[place]) for place in sorted(offsets)}


def _check_same(what: str, given: Mapping[Place, int], chosen: list[Place]) -> None:
    if given.keys() != set(chosen):
        raise ConfigError(
            f"expected {what} for all partitions that are read, {name_places(chosen)}, "
            f"and for no others, got them for {name_places(given)}"
        )


def _readable(
    options: SourceOptions, world: World, ranges: list[OffsetRange], warn: Warn
) -> list[OffsetRange]:
    """Check that the offsets of all ranges are there, or keep to those that are."""
    asked = [one for one in ranges if one.length > 0]
    there = set(world.places())
    places = [one.place for one in asked if one.place in there]
    earliest, latest = world.earliest(places), world.latest(places)
    kept = []
    for one in asked:
        first, end = earliest.get(one.place, 0), latest.get(one.place, 0)
        if one.start < first or one.end > end:
            _lose(
                options,
                f"offsets [{one.start}, {one.end}) of {name_place(one.place)} are to "
                f"be read, and [{first}, {end}) are there",
                warn,
            )
        kept.append(one._replace(start=max(one.start, first), end=min(one.end, end)))
    return [one for one in kept if one.length > 0]


def _lose(options: SourceOptions, found: str, warn: Warn) -> None:
    """Raise for data that may be lost, or warn where it may be."""
    if options.fail_on_data_loss:
        raise DataLossError(
            f"some data may have been lost, aged out or deleted with its topic: {found}"
            " (with failOnDataLoss=false the reading goes on)"
        )
    warn(f"some data may have been lost: {found}")
