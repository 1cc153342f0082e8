"""Kafka's rules for the batches of one producer."""

import pytest

from kafkalog.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    LogArgumentError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from kafkalog.log.offset_metadata import OffsetMetadata
from kafkalog.log.producers.producer_append import (
    MAX_PRODUCER_EPOCH,
    ProducerAppendInfo,
)
from kafkalog.log.producers.producer_entry import (
    BatchMetadata,
    CompletedTxn,
    Marker,
    ProducerStateEntry,
    VerificationState,
    last_sequence_of,
)
from tests.log.producing import CLIENT, COORDINATOR, NOW, REPLICATION, Producing

GREATEST = 2**31 - 1
ORIGINS = (CLIENT, COORDINATOR, REPLICATION)
LEADERS = (CLIENT, COORDINATOR)


@pytest.fixture
def producing(tmp_path):
    return Producing(tmp_path)


def info_of(entry=None, origin=CLIENT, verification=None):
    return ProducerAppendInfo(entry or ProducerStateEntry(1), origin, verification)


def known(epoch=5, *sequences, txn=-1, coordinator=-1):
    """Return an entry with a batch of one record for each of `sequences`."""
    entry = ProducerStateEntry(1, epoch, coordinator, NOW, txn)
    for at, sequence in enumerate(sequences):
        entry.add(epoch, BatchMetadata(sequence, at, 0, NOW))
    return entry


def data(info, sequence, *, epoch=5, offset=100, count=1, txn=False):
    last = last_sequence_of(sequence, count - 1)
    place = OffsetMetadata(offset)
    info.append_data(epoch, sequence, last, NOW, place, offset + count - 1, txn)


def mark(info, *, epoch=5, offset=110, version=0, abort=False, coordinator=0):
    return info.append_marker(Marker(abort, coordinator, NOW), epoch, offset, version)


# Epochs of data


@pytest.mark.parametrize("origin", LEADERS)
def test_data_of_an_older_epoch_is_refused(origin):
    with pytest.raises(InvalidProducerEpochError, match="epoch 4, expected at least 5"):
        data(info_of(known(5, 0), origin), 0, epoch=4)


def test_a_follower_accepts_data_of_an_older_epoch():
    info = info_of(known(5, 0), REPLICATION)
    data(info, 9, epoch=4)
    assert info.entry.producer_epoch == 4
    assert info.entry.last_sequence == 9


# Sequences


def test_the_next_sequence_is_accepted():
    info = info_of(known(5, 3))
    data(info, 4, count=3)
    data(info, 7)
    assert [stored.last_sequence for stored in info.entry.batches] == [6, 7]


@pytest.mark.parametrize("sequence", [0, 2, 3, 5, GREATEST])
def test_any_other_sequence_of_the_epoch_is_refused(sequence):
    with pytest.raises(OutOfOrderSequenceError, match=f"sequence {sequence} after 3"):
        data(info_of(known(5, 3)), sequence)


@pytest.mark.parametrize("origin", [COORDINATOR, REPLICATION])
def test_sequences_are_checked_for_clients_only(origin):
    info = info_of(known(5, 3), origin)
    data(info, 9)
    data(info, -1)
    assert [stored.last_sequence for stored in info.entry.batches] == [9, -1]


def test_zero_follows_the_greatest_sequence():
    info = info_of(known(5, GREATEST))
    data(info, 0)
    assert info.entry.last_sequence == 0
    with pytest.raises(OutOfOrderSequenceError):
        data(info_of(known(5, GREATEST)), 1)


def test_sequences_within_a_batch_may_wrap_around():
    info = info_of(known(5, GREATEST - 11))
    data(info, GREATEST - 10, count=21)
    [one] = info.entry.batches
    assert (one.first_sequence, one.last_sequence) == (GREATEST - 10, 9)
    data(info, 10, offset=121)


def test_a_new_epoch_begins_with_sequence_zero():
    data(info_of(known(5, 3)), 0, epoch=6)
    with pytest.raises(
        OutOfOrderSequenceError, match="sequence 4, expected 0 as the first of epoch 6"
    ):
        data(info_of(known(5, 3)), 4, epoch=6)


