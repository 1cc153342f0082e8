"""How much a micro-batch takes: no more than a maximum, and not before a minimum.

Knows: counts of offsets and a clock's milliseconds. Does not know: logs, or the clock.
Source: rateLimit and delayBatch of KafkaMicroBatchStream in Spark's Kafka source.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from kafkalog.spark.offset_json import Place


def limit_offsets(
    start: Mapping[Place, int],
    end: Mapping[Place, int],
    max_offsets: int,
    new_starts: Mapping[Place, int] | None = None,
) -> dict[Place, int]:
    """Give the ends of a batch of about `max_offsets`, in proportion to what waits.

    A partition with little waiting gets at least one offset, so the sum may be over.
    `new_starts` has the earliest offsets of the partitions that `start` lacks; one in
    neither, and one that has nothing, gets its `end`.

    >>> start, end = {("a", 0): 0, ("a", 1): 0}, {("a", 0): 900, ("a", 1): 100}
    >>> limit_offsets(start, end, 10)
    {('a', 0): 9, ('a', 1): 1}
    """
    begins = {**(new_starts or {}), **start}
    waiting = {
        place: until - begins[place]
        for place, until in end.items()
        if place in begins and until > begins[place]
    }
    total = float(sum(waiting.values()))
    limited = dict(end)
    for place, count in waiting.items():
        share = max_offsets * (count / total)
        whole = math.ceil(share) if share < 1 else math.floor(share)
        limited[place] = min(end[place], begins[place] + whole)
    return limited


def delay_batch(
    min_offsets: int,
    max_delay_ms: int,
    start: Mapping[Place, int],
    latest: Mapping[Place, int],
    *,
    now_ms: int,
    last_batch_ms: int,
) -> bool:
    """Say whether to wait for more: there are too few offsets, and it is not too late.

    `last_batch_ms` is when it last said no, at first 0: a stream's first batch does not
    wait. A partition that `start` lacks counts from offset 0.

    >>> delay_batch(5, 1000, {}, {("a", 0): 3}, now_ms=9500, last_batch_ms=9000)
    True
    >>> delay_batch(5, 1000, {}, {("a", 0): 3}, now_ms=9500, last_batch_ms=0)
    False
    """
    if now_ms - last_batch_ms >= max_delay_ms:
        return False
    waiting = sum(offset - start.get(place, 0) for place, offset in latest.items())
    return waiting < min_offsets
