"""Retention of compacted logs, which follows the schedule of a broker's cleaner."""

import pytest

from kafkalog import BrokerConfig
from kafkalog.testing import ManualClock, ManualScheduler
from tests.manager.managing import NOW_MS, SMALL, fill, manage

# No log is ever dirty enough to be compacted.
KEEP = SMALL.with_changes(
    {"retention.bytes": "3000", "min.cleanable.dirty.ratio": "1.0"}
)
TOPICS = {
    "deleted": KEEP,
    "both": KEEP.with_changes({"cleanup.policy": "compact,delete"}),
    "compacted": KEEP.with_changes({"cleanup.policy": "compact"}),
}


@pytest.mark.parametrize("cleans", [True, False])
def test_compacted_logs_are_retained_when_a_cleaner_would(tmp_path, cleans):
    clock = ManualClock(NOW_MS)
    scheduler = ManualScheduler(clock)
    broker = BrokerConfig(
        log_initial_task_delay_ms=60_000,
        log_cleaner_backoff_ms=500,
        log_cleaner_enable=cleans,
    )
    options = {"clock": clock, "scheduler": scheduler, "broker": broker}
    with manage(tmp_path, topics=TOPICS, **options) as manager:
        scheduler.run_due()
        for topic in TOPICS:
            fill(manager.open(topic, 0), 10)
        manager["compacted", 0].delete_records(50)
        kept = []
        for wait_ms in (500, 60_000):
            clock.time_ms += wait_ms
            scheduler.run_due()
            firsts = (manager[topic, 0].growing_segments[0] for topic in TOPICS)
            kept.append([first.base_offset == 0 for first in firsts])
    assert kept == [[True, not cleans, not cleans], [False, not cleans, not cleans]]


def test_a_future_log_is_retained_with_the_log_that_it_replaces(tmp_path):
    with manage(tmp_path, topics=TOPICS) as manager:
        for topic in TOPICS:
            for number in range(3):
                fill(manager.open(topic, number), 10)
    unique = "0" * 32
    for topic in TOPICS:
        live = tmp_path / f"{topic}-1"
        live.rename(tmp_path / f"{topic}-0.{unique}-future")
        (tmp_path / f"{topic}-2").rename(tmp_path / f"{topic}-7.{unique}-future")
    with manage(tmp_path, topics=TOPICS) as manager:
        for log in [*manager.values(), *manager.futures.values()]:
            log.update_high_watermark(log.log_end_offset)
        assert manager.retain()
        futures = manager.futures
        kept = {
            name: log.growing_segments[0].base_offset == 0
            for name, log in futures.items()
        }
    assert kept == {
        (topic, number): (topic, number) != ("deleted", 0)
        for topic in TOPICS
        for number in (0, 7)
    }