def test_an_unknown_producer_may_begin_with_any_sequence():
    info = info_of()
    data(info, 17)
    assert info.entry.last_sequence == 17


def test_sequences_of_an_unknown_producer_are_not_checked_within_an_append():
    info = info_of()
    data(info, 17)
    data(info, 99, offset=101)
    assert info.entry.last_sequence == 99


def test_after_a_marker_with_a_new_epoch_the_sequence_is_zero_again(producing):
    producing.data(0, txn=True)
    producing.data(1, 1, txn=True)
    producing.marker(2, epoch=1, abort=True)
    for epoch in (1, 2):
        with pytest.raises(OutOfOrderSequenceError):
            producing.data(3, 2, epoch=epoch, txn=True)
    producing.data(3, 0, epoch=1, txn=True)
    assert producing.state.last_entry(1).last_sequence == 0


def test_a_marker_in_the_same_append_restarts_the_sequence():
    info = info_of(known(5, 3))
    mark(info, epoch=6)
    with pytest.raises(OutOfOrderSequenceError, match="sequence 4 after -1"):
        data(info, 4, epoch=6)
    data(info, 0, epoch=6)


def test_after_a_marker_of_the_same_epoch_the_sequence_continues(producing):
    producing.data(0, txn=True)
    producing.marker(1)
    producing.data(2, 1, txn=True)
    assert len(producing.state.last_entry(1).batches) == 2


# Transactions


@pytest.mark.parametrize("origin", ORIGINS)
def test_data_outside_of_the_open_transaction_is_refused(origin):
    with pytest.raises(
        InvalidTxnStateError, match="expected a batch of the open transaction"
    ):
        data(info_of(known(5, 0, txn=99), origin), 1)


def test_the_first_transactional_batch_opens_a_transaction_at_its_offset():
    info = info_of(known(5, 0))
    place = OffsetMetadata(7, 3, 4000)
    info.append_data(5, 1, 2, NOW, place, 8, True)
    data(info, 3, offset=9, txn=True)
    [started] = info.started
    assert (started.producer_id, started.first_offset) == (1, place)
    assert started.last_offset == -1
    assert info.entry.txn_first_offset == 7


def test_a_rejected_batch_leaves_the_producer_state_unchanged(producing):
    producing.data(0, txn=True)
    before = repr(producing.state.last_entry(1))
    info = producing.state.prepare_update(1, CLIENT)
    data(info, 1, epoch=0, offset=1, txn=True)
    with pytest.raises(InvalidTxnStateError):
        data(info, 2, epoch=0, offset=2)
    assert repr(producing.state.last_entry(1)) == before


# Markers


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("origin", LEADERS)
def test_with_versions_0_and_1_a_marker_may_have_the_same_epoch(origin, version):
    info = info_of(known(5, 0, txn=99), origin)
    assert mark(info, version=version) == CompletedTxn(1, 99, 110, False)
    assert info.entry.txn_first_offset == -1


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("origin", LEADERS)
def test_a_marker_of_an_older_epoch_is_refused(origin, version):
    with pytest.raises(InvalidProducerEpochError):
        mark(info_of(known(5, 0, txn=99), origin), epoch=4, version=version)


@pytest.mark.parametrize("origin", LEADERS)
def test_with_version_2_a_marker_needs_a_newer_epoch(origin):
    info = info_of(known(5, 0, txn=99), origin)
    with pytest.raises(InvalidProducerEpochError, match="epoch 5, expected at least 6"):
        mark(info, version=2)
    assert mark(info, epoch=6, version=2, abort=True) == CompletedTxn(1, 99, 110, True)


def test_with_version_2_a_marker_may_be_repeated():
    info = info_of(known(5))
    assert mark(info, version=2) is None
    info = info_of(known(MAX_PRODUCER_EPOCH, 0, txn=99))
    assert mark(info, epoch=MAX_PRODUCER_EPOCH, version=2) is not None


