"""Sabotages of producers and transactions."""

from kafkalog.errors import (
    InvalidProducerEpochError,
    OutOfOrderSequenceError,
)
from kafkalog.formats.layout import SEQUENCE_MASK
from kafkalog.indexes.growing_txn_index import GrowingTransactionIndex
from kafkalog.log import fetch_data, watermarks
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
from tests.oracle.sabotages.register import Made, nothing, sabotage

# Sequences


@sabotage("sequences follow one another", "producers-sequences")
def _(patch):
    """Any sequence is taken."""
    patch.setattr(ProducerAppendInfo, "_check_sequence", nothing)


@sabotage("a new epoch begins with sequence 0", "producers-sequences")
def _(patch):
    """It may begin with any."""
    check = ProducerAppendInfo._check_sequence

    def check_known(self, epoch, sequence, offset):
        if epoch == self.entry.producer_epoch:
            check(self, epoch, sequence, offset)

    patch.setattr(ProducerAppendInfo, "_check_sequence", check_known)


@sabotage("a producer not known begins with any sequence", "producers-sequences")
def _(patch):
    """It has to begin with 0."""
    check = ProducerAppendInfo._check_sequence

    def check_first(self, epoch, sequence, offset):
        if self.current.producer_epoch == -1 and sequence:
            raise OutOfOrderSequenceError("not 0")
        check(self, epoch, sequence, offset)

    patch.setattr(ProducerAppendInfo, "_check_sequence", check_first)


@sabotage("sequence 0 follows the greatest", "producers-sequence-wrap")
def _(patch):
    """Nothing follows the greatest."""
    patch.setattr(
        producer_append,
        "is_next_sequence",
        lambda sequence, last: sequence == last + 1,
    )


@sabotage("sequences run over the greatest within a batch", "producers-sequence-wrap")
def _(patch):
    """They stop at the greatest."""

    def last_sequence_of(base, delta):
        return min(base + delta, SEQUENCE_MASK) if base >= 0 else base

    patch.setattr(producer_updates, "last_sequence_of", last_sequence_of)


@sabotage(
    "a duplicate is answered with the first append's offsets", "producers-duplicates"
)
def _(patch):
    """No duplicate is looked for."""
    patch.setattr(ProducerUpdates, "_duplicate", nothing)


@sabotage("the last five batches are remembered", "producers-duplicates")
def _(patch):
    """Four are."""
    patch.setattr(producer_entry, "BATCHES_KEPT", 4)


@sabotage("no more than the last five batches are remembered", "producers-duplicates")
def _(patch):
    """Six are."""
    patch.setattr(producer_entry, "BATCHES_KEPT", 6)


@sabotage(
    "what is refused is not remembered",
    test_producer_append.test_what_is_refused_changes_nothing_that_was_known,
    producing=Made(Producing),
)
def _(patch):
    """What is known is changed before it is judged."""
    patch.setattr(ProducerStateEntry, "without_batches", lambda self: self)


# Epochs


@sabotage("an older epoch of a producer is fenced", "producers-sequences")
def _(patch):
    """Its data is taken."""
    patch.setattr(ProducerAppendInfo, "_check_epoch", nothing)


@sabotage("a new epoch forgets the batches of the last", "producers-sequences")
def _(patch):
    """They are kept beside the new ones."""

    def enter_epoch(self, producer_epoch):
        self.producer_epoch = producer_epoch

    patch.setattr(ProducerStateEntry, "enter_epoch", enter_epoch)


@sabotage("a marker of an older producer epoch is refused", "transactions-fencing")
def _(patch):
    """It is taken."""
    patch.setattr(ProducerAppendInfo, "_check_epoch", nothing)
    patch.setattr(producer_updates, "check_epoch_is_current", nothing)


@sabotage("a marker of an older coordinator is refused", "transactions-fencing")
def _(patch):
    """It is taken."""
    patch.setattr(ProducerAppendInfo, "_check_coordinator", nothing)


@sabotage("a marker's coordinator epoch is kept", "transactions-empty-marker")
def _(patch):
    """It is forgotten."""
    end_txn = ProducerStateEntry.end_txn

    def end(self, producer_epoch, _, time):
        end_txn(self, producer_epoch, self.coordinator_epoch, time)

    patch.setattr(ProducerStateEntry, "end_txn", end)


@sabotage(
    "a marker of version 2 has a newer epoch than the data",
    "transactions-version-two",
)
def _(patch):
    """The epoch of the data will do."""
    patch.setattr(producer_append, "TV_EPOCH_BUMP", 3)


@sabotage("a marker of version 2 may be written again", "transactions-version-two")
def _(patch):
    """Its epoch has to be newer each time."""
    check = ProducerAppendInfo._check_epoch

    def check_bump(self, epoch, offset, version):
        is_newer = epoch > self.entry.producer_epoch
        if version == producer_append.TV_EPOCH_BUMP and not is_newer:
            raise InvalidProducerEpochError("not newer")
        check(self, epoch, offset, version)

    patch.setattr(ProducerAppendInfo, "_check_epoch", check_bump)


# Verification and expiry


@sabotage(
    "a transaction begins with the guard of its verification",
    "transactions-verification",
)
def _(patch):
    """No guard is asked for."""
    patch.setattr(ProducerUpdates, "_check_verification", nothing)


