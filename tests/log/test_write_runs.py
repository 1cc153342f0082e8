"""Runs of plain appends: what they know of a log, and when they learn it anew."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import IndexFullError, KafkaLogError, LogClosedError, LogConfig
from kafkalog.log import append_runs
from tests.log.writing import NOW, SMALL, batch, files_of, load, offsets_in

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
LARGE = LogConfig(internal_segment_bytes=1 << 20, segment_index_bytes=2400)


# What another may do to a log between two appends.
CHANGES = {
    "roll": lambda log: log.roll(),
    "cut": lambda log: log.truncate_to(log.log_end_offset - 1),
    "start anew": lambda log: log.truncate_fully(log.log_end_offset + 7),
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


def by_run(log):
    log.append_many([batch(), batch(2)])


def one_by_one(log):
    """Append as views, which go the long way."""
    for one in (batch(), batch(2)):
        log.append(memoryview(one))


def live(directory, append, change):
    """Append, change the log, and append; what is left on disk."""
    directory.mkdir()
    with load(directory, LARGE) as log:
        append(log)
        append(log)
        CHANGES[change](log)
        append(log)
        append(log)
        assert log.append(batch()).last_offset == log.log_end_offset - 1
    return files_of(directory)


@pytest.mark.parametrize("change", CHANGES)
def test_a_run_goes_on_as_the_long_way_does_whatever_comes_between(tmp_path, change):
    assert live(tmp_path / "a", by_run, change) == live(
        tmp_path / "b", one_by_one, change
    )


@pytest.mark.parametrize("codec", CODECS)
def test_packed_batches_go_the_plain_way(tmp_path, codec, monkeypatch):
    with load(tmp_path, LARGE) as log:
        log.append(batch())
        taken = []
        lead = append_runs.RunWriter.lead
        monkeypatch.setattr(
            append_runs.RunWriter,
            "lead",
            lambda *args: taken.append(lead(*args)) or taken[-1],
        )
        outcomes = log.append_many([batch(3, codec=codec), batch(2, codec=codec)])
        assert [one.source_codec for one in outcomes] == [codec, codec]
        assert len(taken[0]) == 2
        assert offsets_in(log) == list(range(6))


def test_a_call_that_is_broken_off_closes_the_log_and_leaves_it_as_it_was(
    tmp_path, monkeypatch
):
    with load(tmp_path, LARGE) as log:
        log.append(batch())
        pieces = [batch(2), batch(3, codec="lz4")]

        def interrupted(*_args, **_options):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(append_runs, "decompress", interrupted)
            with pytest.raises(KeyboardInterrupt):
                log.append_many(pieces)
        with pytest.raises(LogClosedError, match="cut off: KeyboardInterrupt"):
            log.append_many(pieces)
    with load(tmp_path, LARGE, clean=False) as log:
        assert log.log_end_offset == 1
        assert [one.first_offset for one in log.append_many(pieces)] == [1, 3]
        assert offsets_in(log) == list(range(6))


def test_what_an_index_was_too_full_for_is_known_to_the_next_append(tmp_path):
    cramped = LARGE.with_changes({"segment.index.bytes": 60, "index.interval.bytes": 0})
    with load(tmp_path, cramped) as log:
        batches = [
            batch(timestamp=NOW + at, base_offset=at, leader_epoch=0)
            for at in range(14)
        ]
        for one in batches[:3]:
            log.append_as_follower(one)
        with pytest.raises(IndexFullError, match="full with"):
            log.append_as_follower(b"".join(batches[3:]))  # and they are in the file
        log.append_as_follower(batches[3])
        assert len(list(log.path.glob("*.log"))) == 2


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
def test_a_run_goes_on_behind_the_last_entry_as_the_long_way_does(tmp_path, step_ms):
    def lived(directory, as_given):
        directory.mkdir()
        config = LARGE.with_changes({"index.interval.bytes": 0})
        with load(directory, config) as log:
            for number in range(6):
                log.append(as_given(batch(timestamp=NOW + step_ms * number)))
                log.flush()  # after which a run begins anew
            [segment] = log.growing_segments
            assert segment.time_index.entry_count == (5 if step_ms else 1)
        return files_of(directory)

    assert lived(tmp_path / "a", bytes) == lived(tmp_path / "b", memoryview)


OWNED = st.tuples(
    st.sampled_from([0, 0, 0, 0, 0, 0, -2, 1]),  # off the sequence
    st.integers(1, 3),
    st.sampled_from([0, 0, 0, 0, 0, 0, 0, 1]),  # epoch
    st.sampled_from([False] * 9 + [True]),  # in a transaction
    st.sampled_from([7, 7, 7, 8, -1]),
    st.sampled_from(["none", "none", "lz4"]),
)


def owned_batches(choices):
    """Encode batches of producers, most of which follow one another."""
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


def outcomes_of(directory, pieces, config):
    """Append each; what became of it, and what is known of producers then."""
    told = []
    with load(directory, config) as log:
        for piece in pieces:
            try:
                told.append(log.append(piece))
            except KafkaLogError as error:
                told.append((type(error), str(error)))
            told.append(repr(log.producers))
        log.roll()
    return told, files_of(directory)


@pytest.mark.parametrize("stamped", ["CreateTime", "LogAppendTime"])
@given(choices=st.lists(OWNED, min_size=2, max_size=14))
def test_a_producers_batches_are_taken_as_by_the_long_way(
    tmp_path_factory, stamped, choices
):
    config = LARGE.with_changes({"message.timestamp.type": stamped})
    pieces = list(owned_batches(choices))
    directories = [tmp_path_factory.mktemp(name) for name in "ab"]
    short = outcomes_of(directories[0], pieces, config)
    assert short == outcomes_of(directories[1], map(memoryview, pieces), config)


def test_a_producers_next_batch_goes_the_plain_way(tmp_path, monkeypatch):
    with load(tmp_path, LARGE) as log:
        first, then = (
            batch(producer_id=7, producer_epoch=0, base_sequence=at) for at in (0, 1)
        )
        log.append(first)
        log.append(batch())
        monkeypatch.setattr(append_runs.RunWriter, "write", None)
        assert log.append(then).first_offset == 2
        monkeypatch.undo()
        assert log.append(then).is_duplicate
        assert log.append(then).first_offset == 2
