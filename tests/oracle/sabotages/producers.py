"""Sabotages of producers and transactions."""

from kafkalog.errors import (
    InvalidProducerEpochError,
    OutOfOrderSequenceError,
)
from kafkalog.formats.layout import SEQUENCE_MASK
from kafkalog.indexes.growing_txn_index import GrowingTransactionIndex
from kafkalog.log import log_fetch, watermarks
from kafkalog.log.producers import producer_append, producer_entry, producer_updates
from kafkalog.log.producers.hash_order import HashOrderedDict
from kafkalog.log.producers.producer_append import ProducerAppendInfo
from kafkalog.log.producers.producer_entry import NONE, CompletedTxn, ProducerStateEntry
from kafkalog.log.producers.producer_manager import ProducerStateManager
from kafkalog.log.producers.producer_updates import ProducerUpdates
from tests.log import (
    test_producer_append,
    test_producer_manager,
    test_producer_updates,
)
from tests.log.producing import Producing
from tests.oracle.sabotages.register import Built, do_nothing, sabotage

# Sequences


@sabotage("sequences are consecutive", "producers-sequences")
def _(patch):
    """Any sequence is accepted."""
    patch.setattr(ProducerAppendInfo, "_check_sequence", do_nothing)


@sabotage("a new producer epoch begins with sequence 0", "producers-sequences")
def _(patch):
    """It may begin with any sequence."""
    check = ProducerAppendInfo._check_sequence

    def check_known(self, epoch, sequence, offset):
        if epoch == self.entry.producer_epoch:
            check(self, epoch, sequence, offset)

    patch.setattr(ProducerAppendInfo, "_check_sequence", check_known)


@sabotage("an unknown producer may begin with any sequence", "producers-sequences")
def _(patch):
    """It must begin with 0."""
    check = ProducerAppendInfo._check_sequence

    def check_first(self, epoch, sequence, offset):
        if self.current.producer_epoch == -1 and sequence:
            raise OutOfOrderSequenceError("not 0")
        check(self, epoch, sequence, offset)

    patch.setattr(ProducerAppendInfo, "_check_sequence", check_first)


@sabotage("sequence 0 follows the greatest", "producers-sequence-wrap")
def _(patch):
    """No sequence follows the greatest."""
    patch.setattr(
        producer_append,
        "is_next_sequence",
        lambda sequence, last: sequence == last + 1,
    )


@sabotage("sequences wrap within a batch", "producers-sequence-wrap")
def _(patch):
    """They stop at the greatest."""

    def last_sequence_of(base, delta):
        return min(base + delta, SEQUENCE_MASK) if base >= 0 else base

    patch.setattr(producer_updates, "last_sequence_of", last_sequence_of)


@sabotage(
    "the result for a duplicate has the offsets of the first append",
    "producers-duplicates",
)
def _(patch):
    """Duplicates are not detected."""
    patch.setattr(ProducerUpdates, "_duplicate", do_nothing)


@sabotage("the last five batches of a producer are kept", "producers-duplicates")
def _(patch):
    """Four are kept."""
    patch.setattr(producer_entry, "BATCHES_KEPT", 4)


@sabotage("at most five batches of a producer are kept", "producers-duplicates")
def _(patch):
    """Six are kept."""
    patch.setattr(producer_entry, "BATCHES_KEPT", 6)


@sabotage(
    "a rejected batch does not change the producer state",
    test_producer_append.test_a_rejected_batch_leaves_the_producer_state_unchanged,
    producing=Built(Producing),
)
def _(patch):
    """The state changes before the batch is validated."""
    patch.setattr(ProducerStateEntry, "without_batches", lambda self: self)


# Epochs


@sabotage("data of an older producer epoch is rejected", "producers-sequences")
def _(patch):
    """It is accepted."""
    patch.setattr(ProducerAppendInfo, "_check_epoch", do_nothing)


@sabotage(
    "a new producer epoch discards the batches of the former one", "producers-sequences"
)
def _(patch):
    """They are kept."""

    def enter_epoch(self, producer_epoch):
        self.producer_epoch = producer_epoch

    patch.setattr(ProducerStateEntry, "enter_epoch", enter_epoch)


@sabotage("a marker of an older producer epoch is rejected", "transactions-fencing")
def _(patch):
    """It is accepted."""
    patch.setattr(ProducerAppendInfo, "_check_epoch", do_nothing)
    patch.setattr(producer_updates, "check_epoch_is_current", do_nothing)


@sabotage("a marker of an older coordinator epoch is rejected", "transactions-fencing")
def _(patch):
    """It is accepted."""
    patch.setattr(ProducerAppendInfo, "_check_coordinator", do_nothing)


@sabotage("the coordinator epoch of a marker is kept", "transactions-empty-marker")
def _(patch):
    """It is discarded."""
    end_txn = ProducerStateEntry.end_txn

    def end(self, producer_epoch, _, time):
        end_txn(self, producer_epoch, self.coordinator_epoch, time)

    patch.setattr(ProducerStateEntry, "end_txn", end)


@sabotage(
    "a marker of transaction version 2 has a newer epoch than the data",
    "transactions-version-two",
)
def _(patch):
    """The epoch of the data is accepted."""
    patch.setattr(producer_append, "TV_EPOCH_BUMP", 3)


@sabotage(
    "a marker of transaction version 2 may be repeated", "transactions-version-two"
)
def _(patch):
    """Its epoch must be newer each time."""
    check = ProducerAppendInfo._check_epoch

    def check_bump(self, epoch, offset, version):
        is_newer = epoch > self.entry.producer_epoch
        if version == producer_append.TV_EPOCH_BUMP and not is_newer:
            raise InvalidProducerEpochError("not newer")
        check(self, epoch, offset, version)

    patch.setattr(ProducerAppendInfo, "_check_epoch", check_bump)


