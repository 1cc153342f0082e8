"""Truncation, rolling and reads at the first offset and at the log end."""

import pytest

from kafkalog import BrokerConfig, IndexFullError, LogConfig, RecordBatchBuilder
from kafkalog.formats.control_keys import ControlRecordType
from kafkalog.messages.control_records import end_transaction_marker
from tests.log.writing import NOW, batch, load, offsets_in

PAYER = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}


def append_aborted(log):
    """Append a transaction of two records, and the marker that aborts it."""
    marker = RecordBatchBuilder(**PAYER, is_control=True)
    marker.append(*end_transaction_marker(ControlRecordType.ABORT, 0), timestamp=NOW)
    log.append(batch(2, **PAYER, base_sequence=0))
    log.append(marker.build(), origin="coordinator", transaction_version=0)


def names_in(directory):
    return sorted(path.name for path in (directory / "t-0").iterdir())


def test_a_log_truncated_to_its_first_offset_keeps_its_segment(tmp_path):
    with load(tmp_path) as log:
        log.append(batch(3))
        before = names_in(tmp_path)
        assert log.truncate_to(0)
        assert [
            (segment.base_offset, segment.size) for segment in log.growing_segments
        ] == [(0, 0)]
        assert names_in(tmp_path) == before
        assert log.append(batch(2)).first_offset == 0
        assert offsets_in(log) == [0, 1]


def test_a_log_may_continue_at_offset_0(tmp_path):
    with load(tmp_path) as log:
        log.append(batch(3))
        log.truncate_fully(0)
        assert log.log_end_offset == log.high_watermark == 0
        assert log.append(batch(2)).first_offset == 0


def test_a_high_watermark_at_the_log_end_moves_to_the_new_segment_with_a_roll(tmp_path):
    with load(tmp_path) as log:
        log.append(batch(3))
        assert log.update_high_watermark(3) == 3
        log.roll()
        assert not log.increment_high_watermark(3)
        place = log.read(3, isolation="high_watermark").place
        assert (place.segment_base, place.position) == (3, 0)


def test_a_read_at_its_limit_lists_no_aborted_transaction(tmp_path):
    trusting = BrokerConfig(transaction_partition_verification_enable=False)
    with load(tmp_path, broker=trusting) as log:
        append_aborted(log)
        assert log.last_stable_offset == 0
        found = log.read(0, isolation="read_committed")
        assert (found.data, found.lists_aborted, found.aborted) == (b"", True, ())
        log.update_high_watermark(3)
        assert log.read(0, isolation="read_committed").aborted == ((7, 0),)


def test_below_the_first_segment_there_are_no_aborted_transactions(tmp_path):
    trusting = BrokerConfig(transaction_partition_verification_enable=False)
    with load(tmp_path, broker=trusting) as log:
        log.truncate_fully(5)
        append_aborted(log)
        assert log.find_aborted(0, 8) == []
        assert [aborted.first_offset for aborted in log.find_aborted(5, 8)] == [5]


@pytest.mark.parametrize("stop", ["abandon", "close"])
@pytest.mark.parametrize("rolled", [True, False])
def test_a_log_whose_index_was_full_is_opened_after_a_crash(tmp_path, stop, rolled):
    """Recovery needs one more entry for each time that the log was opened."""
    config = LogConfig(segment_index_bytes=120, index_interval_bytes=0)
    at, opened = 0, load(tmp_path, config)
    for count in (8, 1, 1, 6 if rolled else 0):
        for _ in range(count):
            opened.append(batch(timestamp=NOW + at))
            at += 1
        opened.flush()
        getattr(opened, stop)()
        opened = load(tmp_path, config, clean=stop == "close")
    opened.abandon()
    with load(tmp_path, config, clean=False) as log:
        assert offsets_in(log) == list(range(at))
        assert len(log.growing_segments) == 1 + rolled
        for segment in log.growing_segments:
            times = segment.time_index
            assert times.entry_count <= 120 // times.ENTRY_BYTES
        assert log.growing_segments[0].greatest_timestamp[1] > 8
        assert log.append(batch()).first_offset == at


@pytest.mark.parametrize("stop", ["abandon", "close"])
def test_an_index_with_more_entries_than_its_limit_is_full(tmp_path, stop):
    config = LogConfig(segment_index_bytes=240, index_interval_bytes=0)
    log = load(tmp_path, config)
    for at in range(9):
        log.append(batch(timestamp=NOW + at))
    getattr(log, stop)()
    smaller = config.with_changes({"segment.index.bytes": 48})
    with pytest.raises(IndexFullError, match=r"full with|expected at most") as caught:
        load(tmp_path, smaller, clean=stop == "close")
    assert caught.value.kafka_name == "IllegalArgumentException"
    with load(tmp_path, config, clean=False) as log:
        assert offsets_in(log) == list(range(9))


def test_an_index_without_a_slot_is_full(tmp_path):
    config = LogConfig(segment_index_bytes=4)
    with pytest.raises(IndexFullError, match="index of 4 bytes, expected at least 8"):
        load(tmp_path, config)
