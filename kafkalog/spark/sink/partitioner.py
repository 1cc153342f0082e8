"""The partition of each row: as given, by its key, or spread.

A key belongs to the partition that Java's producer chooses for it. Rows without a key
go to one partition until a batch is full, then to the next; each task starts at another
partition.

Source: ``BuiltInPartitioner.java``, ``KafkaProducer.partition``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog.array_types import Int32s
from kafkalog.encoding.record_columns import ByteColumn
from kafkalog.errors import ConfigError
from kafkalog.sink.log_commit import check_topic
from kafkalog.spark.sink.input_columns import NO_PARTITION, InputRows

POSITIVE: Final = 0x7FFFFFFF


class Partitioner:
    """Partitions of the rows of one task.

    Parameters
    ----------
    existing : mapping of str to tuple of int
        The partitions of each topic on disk.
    new_partitions : int or None
        The number of partitions of topics that do not exist.
    batch_bytes : int
        Bytes of rows without a key that go to one partition before the next.
    task : int
        Number of the task.

    Attributes
    ----------
    assigned : set of (str, int)
        The topics of rows without a given partition, and their numbers of partitions.
    """

    def __init__(
        self,
        existing: Mapping[str, tuple[int, ...]],
        new_partitions: int | None,
        batch_bytes: int,
        task: int,
    ) -> None:
        self._existing = existing
        self._new = new_partitions
        self._batch_bytes = max(batch_bytes, 1)
        self._task = task
        self.assigned: set[tuple[str, int]] = set()
        self._spread: dict[str, int] = {}  # bytes of rows without a key, by topic

    def assign(self, rows: InputRows) -> Int32s:
        """Return the partition of each row.

        Raises `ConfigError` for a topic or partition that does not exist, and for rows
        without a partition if the partitions of their topic are not all there.
        """
        chosen = rows.partition.copy()
        for code, topic in enumerate(rows.topics):
            partitions = partitions_of(topic, self._existing, self._new)
            of_topic = rows.topic == code
            _check_given(topic, partitions, chosen[of_topic])
            open_rows = np.flatnonzero(of_topic & (chosen == NO_PARTITION))
            if len(open_rows):
                count = _count(topic, partitions)
                self.assigned.add((topic, count))
                chosen[open_rows] = self._choose(rows, open_rows, topic, count)
        return chosen

    def _choose(
        self, rows: InputRows, chosen: npt.NDArray[np.intp], topic: str, count: int
    ) -> Int32s:
        """Return the partitions of rows of a topic by key, or spread."""
        key, value = rows.records.key.take(chosen), rows.records.value.take(chosen)
        partitions = hash_keys(key) % count
        without = np.flatnonzero(key.length < 0)
        if len(without):
            sizes = np.maximum(value.length[without], 1).astype(np.int64)
            ends = np.cumsum(sizes) + self._spread.get(topic, 0)
            batches = (ends - sizes) // self._batch_bytes
            partitions[without] = (self._task + batches) % count
            self._spread[topic] = int(ends[-1])
        return partitions


def partitions_of(
    topic: str, existing: Mapping[str, tuple[int, ...]], new_partitions: int | None
) -> tuple[int, ...]:
    """Return the partitions of a topic on disk, or of one that is to be created.

    Raises `ConfigError` for an invalid name, and for a topic that is neither.
    """
    check_topic(topic)
    if topic in existing:
        return existing[topic]
    if new_partitions is None:
        error = ConfigError(f"topic {topic} does not exist in the log directory")
        error.add_note("The option partitions creates it.")
        raise error
    return tuple(range(new_partitions))


def hash_keys(keys: ByteColumn) -> Int32s:
    """Return the hash of each key, not negative: ``toPositive(murmur2(key))``.

    >>> hash_keys(ByteColumn.of([b"21", b"abc"])) % 10
    array([0, 7], dtype=int32)
    """
    hashes = np.empty(len(keys.length), np.int32)
    _speedups.murmur2_keys(keys.data, keys.start, keys.length, hashes)
    return hashes & POSITIVE


def _check_given(topic: str, partitions: tuple[int, ...], given: Int32s) -> None:
    known = np.isin(given, (*partitions, NO_PARTITION))
    if not known.all():
        unknown = int(given[known.argmin()])
        raise ConfigError(
            f"partition {unknown} of topic {topic}, expected one of "
            f"{_shown(partitions)}"
        )


def _count(topic: str, partitions: tuple[int, ...]) -> int:
    """Return the number of partitions of a topic whose partitions are all there."""
    if partitions != tuple(range(len(partitions))):
        error = ConfigError(
            f"rows of topic {topic} without a partition, expected one of "
            f"{_shown(partitions)}"
        )
        error.add_note("Not all partitions of the topic are in the log directory.")
        raise error
    return len(partitions)


def _shown(partitions: tuple[int, ...]) -> str:
    if partitions == tuple(range(len(partitions))):
        return f"0 to {len(partitions) - 1}"
    return ", ".join(map(str, partitions))
