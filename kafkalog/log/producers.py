"""What a log that is written to knows of its producers: who may write, what is stable.

An append goes in three steps: `ProducerUpdates` judges its batches against what is known
and leaves it as it is; the log writes them; `ProducerUpdates.apply` takes the update
over. Transactions that were ended are then entered in the transaction index, with their
`last_stable_offset`, and completed one by one.

    map_end_offset     all below it is reflected here
    ongoing            transactions that are open, by first offset
    unreplicated       those whose marker is not yet below the high watermark
    first unstable     the lower of both's first: below it all is decided and replicated

Knows: producers and transactions of one partition, their snapshots. Does not know:
segments, or who writes.
Source: ``ProducerStateManager.java``, ``ProducerStateManagerConfig.java``.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

from kafkalog.files.durable_file import DISK, Disk
from kafkalog.formats.appends import AppendOrigin
from kafkalog.log.clock import Clock, SystemClock
from kafkalog.log.hash_order import HashOrderedDict
from kafkalog.log.offset_metadata import OffsetMetadata
from kafkalog.log.producer_append import ProducerAppendInfo
from kafkalog.log.producer_entry import (
    NONE,
    CompletedTxn,
    ProducerStateEntry,
    TxnMetadata,
    VerificationState,
)
from kafkalog.log.producer_snapshots import SnapshotFiles

LATE_TRANSACTION_BUFFER_MS: Final = 5 * 60 * 1000


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
        max_transaction_timeout_ms: int = 900_000,
        transaction_verification: bool = True,
    ) -> None:
        self.snapshots = SnapshotFiles(directory, disk)
        self.producers: HashOrderedDict[ProducerStateEntry] = HashOrderedDict()
        self.verifications: dict[int, VerificationState] = {}
        self.ongoing: dict[int, TxnMetadata] = {}
        self.unreplicated: dict[int, TxnMetadata] = {}
        self.map_end_offset = 0
        self.transaction_verification = transaction_verification
        self._clock = SystemClock() if clock is None else clock
        self._expiration_ms = producer_id_expiration_ms
        self._late_ms = max_transaction_timeout_ms + LATE_TRANSACTION_BUFFER_MS
        self._snapshot_offset = 0

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

    def has_late_txn(self, now_ms: int) -> bool:
        """Whether the oldest open transaction should long have been ended."""
        raise NotImplementedError

    def first_unstable_offset(self) -> OffsetMetadata | None:
        """Where what is undecided, or decided but not replicated, begins."""
        raise NotImplementedError

    def first_undecided_offset(self) -> int | None:
        """Where what is undecided begins."""
        raise NotImplementedError

    def last_stable_offset(self, completed: CompletedTxn) -> int:
        """Offset below which all is decided, once `completed` is; not done here."""
        raise NotImplementedError

    # Verification

    def start_verification(
        self, producer_id: int, sequence: int, epoch: int, supports_epoch_bump: bool
    ) -> int:
        """Begin to verify a producer's transaction; answer the guard to append with.

        `NO_GUARD` where its transaction is open already. Raises
        `InvalidProducerEpochError` for an epoch older than the one known.
        """
        raise NotImplementedError

    def guard_of(self, producer_id: int) -> int:
        """Return the guard of the verification under way; `NO_GUARD` without one."""
        raise NotImplementedError

    # Appending

    def prepare_update(
        self, producer_id: int, origin: AppendOrigin
    ) -> ProducerAppendInfo:
        """Begin a producer's part of an append; changes nothing here."""
        raise NotImplementedError

    def update(self, info: ProducerAppendInfo) -> None:
        """Take over a producer's part of an append that was written."""
        raise NotImplementedError

    def complete_txn(self, completed: CompletedTxn) -> None:
        """Take a transaction for ended: undecided no more, but not replicated.

        Raises `LogArgumentError` if it was not open.
        """
        raise NotImplementedError

    # The log moves

    def on_high_watermark_updated(self, high_watermark: int) -> None:
        """Forget ended transactions whose marker is below the high watermark."""
        raise NotImplementedError

    def on_log_start_offset_incremented(self, log_start_offset: int) -> None:
        """Forget ended transactions below the log's start; producers stay."""
        raise NotImplementedError

    def remove_expired_producers(self, now_ms: int) -> None:
        """Forget producers, and verifications, that were idle for too long."""
        raise NotImplementedError

    def truncate_and_reload(
        self, log_start_offset: int, log_end_offset: int, now_ms: int
    ) -> None:
        """Drop snapshots outside of the log, and go back to the newest one left.

        Where all is known up to the log's end just that is kept. What lies between
        `map_end_offset` and the log's end is then to be read by the caller.
        """
        raise NotImplementedError

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Forget all, and remove every snapshot."""
        raise NotImplementedError

    # Snapshots

    def take_snapshot(self, *, sync: bool = True) -> Path | None:
        """Write a snapshot at `map_end_offset`, if that is beyond the last one's."""
        raise NotImplementedError

    def remove_stray_snapshots(self, base_offsets: Collection[int]) -> None:
        """Remove the snapshots of no segment; see `SnapshotFiles.remove_strays`."""
        self.snapshots.remove_strays(base_offsets)

    def mark_snapshot_for_deletion(self, offset: int) -> Path | None:
        """Rename the snapshot at `offset` to ``.deleted``; answer where it is then."""
        return self.snapshots.mark(offset)