# Verification and expiry


@sabotage(
    "a transaction begins with its verification guard",
    "transactions-verification",
)
def _(patch):
    """No guard is required."""
    patch.setattr(ProducerUpdates, "_check_verification", do_nothing)


@sabotage("an open transaction needs no guard", "transactions-verification")
def _(patch):
    """Each batch needs it."""
    patch.setattr(ProducerStateManager, "has_ongoing_txn", lambda *_: False)


@sabotage(
    "a verification rejects sequences above the lowest verified one",
    test_producer_append.test_a_sequence_above_the_lowest_to_be_verified_is_refused,
)
def _(patch):
    """Any first sequence is accepted."""
    patch.setattr(ProducerAppendInfo, "_check_verified_sequence", do_nothing)


@sabotage(
    "a marker keeps the verification of the next transaction",
    test_producer_updates.test_a_marker_leaves_the_verification_of_the_next_transaction,
    strict=Built(Producing),
    bumps=True,
    epoch=1,
    kept=True,
)
def _(patch):
    """It removes it."""

    def drop(self, producer_id, *_):
        self._producers.verifications.pop(producer_id, None)

    patch.setattr(ProducerUpdates, "_end_verification", drop)


@sabotage(
    "verifications expire",
    test_producer_manager.test_verifications_expire_by_the_time_they_began,
    producing=Built(Producing),
)
def _(patch):
    """They do not expire."""
    patch.setattr(ProducerStateManager, "remove_expired_producers", do_nothing)


@sabotage("producers expire", "producers-expiry")
def _(patch):
    """They do not expire."""
    patch.setattr(ProducerStateManager, "remove_expired_producers", do_nothing)


@sabotage("a producer with an open transaction does not expire", "producers-expiry")
def _(patch):
    """Only the time counts."""

    def is_expired(self, entry, now_ms):
        return now_ms - entry.last_timestamp >= self._expiration_ms

    patch.setattr(ProducerStateManager, "_is_expired", is_expired)


@sabotage("a producer expires by the timestamps of its records", "producers-expiry")
def _(patch):
    """It expires by the time of their append."""
    update = ProducerStateManager.update

    def update_now(self, info):
        info.entry.last_timestamp = self._clock.now_ms()
        update(self, info)

    patch.setattr(ProducerStateManager, "update", update_now)


# Transactions


@sabotage(
    "data without the transactional flag is rejected in a transaction",
    "transactions-plain-record-inside",
)
def _(patch):
    """It is accepted as transactional."""
    append_data = ProducerAppendInfo.append_data

    def append_any(self, *batch):
        inside = self.entry.txn_first_offset != NONE
        append_data(self, *batch[:-1], batch[-1] or inside)

    patch.setattr(ProducerAppendInfo, "append_data", append_any)


@sabotage(
    "a marker without an open transaction completes none",
    "transactions-empty-marker",
)
def _(patch):
    """It completes an empty one."""
    append_marker = ProducerAppendInfo.append_marker

    def complete(self, marker, epoch, offset, version):
        ended = append_marker(self, marker, epoch, offset, version)
        return ended or CompletedTxn(self.entry.producer_id, offset, offset, True)

    patch.setattr(ProducerAppendInfo, "append_marker", complete)


@sabotage(
    "the last stable offset is bounded by open transactions",
    "transactions-last-stable-offset",
)
def _(patch):
    """It is the high watermark."""
    patch.setattr(
        watermarks, "last_stable_offset", lambda log: log.high_watermark.offset
    )


@sabotage(
    "the last stable offset is bounded until markers are replicated",
    "transactions-last-stable-offset",
)
def _(patch):
    """A transaction is dropped with its marker."""
    complete_txn = ProducerStateManager.complete_txn

    def complete(self, completed):
        complete_txn(self, completed)
        self.unreplicated.clear()

    patch.setattr(ProducerStateManager, "complete_txn", complete)


@sabotage("aborted transactions are written to their index", "transactions-aborted")
def _(patch):
    """No entry is written."""
    patch.setattr(GrowingTransactionIndex, "append", do_nothing)


@sabotage(
    "an entry of the transaction index has the last stable offset",
    "transactions-aborted",
)
def _(patch):
    """Other open transactions are ignored."""
    patch.setattr(
        ProducerStateManager,
        "last_stable_offset",
        lambda _, completed: completed.last_offset + 1,
    )


@sabotage(
    "a read of committed records lists aborted transactions", "transactions-aborted"
)
def _(patch):
    """It lists none."""
    patch.setattr(log_fetch, "_aborted_in", lambda *_: ())


# Snapshots


@sabotage("a roll takes a producer snapshot", "truncation-producers")
def _(patch):
    """It takes none."""
    take_snapshot = ProducerStateManager.take_snapshot

    def take(self, *, sync=True):
        return take_snapshot(self) if sync else None

    patch.setattr(ProducerStateManager, "take_snapshot", take)


@sabotage("a snapshot has the order of Kafka's hash map", "producers-snapshot-window")
def _(patch):
    """It has the order in which producers appeared."""
    patch.setattr(HashOrderedDict, "in_hash_order", lambda self: list(self))


@sabotage(
    "expired producers in a snapshot are not loaded",
    test_producer_manager.test_expired_producers_of_a_snapshot_are_not_loaded,
    producing=Built(Producing),
)
def _(patch):
    """All are loaded."""
    patch.setattr(ProducerStateManager, "_is_expired", lambda *_: False)
