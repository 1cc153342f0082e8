"""Narrowing of a scan to the partitions and offsets where a condition may hold."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafkalog.decoding.read_policy import Bounds
from kafkalog.integer_limits import MAX_INT64, MIN_INT64
from kafkalog.query.conditions import BatchCondition, every, partition_ranges

if TYPE_CHECKING:
    from kafkalog.query.scan import Scan


def narrow(scan: Scan, condition: BatchCondition) -> Scan:
    """Return a scan that skips what certainly holds no record satisfying a condition.

    It may still return other records: the caller evaluates its filter on them. A scan
    with a limit is returned as it is, since the limit comes before the filter.

    >>> import kafkalog
    >>> from kafkalog.query.conditions import Comparison
    >>> batch = kafkalog.RecordBatchBuilder(base_offset=7)
    >>> for value in (b"one", b"two", b"three"):
    ...     batch.append(None, value, timestamp=1)
    >>> narrow(kafkalog.scan(batch.build()), Comparison("offset", ">", 7)).count()
    2
    """
    if scan.limit is not None:
        return scan
    sources = []
    for source, bounds in scan.sources:
        ranges = partition_ranges(source.topic, source.partition)
        within = _within(bounds, condition)
        if within.start_offset < within.end_offset and condition.may_match(ranges):
            sources.append((source, within))
    both = every((scan.condition, condition))
    return replace(scan, sources=tuple(sources), condition=both, problems=[])


def _within(bounds: Bounds, condition: BatchCondition) -> Bounds:
    """Return bounds that also exclude offsets and timestamps outside the condition."""
    first, last = condition.interval("offset")
    earliest, latest = condition.interval("timestamp")
    end = bounds.end_offset if last >= MAX_INT64 else min(bounds.end_offset, last + 1)
    start_time, end_time = bounds.start_timestamp, bounds.end_timestamp
    if earliest > MIN_INT64:
        start_time = earliest if start_time is None else max(start_time, earliest)
    if latest < MAX_INT64:
        end_time = latest + 1 if end_time is None else min(end_time, latest + 1)
    return Bounds(
        start_offset=max(bounds.start_offset, first),
        end_offset=max(end, MIN_INT64),
        start_timestamp=start_time,
        end_timestamp=end_time,
    )
