"""Producer batches, appended one at a time to a producer state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kafkalog.formats.layout import BATCH, CONTROL_FLAG, TRANSACTIONAL_FLAG
from kafkalog.log.markers import Markers
from kafkalog.log.offset_metadata import OffsetMetadata
from kafkalog.log.producers.producer_append import TV_UNKNOWN
from kafkalog.log.producers.producer_entry import NO_GUARD, BatchMetadata, Marker
from kafkalog.log.producers.producer_manager import ProducerStateManager
from kafkalog.log.producers.producer_updates import NO_MARKERS, ProducerUpdates
from kafkalog.testing import ManualClock
from kafkalog.validation.appends import AppendOrigin

PRODUCER = 1
NOW = 1_700_000_000_000
DAY_MS = 86_400_000
CLIENT = AppendOrigin.CLIENT
COORDINATOR = AppendOrigin.COORDINATOR
REPLICATION = AppendOrigin.REPLICATION


class Producing:
    """A producer state in a directory, with a clock, and methods to append to it."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.directory = directory
        self.settings = settings
        self.clock = ManualClock(NOW)
        self.state = self.reopened()

    def reopened(self) -> ProducerStateManager:
        return ProducerStateManager(self.directory, clock=self.clock, **self.settings)

    def data(
        self,
        offset: int,
        sequence: int = 0,
        *,
        producer: int = PRODUCER,
        epoch: int = 0,
        txn: bool = False,
        origin: AppendOrigin = CLIENT,
        time: int | None = None,
    ) -> None:
        """Append one record, as an append of its own."""
        info = self.state.prepare_update(producer, origin)
        timestamp = self.clock.time_ms if time is None else time
        place = OffsetMetadata(offset)
        info.append_data(epoch, sequence, sequence, timestamp, place, offset, txn)
        self.state.update(info)
        self.state.map_end_offset = offset + 1

    def marker(
        self,
        offset: int,
        *,
        producer: int = PRODUCER,
        epoch: int = 0,
        abort: bool = False,
        coordinator: int = 0,
        version: int = 0,
    ) -> None:
        """Append a marker, as a coordinator's append of its own."""
        info = self.state.prepare_update(producer, COORDINATOR)
        marker = Marker(abort, coordinator, self.clock.time_ms)
        completed = info.append_marker(marker, epoch, offset, version)
        self.state.update(info)
        if completed is not None:
            self.state.complete_txn(completed)
        self.state.map_end_offset = offset + 1

    def snapshots(self) -> list[int]:
        """Return the offsets of the snapshots in the directory."""
        return sorted(
            int(path.name.split(".")[0]) for path in self.directory.glob("*.snapshot")
        )


def batch(
    offset: int,
    sequence: int = 0,
    *,
    count: int = 1,
    producer: int = PRODUCER,
    epoch: int = 0,
    txn: bool = False,
    control: bool = False,
    time: int = NOW,
    position: int = 0,
    size: int = 100,
) -> tuple[Any, ...]:
    """Return one row of `rows_of`."""
    flags = TRANSACTIONAL_FLAG * txn | CONTROL_FLAG * control
    last = offset + count - 1
    return (
        *(position, size, offset, last, time, time, producer, 0, 0, sequence, count),
        *(flags, epoch, 2, (0, 0, 0)),
    )


def rows_of(*batches: tuple[Any, ...]) -> np.ndarray[Any, np.dtype[np.void]]:
    """Return headers of batches, one after another from byte 0 on."""
    rows = np.array(list(batches), BATCH)
    sizes = rows["size_in_bytes"]
    rows["position"] = np.cumsum(sizes) - sizes
    return rows


def append(
    producing: Producing,
    *batches: tuple[Any, ...],
    origin: AppendOrigin = CLIENT,
    guard: int = NO_GUARD,
    version: int = TV_UNKNOWN,
    markers: Markers = NO_MARKERS,
) -> BatchMetadata | None:
    """Append batches as one append; return the batch that one of them repeats."""
    state = producing.state
    updates = ProducerUpdates(state, origin, guard=guard, transaction_version=version)
    found = updates.add(rows_of(*batches), markers, segment_base=0, position=0)
    if found is None:
        updates.apply()
        for completed in updates.completed:
            state.complete_txn(completed)
    return found


def batches_of(producing: Producing, producer: int = PRODUCER) -> list[int]:
    """Return the last offsets of the batches in the state."""
    entry = producing.state.last_entry(producer)
    return [] if entry is None else [stored.last_offset for stored in entry.batches]
