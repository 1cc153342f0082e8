"""Validation of the batches of one producer in an append, before they are written.

An append works on a copy of the producer's state, so that a rejected one changes
nothing. `ProducerStateManager.update` replaces the state by the copy.

| origin | lower epoch | sequence not the next one | transaction state |
|---|---|---|---|
| client | rejected | rejected | rejected |
| coordinator | rejected | not checked | rejected |
| replication | accepted | not checked | rejected |

The epoch of a transaction marker must not be lower than that of the producer
(transaction versions 0 and 1), or must be higher (version 2, where the coordinator
raises it before each marker). A marker written again after its transaction ended may
have the same epoch.

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
"""Unknown transaction version, which data and followers may have."""

TV_EPOCH_BUMP: Final = 2
"""Lowest transaction version whose markers have a new epoch."""

MAX_PRODUCER_EPOCH: Final = 2**15 - 1


class ProducerAppendInfo:
    """Batches of one producer in an append, and the state after them.

    `current` is the state of the producer, `entry` the state after the append.
    `verification` is that of its transaction, if one is in progress. `started` has the
    transactions that the append begins.

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
        """Add a data batch.

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
            reason = "not transactional, expected a batch of the open transaction"
            raise InvalidTxnStateError(f"{self._batch(offset)}: {reason}")

    def append_marker(
        self,
        marker: Marker,
        producer_epoch: int,
        offset: int,
        transaction_version: int,
    ) -> CompletedTxn | None:
        """Add a transaction marker, and return the transaction it ends.

        Returns None if no transaction was open. Raises `InvalidProducerEpochError`,
        `TransactionCoordinatorFencedError`, and `LogArgumentError` if the transaction
        version is unknown on a leader.
        """
        entry = self.entry
        if transaction_version == TV_UNKNOWN:
            if self.origin is not AppendOrigin.REPLICATION:
                reason = f"marker of origin {self.origin.value}"
                raise LogArgumentError(f"{reason} without a transaction version")
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
            least = known + 1 if bumped else known
            raise InvalidProducerEpochError(
                f"{self._batch(offset)}: epoch {epoch}, expected at least {least}"
            )

    def _check_coordinator(self, epoch: int, offset: int) -> None:
        known = self.entry.coordinator_epoch
        if known > epoch and self.origin is not AppendOrigin.REPLICATION:
            raise TransactionCoordinatorFencedError(
                f"{self._batch(offset)}: coordinator epoch {epoch}, expected at least "
                f"{known}"
            )

    def _check_sequence(self, epoch: int, sequence: int, offset: int) -> None:
        verification = self.verification
        if verification is not None:
            self._check_verified_sequence(verification, sequence, offset)
        known = self.entry.producer_epoch
        if epoch != known:
            if sequence != 0 and known != NO_PRODUCER_EPOCH:
                raise OutOfOrderSequenceError(
                    f"{self._batch(offset)}: sequence {sequence}, expected 0 as the "
                    f"first of epoch {epoch}, after epoch {known}"
                )
            return
        last = self._last_sequence(epoch)
        follows = is_next_sequence(sequence, last)
        if not follows and self.current.producer_epoch != NO_PRODUCER_EPOCH:
            raise OutOfOrderSequenceError(
                f"{self._batch(offset)}: sequence {sequence} after {last}"
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
                f"{self._batch(offset)}: sequence {sequence}, expected 0 as the first"
            )
        if sequence > verification.lowest_sequence:
            raise OutOfOrderSequenceError(
                f"{self._batch(offset)}: sequence {sequence}, expected at most "
                f"{verification.lowest_sequence}, which was verified and not appended"
            )

    def _batch(self, offset: int) -> str:
        return f"batch of producer {self.entry.producer_id} at offset {offset}"
