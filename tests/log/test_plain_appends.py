"""Many appends at once, against each of them by itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafkalog.log.plain_appends import PlainAppends

from kafkalog.errors import KafkaLogError
from kafkalog.log.producer_updates import ProducerUpdates
from kafkalog.log.producers import ProducerStateManager
from tests.log.producing import (
    CLIENT,
    REPLICATION,
    Producing,
    append,
    batch,
    batches_of,
    rows_of,
)


@pytest.fixture
def producing(tmp_path):
    return Producing(tmp_path, transaction_verification=False)


CHOICES = st.tuples(
    st.sampled_from([-1, 1, 2, 3]),
    st.integers(-1, 4),
    st.integers(1, 3),
    st.integers(0, 1),
    st.sampled_from([False] * 8 + [True]),
)


def one_by_one(state, rows):
    """Append each row by itself until one is refused or repeated, or no plain one."""
    for at in range(len(rows)):
        updates = ProducerUpdates(state, CLIENT)
        try:
            if updates.add(rows[at : at + 1]) is not None:
                return at
        except KafkaLogError:
            return at
        updates.apply()
    return len(rows)


@given(st.lists(CHOICES, max_size=30))
def test_plain_appends_are_what_they_are_one_by_one(tmp_path_factory, choices):
    none = tmp_path_factory.getbasetemp() / "none"
    states = [ProducerStateManager(none, transaction_verification=False) for _ in "ab"]
    offset, nexts = 0, {-1: 0, 1: 0, 2: 0, 3: 0}
    for state in states:
        for producer in (1, 2, 3):
            updates = ProducerUpdates(state, CLIENT)
            updates.add(rows_of(batch(0, 2**31 - 8, producer=producer)))
            updates.apply()
            nexts[producer] = 2**31 - 7
    rows = []
    for producer, shift, count, epoch, txn in choices:
        sequence = nexts[producer] if shift < 2 else nexts[producer] + shift - 3
        sequence %= 2**31
        row = batch(offset, sequence, count=count, producer=producer, txn=txn)
        rows.append(
            row if epoch == 0 or shift < 4 else batch(offset, sequence, epoch=1)
        )
        nexts[producer] = (sequence + count) % 2**31
        offset += count
    rows = rows_of(*rows)
    plain = PlainAppends(states[0], rows)
    plain.apply(plain.count)
    assert one_by_one(states[1], rows[: plain.count]) == plain.count
    known = [[repr(one) for one in state.producers.values()] for state in states]
    assert known[0] == known[1]


def test_all_appends_that_follow_one_another_are_plain(producing):
    append(producing, batch(0, 0, count=2))
    rows = rows_of(*(batch(2 * at, 2 * at, count=2) for at in range(1, 65)))
    plain = PlainAppends(producing.state, rows)
    assert plain.count == 64
    assert batches_of(producing) == [1]
    plain.apply(62)
    assert batches_of(producing) == [117, 119, 121, 123, 125]


@pytest.mark.parametrize(
    "row",
    [
        batch(9, 1, txn=True),
        batch(9, 1, control=True),
        batch(9, 2),
        batch(9, 0),
        batch(9, 0, epoch=1),
        batch(9, 0, producer=2),
    ],
)
def test_what_is_not_plain_ends_the_plain_ones(producing, row):
    append(producing, batch(0, 0))
    nobody = batch(1, -1, producer=-1, epoch=-1)
    assert PlainAppends(producing.state, rows_of(nobody, row, nobody)).count == 1


def test_a_producer_in_a_transaction_or_verified_is_not_plain(producing):
    append(producing, batch(0, 0, txn=True))
    append(producing, batch(1, 0, producer=2))
    producing.state.start_verification(2, 0, 0, False)
    rows = rows_of(batch(2, 1), batch(3, 1, producer=2))
    assert PlainAppends(producing.state, rows).count == 0
    assert PlainAppends(producing.state, rows[1:]).count == 0


def test_what_repeats_a_batch_behind_a_gap_is_not_plain(producing):
    for sequence in (5, 3):
        append(producing, batch(sequence, sequence), origin=REPLICATION)
    rows = rows_of(batch(9, 4), batch(10, 5))
    assert PlainAppends(producing.state, rows).count == 0
    append(producing, batch(9, 4))
    assert append(producing, batch(10, 5)).first_offset == 5


def test_a_batch_over_the_greatest_sequence_is_not_plain(producing):
    append(producing, batch(0, 2**31 - 3))
    rows = rows_of(batch(1, 2**31 - 2), batch(2, 2**31 - 1, count=2))
    assert PlainAppends(producing.state, rows).count == 1
