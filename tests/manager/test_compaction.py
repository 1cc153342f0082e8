"""A log manager compacts its logs in the background."""

import threading
import time

import pytest

from kafkalog import BrokerConfig, LogManager
from kafkalog.cleaner.batch_filter import BatchFilter
from kafkalog.storage.checkpoint_file import CLEANED_TO, read_offsets
from kafkalog.testing import ManualClock, ManualScheduler
from tests.manager.managing import NOW_MS, SMALL, fill, manage

COMPACT = SMALL.with_changes({"cleanup.policy": "compact"})
NAME = ("state", 0)


@pytest.fixture
def managed(tmp_path):
    clock = ManualClock(NOW_MS)
    scheduler = ManualScheduler(clock)
    broker = BrokerConfig(log_cleaner_backoff_ms=500, log_cleaner_threads=2)
    options = {"clock": clock, "scheduler": scheduler, "broker": broker}
    with manage(tmp_path, topics={"state": COMPACT}, **options) as manager:
        manager.clock, manager.scheduler = clock, scheduler
        yield manager


def run_due(manager):
    manager.clock.time_ms += 500
    return manager.scheduler.run_due()


def full(manager):
    log = manager.open(*NAME)
    fill(log, 10)
    return log


def test_a_compacted_topic_is_compacted_in_tasks_of_the_scheduler(managed, tmp_path):
    log = full(managed)
    names = run_due(managed)
    assert {f"kafka-log-cleaner-thread-{number}" for number in range(2)} <= {*names}
    assert read_offsets(tmp_path, CLEANED_TO)[NAME] > 0
    assert managed.cleaner.states.checkpointed(log) > 0


def test_a_truncation_lowers_the_first_dirty_offset(managed, tmp_path):
    full(managed)
    run_due(managed)
    managed.truncate_to({NAME: 1})
    assert read_offsets(tmp_path, CLEANED_TO)[NAME] == 0


def test_a_deleted_partition_has_no_line_in_the_checkpoint(managed, tmp_path):
    full(managed)
    run_due(managed)
    managed.delete(*NAME)
    assert NAME not in read_offsets(tmp_path, CLEANED_TO)
    run_due(managed)


@pytest.mark.parametrize("end", ["delete", "close", "update_config"])
def test_a_round_is_aborted_by_what_ends_it(tmp_path, monkeypatch, end):
    inside, real = threading.Event(), BatchFilter.filter

    def slow(self, window):
        inside.set()
        time.sleep(0.05)
        return real(self, window)

    monkeypatch.setattr(BatchFilter, "filter", slow)
    broker = BrokerConfig(log_cleaner_backoff_ms=1)
    manager = LogManager(tmp_path, topics={"state": COMPACT}, broker=broker)
    log = manager.open(*NAME)
    fill(log, 30)
    assert inside.wait(30)
    match end:
        case "delete":
            manager.delete(*NAME)
        case "update_config":
            manager.update_config("state", SMALL)
    manager.close()
    assert not list(tmp_path.rglob("state-0/*.swap"))
    monkeypatch.undo()
    LogManager(tmp_path, topics={"state": COMPACT}).close()
