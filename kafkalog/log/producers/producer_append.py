"""What one producer appends, judged batch by batch before any of it is written.

Each append works on a copy of what is known of the producer, so that one that is
refused leaves nothing behind; `ProducerStateManager.update` then takes the copy over.

    origin        epoch older than known   sequence does not follow   txn state
    client        refused                  refused                    refused
    coordinator   refused                  not looked at              refused
    replication   taken                    not looked at              refused

The epoch of a transaction's marker must not be older than the one known (transaction
versions 0 and 1), or must be newer (version 2, where the coordinator raises it before
each marker), but for a marker written again once its transaction is over.

Knows: one producer's rules. Does not know: other producers, files.
Source: ``ProducerAppendInfo.java``, ``TransactionVersion.java``.
"""

from __future__ import annotations

from typing import Final

from kafkalog._speedups import is_next_sequence
from kafkalog.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    LogArgumentError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from kafkalog.formats.layout import NO_PRODUCER_EPOCH, NO_SEQUENCE
from kafkalog.log.offset_metadata import OffsetMetadata
from kafkalog.log.producers.producer_entry import (
    NONE,
    BatchMetadata,
    CompletedTxn,
    Marker,
    ProducerStateEntry,
    TxnMetadata,
    VerificationState,
)
from kafkalog.validation.appends import AppendOrigin

TV_UNKNOWN: Final = -1
"""A transaction version that was not told: fit for data and for followers."""

TV_EPOCH_BUMP: Final = 2
"""The least transaction version whose markers come with a new epoch."""

MAX_PRODUCER_EPOCH: Final = 2**15 - 1


class ProducerAppendInfo:
    """One producer's part of an append: `entry` is what it would become.

    `current` is what is known of it, `verification` what of its transaction is being
    verified. `started` are the transactions begun.

    >>> info = ProducerAppendInfo(ProducerStateEntry(7), AppendOrigin.CLIENT)
    >>> info.append_data(0, 0, 2, 1700000000000, OffsetMetadata(100), 102, True)
    >>> info.append_marker(Marker(True, 9, 1700000000001), 0, 103, 0)
    CompletedTxn(producer_id=7, first_offset=100, last_offset=103, is_aborted=True)
    """

    __slots__ = ("_sequenced", "current", "entry", "origin", "started", "verification")

    def __init__(
        self,
        current: ProducerStateEntry,
        origin: AppendOrigin,
        verification: VerificationState | None = None,
    ) -> None:
        self.current = current
        self.origin = origin
        self.verification = verification
        self.entry = current.without_batches()
        self.started: list[TxnMetadata] = []
        self._sequenced = origin is AppendOrigin.CLIENT

    def append_data(
        self,
        producer_epoch: int,
        base_sequence: int,
        last_sequence: int,
        max_timestamp: int,
        first_offset: OffsetMetadata,
        last_offset: int,
        transactional: bool,
    ) -> None:
        """Take a batch of records.

        Raises `InvalidProducerEpochError`, `OutOfOrderSequenceError` and
        `InvalidTxnStateError`.
        """
        offset = first_offset.offset
        self._check_epoch(producer_epoch, offset, TV_UNKNOWN)
        if self._sequenced:
            self._check_sequence(producer_epoch, base_sequence, offset)
        entry, delta = self.entry, last_offset - offset
        batch = BatchMetadata(last_sequence, last_offset, delta, max_timestamp)
        entry.add(producer_epoch, batch)
        if transactional:
            if entry.txn_first_offset == NONE:
                entry.txn_first_offset = offset
                self.started.append(TxnMetadata(entry.producer_id, first_offset))
        elif entry.txn_first_offset != NONE:
            reason = "is not transactional, while its transaction is open"
            raise InvalidTxnStateError(f"{self._batch(offset)} {reason}")

    def append_marker(
        self,
        marker: Marker,
        producer_epoch: int,
        offset: int,
        transaction_version: int,
    ) -> CompletedTxn | None:
        """Take a transaction's marker; answer what it ends, None if nothing was open.

        Raises `InvalidProducerEpochError`, `TransactionCoordinatorFencedError`, and
        `LogArgumentError` where a leader is not told the transaction version.
        """
        entry = self.entry
        if transaction_version == TV_UNKNOWN:
            if self.origin is not AppendOrigin.REPLICATION:
                reason = "the transaction version of a marker must be told"
                raise LogArgumentError(f"{reason}, of origin {self.origin.value}")
            transaction_version = 0
        self._check_epoch(producer_epoch, offset, transaction_version)
        self._check_coordinator(marker.coordinator_epoch, offset)
        first = entry.txn_first_offset
        entry.end_txn(producer_epoch, marker.coordinator_epoch, marker.timestamp)
        if first == NONE:
            return None
        return CompletedTxn(entry.producer_id, first, offset, marker.is_abort)

    def _check_epoch(self, epoch: int, offset: int, transaction_version: int) -> None:
        known = self.entry.producer_epoch
        bumped = transaction_version >= TV_EPOCH_BUMP
        if epoch > known or (epoch == known and not bumped):
            return
        again = self.entry.txn_first_offset == NONE or epoch == MAX_PRODUCER_EPOCH
        if epoch == known and again:
            return
        if self.origin is not AppendOrigin.REPLICATION:
            sign = "<=" if bumped else "<"
            raise InvalidProducerEpochError(
                f"{self._batch(offset)} has epoch {epoch} {sign} {known}, the last seen"
            )

    def _check_coordinator(self, epoch: int, offset: int) -> None:
        known = self.entry.coordinator_epoch
        if known > epoch and self.origin is not AppendOrigin.REPLICATION:
            raise TransactionCoordinatorFencedError(
                f"{self._batch(offset)} has coordinator epoch {epoch} < {known}"
            )

    def _check_sequence(self, epoch: int, sequence: int, offset: int) -> None:
        verification = self.verification
        if verification is not None:
            self._check_verified_sequence(verification, sequence, offset)
        known = self.entry.producer_epoch
        if epoch != known:
            if sequence != 0 and known != NO_PRODUCER_EPOCH:
                raise OutOfOrderSequenceError(
                    f"{self._batch(offset)} begins epoch {epoch}, after {known}, "
                    f"with sequence {sequence}, not 0"
                )
            return
        last = self._last_sequence(epoch)
        follows = is_next_sequence(sequence, last)
        if not follows and self.current.producer_epoch != NO_PRODUCER_EPOCH:
            raise OutOfOrderSequenceError(
                f"{self._batch(offset)} has sequence {sequence} after {last}"
            )

    def _last_sequence(self, epoch: int) -> int:
        if self.entry.batches:
            return self.entry.last_sequence
        same = epoch == self.current.producer_epoch
        return self.current.last_sequence if same else NO_SEQUENCE

    def _check_verified_sequence(
        self, verification: VerificationState, sequence: int, offset: int
    ) -> None:
        unknown = not self.current.batches
        if verification.supports_epoch_bump and sequence != 0 and unknown:
            raise OutOfOrderSequenceError(
                f"{self._batch(offset)} is its first, with sequence {sequence}, not 0"
            )
        if sequence > verification.lowest_sequence:
            raise OutOfOrderSequenceError(
                f"{self._batch(offset)} has sequence {sequence}, and "
                f"{verification.lowest_sequence} is still to come"
            )

    def _batch(self, offset: int) -> str:
        return f"producer {self.entry.producer_id}: the batch at offset {offset}"
