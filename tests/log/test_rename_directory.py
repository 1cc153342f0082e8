"""A log whose directory is renamed stays open, and is complete under the new name."""

import pytest

from kafkalog import LogConfig
from kafkalog.log.recovery.log_loading import load_log
from kafkalog.testing import ManualClock, ManualScheduler
from tests.manager.managing import NOW_MS, SMALL, batch, fill

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.fixture
def opened(tmp_path):
    """Return a log of several segments, its scheduler and its target."""
    clock = ManualClock(NOW_MS)
    scheduler = ManualScheduler(clock)
    options = {"config": SMALL, "topic_id": TOPIC_ID}
    source = tmp_path / f"orders-0.{'a' * 32}-future"
    log = load_log(source, clock=clock, scheduler=scheduler, **options)
    yield log, scheduler, tmp_path / "orders-0"
    log.abandon()


def test_a_renamed_log_goes_on_with_the_same_records_and_settings(opened):
    log, scheduler, target = opened
    fill(log, 8)
    before = log.read(0).data
    log.rename_directory(target)
    assert log.path == target
    assert [path.name for path in target.parent.iterdir()] == ["orders-0"]
    assert log.recovery_point == 80
    assert log.read(0).data == before
    fill(log, 8)
    log.roll()
    scheduler.run_due()
    assert log.log_end_offset == 160
    assert [path.name for path in target.parent.iterdir()] == ["orders-0"]
    assert (target / "partition.metadata").read_text().endswith(TOPIC_ID)
    log.close()
    with load_log(target, SMALL) as again:
        assert again.log_end_offset == 160
        assert again.topic_id == TOPIC_ID
        assert len(list(again.read(0, max_bytes=1).batches())) == 1


def test_segments_that_were_not_used_yet_are_found_under_the_new_name(opened):
    log, _, target = opened
    fill(log, 12)
    log.close()
    with load_log(log.path, SMALL) as again:
        again.rename_directory(target)
        for offset in range(0, 120, 10):
            assert again.read(offset).next_offset > offset
        again.truncate_to(15)
        assert again.log_end_offset == 15


def test_files_that_wait_for_their_deletion_are_deleted_by_the_renaming(opened):
    log, scheduler, target = opened
    fill(log, 8)
    log.update_config(LogConfig(retention_bytes=1, file_delete_delay_ms=1000))
    assert log.delete_old_segments()
    log.rename_directory(target)
    assert not list(target.glob("*.deleted"))
    scheduler._clock.time_ms += 1000
    scheduler.run_due()
    log.append(batch())
    assert log.log_end_offset == 90