@sabotage("an open transaction needs no guard", "transactions-verification")
def _(patch):
    """Each batch has to show it."""
    patch.setattr(ProducerStateManager, "has_ongoing_txn", lambda *_: False)


@sabotage(
    "a verification holds back what comes after the lowest sequence",
    test_producer_append.test_a_sequence_above_the_lowest_to_be_verified_is_refused,
)
def _(patch):
    """Any sequence may come first."""
    patch.setattr(ProducerAppendInfo, "_check_verified_sequence", nothing)


@sabotage(
    "a marker leaves the verification of the next transaction",
    test_producer_updates.test_a_marker_leaves_the_verification_of_the_next_transaction,
    strict=Made(Producing),
    bumps=True,
    epoch=1,
    kept=True,
)
def _(patch):
    """It drops what is under way."""

    def drop(self, producer_id, *_):
        self._producers.verifications.pop(producer_id, None)

    patch.setattr(ProducerUpdates, "_end_verification", drop)


@sabotage(
    "verifications expire",
    test_producer_manager.test_verifications_expire_by_the_time_they_began,
    producing=Made(Producing),
)
def _(patch):
    """Nothing expires."""
    patch.setattr(ProducerStateManager, "remove_expired_producers", nothing)


@sabotage("producers expire", "producers-expiry")
def _(patch):
    """They are kept for ever."""
    patch.setattr(ProducerStateManager, "remove_expired_producers", nothing)


@sabotage("a producer with an open transaction does not expire", "producers-expiry")
def _(patch):
    """Its time alone is looked at."""

    def is_expired(self, entry, now_ms):
        return now_ms - entry.last_timestamp >= self._expiration_ms

    patch.setattr(ProducerStateManager, "_is_expired", is_expired)


@sabotage("a producer expires by the time of its records", "producers-expiry")
def _(patch):
    """It does so by the time of their arrival."""
    update = ProducerStateManager.update

    def update_now(self, info):
        info.entry.last_timestamp = self._clock.now_ms()
        update(self, info)

    patch.setattr(ProducerStateManager, "update", update_now)


# Transactions


@sabotage(
    "no plain records come inside a transaction", "transactions-plain-record-inside"
)
def _(patch):
    """They are taken for transactional ones."""
    append_data = ProducerAppendInfo.append_data

    def append_any(self, *batch):
        inside = self.entry.txn_first_offset != NONE
        append_data(self, *batch[:-1], batch[-1] or inside)

    patch.setattr(ProducerAppendInfo, "append_data", append_any)


@sabotage(
    "a marker without an open transaction completes nothing",
    "transactions-empty-marker",
)
def _(patch):
    """It completes one of its own."""
    append_marker = ProducerAppendInfo.append_marker

    def complete(self, marker, epoch, offset, version):
        ended = append_marker(self, marker, epoch, offset, version)
        return ended or CompletedTxn(self.entry.producer_id, offset, offset, True)

    patch.setattr(ProducerAppendInfo, "append_marker", complete)


@sabotage(
    "the last stable offset waits for open transactions",
    "transactions-last-stable-offset",
)
def _(patch):
    """It is the high watermark."""
    patch.setattr(
        watermarks, "last_stable_offset", lambda log: log.high_watermark.offset
    )


@sabotage(
    "the last stable offset waits for markers to be replicated",
    "transactions-last-stable-offset",
)
def _(patch):
    """A transaction is forgotten with its marker."""
    complete_txn = ProducerStateManager.complete_txn

    def complete(self, completed):
        complete_txn(self, completed)
        self.unreplicated.clear()

    patch.setattr(ProducerStateManager, "complete_txn", complete)


@sabotage("aborted transactions are entered in their index", "transactions-aborted")
def _(patch):
    """No entry is made."""
    patch.setattr(GrowingTransactionIndex, "append", nothing)


@sabotage(
    "an entry of the transaction index has the last stable offset",
    "transactions-aborted",
)
def _(patch):
    """Other open transactions are not looked at."""
    patch.setattr(
        ProducerStateManager,
        "last_stable_offset",
        lambda _, completed: completed.last_offset + 1,
    )


@sabotage("a committed read lists what was aborted", "transactions-aborted")
def _(patch):
    """It lists nothing."""
    patch.setattr(fetch_data, "_aborted_in", lambda *_: ())


# Snapshots


@sabotage("a roll leaves a snapshot of producers", "truncation-producers")
def _(patch):
    """It leaves none."""
    take_snapshot = ProducerStateManager.take_snapshot

    def take(self, *, sync=True):
        return take_snapshot(self) if sync else None

    patch.setattr(ProducerStateManager, "take_snapshot", take)


@sabotage("a snapshot has the order of Kafka's hash map", "producers-snapshot-window")
def _(patch):
    """It has the order in which producers came."""
    patch.setattr(HashOrderedDict, "in_hash_order", lambda self: list(self))


@sabotage(
    "of a snapshot no producer that expired is loaded",
    test_producer_manager.test_expired_producers_of_a_snapshot_are_not_loaded,
    producing=Made(Producing),
)
def _(patch):
    """All are."""
    patch.setattr(ProducerStateManager, "_is_expired", lambda *_: False)
