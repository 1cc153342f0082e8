"""Encoding of a task's rows as batches, and their staging.

Rows are collected up to ``buffer.memory``, so that the rows of a partition fill whole
batches also where a table has many partitions. The order of rows within a partition is
kept.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from kafkalog.encoding.batch_builder import BatchSettings
from kafkalog.encoding.producer_batches import into_producer_batches
from kafkalog.encoding.record_columns import RecordColumns
from kafkalog.errors import RecordTooLargeError
from kafkalog.formats.layout import RECORD_BATCH_OVERHEAD
from kafkalog.optional_packages import require
from kafkalog.sink.staging import StagingWriter
from kafkalog.spark.sink.input_columns import InputRows, read_rows
from kafkalog.spark.sink.partitioner import Partitioner
from kafkalog.spark.sink.write_options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = require("pyarrow", "spark")


class TaskEncoder:
    """Encoder of the rows of one task, which it writes to staged files."""

    def __init__(
        self, options: SinkOptions, partitioner: Partitioner, staging: StagingWriter
    ) -> None:
        self._options = options
        self._partitioner = partitioner
        self._staging = staging
        self._settings = BatchSettings(codec=options.codec, level=options.level)
        self._buffer = np.empty(0, np.uint8)
        self._collected: list[pa.RecordBatch] = []
        self._collected_bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Collect rows; encode those collected if they fill the buffer."""
        self._collected.append(batch)
        self._collected_bytes += batch.nbytes
        if self._collected_bytes >= self._options.buffer_bytes:
            self.flush()

    def flush(self) -> None:
        """Encode and stage the rows that are collected."""
        if not self._collected:
            return
        table = pa.Table.from_batches(self._collected)
        self._collected, self._collected_bytes = [], 0
        if table.num_rows:
            now_ms = time.time_ns() // 1_000_000
            rows = read_rows(table, self._options.topic, now_ms)
            for topic, partition, records in self._by_partition(rows):
                self._staging.write(topic, partition, self._encode(topic, records))

    def _by_partition(
        self, rows: InputRows
    ) -> Iterator[tuple[str, int, RecordColumns]]:
        """Yield the records of each partition, in their order."""
        partitions = self._partitioner.assign(rows)
        count = int(partitions.max()) + 1
        group = rows.topic.astype(np.int64) * count + partitions
        if group.max() < 1 << 16:  # NumPy sorts 16 bits in linear time
            group = group.astype(np.uint16)
        order = np.argsort(group, kind="stable")
        group = group[order]
        starts = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
        for start, end in zip(starts, np.append(starts[1:], len(group)), strict=True):
            records = rows.records
            if len(starts) > 1:
                records = records.take(order[start:end])
            code, partition = divmod(int(group[start]), count)
            yield rows.topics[code], partition, records

    def _encode(self, topic: str, records: RecordColumns) -> list[memoryview]:
        """Return the records as a producer's batches, valid until the next call."""
        most = self._options.max_request_bytes
        batch_bytes = min(self._options.batch_bytes, most)
        batches = into_producer_batches(records, self._settings, batch_bytes)
        sizes = batches.split.payloads + RECORD_BATCH_OVERHEAD
        if sizes.max() > most:
            raise RecordTooLargeError(
                f"The message of topic {topic} is {sizes.max()} bytes when serialized "
                f"which is larger than {most}, which is the value of the "
                "max.request.size configuration."
            )
        if self._buffer.size < sizes.sum():
            self._buffer = np.empty(int(sizes.sum()), np.uint8)
        return batches.encode_all(self._buffer)
