"""Appends in one write have the same outcomes as by the general step, one by one."""

from contextlib import contextmanager, nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import IndexFullError, KafkaLogError, LogClosedError, LogConfig
from kafkalog.log import appending
from kafkalog.validation import leader_validation as validation
from tests.log.writing import NOW, SMALL, batch, files_of, load, offsets_in
from tests.validation.appending import patched

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
LARGE = LogConfig(internal_segment_bytes=1 << 20, segment_index_bytes=2400)


# Changes to a log between two appends.
CHANGES = {
    "roll": lambda log: log.roll(),
    "truncate": lambda log: log.truncate_to(log.log_end_offset - 1),
    "truncate fully": lambda log: log.truncate_fully(log.log_end_offset + 7),
    "new epoch": lambda log: log.assign_epoch(3),
    "new settings": lambda log: log.update_config(SMALL),
    "stamped": lambda log: log.update_config(
        LARGE.with_changes({"message.timestamp.type": "LogAppendTime"})
    ),
    "flush": lambda log: log.flush(),
    "refused": lambda log: log.append_many([b"no batch" * 9]),
    "of a producer": lambda log: log.append(
        batch(producer_id=7, producer_epoch=0, base_sequence=0)
    ),
    "nothing": lambda log: None,
}


@contextmanager
def general_step_alone():
    """Append each batch by the general step."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            appending, "write_run", lambda log, appends, first, options: first
        )
        yield


def live(directory, change):
    """Append, change the log, and append; return what is left on disk."""
    directory.mkdir()
    with load(directory, LARGE) as log:
        for _ in range(2):
            log.append_many([batch(), batch(2)])
        CHANGES[change](log)
        for _ in range(2):
            log.append_many([batch(), batch(2)])
        assert log.append(batch()).last_offset == log.log_end_offset - 1
    return files_of(directory)


@pytest.mark.parametrize("change", CHANGES)
def test_one_write_leaves_the_files_of_the_general_step(tmp_path, change):
    together = live(tmp_path / "a", change)
    with general_step_alone():
        assert live(tmp_path / "b", change) == together


@pytest.mark.parametrize("codec", CODECS)
def test_batches_of_one_call_are_one_write(tmp_path, codec, monkeypatch):
    with load(tmp_path, LARGE) as log:
        log.append(batch())
        monkeypatch.setattr(appending, "_try_append", None)
        outcomes = log.append_many([batch(3, codec=codec), batch(2, codec=codec)])
        assert [outcome.source_codec for outcome in outcomes] == [codec, codec]
        assert offsets_in(log) == list(range(6))


def test_an_interrupted_call_closes_the_log_and_writes_nothing(tmp_path, monkeypatch):
    with load(tmp_path, LARGE) as log:
        log.append(batch())
        batches = [batch(2), batch(3, codec="lz4")]

        def interrupted(*_args, **_options):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(validation, "decompress", interrupted)
            with pytest.raises(KeyboardInterrupt):
                log.append_many(batches)
        with pytest.raises(LogClosedError, match="interrupted: KeyboardInterrupt"):
            log.append_many(batches)
    with load(tmp_path, LARGE, clean=False) as log:
        assert log.log_end_offset == 1
        assert [outcome.first_offset for outcome in log.append_many(batches)] == [1, 3]
        assert offsets_in(log) == list(range(6))


def test_an_index_filled_by_a_failed_append_makes_the_next_append_roll(tmp_path):
    small_index = LARGE.with_changes(
        {"segment.index.bytes": 60, "index.interval.bytes": 0}
    )
    with load(tmp_path, small_index) as log:
        batches = [
            batch(timestamp=NOW + at, base_offset=at, leader_epoch=0)
            for at in range(14)
        ]
        for stored in batches[:3]:
            log.append_as_follower(stored)
        with pytest.raises(IndexFullError, match="full with"):
            log.append_as_follower(b"".join(batches[3:]))  # they are in the file
        log.append_as_follower(batches[3])
        assert len(list(log.path.glob("*.log"))) == 2


def with_gap(data, last_offset_delta=4):
    """Return a batch of one record whose header has a greater last offset."""
    return patched(data, {"last_offset_delta": last_offset_delta})


EITHER_WAY = pytest.mark.parametrize("step", [nullcontext, general_step_alone])


@EITHER_WAY
def test_a_gap_in_a_leaders_batch_moves_the_start_of_its_epoch_back(tmp_path, step):
    with step(), load(tmp_path, LARGE) as log:
        log.append_many([batch(4), batch()], leader_epoch=0)
        log.append(batch(), leader_epoch=1)
        assert log.leader_epochs == [(0, 0), (1, 5)]
        # The record has offset 6, so the base offset of its batch is 2.
        log.append(with_gap(batch()), leader_epoch=1, origin="replication")
        assert log.leader_epochs == [(0, 0), (1, 2)]


@EITHER_WAY
def test_a_gap_in_a_followers_batch_moves_the_start_of_its_epoch_back(tmp_path, step):
    with step(), load(tmp_path, LARGE) as log:
        log.append_as_follower(batch(leader_epoch=0))
        log.append_as_follower(batch(base_offset=7, leader_epoch=1), leader_epoch=1)
        assert log.leader_epochs == [(0, 0), (1, 7)]
        later = batch(base_offset=8, leader_epoch=1)
        earlier = with_gap(batch(base_offset=5, leader_epoch=1))
        log.append_as_follower(later + earlier, leader_epoch=1)
        assert log.leader_epochs == [(0, 0), (1, 5)]


def test_a_run_ends_where_a_segment_does(tmp_path):
    with load(tmp_path, SMALL) as log:
        log.append_many([batch() for _ in range(30)])
        assert all(segment.size <= 1000 for segment in log.growing_segments)
        assert offsets_in(log) == list(range(30))


@pytest.mark.parametrize("append", ["many", "one"])
def test_a_segment_is_filled_to_its_last_byte_and_no_further(tmp_path, append):
    one = batch()
    config = SMALL.with_changes({"internal.segment.bytes": 3 * len(one)})
    with load(tmp_path, config) as log:
        if append == "many":
            log.append_many([one] * 7)
        else:
            for _ in range(7):
                log.append(one)
        found = [(each.base_offset, each.size) for each in log.growing_segments]
        assert found == [(0, 3 * len(one)), (3, 3 * len(one)), (6, len(one))]


@pytest.mark.parametrize("step_ms", [0, 1])
def test_index_entries_continue_from_one_write_to_the_next(tmp_path, step_ms):
    def lived(directory):
        directory.mkdir()
        config = LARGE.with_changes({"index.interval.bytes": 0})
        with load(directory, config) as log:
            for number in range(6):
                log.append(batch(timestamp=NOW + step_ms * number))
            [segment] = log.growing_segments
            assert segment.time_index.entry_count == (5 if step_ms else 1)
        return files_of(directory)

    together = lived(tmp_path / "a")
    with general_step_alone():
        assert lived(tmp_path / "b") == together


OWNED = st.tuples(
    st.sampled_from([0, 0, 0, 0, 0, 0, -2, 1]),  # sequence increment
    st.integers(1, 3),
    st.sampled_from([0, 0, 0, 0, 0, 0, 0, 1]),  # epoch
    st.sampled_from([False] * 9 + [True]),  # in a transaction
    st.sampled_from([7, 7, 7, 8, -1]),
    st.sampled_from(["none", "none", "lz4"]),
)


def owned_batches(choices):
    """Encode batches of producers, most with consecutive sequences."""
    nexts = {7: 2**31 - 9, 8: 0}
    for shift, count, epoch, transactional, producer, codec in choices:
        if producer == -1:
            yield batch(count, codec=codec)
            continue
        sequence = (nexts[producer] + shift) % 2**31
        nexts[producer] = (sequence + count) % 2**31
        yield batch(
            count,
            codec=codec,
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=transactional,
        )


def outcomes_of(directory, calls, config):
    """Append the batches of each call; return outcomes, producer states and files."""
    found = []
    with load(directory, config) as log:
        for call in calls:
            for outcome in log.append_many(call):
                refused = isinstance(outcome, KafkaLogError)
                found.append((type(outcome), str(outcome)) if refused else outcome)
        known = repr(log.producers)
        log.roll()
    return found, known, files_of(directory)


@pytest.mark.parametrize("stamped", ["CreateTime", "LogAppendTime"])
@given(choices=st.lists(OWNED, min_size=2, max_size=14))
def test_batches_of_producers_end_as_by_the_general_step(
    tmp_path_factory, stamped, choices
):
    config = LARGE.with_changes({"message.timestamp.type": stamped})
    batches = list(owned_batches(choices))
    directories = [tmp_path_factory.mktemp(name) for name in "abc"]
    together = outcomes_of(directories[0], [batches], config)
    alone = [[stored] for stored in batches]
    assert together == outcomes_of(directories[1], alone, config)
    with general_step_alone():
        assert together == outcomes_of(directories[2], alone, config)


def of_producer(sequence, count=1, **fields):
    return batch(
        count, producer_id=7, producer_epoch=0, base_sequence=sequence, **fields
    )


def test_batches_that_continue_a_sequence_are_one_write(tmp_path, monkeypatch):
    with load(tmp_path, LARGE) as log:
        log.append(of_producer(0))
        log.append(batch())
        with monkeypatch.context() as patch:
            patch.setattr(appending, "_try_append", None)
            outcomes = log.append_many([of_producer(at) for at in range(1, 65)])
            assert outcomes[-1].first_offset == 65
        last = log.producers[7].batches
        assert [row.last_sequence for row in last] == [60, 61, 62, 63, 64]
        assert log.append(of_producer(64)).is_duplicate


@pytest.mark.parametrize(
    ("sequence", "fields"),
    [
        (1, {"is_transactional": True}),
        (2, {}),
        (0, {}),
        (1, {"producer_epoch": 1}),
        (0, {"producer_id": 8}),
        (1, {"leader_epoch": 3}),
    ],
)
def test_a_batch_that_does_not_continue_its_sequence_takes_the_general_step(
    tmp_path, monkeypatch, sequence, fields
):
    general = []
    step = appending._try_append
    monkeypatch.setattr(
        appending, "_try_append", lambda *of: general.append(of[2]) or step(*of)
    )
    with load(tmp_path, LARGE) as log:
        log.append(of_producer(0))
        general.clear()
        options = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence}
        log.append_many([batch(), batch(**options | fields), batch()])
    assert general == ([] if "leader_epoch" in fields else [1])


def test_a_producer_in_a_transaction_or_verified_takes_the_general_step(
    tmp_path, monkeypatch
):
    with load(tmp_path, LARGE) as log:
        log.append(of_producer(0))
        log.start_verification(7, 1, 0)
        monkeypatch.setattr(appending, "_try_append", lambda *_: "the general step")
        assert log.append_many([of_producer(1)]) == ["the general step"]


def test_a_duplicate_after_a_gap_is_found(tmp_path):
    with load(tmp_path, LARGE) as log:
        for offset, sequence in enumerate((5, 3)):
            one = of_producer(sequence, base_offset=offset, leader_epoch=0)
            log.append_as_follower(one)
        following, again = log.append_many([of_producer(4), of_producer(5)])
        assert (following.first_offset, again.first_offset) == (2, 0)
        assert again.is_duplicate


def test_a_batch_beyond_the_greatest_sequence_continues_with_0(tmp_path):
    with load(tmp_path, LARGE) as log:
        sequences = [(2**31 - 2, 1), (2**31 - 1, 2), (1, 1)]
        log.append_many([of_producer(*producer) for producer in sequences])
        last = [stored.last_sequence for stored in log.producers[7].batches]
        assert last == [2**31 - 2, 0, 1]
