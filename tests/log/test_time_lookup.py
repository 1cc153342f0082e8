"""Offsets by time: what a reader is told who sees as far as an isolation lets."""

import pytest

from kafkalog import OffsetNotAvailableError
from kafkalog.log.time_lookup import TimestampOffset
from tests.log.writing import NOW, batch, load

LATEST, EARLIEST, GREATEST, EARLIEST_LOCAL, LATEST_TIERED, PENDING = range(-1, -7, -1)
ISOLATIONS = ["log_end", "high_watermark", "read_uncommitted", "read_committed"]
NONE_TIERED = TimestampOffset(-1, -1, -1)


def half_seen(directory):
    """Load a log that ends at 8, replicated up to 6, and undecided from 4 on."""
    log = load(directory)
    log.append(batch(2, timestamp=NOW))
    log.append(batch(2, timestamp=NOW + 100))
    owner = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    undecided = batch(2, timestamp=NOW + 200, is_transactional=True, **owner)
    log.append(undecided, guard=log.start_verification(7, 0, 0))
    log.append(batch(2, timestamp=NOW + 300))
    log.update_high_watermark(6)
    return log


@pytest.fixture
def log(tmp_path):
    with half_seen(tmp_path) as log:
        yield log


def told(log, timestamp):
    """Offsets told for each isolation, None where it is unknown."""
    found = [log.find_offset(timestamp, isolation=one) for one in ISOLATIONS]
    return [None if one is None else one.offset for one in found]


@pytest.mark.parametrize(
    ("timestamp", "offsets"),
    [
        (LATEST, [8, 6, 6, 4]),
        (EARLIEST, [0, 0, 0, 0]),
        (EARLIEST_LOCAL, [0, 0, 0, 0]),
        (GREATEST, [7, None, None, None]),
        (LATEST_TIERED, [-1, -1, -1, -1]),
        (PENDING, [-1, -1, -1, -1]),
        (NOW + 100, [2, 2, 2, 2]),
        (NOW + 200, [4, 4, 4, None]),
        (NOW + 201, [5, 5, 5, None]),
        (NOW + 300, [6, None, None, None]),
        (NOW + 302, [None, None, None, None]),
    ],
)
def test_a_reader_is_told_what_lies_before_the_end_it_sees(log, timestamp, offsets):
    assert told(log, timestamp) == offsets
    assert log.find_offset(timestamp) == log.find_offset(timestamp, isolation="log_end")


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_places_have_no_time_and_what_epoch_is_known(log, isolation):
    for place in (LATEST, EARLIEST, EARLIEST_LOCAL):
        found = log.find_offset(place, isolation=isolation)
        assert (found.timestamp, found.leader_epoch) == (-1, 0)
    for place in (LATEST_TIERED, PENDING):
        assert log.find_offset(place, isolation=isolation) == NONE_TIERED


def test_the_record_of_the_greatest_time_is_told_once_it_is_seen(log):
    log.update_high_watermark(7)
    assert told(log, GREATEST) == [7, None, None, None]
    log.update_high_watermark(8)
    assert told(log, GREATEST) == [7, 7, 7, None]
    assert log.find_offset(GREATEST, isolation="high_watermark") == (NOW + 301, 7, 0)


def test_the_start_is_told_even_if_none_of_it_is_seen(log):
    log.delete_records(6)
    assert told(log, EARLIEST) == told(log, EARLIEST_LOCAL) == [6, 6, 6, 6]
    assert told(log, LATEST) == [8, 6, 6, 6]
    assert told(log, NOW) == [6, None, None, None]


@pytest.mark.parametrize("isolation", ISOLATIONS[1:])
@pytest.mark.parametrize("timestamp", [LATEST, GREATEST, NOW + 300, NOW + 10**6])
def test_after_an_election_an_end_is_not_told_that_may_have_been_passed(
    log, timestamp, isolation
):
    log.assign_epoch(3)
    with pytest.raises(OffsetNotAvailableError, match=r"mark 6, expected at least 8, .* epoch 3"):
        log.find_offset(timestamp, isolation=isolation)
    log.update_high_watermark(8)
    assert told(log, LATEST) == [8, 8, 8, 4]
    assert told(log, NOW + 10**6) == [None] * 4


def test_after_an_election_all_else_is_told(log):
    log.assign_epoch(3)
    assert told(log, EARLIEST) == told(log, EARLIEST_LOCAL) == [0] * 4
    assert told(log, LATEST_TIERED) == told(log, PENDING) == [-1] * 4
    assert told(log, NOW + 100) == [2] * 4
    assert log.find_offset(LATEST) == (-1, 8, 3)
    assert log.find_offset(GREATEST).offset == 7
    assert log.find_offset(NOW + 10**6) is None


def test_to_ask_does_not_move_the_high_watermark(log):
    log.update_high_watermark(5)
    assert told(log, LATEST) == [8, 5, 5, 4]
    assert log.high_watermark == 5


@pytest.mark.parametrize("timestamp", [LATEST, EARLIEST, NOW])
def test_an_isolation_that_there_is_none_of_is_refused(log, timestamp):
    with pytest.raises(ValueError, match="isolation 'dirty', expected one of"):
        log.find_offset(timestamp, isolation="dirty")


def test_where_no_epoch_is_known_of_the_start_none_is_told(tmp_path):
    with load(tmp_path) as log:
        log.append_as_follower(batch(2, magic=1))
        log.append(batch(2), leader_epoch=4)
        assert log.find_offset(EARLIEST) == (-1, 0, None)
        assert log.find_offset(LATEST) == (-1, 4, 4)
        log.update_high_watermark(4)
        log.delete_records(2)
        assert log.find_offset(EARLIEST) == (-1, 2, 4)


def test_of_messages_without_timestamps_none_has_the_greatest(tmp_path):
    with load(tmp_path) as log:
        old = {"magic": 0, "timestamp_type": -1, "timestamp": -1}
        log.append_as_follower(batch(**old))
        assert log.find_offset(GREATEST) is None
