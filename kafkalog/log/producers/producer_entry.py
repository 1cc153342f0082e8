"""State of one producer: its epoch, its last batches, its open transaction.

Source: ``ProducerStateEntry.java``, ``BatchMetadata.java``,
``VerificationStateEntry.java``, ``VerificationGuard.java``, ``TxnMetadata.java``,
``CompletedTxn.java``.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import count
from typing import Final, NamedTuple

from kafkalog.formats.layout import (
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    SEQUENCE_MASK,
)
from kafkalog.log.offset_metadata import OffsetMetadata

NONE: Final = -1
"""Missing offset or coordinator epoch."""

BATCHES_KEPT: Final = 5
"""Number of batches of a producer that are kept, to recognize a duplicate."""

NO_GUARD: Final = 0
"""Guard of an append without verification."""

_GUARDS: Final = count(NO_GUARD + 1)


def last_sequence_of(base_sequence: int, offset_delta: int) -> int:
    """Return the sequence of the last record of a batch; 0 follows 2**31 - 1.

    >>> last_sequence_of(2**31 - 2, 3), last_sequence_of(-1, 3)
    (1, -1)
    """
    if base_sequence == NO_SEQUENCE:
        return NO_SEQUENCE
    if base_sequence > SEQUENCE_MASK - offset_delta:
        return base_sequence + offset_delta - SEQUENCE_MASK - 1
    return base_sequence + offset_delta


class BatchMetadata(NamedTuple):
    """Sequences and offsets of one batch of a producer.

    >>> batch = BatchMetadata(1, 103, 3, 1700000000000)
    >>> batch.first_sequence, batch.first_offset
    (2147483646, 100)
    """

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """Sequence of the first record."""
        if self.last_sequence < self.offset_delta:
            return SEQUENCE_MASK - (self.offset_delta - self.last_sequence) + 1
        return self.last_sequence - self.offset_delta

    @property
    def first_offset(self) -> int:
        """Offset of the first record."""
        return self.last_offset - self.offset_delta


@dataclass(slots=True)
class ProducerStateEntry:
    """State of one producer; `batches` are the last five of its epoch, oldest first."""

    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = NONE
    last_timestamp: int = NO_TIMESTAMP
    txn_first_offset: int = NONE
    batches: deque[BatchMetadata] = field(
        default_factory=lambda: deque(maxlen=BATCHES_KEPT)
    )

    def without_batches(self) -> ProducerStateEntry:
        """Return a copy without the batches."""
        return ProducerStateEntry(
            self.producer_id,
            self.producer_epoch,
            self.coordinator_epoch,
            self.last_timestamp,
            self.txn_first_offset,
        )

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record of the last batch, -1 for none."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """Offset of the last record of the last batch, -1 for none."""
        return self.batches[-1].last_offset if self.batches else NONE

    @property
    def offset_delta(self) -> int:
        """Last minus first offset of the last batch, 0 for none."""
        return self.batches[-1].offset_delta if self.batches else 0

    def enter_epoch(self, producer_epoch: int) -> None:
        """Set the epoch; the batches of another epoch are dropped."""
        if self.producer_epoch != producer_epoch:
            self.batches.clear()
            self.producer_epoch = producer_epoch

    def add(self, producer_epoch: int, batch: BatchMetadata) -> None:
        """Append a batch; the oldest of more than five is dropped."""
        self.enter_epoch(producer_epoch)
        self.batches.append(batch)
        self.last_timestamp = batch.timestamp

    def end_txn(self, producer_epoch: int, coordinator_epoch: int, time: int) -> None:
        """Set the epochs and the time (ms) of a marker, which ends the transaction."""
        self.enter_epoch(producer_epoch)
        self.coordinator_epoch = coordinator_epoch
        self.txn_first_offset = NONE
        self.last_timestamp = time

    def update(self, later: ProducerStateEntry) -> None:
        """Update this state to `later`; batches of the same epoch are appended."""
        self.enter_epoch(later.producer_epoch)
        self.batches.extend(later.batches)
        self.coordinator_epoch = later.coordinator_epoch
        self.txn_first_offset = later.txn_first_offset
        self.last_timestamp = later.last_timestamp

    def find_duplicate(
        self, producer_epoch: int, base_sequence: int, last_sequence: int
    ) -> BatchMetadata | None:
        """Return the batch with these sequences among the last five, or None."""
        if producer_epoch != self.producer_epoch:
            return None
        for batch in self.batches:
            same_end = batch.last_sequence == last_sequence
            if same_end and batch.first_sequence == base_sequence:
                return batch
        return None


@dataclass(slots=True)
class TxnMetadata:
    """First offset of a transaction, and offset of its marker (-1 while it is open)."""

    producer_id: int
    first_offset: OffsetMetadata
    last_offset: int = NONE


class CompletedTxn(NamedTuple):
    """A transaction that a marker at `last_offset` ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class Marker(NamedTuple):
    """Fields of a transaction marker; `timestamp` is in ms."""

    is_abort: bool
    coordinator_epoch: int
    timestamp: int


@dataclass(slots=True)
class VerificationState:
    """Verification of a transaction: an append must have the same `guard`.

    `lowest_sequence` is the lowest sequence in `epoch` that verification began with; a
    higher one is rejected before it is appended. `supports_epoch_bump` states that the
    producer gets a new epoch with each transaction (version 2).
    """

    timestamp: int
    lowest_sequence: int
    epoch: int
    supports_epoch_bump: bool
    guard: int = field(default_factory=_GUARDS.__next__)

    def lower(self, sequence: int, epoch: int) -> None:
        """Lower the sequence to that of another batch; a higher epoch replaces it."""
        if epoch > self.epoch or (
            epoch == self.epoch and sequence < self.lowest_sequence
        ):
            self.epoch = epoch
            self.lowest_sequence = sequence
