"""Producer state and whole appends: duplicates, verification, order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkalog
from kafkalog.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
)
from kafkalog.log.producers.hash_order import computed_order
from kafkalog.log.producers.producer_entry import NO_GUARD, CompletedTxn, Marker
from kafkalog.log.producers.producer_manager import ProducerStateManager
from kafkalog.log.producers.producer_updates import ProducerUpdates, replay
from tests.log.producing import (
    CLIENT,
    COORDINATOR,
    NOW,
    PRODUCER,
    REPLICATION,
    Producing,
    append,
    batch,
    batches_of,
    rows_of,
)

BOTH = [CLIENT, COORDINATOR]
COMMIT = Marker(False, 0, NOW)


@pytest.fixture
def producing(tmp_path):
    return Producing(tmp_path, transaction_verification=False)


@pytest.fixture
def strict(tmp_path):
    return Producing(tmp_path)


# Duplicates


def test_each_of_the_last_five_batches_is_recognized_as_a_duplicate(producing):
    for at in range(7):
        append(producing, batch(10 * at, 3 * at, count=3))
    for at in range(2, 7):
        found = append(producing, batch(70, 3 * at, count=3))
        assert (found.first_offset, found.last_offset) == (10 * at, 10 * at + 2)
    for at in range(2):
        with pytest.raises(OutOfOrderSequenceError):
            append(producing, batch(70, 3 * at, count=3))


def test_an_overlap_is_no_duplicate(producing):
    append(producing, batch(0, 0, count=3))
    for sequence, count in ((0, 2), (1, 2), (0, 4)):
        with pytest.raises(OutOfOrderSequenceError):
            append(producing, batch(3, sequence, count=count))


def test_the_sequences_of_another_epoch_are_no_duplicate(producing):
    append(producing, batch(0, 0))
    assert append(producing, batch(1, 0, epoch=1)) is None
    assert append(producing, batch(2, 0, epoch=1)).first_offset == 1


@pytest.mark.parametrize("origin", [COORDINATOR, REPLICATION])
def test_duplicates_are_recognized_for_clients_only(producing, origin):
    append(producing, batch(0, 0))
    assert append(producing, batch(1, 0), origin=origin) is None
    assert batches_of(producing) == [0, 1]


def test_a_duplicate_anywhere_in_an_append_leaves_the_state_unchanged(producing):
    append(producing, batch(0, 0))
    assert append(producing, batch(1, 1), batch(2, 0)) is not None
    assert batches_of(producing) == [0]


# Whole appends


def test_batches_without_a_producer_do_not_change_the_state(producing):
    assert append(producing, batch(0, -1, producer=-1, epoch=-1)) is None
    assert append(producing) is None
    assert producing.state.is_empty


def test_a_rejected_batch_also_drops_those_before_it(producing):
    append(producing, batch(0, 0))
    with pytest.raises(OutOfOrderSequenceError):
        append(producing, batch(1, 1), batch(2, 0, producer=2), batch(3, 9))
    assert batches_of(producing) == [0]
    assert producing.state.last_entry(2) is None


def test_a_transaction_has_the_position_of_its_first_batch(producing):
    rows = rows_of(batch(100, 0, txn=True), batch(101, 1), batch(102, 0, producer=2))
    rows["position"] += 5000
    rows["attributes"][1:] = rows["attributes"][0]
    updates = ProducerUpdates(producing.state, REPLICATION)
    updates.add(rows, segment_base=90, position=700)
    updates.apply()
    places = [txn.first_offset for txn in producing.state.ongoing.values()]
    assert places == [(100, 90, 700), (102, 90, 900)]


def test_a_loaded_transaction_has_an_offset_without_a_position(producing):
    updates = ProducerUpdates(producing.state, REPLICATION, transaction_version=0)
    updates.add(rows_of(batch(100, 0, txn=True)))
    updates.apply()
    assert producing.state.first_unstable_offset().is_bare


def test_one_append_ends_and_begins_transactions(producing):
    append(producing, batch(16, 0, count=5, txn=True))
    updates = ProducerUpdates(producing.state, REPLICATION)
    marks = [batch(at, -1, txn=True, control=True) for at in (21, 22, 23, 28, 29)]
    rows = rows_of(
        *marks[:3],
        batch(24, 5, count=4, txn=True),
        *marks[3:],
        batch(30, 9, count=2, txn=True),
    )
    commit, abort = Marker(False, 27, NOW), Marker(True, 27, NOW)
    updates.add(rows, {0: commit, 1: commit, 2: abort, 4: abort, 5: abort})
    assert updates.completed == [
        CompletedTxn(PRODUCER, 16, 21, False),
        CompletedTxn(PRODUCER, 24, 28, True),
    ]
    updates.apply()
    for completed in updates.completed:
        producing.state.complete_txn(completed)
    producing.state.on_high_watermark_updated(32)
    assert producing.state.first_unstable_offset().offset == 30


def test_an_empty_control_batch_ends_no_transaction(producing):
    append(producing, batch(0, 0, txn=True))
    append(producing, batch(1, -1, txn=True, control=True), markers={0: None})
    assert producing.state.first_undecided_offset() == 0
    append(
        producing,
        batch(2, -1, txn=True, control=True, producer=2),
        origin=REPLICATION,
        markers={0: None},
    )
    entry = producing.state.last_entry(2)
    assert (entry.producer_epoch, entry.last_timestamp) == (-1, -1)


@given(
    st.lists(st.integers(0, 2**20) | st.integers(0, 9).map(lambda n: n << 16)),
    st.booleans(),
)
def test_new_producers_of_an_append_are_in_the_order_of_a_hash_map(
    tmp_path_factory, producers, again
):
    state = ProducerStateManager(tmp_path_factory.getbasetemp() / "none")
    updates = ProducerUpdates(state, REPLICATION)
    chosen = list(dict.fromkeys(producers))
    repeated = chosen[:1] if again else []
    rows = [
        batch(at, at, producer=producer)
        for at, producer in enumerate(chosen + repeated)
    ]
    updates.add(rows_of(*rows))
    updates.apply()
    assert list(state.producers) == computed_order(chosen, again=bool(repeated))


# Verification


@pytest.mark.parametrize("origin", BOTH)
def test_a_transaction_begins_only_with_the_guard_of_its_verification(strict, origin):
    with pytest.raises(
        InvalidTxnStateError, match="expected an open or verified transaction"
    ):
        append(strict, batch(0, 0, txn=True), origin=origin)
    guard = strict.state.start_verification(PRODUCER, 0, 0, False)
    for wrong in (NO_GUARD, guard + 1, guard - 1):
        with pytest.raises(InvalidTxnStateError):
            append(strict, batch(0, 0, txn=True), origin=origin, guard=wrong)
    append(strict, batch(0, 0, txn=True), origin=origin, guard=guard)
    assert strict.state.guard_of(PRODUCER) == NO_GUARD
    append(strict, batch(1, 1, txn=True), origin=origin)


def test_an_older_epoch_is_reported_before_a_missing_guard(strict):
    append(strict, batch(0, 0, epoch=5))
    for control in (False, True):
        row = batch(1, 0, epoch=4, txn=True, control=control)
        with pytest.raises(
            InvalidProducerEpochError, match="epoch 4, expected at least 5"
        ):
            append(strict, row, markers={0: COMMIT}, version=0)


def test_markers_followers_and_nontransactional_batches_need_no_guard(strict):
    marker = batch(0, -1, txn=True, control=True)
    append(strict, marker, origin=COORDINATOR, markers={0: COMMIT}, version=0)
    append(strict, batch(1, 0, txn=True, producer=2), origin=REPLICATION)
    append(strict, batch(2, 0, producer=3))
    assert list(strict.state.producers) == [1, 2, 3]


def test_without_verification_no_transaction_needs_a_guard(producing):
    append(producing, batch(0, 0, txn=True))
    assert producing.state.first_undecided_offset() == 0


@pytest.mark.parametrize("enabled", [True, False])
def test_a_verification_limits_sequences_even_if_guards_are_not_checked(
    tmp_path, enabled
):
    producing = Producing(tmp_path, transaction_verification=enabled)
    guard = producing.state.start_verification(PRODUCER, 0, 0, True)
    with pytest.raises(OutOfOrderSequenceError):
        append(producing, batch(0, 4, txn=True), guard=guard)
    assert producing.state.guard_of(PRODUCER) == guard


@pytest.mark.parametrize(
    ("bumps", "epoch", "kept"), [(True, 1, True), (True, 2, False), (False, 1, False)]
)
def test_a_marker_leaves_the_verification_of_the_next_transaction(
    strict, bumps, epoch, kept
):
    strict.state.start_verification(PRODUCER, 0, 1, bumps)
    marker = batch(0, -1, epoch=epoch, txn=True, control=True)
    append(strict, marker, origin=COORDINATOR, markers={0: COMMIT}, version=2)
    assert (strict.state.guard_of(PRODUCER) != NO_GUARD) is kept


def test_a_nontransactional_batch_leaves_the_verification_unchanged(strict):
    guard = strict.state.start_verification(PRODUCER, 0, 0, False)
    append(strict, batch(0, 0))
    assert strict.state.guard_of(PRODUCER) == guard


def test_errors_have_kafkas_names():
    assert {
        error.kafka_name
        for error in (
            kafkalog.InvalidProducerEpochError,
            kafkalog.OutOfOrderSequenceError,
            kafkalog.InvalidTxnStateError,
            kafkalog.TransactionCoordinatorFencedError,
        )
    } == {
        "InvalidProducerEpochException",
        "OutOfOrderSequenceException",
        "InvalidTxnStateException",
        "TransactionCoordinatorFencedException",
    }


# One by one, as in recovery


def test_while_a_segment_is_recovered_each_batch_is_an_update_by_itself(producing):
    state = producing.state
    rows = rows_of(
        *(batch(at, 0, producer=producer) for at, producer in enumerate((48, 32, 16))),
        batch(3, 0, txn=True, count=2),
        batch(5, -1, txn=True, control=True),
        batch(6, 1, epoch=1),
        batch(7, 0),
        batch(8, -1, producer=-1, epoch=-1),
    )
    seen = []
    for completed in replay(state, rows, {4: Marker(True, 3, NOW)}):
        seen.append(completed)
        assert state.last_stable_offset(completed) == 6
        assert batches_of(producing) == [4]
        state.complete_txn(completed)
    assert seen == [CompletedTxn(PRODUCER, 3, 5, True)]
    assert list(state.producers) == [48, 32, 16, PRODUCER]
    assert batches_of(producing) == [7]
