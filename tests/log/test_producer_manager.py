"""The producer state of a writable log: transactions, expiry, snapshots."""

import pytest

from kafkalog.errors import (
    InvalidProducerEpochError,
    LogArgumentError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from kafkalog.log.offset_metadata import OffsetMetadata
from kafkalog.log.producers.producer_append import ProducerAppendInfo
from kafkalog.log.producers.producer_entry import (
    NO_GUARD,
    CompletedTxn,
    ProducerStateEntry,
)
from tests.log.producing import (
    CLIENT,
    COORDINATOR,
    DAY_MS,
    NOW,
    PRODUCER,
    REPLICATION,
    Producing,
)


@pytest.fixture
def producing(tmp_path):
    return Producing(tmp_path)


def unstable(state):
    found = state.first_unstable_offset()
    return None if found is None else found.offset


# The state


def test_next_sequence_gap_duplicate_and_new_epoch_in_turn(producing):
    producing.data(0, 0)
    producing.data(1, 1)
    for sequence in (1, 5):
        with pytest.raises(OutOfOrderSequenceError):
            producing.data(2, sequence)
    producing.data(3, 0, epoch=1)
    with pytest.raises(InvalidProducerEpochError):
        producing.data(4, 0, epoch=0)


def test_a_marker_alone_creates_a_producer_entry(producing):
    producing.marker(27, epoch=2)
    entry = producing.state.last_entry(PRODUCER)
    assert (entry.producer_epoch, entry.last_sequence) == (2, -1)
    with pytest.raises(InvalidProducerEpochError):
        producing.data(28, 0, epoch=0)
    with pytest.raises(OutOfOrderSequenceError):
        producing.data(28, 17, epoch=2)
    producing.data(28, 0, epoch=2)


def test_a_client_continues_the_sequence_of_a_replicated_batch(producing):
    producing.data(735, 2**31 - 1, epoch=15, origin=REPLICATION)
    producing.data(1235, 0, epoch=15)
    entry = producing.state.last_entry(PRODUCER)
    assert entry.batches[0].first_sequence == 2**31 - 1
    assert entry.last_sequence == 0


def test_sequence_gaps_are_accepted_from_replication_only(producing):
    producing.data(0, 0)
    with pytest.raises(OutOfOrderSequenceError):
        producing.data(1, 3)
    producing.data(1, 3, origin=REPLICATION)
    assert producing.state.last_entry(PRODUCER).last_sequence == 3


def test_a_marker_with_a_new_epoch_removes_the_batches(producing):
    producing.data(0, 0)
    producing.marker(1, epoch=1, abort=True)
    entry = producing.state.last_entry(PRODUCER)
    assert (entry.producer_epoch, entry.last_offset, entry.last_sequence) == (1, -1, -1)
    assert entry.offset_delta == 0
    producing.data(2, 0, epoch=1)


def test_group_offsets_need_no_sequence(producing):
    for offset in (99, 100):
        producing.data(offset, -1, txn=True, origin=COORDINATOR)
    assert producing.state.last_entry(PRODUCER).last_sequence == -1


def test_an_update_needs_a_producer(producing):
    with pytest.raises(LogArgumentError, match="producer id -1"):
        producing.state.update(ProducerAppendInfo(ProducerStateEntry(-1), CLIENT))


def test_the_state_is_empty_only_without_unreplicated_transactions(producing):
    assert producing.state.is_empty
    producing.data(0, txn=True)
    producing.marker(1)
    producing.state.remove_expired_producers(NOW + DAY_MS)
    assert producing.state.last_entry(PRODUCER) is None
    assert not producing.state.is_empty
    producing.state.on_high_watermark_updated(2)
    assert producing.state.is_empty


# Stable offsets


@pytest.mark.parametrize("version", [0, 2])
def test_the_first_unstable_offset_waits_for_the_high_watermark(producing, version):
    state, ended = producing.state, 5 if version == 0 else 6
    assert (unstable(state), state.first_undecided_offset()) == (None, None)
    producing.data(99, epoch=5, txn=True)
    producing.data(105, epoch=5, txn=True, producer=2)
    assert (unstable(state), state.first_undecided_offset()) == (99, 99)
    producing.marker(109, epoch=ended, version=version)
    assert (unstable(state), state.first_undecided_offset()) == (99, 105)
    state.on_high_watermark_updated(109)
    assert unstable(state) == 99
    state.on_high_watermark_updated(110)
    assert unstable(state) == 105
    producing.marker(112, epoch=ended, producer=2, abort=True, version=version)
    assert (unstable(state), state.first_undecided_offset()) == (105, None)
    state.on_high_watermark_updated(113)
    assert unstable(state) is None


def begin(state, producer, offset):
    info = ProducerAppendInfo(ProducerStateEntry(producer), CLIENT)
    place = OffsetMetadata(offset, 990_000, 50 * (offset - 990_000))
    info.append_data(0, 0, 0, NOW, place, offset, True)
    state.update(info)
    return place


def test_the_last_stable_offset_is_the_first_offset_of_another_open_transaction(
    producing,
):
    state = producing.state
    first, second, third = (
        begin(state, producer, offset)
        for producer, offset in ((1, 992_342), (2, 992_367), (3, 992_399))
    )
    assert state.first_unstable_offset() == first
    for producer, start, end, stable, left in (
        (1, first, 992_414, 992_367, second),
        (3, third, 992_434, 992_367, second),
        (2, second, 992_512, 992_513, None),
    ):
        completed = CompletedTxn(producer, start.offset, end, False)
        assert state.last_stable_offset(completed) == stable
        state.complete_txn(completed)
        state.on_high_watermark_updated(end + 1)
        assert state.first_unstable_offset() == left


def test_transactions_are_in_the_order_of_their_first_offsets(producing):
    for producer, offset in ((1, 30), (2, 10), (3, 20)):
        begin(producing.state, producer, offset)
    assert list(producing.state.ongoing) == [10, 20, 30]
    for producer, first, last in ((1, 30, 40), (3, 20, 41), (2, 10, 42)):
        producing.state.complete_txn(CompletedTxn(producer, first, last, True))
    assert list(producing.state.unreplicated) == [10, 20, 30]


def test_a_transaction_that_is_not_open_cannot_be_completed(producing):
    with pytest.raises(
        LogArgumentError, match="no open transaction with first offset 7"
    ):
        producing.state.complete_txn(CompletedTxn(1, 7, 9, False))


# Fencing of markers, through reloads


@pytest.mark.parametrize("version", [0, 2])
def test_an_older_coordinator_is_refused_also_after_a_reload(producing, version):
    epoch = 5
    producing.data(99, epoch=epoch, txn=True)
    for offset, coordinator in ((100, 1), (101, 1), (102, 2)):
        epoch += version // 2
        producing.marker(offset, epoch=epoch, coordinator=coordinator, version=version)
    producing.state.take_snapshot()
    producing.state = producing.reopened()
    producing.state.truncate_and_reload(0, 103, NOW)
    epoch += version // 2
    with pytest.raises(TransactionCoordinatorFencedError):
        producing.marker(103, epoch=epoch, coordinator=1, version=version)


def test_the_epoch_of_a_fencing_marker_is_kept(producing):
    producing.data(0, txn=True)
    producing.marker(1, epoch=1, abort=True)
    producing.state.remove_expired_producers(NOW)
    entry = producing.state.last_entry(PRODUCER)
    assert (entry.last_offset, entry.txn_first_offset) == (-1, -1)


# Expiry


def test_a_producer_expires_by_the_timestamp_of_its_last_batch(producing):
    producing.data(1, 0, epoch=5)
    producing.state.remove_expired_producers(NOW + DAY_MS - 1)
    assert producing.state.last_entry(PRODUCER) is not None
    producing.state.remove_expired_producers(NOW + DAY_MS)
    producing.data(2, 1, epoch=5)
    assert producing.state.last_entry(PRODUCER).last_sequence == 1
    assert producing.state.map_end_offset == 3


def test_producers_of_old_records_expire_at_once(producing):
    producing.data(1, 0, time=0)
    producing.state.remove_expired_producers(NOW)
    assert not producing.state.producers


def test_a_producer_with_an_open_transaction_does_not_expire(producing):
    producing.data(99, txn=True)
    producing.state.remove_expired_producers(NOW + 2 * DAY_MS)
    assert producing.state.last_entry(PRODUCER) is not None
    assert producing.state.first_undecided_offset() == 99


def test_expired_producers_of_a_snapshot_are_not_loaded(producing):
    producing.data(0, 0)
    producing.data(1, 0, producer=2, txn=True)
    producing.state.take_snapshot()
    producing.state = producing.reopened()
    producing.state.truncate_and_reload(0, 2, NOW + DAY_MS)
    assert list(producing.state.producers) == [2]
    producing.data(2, 2)
    assert producing.state.last_entry(PRODUCER).last_sequence == 2


# Verification


def test_a_pending_verification_keeps_its_guard(producing):
    state = producing.state
    assert state.guard_of(PRODUCER) == NO_GUARD
    guard = state.start_verification(PRODUCER, 0, 0, True)
    assert state.start_verification(PRODUCER, 0, 0, True) == guard
    assert state.guard_of(PRODUCER) == guard
    assert state.start_verification(2, 0, 0, True) > guard > NO_GUARD


def test_the_lowest_sequence_of_the_highest_epoch_is_kept(producing):
    state = producing.state
    for sequence, epoch, lowest in (
        (1, 0, 1),
        (0, 0, 0),
        (2, 1, 2),
        (0, 0, 2),
        (3, 1, 2),
    ):
        state.start_verification(PRODUCER, sequence, epoch, True)
        assert state.verifications[PRODUCER].lowest_sequence == lowest
    assert state.verifications[PRODUCER].epoch == 1


def test_an_open_transaction_needs_no_verification(producing):
    producing.data(0, epoch=3, txn=True)
    state = producing.state
    assert state.start_verification(PRODUCER, 1, 3, False) == NO_GUARD
    assert state.start_verification(PRODUCER, 0, 4, False) != NO_GUARD
    with pytest.raises(InvalidProducerEpochError, match="epoch 2, expected at least 3"):
        state.start_verification(PRODUCER, 1, 2, False)


def test_verifications_expire_by_the_time_they_began(producing):
    state = producing.state
    state.start_verification(PRODUCER, 0, 0, True)
    producing.clock.time_ms += DAY_MS // 2
    state.start_verification(PRODUCER, 0, 0, True)
    state.remove_expired_producers(NOW + DAY_MS - 1)
    assert state.guard_of(PRODUCER) != NO_GUARD
    state.remove_expired_producers(NOW + DAY_MS)
    assert state.guard_of(PRODUCER) == NO_GUARD
