"""The producers of whole appends: duplicates, verification, order, many at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkalog
from kafkalog.errors import (
    CorruptRecordError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    KafkaLogError,
    LogArgumentError,
    OutOfOrderSequenceError,
)
from kafkalog.formats.builder import RecordBatchBuilder
from kafkalog.formats.control import ControlRecordType, end_transaction_marker
from kafkalog.formats.headers import scan_headers
from kafkalog.log.hash_order import computed_order
from kafkalog.log.markers import known_markers, read_markers
from kafkalog.log.plain_appends import PlainAppends
from kafkalog.log.producer_entry import NO_GUARD, CompletedTxn, Marker
from kafkalog.log.producer_updates import ProducerUpdates
from kafkalog.log.producers import ProducerStateManager
from tests.log.producing import (
    CLIENT,
    COORDINATOR,
    NOW,
    PRODUCER,
    REPLICATION,
    Producing,
    batch,
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


def append(
    producing, *batches, origin=CLIENT, guard=NO_GUARD, version=-1, markers=None
):
    """Append batches as one append; answer the batch that one of them repeats."""
    state = producing.state
    updates = ProducerUpdates(state, origin, guard=guard, transaction_version=version)
    found = updates.add(rows_of(*batches), markers or {}, segment_base=0, position=0)
    if found is None:
        updates.apply()
        for completed in updates.completed:
            state.complete_txn(completed)
    return found


def batches_of(producing, producer=PRODUCER):
    return [one.last_offset for one in producing.state.last_entry(producer).batches]


# Duplicates


def test_each_of_the_last_five_batches_is_known_again(producing):
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
def test_only_a_client_repeats_itself(producing, origin):
    append(producing, batch(0, 0))
    assert append(producing, batch(1, 0), origin=origin) is None
    assert batches_of(producing) == [0, 1]


def test_a_duplicate_anywhere_in_an_append_leaves_all_as_it_was(producing):
    append(producing, batch(0, 0))
    assert append(producing, batch(1, 1), batch(2, 0)) is not None
    assert batches_of(producing) == [0]


# Whole appends


def test_batches_without_producer_are_nothing_to_producers(producing):
    assert append(producing, batch(0, -1, producer=-1, epoch=-1)) is None
    assert append(producing) is None
    assert producing.state.is_empty


def test_a_refused_batch_leaves_those_before_it_unknown_too(producing):
    append(producing, batch(0, 0))
    with pytest.raises(OutOfOrderSequenceError):
        append(producing, batch(1, 1), batch(2, 0, producer=2), batch(3, 9))
    assert batches_of(producing) == [0]
    assert producing.state.last_entry(2) is None


def test_a_transaction_lies_where_its_first_batch_will(producing):
    rows = rows_of(batch(100, 0, txn=True), batch(101, 1), batch(102, 0, producer=2))
    rows["position"] += 5000
    rows["attributes"][1:] = rows["attributes"][0]
    updates = ProducerUpdates(producing.state, REPLICATION)
    updates.add(rows, segment_base=90, position=700)
    updates.apply()
    places = [txn.first_offset for txn in producing.state.ongoing.values()]
    assert places == [(100, 90, 700), (102, 90, 900)]


def test_while_loading_only_the_offset_of_a_transaction_is_known(producing):
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


def test_an_emptied_control_batch_ends_nothing(producing):
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
def test_new_producers_of_an_append_come_in_the_order_of_a_hash_map(
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
    with pytest.raises(InvalidTxnStateError, match="not part of an open transaction"):
        append(strict, batch(0, 0, txn=True), origin=origin)
    guard = strict.state.start_verification(PRODUCER, 0, 0, False)
    for wrong in (NO_GUARD, guard + 1, guard - 1):
        with pytest.raises(InvalidTxnStateError):
            append(strict, batch(0, 0, txn=True), origin=origin, guard=wrong)
    append(strict, batch(0, 0, txn=True), origin=origin, guard=guard)
    assert strict.state.guard_of(PRODUCER) == NO_GUARD
    append(strict, batch(1, 1, txn=True), origin=origin)


def test_an_older_epoch_is_told_before_the_missing_guard(strict):
    append(strict, batch(0, 0, epoch=5))
    for control in (False, True):
        row = batch(1, 0, epoch=4, txn=True, control=control)
        with pytest.raises(
            InvalidProducerEpochError, match="epoch 4 < 5, the last seen"
        ):
            append(strict, row, markers={0: COMMIT}, version=0)


def test_markers_and_followers_and_plain_batches_need_no_guard(strict):
    marker = batch(0, -1, txn=True, control=True)
    append(strict, marker, origin=COORDINATOR, markers={0: COMMIT}, version=0)
    append(strict, batch(1, 0, txn=True, producer=2), origin=REPLICATION)
    append(strict, batch(2, 0, producer=3))
    assert list(strict.state.producers) == [1, 2, 3]


def test_without_verification_no_transaction_needs_a_guard(producing):
    append(producing, batch(0, 0, txn=True))
    assert producing.state.first_undecided_offset() == 0


@pytest.mark.parametrize("enabled", [True, False])
def test_a_verification_holds_sequences_back_even_if_guards_do_not_matter(
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


def test_a_plain_batch_leaves_the_verification_as_it_is(strict):
    guard = strict.state.start_verification(PRODUCER, 0, 0, False)
    append(strict, batch(0, 0))
    assert strict.state.guard_of(PRODUCER) == guard


# Markers in bytes


def control_batch(kind, offset=7, codec="none"):
    builder = RecordBatchBuilder(
        base_offset=offset,
        producer_id=PRODUCER,
        producer_epoch=3,
        is_transactional=True,
        is_control=True,
        codec=codec,
    )
    key, value = end_transaction_marker(ControlRecordType.COMMIT, 9)
    if kind is not None:
        key = b"\0\0" + int(kind).to_bytes(2, "big")
    builder.append(key, value, timestamp=NOW)
    return builder.build()


def scanned(*batches):
    data = np.frombuffer(b"".join(batches), np.uint8)
    return data, scan_headers(data)[0]


def plain_batch(offset):
    builder = RecordBatchBuilder(base_offset=offset)
    builder.append(None, b"v", timestamp=NOW)
    return builder.build()


def test_markers_are_read_from_control_batches():
    data, rows = scanned(
        plain_batch(0), control_batch(0, 1), plain_batch(2), control_batch(1, 3, "zstd")
    )
    marks = {1: Marker(True, 9, NOW), 3: Marker(False, 9, NOW)}
    assert read_markers(data, rows) == known_markers(data, rows) == marks
    rows["position"] += 1000
    assert read_markers(data, rows, 1000) == marks
    assert read_markers(data, rows[[0, 2]], 1000) == {}


def test_an_emptied_control_batch_has_no_marker():
    whole = control_batch(0)
    emptied = bytearray(whole[:61])
    emptied[8:12] = (61 - 12).to_bytes(4, "big")
    emptied[57:61] = bytes(4)
    data, rows = scanned(bytes(emptied), control_batch(1, 8))
    assert read_markers(data, rows) == {0: None, 1: Marker(False, 9, NOW)}


@pytest.mark.parametrize("kind", [2, 77])
def test_a_control_record_that_is_no_marker_is_refused_where_one_must_be(kind):
    data, rows = scanned(control_batch(kind))
    with pytest.raises(LogArgumentError, match=f"control record {kind}"):
        read_markers(data, rows)
    assert known_markers(data, rows) == {0: None}


def test_a_damaged_marker_is_an_error():
    data, rows = scanned(control_batch(0)[:-1] + b"\1")
    with pytest.raises(CorruptRecordError):
        read_markers(data, rows)


# Many at once

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
