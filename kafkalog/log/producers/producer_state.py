"""Producer state of a partition for readers, from snapshots and batches.

A producer has an epoch, its last batches, the coordinator epoch of its last marker, and
the first offset of its open transaction. A reader does not validate batches, which the
leader did, and expires no producers.

Source: ``ProducerStateManager.java``, ``ProducerAppendInfo.java``.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Final

import numpy as np
import numpy.typing as npt

from kafkalog.errors import LocatedError
from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.formats.layout import (
    BATCH,
    CONTROL_FLAG,
    NO_PRODUCER_ID,
    TRANSACTIONAL_FLAG,
)
from kafkalog.formats.producer_snapshot import ENTRY
from kafkalog.log.markers import known_markers
from kafkalog.log.producers.newest_snapshot import newest_snapshot
from kafkalog.log.producers.producer_entry import (
    NONE,
    BatchMetadata,
    ProducerStateEntry,
    last_sequence_of,
)
from kafkalog.log.reading.log_segments import entry_steps
from kafkalog.segment.file_records import Step
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.location import Location

Producers = dict[int, ProducerStateEntry]

_COLUMNS: Final = (
    "position",
    "base_offset",
    "last_offset",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "attributes",
)
_NAMES: Final = list(BATCH.fields or ())
_PRODUCER_ID: Final = _NAMES.index("producer_id")
_pick: Final = itemgetter(*map(_NAMES.index, _COLUMNS))

FEW_ROWS: Final = 8
"""Up to this many rows, converting row by row is faster than by columns."""

OwnedBatch = tuple[int, int, int, int, int, int, int, int]
"""The `_COLUMNS` of a batch."""


def from_entries(entries: npt.NDArray[np.void]) -> Producers:
    """Return the producers in the entries of a snapshot, by id."""
    return {entry.producer_id: entry for entry in entries_of(entries)}


def as_entries(producers: Producers) -> npt.NDArray[np.void]:
    """Return producers as the entries of a snapshot, sorted by id."""
    return rows_of(producers[key] for key in sorted(producers))


def apply(producers: Producers, step: Step) -> None:
    """Update producers with the batches of a step."""
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


def owned_batches(rows: BatchHeaders) -> list[tuple[int, OwnedBatch]]:
    """Return the batches that have a producer: row number and `_COLUMNS` of each."""
    if len(rows) <= FEW_ROWS:
        return [
            (index, _pick(row))
            for index, row in enumerate(rows.tolist())
            if row[_PRODUCER_ID] > NO_PRODUCER_ID
        ]
    which = np.flatnonzero(rows["producer_id"] > NO_PRODUCER_ID)
    if not len(which):
        return []
    columns = [rows[name][which].tolist() for name in _COLUMNS]
    return list(zip(which.tolist(), zip(*columns, strict=True), strict=True))


def entries_of(rows: npt.NDArray[np.void]) -> list[ProducerStateEntry]:
    """Return the producers in the rows of a snapshot."""
    entries = []
    for row in rows.tolist():
        producer_id, epoch, sequence, last, delta, time, coordinator, first = row
        first = first if first >= 0 else NONE
        entry = ProducerStateEntry(producer_id, epoch, coordinator, time, first)
        if last >= 0:
            entry.add(epoch, BatchMetadata(sequence, last, delta, time))
        entries.append(entry)
    return entries


def rows_of(entries: Iterable[ProducerStateEntry]) -> npt.NDArray[np.void]:
    """Return producers as the rows of a snapshot."""
    rows = [
        (
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.txn_first_offset,
        )
        for entry in entries
    ]
    return np.array(rows, ENTRY)


def producer_states_at(
    path: Location,
    segments: list[LogSegment],
    end: int,
    errors: list[LocatedError] | None = None,
) -> npt.NDArray[np.void]:
    """Return the state of each producer at the log's end, as `Log` does.

    With a list for errors, corrupt batches are skipped as by `entry_steps`.
    """
    first = segments[0].base_offset if segments else 0
    none = np.empty(0, ENTRY), first
    entries, offset = newest_snapshot(path, end, first) or none
    producers = from_entries(entries)
    for _, step in entry_steps(path, segments, offset, errors=errors):
        apply(producers, step)
    return as_entries(producers)
