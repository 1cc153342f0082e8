"""A streaming query: micro-batches over growing log directories.

Spark keeps one reader on the driver for offsets and planning, and sends copies to the
tasks; an input partition has all that its task needs. A batch that runs again after a
crash has the same offsets, and so the same rows.

Before Spark 4.2 a source does not receive the start of a batch. This reader then uses
the end of the last batch it planned, and does not limit the first batch of a driver.

Source: ``KafkaMicroBatchStream.scala``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from kafkalog.optional_packages import require
from kafkalog.spark.batch_query import (
    KafkaLogInputPartition,
    plan_input_partitions,
    warn_of_ignored_options,
    with_partitions,
)
from kafkalog.spark.log_partitions import LogPartitions
from kafkalog.spark.offset_json import (
    TopicPartition,
    offsets_from_json,
    offsets_to_json,
)
from kafkalog.spark.offset_ranges import (
    latest_offsets,
    new_partition_starts,
    starting_offsets,
    stream_ranges,
)
from kafkalog.spark.read_options import SourceOptions
from kafkalog.spark.spark_columns import arrow_schema
from kafkalog.spark.task_reader import TaskReader

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import datasource
else:
    datasource = require("pyspark.sql.datasource", "spark")

BASES: Final = [datasource.DataSourceStreamReader]
if hasattr(datasource, "ReadLimit"):  # from Spark 4.2 on
    limits = require("pyspark.sql.streaming.datasource", "spark")
    BASES.append(limits.SupportsTriggerAvailableNow)

Offsets = dict[TopicPartition, int]
Json = dict[str, dict[str, int]]


class KafkaLogStreamReader(*BASES):  # type: ignore[misc]
    """The planner and reader of micro-batches, within the limits of the options."""

    def __init__(self, options: SourceOptions, schema: Any) -> None:
        warn_of_ignored_options(options)
        self.options = options
        self.tasks = TaskReader.from_options(options, arrow_schema(schema))
        self._planned: Offsets | None = None
        self._available: Offsets | None = None
        self._last_batch_ms = 0

    def initialOffset(self) -> Json:
        """Return the offsets at which a new stream starts."""
        offsets = with_partitions(
            self.options, lambda partitions: starting_offsets(self.options, partitions)
        )
        self._planned = offsets
        return offsets_to_json(offsets)

    def latestOffset(self, start: Json | None = None, limit: Any = None) -> Json:
        """Return the end of the next batch; `start` itself if there is too little.

        `limit` is the limit that Spark's trigger derives from `getDefaultReadLimit`.
        """
        begin = self._planned if start is None else offsets_from_json(start)
        return with_partitions(
            self.options, lambda partitions: self._end(partitions, begin, limit)
        )

    def _end(
        self, partitions: LogPartitions, begin: Offsets | None, limit: Any
    ) -> Json:
        latest = self._available
        if latest is None:
            latest = latest_offsets(self.options, partitions)
        if begin is None or type(limit).__name__ == "ReadAllAvailable":
            return offsets_to_json(latest)
        minimum = self.options.min_offsets_per_trigger
        if minimum is not None and self._delays(minimum, begin, latest):
            return offsets_to_json(begin)
        maximum = self.options.max_offsets_per_trigger
        if maximum is not None:
            new_starts = new_partition_starts(partitions, begin, latest)
            latest = limit_offsets(begin, latest, maximum, new_starts)
        return offsets_to_json(latest)

    def _delays(self, minimum: int, begin: Offsets, latest: Offsets) -> bool:
        now_ms = time.time_ns() // 1_000_000
        delays = delay_batch(
            minimum,
            self.options.max_trigger_delay_ms,
            begin,
            latest,
            now_ms=now_ms,
            last_batch_ms=self._last_batch_ms,
        )
        if not delays:
            self._last_batch_ms = now_ms
        return delays

    def getDefaultReadLimit(self) -> Any:
        """Return the kind of limit on batches; `latestOffset` applies the limit."""
        if self.options.max_offsets_per_trigger is not None:
            return limits.ReadMaxRows(self.options.max_offsets_per_trigger)
        if self.options.min_offsets_per_trigger is not None:
            return limits.ReadMinRows(self.options.min_offsets_per_trigger)
        return limits.ReadAllAvailable()

    def reportLatestOffset(self) -> Json:
        """Return the latest offsets, for the query's progress."""
        return offsets_to_json(self._latest())

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of the query at the offsets that are available now."""
        self._available = self._latest()

    def _latest(self) -> Offsets:
        return with_partitions(
            self.options, lambda partitions: latest_offsets(self.options, partitions)
        )

    def partitions(self, start: Json, end: Json) -> list[KafkaLogInputPartition]:
        """Return the input partitions of a batch: the bytes that each task reads."""
        begin = offsets_from_json(start)
        self._planned = ends = offsets_from_json(end)

        def plan(partitions: LogPartitions) -> list[KafkaLogInputPartition]:
            ranges = stream_ranges(self.options, partitions, begin, ends)
            return plan_input_partitions(self.options, partitions, ranges)

        return with_partitions(self.options, plan)

    def read(
        self, partition: KafkaLogInputPartition | None
    ) -> Iterator[pa.RecordBatch]:
        """Read one input partition.

        Without input partitions Spark reads one of its own; before 4.2 that is None.
        """
        if not isinstance(partition, KafkaLogInputPartition):
            return iter(())
        return self.tasks.read(partition.task)

    def commit(self, end: Json) -> None:
        """Do nothing: Spark's checkpoint has the offsets."""


def limit_offsets(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    max_offsets: int,
    new_starts: Mapping[TopicPartition, int] | None = None,
) -> Offsets:
    """Return the ends of a batch of about `max_offsets`, in proportion to the backlog.

    Each partition with a backlog gets at least one offset, so the sum may exceed
    `max_offsets`. `new_starts` has the earliest offsets of partitions that `start` does
    not have. A partition in neither, or without a backlog, keeps its `end`.

    >>> start, end = {("a", 0): 0, ("a", 1): 0}, {("a", 0): 900, ("a", 1): 100}
    >>> limit_offsets(start, end, 10)
    {('a', 0): 9, ('a', 1): 1}
    """
    starts = {**(new_starts or {}), **start}
    backlog = {
        tp: until - starts[tp]
        for tp, until in end.items()
        if tp in starts and until > starts[tp]
    }
    total = float(sum(backlog.values()))
    limited = dict(end)
    for tp, count in backlog.items():
        share = max_offsets * (count / total)
        offsets = math.ceil(share) if share < 1 else math.floor(share)
        limited[tp] = min(end[tp], starts[tp] + offsets)
    return limited


def delay_batch(
    min_offsets: int,
    max_delay_ms: int,
    start: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
    *,
    now_ms: int,
    last_batch_ms: int,
) -> bool:
    """Return whether to delay a batch: too few offsets, and the maximum delay not over.

    `last_batch_ms` is the time of the last batch that was not delayed, and 0 before the
    first, which is never delayed. A partition that `start` does not have counts from
    offset 0.

    >>> delay_batch(5, 1000, {}, {("a", 0): 3}, now_ms=9500, last_batch_ms=9000)
    True
    >>> delay_batch(5, 1000, {}, {("a", 0): 3}, now_ms=9500, last_batch_ms=0)
    False
    """
    if now_ms - last_batch_ms >= max_delay_ms:
        return False
    backlog = sum(offset - start.get(tp, 0) for tp, offset in latest.items())
    return backlog < min_offsets