@pytest.mark.parametrize("version", [-1, 0, 2])
def test_a_follower_accepts_any_marker(version):
    info = info_of(known(5, 0, txn=99, coordinator=7), REPLICATION)
    assert mark(info, epoch=4, version=version, coordinator=6) is not None
    assert info.entry.producer_epoch == 4
    assert info.entry.coordinator_epoch == 6


@pytest.mark.parametrize("origin", LEADERS)
def test_a_marker_needs_a_transaction_version_on_a_leader(origin):
    with pytest.raises(LogArgumentError, match="transaction version") as caught:
        mark(info_of(known(5), origin), version=-1)
    assert caught.value.kafka_name == "IllegalArgumentException"


@pytest.mark.parametrize("open_from", [-1, 99])
def test_a_marker_of_an_older_coordinator_is_refused(open_from):
    entry = known(5, 0, txn=open_from, coordinator=7)
    with pytest.raises(
        TransactionCoordinatorFencedError,
        match="coordinator epoch 6, expected at least 7",
    ):
        mark(info_of(entry, COORDINATOR), coordinator=6)
    mark(info_of(entry, COORDINATOR), coordinator=7)
    mark(info_of(entry, COORDINATOR), coordinator=8)


def test_the_producer_epoch_is_checked_before_the_coordinator_epoch():
    with pytest.raises(InvalidProducerEpochError):
        mark(info_of(known(5, coordinator=7), COORDINATOR), epoch=4, coordinator=6)


def test_a_marker_without_a_transaction_completes_none():
    info = info_of(known(5, 0))
    assert mark(info) is None
    assert len(info.started) == 0


# Verification


def verified(lowest=0, *, bumps=True):
    return VerificationState(NOW, lowest, 5, bumps)


def test_with_version_2_an_unknown_producer_begins_with_sequence_zero():
    with pytest.raises(
        OutOfOrderSequenceError, match="sequence 5, expected 0 as the first"
    ):
        data(info_of(verification=verified()), 5)
    data(info_of(verification=verified()), 0)


def test_with_version_1_an_unknown_producer_may_begin_with_any_sequence():
    info = info_of(verification=verified(5, bumps=False))
    data(info, 5)
    assert info.entry.last_sequence == 5


def test_a_sequence_above_the_lowest_to_be_verified_is_refused():
    entry = known(5, 3)
    with pytest.raises(
        OutOfOrderSequenceError, match="expected at most 3, which was verified"
    ):
        data(info_of(entry, verification=verified(3)), 4)
    data(info_of(entry, verification=verified(4)), 4)
    data(info_of(entry, COORDINATOR, verified(3)), 4)


# Entries


def test_only_the_last_five_batches_are_remembered():
    entry = known(5, *range(8))
    assert [stored.last_sequence for stored in entry.batches] == [3, 4, 5, 6, 7]
    later = known(5, *range(8, 10))
    entry.update(later)
    assert [stored.last_sequence for stored in entry.batches] == [5, 6, 7, 8, 9]


def test_an_epoch_that_begins_and_ends_within_an_append_keeps_the_batches():
    entry = known(5, 1, 2)
    info = info_of(entry, REPLICATION)
    data(info, 0, epoch=6)
    data(info, 3, epoch=5)
    entry.update(info.entry)
    assert [stored.last_sequence for stored in entry.batches] == [1, 2, 3]


def test_a_duplicate_has_the_same_sequences_and_epoch():
    entry = known(5)
    entry.add(5, BatchMetadata(9, 103, 3, NOW))
    assert entry.find_duplicate(5, 6, 9).first_offset == 100
    for epoch, first, last in ((4, 6, 9), (5, 7, 9), (5, 6, 8), (5, 5, 9), (5, 6, 10)):
        assert entry.find_duplicate(epoch, first, last) is None


@pytest.mark.parametrize(
    ("last", "delta", "first"),
    [
        (9, 3, 6),
        (1, 3, GREATEST - 1),
        (0, 0, 0),
        (-1, 0, GREATEST),
        (-1, 3, GREATEST - 3),
    ],
)
def test_first_sequences_wrap_around_below_zero(last, delta, first):
    assert BatchMetadata(last, 100, delta, NOW).first_sequence == first
