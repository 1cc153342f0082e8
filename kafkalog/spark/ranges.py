"""Ranges of offsets: from where to where a partition is read, and in how many parts.

Knows: how Spark divides ranges among tasks. Does not know: what the partitions hold.
Source: KafkaOffsetRangeCalculator of Spark's Kafka source.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from kafkalog.spark.offset_json import Place


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
