"""The calls of a writable log, and their results."""

import threading

import crc32c
import numpy as np
import pytest

import kafkalog
from kafkalog import (
    CorruptRecordError,
    InvalidRecordError,
    LogArgumentError,
    LogClosedError,
    LogRollError,
    OffsetOutOfRangeError,
    RecordBatchTooLargeError,
    UnexpectedAppendOffsetError,
)
from kafkalog.config import BrokerConfig, LogConfig
from kafkalog.encoding.batch_builder import RecordBatchBuilder
from kafkalog.formats.control_keys import ControlRecordType
from kafkalog.log.appending import AppendResult
from kafkalog.messages.control_records import end_transaction_marker
from kafkalog.testing import FailingDisk, ManualClock, ManualScheduler, TracingDisk
from tests.log.writing import NOW, SMALL, batch, files_of, load, offsets_in


def spoiled(data):
    return data[:-1] + bytes([data[-1] ^ 1])


def test_appends_in_one_call_are_validated_one_by_one(tmp_path):
    with load(tmp_path) as log:
        outcomes = log.append_many([batch(2), spoiled(batch()), batch(9, size=200), b"",
                                    batch(3)])  # fmt: skip
        assert [type(outcome) for outcome in outcomes] == [
            *(AppendResult, CorruptRecordError, RecordBatchTooLargeError),
            *(AppendResult, AppendResult),
        ]
        assert (outcomes[0].first_offset, outcomes[0].last_offset) == (0, 1)
        assert outcomes[3].valid_bytes == 0
        assert (outcomes[4].first_offset, outcomes[4].last_offset) == (2, 4)
        assert offsets_in(log) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("producer", [{}, {"producer_id": 7, "producer_epoch": 0}])
def test_many_appends_leave_the_same_files_as_single_ones(tmp_path, producer):
    batches, sequence = [], 0
    for number in range(60):
        count = 1 + number % 4
        more = producer and producer | {"base_sequence": sequence}
        sequence += count
        batches.append(batch(count, timestamp=NOW + 7 * number, **more))
    one, many = tmp_path / "one", tmp_path / "many"
    one.mkdir()
    many.mkdir()
    with load(one) as log:
        results = [log.append(data) for data in batches]
        producers = dict(log.producers)
    with load(many) as log:
        assert log.append_many(batches) == results
        assert dict(log.producers) == producers
        assert len(log.growing_segments) > 5
    assert files_of(one) == files_of(many)


def test_a_follower_keeps_the_leaders_offsets_and_rejects_those_below_the_log_end(
    tmp_path,
):
    with load(tmp_path) as log:
        placed = batch(2, base_offset=10, leader_epoch=3)
        assert log.append_as_follower(placed, leader_epoch=3).first_offset == 10
        with pytest.raises(UnexpectedAppendOffsetError, match="expected at least 12"):
            log.append_as_follower(placed, leader_epoch=3)
        assert log.log_end_offset == 12
        assert [tuple(entry) for entry in log.leader_epochs] == [(3, 10)]
        assert log.end_offset_for_epoch(3) == (3, 12)


def test_a_duplicate_returns_its_offsets_and_is_not_written(tmp_path):
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    with load(tmp_path) as log:
        first = log.append(batch(3, **producer))
        log.append(batch(1))
        again = log.append(batch(3, **producer))
        assert not first.is_duplicate
        assert again.is_duplicate
        assert (again.first_offset, again.last_offset) == (0, 2)
        assert log.log_end_offset == 4


def test_reads_end_at_the_limit_of_their_isolation(tmp_path):
    with load(tmp_path) as log:
        for _ in range(4):
            log.append(batch(2))
        log.update_high_watermark(4)
        assert log.read(4).next_offset == 8
        assert log.read(2, isolation="high_watermark").next_offset == 4
        assert log.read(2, isolation="read_committed").next_offset == 4
        assert log.read(4, isolation="read_uncommitted").data == b""
        with pytest.raises(ValueError, match="expected one of log_end"):
            log.read(0, isolation="dirty")
        for offset in (-1, 9):
            with pytest.raises(OffsetOutOfRangeError):
                log.read(offset)


