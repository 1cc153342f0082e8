"""The high watermark and the recovery point that closing a log leaves."""

import pytest

import kafkalog
from kafkalog import LogConfig, LogManager
from kafkalog.storage.checkpoint_file import (
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
    read_offsets,
)
from tests.log.clusters import mark_as_brokers
from tests.log.writing import SMALL, batch, load

NAME = "orders", 0
KEEP = LogConfig(retention_ms=-1)


def mark(logs):
    return read_offsets(logs, HIGH_WATERMARKS)[NAME]


def write(logs, *steps, config=KEEP):
    with kafkalog.open(logs / "orders-0", "a", config) as log:
        for step in steps:
            step(log)
        return log.high_watermark


def append(log):
    log.append(batch(5))


def test_a_log_without_other_replicas_has_its_high_watermark_at_its_end(tmp_path):
    for count in (1, 2, 3):
        assert write(tmp_path, append) == 5 * (count - 1)
        assert mark(tmp_path) == 5 * count


def test_a_managed_log_without_other_replicas_likewise(tmp_path):
    for count in (1, 2):
        with LogManager(tmp_path, KEEP) as logs:
            append(logs.open(*NAME))
        assert mark(tmp_path) == 5 * count


@pytest.mark.parametrize(
    "step",
    [
        lambda log: log.update_high_watermark(3),
        lambda log: log.increment_high_watermark(3),
    ],
)
def test_a_caller_that_sets_the_high_watermark_keeps_it(tmp_path, step):
    write(tmp_path, append, step)
    assert mark(tmp_path) == 3
    write(tmp_path, append)
    assert mark(tmp_path) == 3


def test_the_high_watermark_of_a_follower_is_its_leaders(tmp_path):
    write(tmp_path, lambda log: log.append_as_follower(batch(5, leader_epoch=0)))
    assert mark(tmp_path) == 0


def test_the_high_watermark_of_a_brokers_log_is_not_raised(tmp_path):
    mark_as_brokers(tmp_path)
    write(tmp_path, append)
    assert mark(tmp_path) == 0


def test_a_closed_log_is_compacted(tmp_path):
    config = LogConfig(cleanup_policy="compact", internal_segment_bytes=2000)
    rows = {"key": [b"k"] * 500, "value": [b"v"] * 500}
    write(
        tmp_path / "logs",
        lambda log: log.append_records(rows, batch_bytes=500),
        config=config,
    )
    kafkalog.compact(tmp_path / "logs", apply=True, ignore_policy=True)
    assert kafkalog.scan(tmp_path / "logs").count() < 50


def test_a_high_watermark_is_set_inside_a_batch(tmp_path):
    # UnifiedLogTest.testHighWatermarkMaintenance
    with load(tmp_path) as log:
        log.append(batch(3))
        assert log.increment_high_watermark(1)
        assert log.high_watermark == 1
        assert not log.increment_high_watermark(0)
        log.append(batch(3))
        assert log.increment_high_watermark(4)
        assert log.high_watermark == 4


def test_a_truncation_inside_a_batch_and_a_clean_close_lose_nothing(tmp_path):
    logs = tmp_path / "logs"
    with kafkalog.open(logs / "orders-0", "a", SMALL) as log:
        append(log)
        append(log)
        log.update_high_watermark(10)
        log.truncate_to(7)
        assert log.log_end_offset == 7
    assert read_offsets(logs, RECOVERY_POINTS)[NAME] == mark(logs) == 5
    assert kafkalog.verify(logs).ok
    with LogManager(logs, SMALL) as manager:
        log = manager[NAME]
        assert (log.report.clean, log.log_end_offset, log.high_watermark) == (
            True,
            5,
            5,
        )
        append(log)
        log.truncate_to(8)
        manager.checkpoint()
    assert kafkalog.verify(logs).ok
    with kafkalog.open(logs / "orders-0", "a", SMALL) as log:
        assert log.log_end_offset == 5
        log.truncate_to(3)
        append(log)
        assert log.log_end_offset == 8
    assert read_offsets(logs, RECOVERY_POINTS)[NAME] == 8
