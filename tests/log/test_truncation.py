"""Truncation: the recovery point, and the checkpoints."""

import pytest

import kafkalog
from kafkalog.storage.checkpoint_file import LOG_STARTS, RECOVERY_POINTS
from kafkalog.testing import ManualClock, ManualScheduler, TracingDisk, open_log
from tests.log.writing import NOW, SMALL, batch, load

NAME = "orders", 0
DELAYED = SMALL.with_changes({"file.delete.delay.ms": "60000"})


def opened(root, scheduler=None, **options):
    """Open ``orders-0`` in a log directory, with a scheduler that does not run."""
    scheduler = scheduler or ManualScheduler(ManualClock(NOW))
    return open_log(root / "orders-0", DELAYED, scheduler=scheduler, **options)


def filled(root, count, **options):
    log = opened(root, **options)
    for _ in range(count):
        log.append(batch())
    return log


def scanned(root):
    """Return the offsets that a scan of the directory reads."""
    return [int(at) for record in kafkalog.scan(root).chunks() for at in record.offset]


# Forcing to disk


def test_the_former_name_of_truncations_is_an_error_that_names_it(tmp_path):
    log = load(tmp_path)
    message = "WritableLog.cuts has been renamed to truncations"
    with pytest.raises(AttributeError, match=message):
        log.cuts  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute WritableLog\.cut$"):
        log.cut  # noqa: B018


def test_a_flush_scheduled_before_a_truncation_is_limited_to_the_log_end(tmp_path):
    scheduler = ManualScheduler(ManualClock(NOW))
    log = load(tmp_path, scheduler=scheduler)
    log.append(batch(3))
    log.append(batch(3))
    log.roll()
    log.truncate_to(3)
    assert "flush-log" in scheduler.run_due()
    assert log.recovery_point == log.log_end_offset == 3
    log.append(batch(3))
    assert log.recovery_point == 3
    log.flush()
    assert log.recovery_point == 6
    log.close()


def test_records_appended_after_a_truncation_are_flushed_before_they_count(
    tmp_path,
):
    clock, disk = ManualClock(NOW), TracingDisk()
    scheduler = ManualScheduler(clock)
    log = load(tmp_path, clock=clock, scheduler=scheduler, disk=disk)
    log.append(batch(3))
    log.append(batch(3))
    log.roll()
    log.truncate_to(3)
    for _ in range(3):
        log.append(batch(1))
    assert (log.recovery_point, log.log_end_offset) == (0, 6)
    disk.calls.clear()
    scheduler.run_due()
    assert log.recovery_point == 6
    assert ("sync", f"{0:020d}.log") in disk.calls
    log.close()


@pytest.mark.parametrize("offset", [6, 7, 1000])
def test_no_flush_raises_the_recovery_point_above_the_log_end(tmp_path, offset):
    log = load(tmp_path)
    log.append(batch(3))
    log.flush(offset)
    assert log.recovery_point == 3
    log.append(batch(3))
    assert log.recovery_point == 3
    log.close()


def test_a_recovery_point_above_the_log_end_is_lowered_when_a_log_is_opened(tmp_path):
    filled(tmp_path, 3).close()
    points = tmp_path / RECOVERY_POINTS
    for marker in ("", '{"version":0,"brokerEpoch":-1}'):
        points.write_text("0\n1\norders 0 6\n")
        if marker:
            (tmp_path / ".kafka_cleanshutdown").write_text(marker)
        log = opened(tmp_path)
        assert log.recovery_point == 3
        assert points.read_text() == "0\n1\norders 0 3\n"
        log.abandon()


# Checkpoints


@pytest.mark.parametrize("method", ["truncate_to", "truncate_fully"])
def test_records_flushed_below_a_checkpointed_log_start_can_be_read(tmp_path, method):
    log = filled(tmp_path, 10)
    log.update_high_watermark(10)
    log.delete_records(9)
    log.close()
    assert (tmp_path / LOG_STARTS).read_text() == "0\n1\norders 0 9\n"
    log = opened(tmp_path)
    getattr(log, method)(2)
    assert log.log_start_offset == 2
    for _ in range(3):
        log.append(batch())
    log.flush()
    assert scanned(tmp_path) == [2, 3, 4]
    log.abandon()
    log = opened(tmp_path)
    assert (log.log_start_offset, log.log_end_offset) == (2, 5)
    assert scanned(tmp_path) == [2, 3, 4]
    log.close()


@pytest.mark.parametrize("method", ["truncate_to", "truncate_fully"])
def test_a_rejected_truncation_changes_no_checkpoint(tmp_path, method):
    filled(tmp_path, 3).close()
    log = opened(tmp_path)
    before = (tmp_path / RECOVERY_POINTS).read_bytes()
    with pytest.raises(kafkalog.errors.LogArgumentError):
        getattr(log, method)(-1)
    assert (tmp_path / RECOVERY_POINTS).read_bytes() == before
    log.close()


def test_a_checkpoint_written_during_a_truncation_has_the_new_log_start(tmp_path):
    log = filled(tmp_path, 3)
    calls = []

    def starts():
        calls.append(len(calls))
        if len(calls) == 1:
            log.owned_directory.set_log_start(NAME, 2)
            return {NAME: 9}
        return {NAME: 2}

    log.owned_directory.write(LOG_STARTS, starts)
    assert calls == [0, 1]
    assert log.owned_directory.log_start_offset(NAME) == 2
    log.close()


def test_truncated_epochs_are_removed_from_their_file_before_an_append(tmp_path):
    log = filled(tmp_path, 3)
    log.assign_epoch(1)
    log.truncate_to(2)
    for _ in range(3):
        log.append(batch())
    log.flush()
    log.abandon()
    log = opened(tmp_path)
    assert log.log_end_offset == 5
    assert [(entry.epoch, entry.start_offset) for entry in log.leader_epochs] == [
        (0, 0)
    ]
    log.close()