def test_a_read_moves_a_high_watermark_inside_a_batch_to_its_base_offset(
    tmp_path,
):
    with load(tmp_path) as log:
        log.append(batch(5))
        log.append(batch(5))
        assert log.update_high_watermark(7) == 7
        log.read(0, isolation="high_watermark")
        assert log.high_watermark == 5


def test_offsets_are_found_for_times_and_special_timestamps(tmp_path):
    with load(tmp_path) as log:
        for number in range(8):
            log.append(batch(2, timestamp=NOW + 100 * number))
        times = [[NOW, NOW + 101], [NOW + 650, NOW + 10**6]]
        assert log.offsets_for_times(times).tolist() == [[0, 3], [14, -1]]
        times = np.array([NOW + 300], "datetime64[ms]")
        assert log.offsets_for_times(times).tolist() == [6]
        assert log.find_offset(-1).offset == 16
        assert log.find_offset(-2).offset == 0
        assert log.find_offset(-3)[:2] == (NOW + 701, 15)
        with pytest.raises(TypeError, match="ms since 1970"):
            log.offsets_for_times([1.5])


def test_records_are_deleted_up_to_the_high_watermark_and_no_further(tmp_path):
    with load(tmp_path) as log:
        for _ in range(12):
            log.append(batch(5))
        log.update_high_watermark(30)
        with pytest.raises(
            OffsetOutOfRangeError, match="expected at most 30, the high watermark"
        ):
            log.delete_records(31)
        assert log.delete_records(20)
        assert not log.delete_records(20)
        assert log.log_start_offset == log.find_offset(-2).offset == 20
        assert log.delete_old_segments() > 0
        assert offsets_in(log, 20) == list(range(20, 60))


def test_deleted_segments_are_marked_at_once_and_removed_after_a_delay(tmp_path):
    clock = ManualClock(NOW)
    scheduler = ManualScheduler(clock)
    config = SMALL.with_changes({"retention.ms": 1000, "file.delete.delay.ms": 50})
    with load(tmp_path, config, clock=clock, scheduler=scheduler) as log:
        for _ in range(12):
            log.append(batch(5))
        log.update_high_watermark(60)
        clock.time_ms += 10**6
        assert log.delete_old_segments() == 6
        assert log.log_start_offset == log.log_end_offset == 60
        marked = list((tmp_path / "t-0").glob("*.log.deleted"))
        assert len(marked) == 6
        clock.time_ms += 50
        scheduler.run_due()
        assert not list((tmp_path / "t-0").glob("*.deleted"))


def test_a_truncated_log_continues_at_the_offset_of_the_truncation(tmp_path):
    with load(tmp_path) as log:
        for _ in range(12):
            log.append(batch(5))
        assert log.truncate_to(33)
        assert not log.truncate_to(33)
        assert log.log_end_offset == 33
        assert offsets_in(log) == list(range(30))
        assert log.append(batch(2)).first_offset == 33
        log.truncate_fully(100)
        assert (log.log_start_offset, log.log_end_offset) == (100, 100)
        assert log.append(batch(2)).first_offset == 100
        with pytest.raises(LogArgumentError):
            log.truncate_to(-1)


def test_no_segment_begins_at_or_below_an_existing_base_offset(tmp_path):
    with load(tmp_path) as log:
        log.append(batch())
        assert log.roll() == 1
        log.append(batch())
        assert log.roll(50) == 50
        with pytest.raises(LogRollError, match="expected it above 50"):
            log.roll()


