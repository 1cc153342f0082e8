"""A log directory that grows, rolls and loses segments, with a list of its records."""

from __future__ import annotations

from pathlib import Path

from kafkalog import RecordBatchBuilder

T = 1_700_000_000_000
BATCH = 10


class GrowingLog:
    """Partitions of one topic; `written` has every record ever appended."""

    def __init__(self, logs, partitions=2, topic="grown"):
        self.logs = Path(logs)
        self.folders = [self.logs / f"{topic}-{one}" for one in range(partitions)]
        for folder in self.folders:
            folder.mkdir(parents=True)
        self.bases = [[0] for _ in self.folders]
        self.ends = [0] * partitions
        self.written = set()

    def append(self, count, size=20, codec="none"):
        """Append `count` records to each partition, batch by batch."""
        for partition, folder in enumerate(self.folders):
            path = folder / f"{self.bases[partition][-1]:020d}.log"
            with path.open("ab") as file:
                for _ in range(0, count, BATCH):
                    file.write(self._batch(partition, size, codec))

    def _batch(self, partition, size, codec):
        first = self.ends[partition]
        builder = RecordBatchBuilder(base_offset=first, codec=codec)
        for offset in range(first, first + BATCH):
            value = value_of(partition, offset, size)
            builder.append(None, value, timestamp=T + offset)
            self.written.add((partition, offset, value))
        self.ends[partition] = first + BATCH
        return builder.build()

    def roll(self):
        for partition, end in enumerate(self.ends):
            self.bases[partition].append(end)

    def delete_first(self):
        """Delete the first segment of each partition, as retention does."""
        for partition, folder in enumerate(self.folders):
            (folder / f"{self.bases[partition].pop(0):020d}.log").unlink()


def value_of(partition, offset, size):
    return (b"%d of %d " % (offset, partition)).ljust(size, b".")


def rows_of(frame):
    """Return partition, offset and value of each row, sorted, with duplicates."""
    found = frame.select("partition", "offset", "value").toArrow().to_pylist()
    return sorted(tuple(row.values()) for row in found)
