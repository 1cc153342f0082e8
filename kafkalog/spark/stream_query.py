"""A stream over growing log directories: micro-batches from offsets to offsets.

Spark keeps one reader on the driver, which it asks for offsets, and makes others of its
own for the tasks: so all that these need is in a `Split`. Offsets have Kafka's JSON. A
batch that is run again after a crash has the offsets that it had, and so its rows.

Before Spark 4.2 a source is not told where a batch begins. There this reader goes by
the last batch it planned, and does not limit the first of a driver.

Knows: what Spark asks of a stream. Does not know: how anything is read.
Source: ``KafkaMicroBatchStream.scala``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from kafkalog.export.optional_packages import require
from kafkalog.spark.batch_query import (
    Split,
    ask,
    make_splits,
    warn_of_ignored,
)
from kafkalog.spark.log_partitions import Partitions
from kafkalog.spark.offset_json import Place, from_json, to_json
from kafkalog.spark.offset_ranges import (
    latest_offsets,
    new_starts,
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


import math
from collections.abc import Mapping

BASES: Final = [datasource.DataSourceStreamReader]
if hasattr(datasource, "ReadLimit"):  # from Spark 4.2 on
    limits = require("pyspark.sql.streaming.datasource", "spark")
    BASES.append(limits.SupportsTriggerAvailableNow)

Offsets = dict[Place, int]
Json = dict[str, dict[str, int]]


class StreamReader(*BASES):  # type: ignore[misc]
    """Reads what is appended, batch by batch, at the pace that the options set."""

    def __init__(self, options: SourceOptions, schema: Any) -> None:
        warn_of_ignored(options)
        self.options = options
        self.tasks = TaskReader.of(options, arrow_schema(schema))
        self._planned: Offsets | None = None
        self._target: Offsets | None = None
        self._last_batch_ms = 0

    def initialOffset(self) -> Json:
        """Say where a new stream begins."""
        offsets = ask(self.options, lambda held: starting_offsets(self.options, held))
        self._planned = offsets
        return to_json(offsets)

    def latestOffset(self, start: Json | None = None, limit: Any = None) -> Json:
        """Say where the next batch ends: `start` again if it is to wait.

        `limit` is what Spark's trigger makes of `getDefaultReadLimit`.
        """
        begin = self._planned if start is None else from_json(start)
        return ask(self.options, lambda held: self._end(held, begin, limit))

    def _end(self, held: Partitions, begin: Offsets | None, limit: Any) -> Json:
        latest = self._target
        if latest is None:
            latest = latest_offsets(self.options, held)
        if begin is None or type(limit).__name__ == "ReadAllAvailable":
            return to_json(latest)
        least = self.options.min_offsets_per_trigger
        if least is not None and self._waits(least, begin, latest):
            return to_json(begin)
        most = self.options.max_offsets_per_trigger
        if most is not None:
            came = new_starts(held, begin, latest)
            latest = limit_offsets(begin, latest, most, came)
        return to_json(latest)

    def _waits(self, least: int, begin: Offsets, latest: Offsets) -> bool:
        now_ms = time.time_ns() // 1_000_000
        waits = delay_batch(
            least,
            self.options.max_trigger_delay_ms,
            begin,
            latest,
            now_ms=now_ms,
            last_batch_ms=self._last_batch_ms,
        )
        if not waits:
            self._last_batch_ms = now_ms
        return waits

    def getDefaultReadLimit(self) -> Any:
        """Say that batches are limited, if they are; by what, `latestOffset` knows."""
        if self.options.max_offsets_per_trigger is not None:
            return limits.ReadMaxRows(self.options.max_offsets_per_trigger)
        if self.options.min_offsets_per_trigger is not None:
            return limits.ReadMinRows(self.options.min_offsets_per_trigger)
        return limits.ReadAllAvailable()

    def reportLatestOffset(self) -> Json:
        """Say what there is by now, for the query's progress."""
        return to_json(self._latest())

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember what there is now: the query ends there, whatever is appended."""
        self._target = self._latest()

    def _latest(self) -> Offsets:
        return ask(self.options, lambda held: latest_offsets(self.options, held))

    def partitions(self, start: Json, end: Json) -> list[Split]:
        """Settle which bytes each task of a batch reads."""
        begin = from_json(start)
        self._planned = ends = from_json(end)

        def splits(held: Partitions) -> list[Split]:
            ranges = stream_ranges(self.options, held, begin, ends)
            return make_splits(self.options, held, ranges)

        return ask(self.options, splits)

    def read(self, partition: Split | None) -> Iterator[pa.RecordBatch]:
        """Read one task.

        Of no tasks at all Spark makes one of its own, and before 4.2 one of None.
        """
        if not isinstance(partition, Split):
            return iter(())
        return self.tasks.read(partition.task)

    def commit(self, end: Json) -> None:
        """Do nothing: offsets are kept by Spark's checkpoint."""


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
