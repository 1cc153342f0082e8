"""Lookups by time, limited by the isolation level."""

import pytest

import kafkalog
from kafkalog import OffsetNotAvailableError
from kafkalog.formats.layout import MAX_BATCH_BYTES
from kafkalog.log.time_lookup import TimestampOffset
from tests.log.writing import NOW, batch, load

LATEST, EARLIEST, GREATEST, EARLIEST_LOCAL, LATEST_TIERED, PENDING = range(-1, -7, -1)
ISOLATIONS = ["log_end", "high_watermark", "read_uncommitted", "read_committed"]
NONE_TIERED = TimestampOffset(-1, -1, -1)


def half_seen(directory):
    """Load a log that ends at 8, with high watermark 6 and last stable offset 4."""
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


def found_offsets(log, timestamp):
    """Return the offset found for each isolation, None if it is unknown."""
    found = [
        log.find_offset(timestamp, isolation=isolation) for isolation in ISOLATIONS
    ]
    return [None if entry is None else entry.offset for entry in found]


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
def test_a_lookup_finds_only_records_below_the_limit_of_its_isolation(
    log, timestamp, offsets
):
    assert found_offsets(log, timestamp) == offsets
    assert log.find_offset(timestamp) == log.find_offset(timestamp, isolation="log_end")


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_log_start_and_end_have_no_timestamp_and_the_known_epoch(log, isolation):
    for place in (LATEST, EARLIEST, EARLIEST_LOCAL):
        found = log.find_offset(place, isolation=isolation)
        assert (found.timestamp, found.leader_epoch) == (-1, 0)
    for place in (LATEST_TIERED, PENDING):
        assert log.find_offset(place, isolation=isolation) == NONE_TIERED


def test_the_record_with_the_greatest_timestamp_is_found_once_it_is_visible(log):
    log.update_high_watermark(7)
    assert found_offsets(log, GREATEST) == [7, None, None, None]
    log.update_high_watermark(8)
    assert found_offsets(log, GREATEST) == [7, 7, 7, None]
    assert log.find_offset(GREATEST, isolation="high_watermark") == (NOW + 301, 7, 0)


def test_the_log_start_is_returned_even_if_nothing_is_visible(log):
    log.delete_records(6)
    assert (
        found_offsets(log, EARLIEST)
        == found_offsets(log, EARLIEST_LOCAL)
        == [6, 6, 6, 6]
    )
    assert found_offsets(log, LATEST) == [8, 6, 6, 6]
    assert found_offsets(log, NOW) == [6, None, None, None]


@pytest.mark.parametrize("isolation", ISOLATIONS[1:])
@pytest.mark.parametrize("timestamp", [LATEST, GREATEST, NOW + 300, NOW + 10**6])
def test_after_an_election_no_end_offset_below_the_epoch_start_is_returned(
    log, timestamp, isolation
):
    log.assign_epoch(3)
    with pytest.raises(
        OffsetNotAvailableError, match=r"mark 6, expected at least 8, .* epoch 3"
    ):
        log.find_offset(timestamp, isolation=isolation)
    log.update_high_watermark(8)
    assert found_offsets(log, LATEST) == [8, 8, 8, 4]
    assert found_offsets(log, NOW + 10**6) == [None] * 4


def test_after_an_election_other_lookups_succeed(log):
    log.assign_epoch(3)
    assert found_offsets(log, EARLIEST) == found_offsets(log, EARLIEST_LOCAL) == [0] * 4
    assert found_offsets(log, LATEST_TIERED) == found_offsets(log, PENDING) == [-1] * 4
    assert found_offsets(log, NOW + 100) == [2] * 4
    assert log.find_offset(LATEST) == (-1, 8, 3)
    assert log.find_offset(GREATEST).offset == 7
    assert log.find_offset(NOW + 10**6) is None


def test_a_lookup_does_not_move_the_high_watermark(log):
    log.update_high_watermark(5)
    assert found_offsets(log, LATEST) == [8, 5, 5, 4]
    assert log.high_watermark == 5


@pytest.mark.parametrize("timestamp", [LATEST, EARLIEST, NOW])
def test_an_unknown_isolation_is_rejected(log, timestamp):
    with pytest.raises(ValueError, match="isolation 'dirty', expected one of"):
        log.find_offset(timestamp, isolation="dirty")


def test_without_an_epoch_of_the_log_start_none_is_returned(tmp_path):
    with load(tmp_path) as log:
        log.append_as_follower(batch(2, magic=1))
        log.append(batch(2), leader_epoch=4)
        assert log.find_offset(EARLIEST) == (-1, 0, None)
        assert log.find_offset(LATEST) == (-1, 4, 4)
        log.update_high_watermark(4)
        log.delete_records(2)
        assert log.find_offset(EARLIEST) == (-1, 2, 4)


def test_a_log_of_messages_without_timestamps_has_no_greatest_timestamp(tmp_path):
    with load(tmp_path) as log:
        old = {"magic": 0, "timestamp_type": -1, "timestamp": -1}
        log.append_as_follower(batch(**old))
        assert log.find_offset(GREATEST) is None


def test_a_timestamp_is_found_in_a_batch_larger_than_scans_read(tmp_path):
    config = kafkalog.LogConfig(max_message_bytes=MAX_BATCH_BYTES + 1000)
    with kafkalog.open(tmp_path / "t-0", "a", config) as log:
        result = log.append(batch(1, size=MAX_BATCH_BYTES))
        for timestamp in (0, -3):
            found = log.find_offset(timestamp)
            assert found == (result.max_timestamp, result.first_offset, 0)
