"""A source whose Python workers are killed during a read, once for each task.

The option ``killed`` names a directory, which gets a file for each killed worker. If it
has a file named as a partition, its content is appended to the partition just before.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from pyspark import TaskContext

from kafkalog.spark.batch_query import KafkaLogBatchReader
from kafkalog.spark.read_options import parse_options
from kafkalog.spark.source import KafkaLogDataSource
from kafkalog.spark.stream_query import KafkaLogStreamReader

BATCHES_BEFORE = 1


class MortalReads:
    """Kills the process after a batch of a task's first attempt."""

    killed: str

    def read(self, partition):
        task = TaskContext.get()
        for number, batch in enumerate(super().read(partition)):
            yield batch
            if number + 1 == BATCHES_BEFORE and task.attemptNumber() == 0:
                self._append(Path(self.options.paths[0]))
                name = f"killed-{task.stageId()}-{task.partitionId()}-{os.getpid()}"
                (Path(self.killed) / name).touch()
                os.kill(os.getpid(), signal.SIGKILL)

    def _append(self, logs):
        for folder in logs.iterdir():
            more = Path(self.killed) / folder.name
            if more.exists():
                with max(folder.glob("*.log")).open("ab") as active:
                    active.write(more.read_bytes())
                more.unlink()


class MortalBatches(MortalReads, KafkaLogBatchReader):
    """A batch reader whose workers are killed."""


class MortalStreams(MortalReads, KafkaLogStreamReader):
    """A stream reader whose workers are killed."""


class MortalSource(KafkaLogDataSource):
    """``format("mortal")``."""

    @classmethod
    def name(cls):
        return "mortal"

    def _split(self, streaming):
        options = dict(self.options)
        killed = options.pop("killed")
        return killed, parse_options(options, streaming=streaming)

    def reader(self, schema):
        killed, options = self._split(streaming=False)
        reader = MortalBatches(options, schema)
        reader.killed = killed
        return reader

    def streamReader(self, schema):
        killed, options = self._split(streaming=True)
        reader = MortalStreams(options, schema)
        reader.killed = killed
        return reader