def test_new_settings_apply_from_the_next_append_on(tmp_path):
    with load(tmp_path, LogConfig()) as log:
        log.append(batch())
        log.update_config(SMALL)
        for _ in range(5):
            log.append(batch(5))
        assert len(log.growing_segments) > 1
        log.update_config(LogConfig(compression_type="gzip"))
        log.append(batch(5))
        [*_, last] = log.read(log.log_end_offset - 1).batches()
        assert last.codec == "gzip"


def test_flush_messages_forces_the_log_after_that_many_records(tmp_path):
    disk = TracingDisk()
    config = LogConfig(flush_messages=4)
    with load(tmp_path, config, disk=disk) as log:
        assert all(log.append_many([batch(2) for _ in range(3)]))
        assert log.recovery_point == 4
        log.append(batch(2))
        assert log.recovery_point == 8
    assert disk.calls_of("sync")


def test_the_report_of_a_crashed_log_states_the_truncation_and_its_reason(tmp_path):
    log = load(tmp_path)
    for _ in range(12):
        log.append(batch(5))
    bases = [segment.base_offset for segment in log.growing_segments]
    log.abandon()
    damaged = tmp_path / "t-0" / f"{bases[1]:020d}.log"
    data = bytearray(damaged.read_bytes())
    data[-1] ^= 1
    damaged.write_bytes(data)
    with load(tmp_path, clean=False) as log:
        report = log.report
        assert [segment.base_offset for segment in report.recovered] == bases[:2]
        assert report.recovered[0].damage is None
        assert "CRC mismatch" in report.recovered[1].damage
        assert report.bytes_cut == report.recovered[1].bytes_cut > 0
        assert report.dropped == bases[2:]
        assert offsets_in(log) == list(range(log.log_end_offset))


def test_files_left_by_interrupted_operations_are_reported(tmp_path):
    with load(tmp_path) as log:
        log.append(batch())
    for name in ("00000000000000000000.log.deleted", "00000000000000000009.index"):
        (tmp_path / "t-0" / name).write_bytes(b"")
    with load(tmp_path) as log:
        assert sorted(log.report.removed) == [
            "00000000000000000000.log.deleted",
            "00000000000000000009.index",
        ]


@pytest.mark.parametrize("call", range(1, 4))
def test_a_log_whose_disk_fails_rejects_further_calls_and_can_be_opened_again(
    tmp_path, call
):
    disk = FailingDisk()
    log = load(tmp_path, disk=disk)
    for _ in range(3):
        log.append(batch(5))
    log.flush()
    log.append(batch(5))
    disk.fail_at = len(disk.calls) + call
    with pytest.raises(OSError, match="No space left"):
        log.append_many([batch(5) for _ in range(3)])
    for ask in (lambda: log.append(batch()), log.flush, lambda: log.read(0)):
        with pytest.raises(LogClosedError, match="when the disk failed"):
            ask()
    log.close()
    with load(tmp_path, clean=False) as log:
        assert log.log_end_offset >= 15
        assert offsets_in(log) == list(range(log.log_end_offset))


def test_after_a_truncation_the_last_stable_offset_is_low_until_the_next_append(
    tmp_path,
):
    producer = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
    marker = RecordBatchBuilder(**producer, is_control=True)
    marker.append(*end_transaction_marker(ControlRecordType.COMMIT, 0), timestamp=NOW)
    trusting = BrokerConfig(transaction_partition_verification_enable=False)
    with load(tmp_path, broker=trusting) as log:
        log.append(batch(2, **producer, base_sequence=0))
        terms = {"origin": "coordinator", "transaction_version": 0}
        log.append(marker.build(), **terms)
        log.update_high_watermark(2)
        log.roll()  # with a snapshot, in which the transaction is complete
        log.append(batch())
        log.truncate_to(3)
        assert (log.last_stable_offset, log.high_watermark) == (0, 2)
        log.append(batch())
        assert log.last_stable_offset == 2


def test_a_closed_log_rejects_calls_and_may_be_closed_again(tmp_path):
    log = load(tmp_path)
    log.close()
    log.close()
    with pytest.raises(LogClosedError, match="the log is closed"):
        log.append(batch())


