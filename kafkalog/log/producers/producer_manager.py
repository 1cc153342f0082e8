"""Producer state of a log that is appended to.

An append has three steps. `ProducerUpdates` validates its batches without changing the
state; the log writes them; `ProducerUpdates.apply` updates the state. Each transaction
that ended is then completed by `write_completed_txn`.

| state | meaning |
|---|---|
| `map_end_offset` | all batches below it are in the state |
| `ongoing` | open transactions by first offset, in ascending order |
| `unreplicated` | ended transactions whose marker is not below the high watermark |
| first unstable offset | first offset of both: all below is decided and replicated |

Source: ``ProducerStateManager.java``, ``ProducerStateManagerConfig.java``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from kafkalog.errors import (
    CorruptSnapshotError,
    InvalidProducerEpochError,
    LogArgumentError,
)
from kafkalog.indexes.growing_txn_index import GrowingTransactionIndex
from kafkalog.indexes.txn_index import AbortedTransaction
from kafkalog.log.clock import Clock, SystemClock
from kafkalog.log.offset_metadata import OffsetMetadata
from kafkalog.log.producers.hash_order import HashOrderedDict
from kafkalog.log.producers.producer_append import ProducerAppendInfo
from kafkalog.log.producers.producer_entry import (
    NO_GUARD,
    NONE,
    CompletedTxn,
    ProducerStateEntry,
    TxnMetadata,
    VerificationState,
)
from kafkalog.log.producers.snapshot_files import SnapshotFiles
from kafkalog.storage.durable_file import DISK, Disk
from kafkalog.validation.appends import AppendOrigin

Txns = dict[int, TxnMetadata]


class ProducerStateManager:
    """Producer state of the log in `directory`; `ProducerUpdates` appends to it.

    Times are ms. Producers without an open transaction expire
    `producer_id_expiration_ms` after the timestamp of their last batch or marker.
    Managers of one log share its `snapshots`.

    >>> producers = ProducerStateManager(Path("orders-0"))
    >>> info = producers.prepare_update(7, AppendOrigin.CLIENT)
    >>> info.append_data(0, 0, 2, 1700000000000, OffsetMetadata(100, 0, 0), 102, True)
    >>> producers.update(info)
    >>> producers.first_unstable_offset()
    OffsetMetadata(offset=100, segment_base=0, position=0)
    """

    def __init__(
        self,
        directory: Path,
        *,
        clock: Clock | None = None,
        disk: Disk = DISK,
        producer_id_expiration_ms: int = 86_400_000,
        transaction_verification: bool = True,
        snapshots: SnapshotFiles | None = None,
    ) -> None:
        self.snapshots = (
            SnapshotFiles(directory, disk) if snapshots is None else snapshots
        )
        self.producers: HashOrderedDict[ProducerStateEntry] = HashOrderedDict()
        self.verifications: dict[int, VerificationState] = {}
        self.ongoing: Txns = {}
        self.unreplicated: Txns = {}
        self.map_end_offset = 0
        self.transaction_verification = transaction_verification
        self._clock = SystemClock() if clock is None else clock
        self._expiration_ms = producer_id_expiration_ms
        self._snapshot_offset = 0

    def copied(self) -> dict[int, ProducerStateEntry]:
        """Return a copy of the state of each producer by its id, in insertion order."""
        return {
            producer_id: replace(entry, batches=entry.batches.copy())
            for producer_id, entry in self.producers.items()
        }

    # Queries

    def last_entry(self, producer_id: int) -> ProducerStateEntry | None:
        """Return the state of a producer, None if it is unknown."""
        return self.producers.get(producer_id)

    @property
    def is_empty(self) -> bool:
        """Whether there are no producers and no unreplicated transactions."""
        return not self.producers and not self.unreplicated

    def has_ongoing_txn(self, producer_id: int, producer_epoch: int) -> bool:
        """Return whether the producer has an open transaction with this epoch."""
        entry = self.producers.get(producer_id)
        return (
            entry is not None
            and entry.txn_first_offset != NONE
            and entry.producer_epoch == producer_epoch
        )

    def first_unstable_offset(self) -> OffsetMetadata | None:
        """Return the first offset of undecided or unreplicated transactions."""
        undecided = next(iter(self.ongoing.values()), None)
        unreplicated = next(iter(self.unreplicated.values()), None)
        if unreplicated is None:
            return None if undecided is None else undecided.first_offset
        if undecided is None:
            return unreplicated.first_offset
        if undecided.first_offset.offset < unreplicated.first_offset.offset:
            return undecided.first_offset
        return unreplicated.first_offset

    def first_undecided_offset(self) -> int | None:
        """Return the first offset of open transactions."""
        return next(iter(self.ongoing), None)

    def last_stable_offset(self, completed: CompletedTxn) -> int:
        """Return the offset below which all is decided after `completed`."""
        for first_offset, txn in self.ongoing.items():
            if txn.producer_id != completed.producer_id:
                return first_offset
        return completed.last_offset + 1

    # Verification

    def start_verification(
        self, producer_id: int, sequence: int, epoch: int, supports_epoch_bump: bool
    ) -> int:
        """Start the verification of a transaction; return the guard to append with.

        Returns `NO_GUARD` if the transaction is open already. Raises
        `InvalidProducerEpochError` for an epoch below that of the producer.
        """
        entry = self.producers.get(producer_id)
        if entry is not None:
            check_epoch_is_current(entry, epoch)
        if self.has_ongoing_txn(producer_id, epoch):
            return NO_GUARD
        state = self.verifications.get(producer_id)
        if state is None:
            now = self._clock.now_ms()
            state = VerificationState(now, sequence, epoch, supports_epoch_bump)
            self.verifications[producer_id] = state
        state.lower(sequence, epoch)
        return state.guard

    def guard_of(self, producer_id: int) -> int:
        """Return the guard of the verification in progress, `NO_GUARD` for none."""
        state = self.verifications.get(producer_id)
        return NO_GUARD if state is None else state.guard

    # Appending

    def prepare_update(
        self, producer_id: int, origin: AppendOrigin
    ) -> ProducerAppendInfo:
        """Return a copy of the state of a producer for an append."""
        entry = self.producers.get(producer_id)
        return ProducerAppendInfo(
            ProducerStateEntry(producer_id) if entry is None else entry,
            origin,
            self.verifications.get(producer_id),
        )

    def update(self, info: ProducerAppendInfo) -> None:
        """Update the state of a producer after its append was written.

        Raises `LogArgumentError` for a negative producer id.
        """
        producer_id = info.entry.producer_id
        if producer_id < 0:
            raise LogArgumentError(f"producer id {producer_id}, expected at least 0")
        entry = self.producers.get(producer_id)
        if entry is None:
            self.producers[producer_id] = info.entry
        else:
            entry.update(info.entry)
        for txn in info.started:
            _put(self.ongoing, txn)

    def write_completed_txn(
        self, completed: CompletedTxn, index: GrowingTransactionIndex
    ) -> None:
        """Complete a transaction; write it to the index of its segment if aborted."""
        stable = self.last_stable_offset(completed)
        if completed.is_aborted:
            index.append(AbortedTransaction(*completed[:3], stable))
        self.complete_txn(completed)

    def complete_txn(self, completed: CompletedTxn) -> None:
        """Move a transaction from `ongoing` to `unreplicated`.

        Raises `LogArgumentError` if it is not open.
        """
        txn = self.ongoing.pop(completed.first_offset, None)
        if txn is None:
            raise LogArgumentError(
                f"producer {completed.producer_id} has no open transaction "
                f"with first offset {completed.first_offset}"
            )
        txn.last_offset = completed.last_offset
        _put(self.unreplicated, txn)

    # Changes of the log

    def on_high_watermark_updated(self, high_watermark: int) -> None:
        """Drop ended transactions whose marker is below the high watermark."""
        if not self.unreplicated:
            return
        for first, txn in list(self.unreplicated.items()):
            if NONE != txn.last_offset < high_watermark:
                del self.unreplicated[first]

    def on_log_start_offset_incremented(self, log_start_offset: int) -> None:
        """Drop ended transactions below the log start offset; producers are kept."""
        self.on_high_watermark_updated(log_start_offset)
        self.map_end_offset = max(self.map_end_offset, log_start_offset)
        latest = self.snapshots.latest()
        self._snapshot_offset = log_start_offset if latest is None else latest

    def remove_expired_producers(self, now_ms: int) -> None:
        """Drop expired producers and verifications."""
        for entry in list(self.producers.values()):
            if self._is_expired(entry, now_ms):
                del self.producers[entry.producer_id]
        for producer_id, state in list(self.verifications.items()):
            if now_ms - state.timestamp >= self._expiration_ms:
                del self.verifications[producer_id]

    def truncate_and_reload(
        self, log_start_offset: int, log_end_offset: int, now_ms: int
    ) -> None:
        """Remove snapshots outside of the log, and load the newest one left.

        If `map_end_offset` is the log end offset, the state is kept. Otherwise the
        caller must load the batches from `map_end_offset` to the log end offset.
        """
        for offset in self.snapshots.outside(log_start_offset, log_end_offset):
            self.snapshots.remove(offset)
        if log_end_offset == self.map_end_offset:
            self.on_log_start_offset_incremented(log_start_offset)
            return
        self._clear()
        self._load_newest_snapshot(log_start_offset, now_ms)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop the state, and remove all snapshots."""
        self._clear()
        for snapshot in self.snapshots.offsets:
            self.snapshots.remove(snapshot)
        self._snapshot_offset = 0
        self.map_end_offset = offset

    def take_snapshot(self, *, sync: bool = True) -> Path | None:
        """Write a snapshot at `map_end_offset`, if that is above the last one."""
        if self.map_end_offset <= self._snapshot_offset:
            return None
        entries = [self.producers[key] for key in self.producers.in_hash_order()]
        path = self.snapshots.write(self.map_end_offset, entries, sync=sync)
        self._snapshot_offset = self.map_end_offset
        return path

    def mark_snapshot_for_deletion(self, offset: int) -> Path | None:
        """Rename the snapshot at `offset` to ``.deleted``, and return its new path."""
        return self.snapshots.mark(offset)

    def load(self, entries: Iterable[ProducerStateEntry]) -> None:
        """Add the producers of a snapshot, and their open transactions."""
        for entry in entries:
            self.producers[entry.producer_id] = entry
            first = entry.txn_first_offset
            if first != NONE:
                _put(
                    self.ongoing, TxnMetadata(entry.producer_id, OffsetMetadata(first))
                )

    def _load_newest_snapshot(self, log_start_offset: int, now_ms: int) -> None:
        start = log_start_offset
        while (offset := self.snapshots.latest()) is not None:
            try:
                entries = self.snapshots.read(offset)
            except CorruptSnapshotError:
                self.snapshots.remove(offset)
                continue
            self.load(entry for entry in entries if not self._is_expired(entry, now_ms))
            start = offset
            break
        self.map_end_offset = self._snapshot_offset = start

    def _clear(self) -> None:
        self.producers.clear()
        self.ongoing.clear()
        self.unreplicated.clear()

    def _is_expired(self, entry: ProducerStateEntry, now_ms: int) -> bool:
        idle = now_ms - entry.last_timestamp >= self._expiration_ms
        return idle and entry.txn_first_offset == NONE


def check_epoch_is_current(entry: ProducerStateEntry, epoch: int) -> None:
    """Raise `InvalidProducerEpochError` for an epoch below that of the producer."""
    if epoch < entry.producer_epoch:
        raise InvalidProducerEpochError(
            f"producer {entry.producer_id}: epoch {epoch}, expected at least "
            f"{entry.producer_epoch}"
        )


def _put(txns: Txns, txn: TxnMetadata) -> None:
    """Insert a transaction in the order of first offsets, in most cases at the end."""
    first = txn.first_offset.offset
    is_last = not txns or next(reversed(txns)) < first
    txns[first] = txn
    if not is_last:
        ordered = sorted(txns.items())
        txns.clear()
        txns.update(ordered)
