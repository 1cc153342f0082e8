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

from kafkalog.export.missing import require
from kafkalog.spark.batch import (
    Split,
    ask,
    make_splits,
    warn_of_ignored,
)
from kafkalog.spark.columns import arrow_schema
from kafkalog.spark.offset_json import Place, from_json, to_json
from kafkalog.spark.offsets import (
    latest_offsets,
    new_starts,
    starting_offsets,
    stream_ranges,
)
from kafkalog.spark.options import SourceOptions
from kafkalog.spark.partitions import Partitions
from kafkalog.spark.rate_limit import delay_batch, limit_offsets
from kafkalog.spark.reading import TaskReader

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import datasource
else:
    datasource = require("pyspark.sql.datasource", "spark")

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
