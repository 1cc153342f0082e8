"""What a partition knows of its producers, for readers: from a snapshot and the log.

Of each producer: its epoch, its last batches, the coordinator of its last marker, and
where its open transaction began. A reader takes all that is there for right.

Knows: producers of one partition. Does not know: when they expire, or what is refused.
Source: ``ProducerStateManager.java``, ``ProducerAppendInfo.java``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kafkalog.formats.layout import CONTROL_FLAG, TRANSACTIONAL_FLAG
from kafkalog.log.markers import known_markers
from kafkalog.log.producers.producer_entry import (
    NONE,
    BatchMetadata,
    ProducerStateEntry,
    last_sequence_of,
)
from kafkalog.log.producers.producer_updates import owned_batches
from kafkalog.log.producers.snapshot_files import entries_of, rows_of
from kafkalog.segment.file_records import Step

Producers = dict[int, ProducerStateEntry]


def from_entries(entries: npt.NDArray[np.void]) -> Producers:
    """Take the entries of a snapshot for producers, by id."""
    return {entry.producer_id: entry for entry in entries_of(entries)}


def as_entries(producers: Producers) -> npt.NDArray[np.void]:
    """Return producers as the entries of a snapshot, by id."""
    return rows_of(producers[key] for key in sorted(producers))


def apply(producers: Producers, step: Step) -> None:
    """Bring producers up to the end of a step."""
    markers = known_markers(step.data, step.rows, step.origin)
    for index, row in owned_batches(step.rows):
        _, base, last, timestamp, producer_id, epoch, sequence, attributes = row
        entry = producers.get(producer_id)
        if entry is None:
            entry = producers[producer_id] = ProducerStateEntry(producer_id)
        if attributes & CONTROL_FLAG:
            marker = markers[index]
            if marker is not None:
                entry.end_txn(epoch, marker.coordinator_epoch, marker.timestamp)
            continue
        last_sequence = last_sequence_of(sequence, last - base)
        entry.add(epoch, BatchMetadata(last_sequence, last, last - base, timestamp))
        if attributes & TRANSACTIONAL_FLAG and entry.txn_first_offset == NONE:
            entry.txn_first_offset = base
