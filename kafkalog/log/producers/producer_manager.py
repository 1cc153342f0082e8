"""What a log that is written to knows of its producers: who may write, what is stable.

An append goes in three steps: `ProducerUpdates` judges its batches against what is
known and leaves that as it is; the log writes them; `ProducerUpdates.apply` takes the
update over. Transactions that were ended then go into the transaction index, with their
`last_stable_offset`, and are completed, one by one.

    map_end_offset     all below it is reflected here
    ongoing            transactions that are open, by first offset, the lowest first
    unreplicated       those that are ended by a marker not below the high watermark yet
    first unstable     the lower of both's first: below it all is decided and replicated

Knows: producers and transactions of one partition, their snapshots. Does not know:
segments, or who writes.
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
    """The producers of the log in `directory`; see `ProducerUpdates` for appending.

    Times are ms. Producers without an open transaction are forgotten
    `producer_id_expiration_ms` after the timestamp of their last batch or marker.

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
    ) -> None:
        self.snapshots = SnapshotFiles(directory, disk)
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
        """Copy what is known of each producer, by its id, in the order they came."""
        return {
            one: replace(entry, batches=entry.batches.copy())
            for one, entry in self.producers.items()
        }

    # What is known

    def last_entry(self, producer_id: int) -> ProducerStateEntry | None:
        """Return what is known of a producer; None if nothing is."""
        return self.producers.get(producer_id)

    @property
    def is_empty(self) -> bool:
        """Whether no producer is known, and no transaction waits to be replicated."""
        return not self.producers and not self.unreplicated

    def has_ongoing_txn(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether the producer has a transaction open, with this very epoch."""
        entry = self.producers.get(producer_id)
        return (
            entry is not None
            and entry.txn_first_offset != NONE
            and entry.producer_epoch == producer_epoch
        )

    def first_unstable_offset(self) -> OffsetMetadata | None:
        """Where what is undecided, or decided but not replicated, begins."""
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
        """Where what is undecided begins."""
        return next(iter(self.ongoing), None)

    def last_stable_offset(self, completed: CompletedTxn) -> int:
        """Offset below which all is decided, once `completed` is; not done here."""
        for first_offset, txn in self.ongoing.items():
            if txn.producer_id != completed.producer_id:
                return first_offset
        return completed.last_offset + 1

    # Verification

    def start_verification(
        self, producer_id: int, sequence: int, epoch: int, supports_epoch_bump: bool
    ) -> int:
        """Begin to verify a producer's transaction; answer the guard to append with.

        `NO_GUARD` where its transaction is open already. Raises
        `InvalidProducerEpochError` for an epoch older than the one known.
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
        """Return the guard of the verification under way; `NO_GUARD` without one."""
        state = self.verifications.get(producer_id)
        return NO_GUARD if state is None else state.guard

    # Appending

    def prepare_update(
        self, producer_id: int, origin: AppendOrigin
    ) -> ProducerAppendInfo:
        """Begin a producer's part of an append; changes nothing here."""
        entry = self.producers.get(producer_id)
        return ProducerAppendInfo(
            ProducerStateEntry(producer_id) if entry is None else entry,
            origin,
            self.verifications.get(producer_id),
        )

    def update(self, info: ProducerAppendInfo) -> None:
        """Take over a producer's part of an append that was written.

        Raises `LogArgumentError` where there is no producer.
        """
        producer_id = info.entry.producer_id
        if producer_id < 0:
            raise LogArgumentError(f"an update of producer {producer_id}")
        entry = self.producers.get(producer_id)
        if entry is None:
            self.producers[producer_id] = info.entry
        else:
            entry.update(info.entry)
        for txn in info.started:
            _put(self.ongoing, txn)

    def complete_txn(self, completed: CompletedTxn) -> None:
        """Take a transaction for ended: undecided no more, but not replicated.

        Raises `LogArgumentError` if it was not open.
        """
        txn = self.ongoing.pop(completed.first_offset, None)
        if txn is None:
            raise LogArgumentError(
                f"producer {completed.producer_id} has no transaction open "
                f"from offset {completed.first_offset} on"
            )
        txn.last_offset = completed.last_offset
        _put(self.unreplicated, txn)

    # The log moves on, or back

    def on_high_watermark_updated(self, high_watermark: int) -> None:
        """Forget ended transactions whose marker is below the high watermark."""
        if not self.unreplicated:
            return
        for first, txn in list(self.unreplicated.items()):
            if NONE != txn.last_offset < high_watermark:
                del self.unreplicated[first]

    def on_log_start_offset_incremented(self, log_start_offset: int) -> None:
        """Forget ended transactions below the log's start; producers stay."""
        self.on_high_watermark_updated(log_start_offset)
        self.map_end_offset = max(self.map_end_offset, log_start_offset)
        latest = self.snapshots.latest()
        self._snapshot_offset = log_start_offset if latest is None else latest

    def remove_expired_producers(self, now_ms: int) -> None:
        """Forget producers, and verifications, that were idle for too long."""
        for entry in list(self.producers.values()):
            if self._is_expired(entry, now_ms):
                del self.producers[entry.producer_id]
        for producer_id, state in list(self.verifications.items()):
            if now_ms - state.timestamp >= self._expiration_ms:
                del self.verifications[producer_id]

    def truncate_and_reload(
        self, log_start_offset: int, log_end_offset: int, now_ms: int
    ) -> None:
        """Drop snapshots outside of the log, and go back to the newest one left.

        Where all is known up to the log's end just that is kept. What lies between
        `map_end_offset` and the log's end is then for the caller to load.
        """
        for offset in self.snapshots.offsets:
            if not log_start_offset < offset <= log_end_offset:
                self.snapshots.remove(offset)
        if log_end_offset == self.map_end_offset:
            self.on_log_start_offset_incremented(log_start_offset)
            return
        self._forget()
        self._load_newest_snapshot(log_start_offset, now_ms)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Forget all, and remove every snapshot."""
        self._forget()
        for snapshot in self.snapshots.offsets:
            self.snapshots.remove(snapshot)
        self._snapshot_offset = 0
        self.map_end_offset = offset

    def take_snapshot(self, *, sync: bool = True) -> Path | None:
        """Write a snapshot at `map_end_offset`, if that is beyond the last one's."""
        if self.map_end_offset <= self._snapshot_offset:
            return None
        entries = [self.producers[key] for key in self.producers.in_hash_order()]
        path = self.snapshots.write(self.map_end_offset, entries, sync=sync)
        self._snapshot_offset = self.map_end_offset
        return path

    def mark_snapshot_for_deletion(self, offset: int) -> Path | None:
        """Rename the snapshot at `offset` to ``.deleted``; answer where it is then."""
        return self.snapshots.mark(offset)

    def load(self, entries: Iterable[ProducerStateEntry]) -> None:
        """Take producers, and their open transactions, as a snapshot has them."""
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
            self.load(one for one in entries if not self._is_expired(one, now_ms))
            start = offset
            break
        self.map_end_offset = self._snapshot_offset = start

    def _forget(self) -> None:
        self.producers.clear()
        self.ongoing.clear()
        self.unreplicated.clear()

    def _is_expired(self, entry: ProducerStateEntry, now_ms: int) -> bool:
        idle = now_ms - entry.last_timestamp >= self._expiration_ms
        return idle and entry.txn_first_offset == NONE


def check_epoch_is_current(entry: ProducerStateEntry, epoch: int) -> None:
    """Raise `InvalidProducerEpochError` for an epoch older than the producer's."""
    if epoch < entry.producer_epoch:
        raise InvalidProducerEpochError(
            f"producer {entry.producer_id} has epoch {epoch} "
            f"< {entry.producer_epoch}, the last seen"
        )


def _put(txns: Txns, txn: TxnMetadata) -> None:
    """Enter a transaction where its first offset belongs; mostly that is the end."""
    first = txn.first_offset.offset
    rises = not txns or next(reversed(txns)) < first
    txns[first] = txn
    if not rises:
        ordered = sorted(txns.items())
        txns.clear()
        txns.update(ordered)
