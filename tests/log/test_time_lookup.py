"""Lookups by time, limited by the isolation level."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import kafkalog
from kafkalog import LogConfig, OffsetNotAvailableError, _speedups
from kafkalog.errors import CorruptRecordError
from kafkalog.formats.layout import MAX_BATCH_BYTES
from kafkalog.log.time_lookup import TimestampOffset
from tests import reference
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


def damage(log, position, data):
    """Overwrite bytes of the log's only segment, as a failing disk does."""
    (path,) = log.path.glob("*.log")
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def found_record_by_record(data, timestamp):
    """Find a record of one batch as Kafka does; "corrupt" if one before it is."""
    entry = reference.batch(data[:57] + bytes(4))
    entry["count"] = int.from_bytes(data[57:61], "big", signed=True)
    try:
        for record in reference.batch_records(entry, data[61:]):
            if record["timestamp"] >= timestamp and record["offset"] >= 0:
                return record["timestamp"], record["offset"], 0
    except ValueError:
        return "corrupt"
    return None


@pytest.fixture(scope="module")
def short_log(tmp_path_factory):
    with load(tmp_path_factory.mktemp("short")) as log:
        log.append(batch(6, timestamp=NOW, size=3))
        yield log


@given(
    position=st.integers(57, 61 + 6 * 15 - 1),
    byte=st.integers(0, 127),
    timestamp=st.integers(NOW, NOW + 5),
)
@example(position=57, byte=127, timestamp=NOW + 5)  # the count of records
@example(position=60, byte=5, timestamp=NOW + 4)
@example(position=61 + 3 * 15, byte=0, timestamp=NOW + 2)
def test_a_lookup_in_a_damaged_batch_finds_the_records_before_the_damage(
    short_log, position, byte, timestamp
):
    (path,) = short_log.path.glob("*.log")
    valid = path.read_bytes()
    assert len(valid) == 61 + 6 * 15
    damage(short_log, position, bytes([byte]))
    try:
        found = short_log.find_offset(timestamp)
    except CorruptRecordError:
        found = "corrupt"
    expected = found_record_by_record(path.read_bytes(), timestamp)
    damage(short_log, 0, valid)
    assert found == expected


@pytest.fixture
def decoded_records(monkeypatch):
    """A list of the numbers of records that each call of a kernel has decoded."""
    counts = []

    def counted(kernel, records):
        def call(*arguments):
            result = kernel(*arguments)
            counts.append(result[records])
            assert sum(counts) <= 10 * LONG, "the time is not linear"
            return result

        return call

    for name, records in (("decode_records", 3), ("skip_records", 2)):
        kernel = getattr(_speedups, name)
        monkeypatch.setattr(_speedups, name, counted(kernel, records))
    return counts


LONG = 100_000


def test_a_lookup_in_a_long_damaged_batch_decodes_each_record_a_few_times(
    tmp_path, decoded_records
):
    with load(tmp_path, LogConfig(max_message_bytes=4 << 20)) as log:
        log.append(batch(LONG, size=3))
        (path,) = log.path.glob("*.log")
        data = path.read_bytes()
        key = b"key-%d" % (LONG - 10)
        damage(log, data.index(key) - 1, b"\x7f")  # the length of the key
        decoded_records.clear()
        assert log.find_offset(NOW + LONG - 11) == (NOW + LONG - 11, LONG - 11, 0)
        with pytest.raises(CorruptRecordError) as caught:
            log.find_offset(NOW + LONG - 10)
        assert caught.value.kafka_name == "InvalidRecordException"
        assert caught.value.path == path
        assert LONG - 10 <= sum(decoded_records) <= 10 * LONG