def test_a_deleted_log_leaves_no_files(tmp_path):
    log = load(tmp_path)
    log.append(batch())
    log.delete()
    assert not (tmp_path / "t-0").exists()


def test_a_read_that_ends_within_a_batch_returns_the_batches_before_it(tmp_path):
    with load(tmp_path) as log:
        for _ in range(3):
            log.append(batch(2))
        found = log.read(0, max_bytes=2 * len(batch(2)) + 100)
        assert [stored.last_offset for stored in found.batches()] == [1, 3]
        assert found.next_offset == 4
        short = log.read(0, max_bytes=100, min_one_batch=False)
        assert (list(short.batches()), short.next_offset) == ([], 0)


def test_readers_find_all_records_while_a_writer_appends(tmp_path):
    log = load(tmp_path)
    log.append(batch())
    done, wrong, ends = threading.Event(), [], [1]

    def read_here():
        while not done.is_set():
            end = log.log_end_offset
            try:
                found = offsets_in(log)
            except Exception as error:
                wrong.append(error)
                break
            if found != list(range(len(found))) or len(found) < end:
                wrong.append(found)

    def read_files():
        while not done.is_set():
            with kafkalog.open(tmp_path / "t-0") as reader:
                end = reader.log_end_offset
            if end % 3 != 1 or end < ends[-1]:
                wrong.append(end)
            ends.append(end)

    threads = [threading.Thread(target=read) for read in (read_here, read_files)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(150):
            log.append(batch(3))
    finally:
        done.set()
        for thread in threads:
            thread.join()
    log.close()
    assert not wrong


def test_a_truncation_to_a_negative_offset_is_rejected(tmp_path):
    with load(tmp_path) as log:
        log.append(batch())
        for cut in (log.truncate_to, log.truncate_fully):
            with pytest.raises(LogArgumentError):
                cut(-1)
        assert offsets_in(log) == [0]


def test_at_most_ten_records_of_a_rejected_follower_append_are_read(tmp_path):
    with load(tmp_path) as log:
        log.append(batch())
        for broken, error in (
            (1, InvalidRecordError),
            (11, UnexpectedAppendOffsetError),
        ):
            builder = RecordBatchBuilder()
            for _ in range(12):
                builder.append(None, b"v", timestamp=NOW)
            data = bytearray(builder.build())
            size = data[61] // 2 + 1
            data[61 + (broken - 1) * size] = 1
            data[17:21] = crc32c.crc32c(data[21:]).to_bytes(4, "big")
            with pytest.raises(error):
                log.append_as_follower(bytes(data))


def test_a_corrupt_record_hides_no_earlier_record_from_a_lookup_by_time(tmp_path):
    with load(tmp_path) as log:
        log.assign_epoch(0)
        data = bytearray(batch(3, size=9, leader_epoch=0))
        record = (len(data) - 61) // 3
        data[61 + 2 * record] = 1
        data[17:21] = crc32c.crc32c(data[21:]).to_bytes(4, "big")
        log.append_as_follower(bytes(data))
        assert [log.find_offset(NOW + n)[1] for n in (0, 1)] == [0, 1]
        with pytest.raises(CorruptRecordError) as caught:
            log.find_offset(NOW + 2)
        assert caught.value.kafka_name == "InvalidRecordException"


def test_the_producers_mapping_is_a_copy_of_that_time(tmp_path):
    owned = {"producer_id": 7, "producer_epoch": 0}
    with load(tmp_path) as log:
        log.append(batch(2, base_sequence=0, **owned))
        known = log.producers
        log.append(batch(2, base_sequence=2, **owned))
        log.append(batch(2, base_sequence=0, producer_id=8, producer_epoch=0))
        assert list(known) == [7]
        assert known[7].last_sequence == 1
        assert sorted(log.producers) == [7, 8]
        assert log.producers[7].last_sequence == 3
