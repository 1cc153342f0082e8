"""What a partition knows of its producers, worked out from a snapshot and the log.

Of each producer: its epoch, its last batch, the coordinator of its last marker, and
where its open transaction began; one entry as in a ``.snapshot``.

Knows: producers of one partition. Does not know: when they expire, or what is refused.
Source: ``ProducerStateManager.java``, ``ProducerAppendInfo.java``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from kafkalog.errors import CorruptSnapshotError
from kafkalog.files.location import Location
from kafkalog.files.naming import file_name, parse_file_name
from kafkalog.formats.control import ControlRecordType, parse_control
from kafkalog.formats.layout import (
    CONTROL_FLAG,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    SEQUENCE_MASK,
    TRANSACTIONAL_FLAG,
)
from kafkalog.formats.producer_snapshot import ENTRY, parse_snapshot
from kafkalog.formats.record_batch import RecordBatch
from kafkalog.segment.file_records import Step

NONE: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerState:
    """One producer, by the fields of a snapshot's entry; -1 is none."""

    producer_id: int
    producer_epoch: int = NONE
    last_sequence: int = NONE
    last_offset: int = NONE
    offset_delta: int = 0
    timestamp: int = NONE
    coordinator_epoch: int = NONE
    current_txn_first_offset: int = NONE


Producers = dict[int, ProducerState]


def newest_snapshot(
    directory: Location, at_most: int
) -> tuple[npt.NDArray[np.void], int]:
    """Read the newest sound snapshot at or below an offset: its entries, its offset.

    Without one that is no entry, at offset 0.
    """
    names = [parse_file_name(path.name) for path in directory.iterdir()]
    offsets = [
        name.base_offset
        for name in names
        if name is not None and (name.kind, name.suffix) == ("snapshot", None)
    ]
    for offset in sorted(offsets, reverse=True):
        if offset > at_most:
            continue
        try:
            data = (directory / file_name(offset, "snapshot")).read_bytes()
            return parse_snapshot(data), offset
        except (CorruptSnapshotError, FileNotFoundError):
            continue
    return np.empty(0, ENTRY), 0


def from_entries(entries: npt.NDArray[np.void]) -> Producers:
    """Take the entries of a snapshot for producers, by id."""
    states = (
        ProducerState(**dict(zip(ENTRY.names or (), entry.item(), strict=True)))
        for entry in entries
    )
    return {state.producer_id: state for state in states}


def as_entries(producers: Producers) -> npt.NDArray[np.void]:
    """Return producers as the entries of a snapshot, by id."""
    rows = [
        tuple(getattr(producers[key], name) for name in ENTRY.names or ())
        for key in sorted(producers)
    ]
    return np.array(rows, ENTRY)


def apply(producers: Producers, step: Step) -> None:
    """Bring producers up to the end of a step."""
    rows = step.rows
    for row in rows[(rows["magic"] == 2) & (rows["producer_id"] != NO_PRODUCER_ID)]:
        key = int(row["producer_id"])
        state = producers.get(key, ProducerState(producer_id=key))
        epoch = int(row["producer_epoch"])
        if epoch != state.producer_epoch:
            state = replace(
                state,
                producer_epoch=epoch,
                last_sequence=NONE,
                last_offset=NONE,
                offset_delta=0,
            )
        if int(row["attributes"]) & CONTROL_FLAG:
            producers[key] = _after_marker(state, row, step)
        else:
            producers[key] = _after_batch(state, row)


def _after_batch(state: ProducerState, row: np.void) -> ProducerState:
    base, last = int(row["base_offset"]), int(row["last_offset"])
    sequence, first = int(row["base_sequence"]), state.current_txn_first_offset
    if int(row["attributes"]) & TRANSACTIONAL_FLAG and first == NONE:
        first = base
    if sequence != NO_SEQUENCE:
        sequence = (sequence + last - base) & SEQUENCE_MASK
    return replace(
        state,
        last_sequence=sequence,
        last_offset=last,
        offset_delta=last - base,
        timestamp=int(row["max_timestamp"]),
        current_txn_first_offset=first,
    )


def _after_marker(state: ProducerState, row: np.void, step: Step) -> ProducerState:
    start = int(row["position"]) - step.origin
    for record in RecordBatch(step.data, start):
        control = parse_control(record.key, record.value)
        if control.type in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
            return replace(
                state,
                timestamp=record.timestamp,
                coordinator_epoch=control.coordinator_epoch or 0,
                current_txn_first_offset=NONE,
            )
    return state
