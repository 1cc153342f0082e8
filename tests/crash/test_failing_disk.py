"""Failure of each call to the disk in a workload.

The caller gets the error. After it the log rejects appends. After opening again, with
or without a power cut before, all flushed data exists.
"""

import errno
from pathlib import Path
from random import Random

import pytest

import kafkalog
from kafkalog.log.clock import ThreadScheduler
from kafkalog.storage.durable_file import Disk
from kafkalog.testing import ManualClock, open_log
from tests.crash.disk_model import DiskModel
from tests.crash.recorded_log import CONFIG, NOW_MS, PARTITION, RecordedLog
from tests.crash.recording import RecordingDisk, read_tree, write_tree
from tests.crash.state_checks import Opened, check_state, expected_in

pytestmark = pytest.mark.slow

CLEAN = {".kafka_cleanshutdown": b'{"version":0,"brokerEpoch":-1}'}
SHARES = 4
ERRORS = (errno.ENOSPC, errno.EIO)


def full_workload(recorded):
    """Do all operations of a log, and its delayed tasks."""
    recorded.open(topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
    recorded.append(2, 300)
    recorded.append_many(400, 900, 1300, 200, 700)
    recorded.append_from(7, 2, size=200)
    recorded.append_from(20, size=300, is_transactional=True)
    recorded.append_from(21, size=1200, is_transactional=True)
    recorded.flush()
    recorded.end(20, commit=False)
    recorded.end(21, commit=True)
    recorded.step(lambda: recorded.log.assign_epoch(3))
    recorded.roll()
    recorded.append_from(7, size=1400)
    recorded.append_from(7, size=1400)
    recorded.replicate()
    recorded.checkpoint()
    recorded.step(lambda: recorded.log.delete_records(5), may_leave_holes=True)
    recorded.step(lambda: recorded.log.delete_old_segments(), may_leave_holes=True)
    recorded.clock.time_ms += 2000
    recorded.append(1, 800)
    recorded.append(1, 2100)
    end = recorded.log.log_end_offset
    recorded.step(lambda: recorded.log.truncate_to(end - 2), may_leave_holes=True)
    recorded.append(1, 100)
    recorded.flush()
    recorded.close()
    recorded.open()
    recorded.step(lambda: recorded.log.truncate_fully(100), may_leave_holes=True)
    recorded.append(3, 100)
    recorded.close()


class FailingDisk(RecordingDisk):
    """Disk that fails at one call, counted from 0; a failing write writes half."""

    def __init__(self, root, fail_at=-1, error=errno.EIO):
        super().__init__(root)
        self.fail_at = fail_at
        self.error = error
        self.calls = 0

    def fails(self):
        self.calls += 1
        return self.calls - 1 == self.fail_at

    def write(self, file, data, position):
        if self.fails():
            half = memoryview(data).cast("B")
            super().write(file, half[: len(half) // 2], position)
            raise OSError(self.error, "made to fail")
        super().write(file, data, position)


def failing(effect):
    real = getattr(RecordingDisk, effect)

    def perform(self, *arguments, **options):
        if self.fails():
            raise OSError(self.error, "made to fail")
        return real(self, *arguments, **options)

    return perform


EFFECTS = (
    *("open", "truncate", "sync", "sync_directory"),
    *("rename", "remove", "make_directory"),
)
for _effect in EFFECTS:
    setattr(FailingDisk, _effect, failing(_effect))


def run_workload(root, **options):
    """Run the workload until the disk fails; return the disk and the error."""
    write_tree(root, CLEAN)
    disk = FailingDisk(root, **options)
    recorded = RecordedLog(root, disk)
    try:
        full_workload(recorded)
    except OSError as error:
        return recorded, disk, error
    return recorded, disk, None


@pytest.mark.parametrize("share", range(SHARES))
def test_a_failing_call_is_raised_and_loses_nothing_that_was_flushed(
    roots, share, figure
):
    reference, disk, _ = run_workload(roots[0])
    assert disk.calls > 200
    for fail_at in range(share, disk.calls, SHARES):
        error = ERRORS[fail_at // SHARES % 2]
        recorded, failing_disk, raised = run_workload(
            roots[0], fail_at=fail_at, error=error
        )
        assert raised is not None, f"call {fail_at} failed without an error"
        assert raised.errno == error
        if recorded.log is not None:
            with pytest.raises(kafkalog.LogClosedError):
                recorded.log.append(recorded.batch(1, 10))
            recorded.log.abandon()
        expected = expected_in(reference.marks, len(recorded.marks), inside=True)
        check_state(roots[1], read_tree(roots[0]), expected)
        model = DiskModel(failing_disk.before)
        for event in failing_disk.events:
            model.take(event)
        for _, tree in model.states(Random(fail_at), 1):
            check_state(roots[1], tree, expected)
    failed = len(range(share, disk.calls, SHARES))
    figure("failing calls", f"share {share}", failed, f"of {disk.calls}")


def test_a_log_can_be_opened_again_in_the_same_process_after_a_disk_error(tmp_path):
    recorded, disk, _ = run_workload(tmp_path)
    for fail_at in range(disk.calls // 2, disk.calls // 2 + 9):
        recorded, _, raised = run_workload(tmp_path, fail_at=fail_at)
        assert raised is not None
        if recorded.log is not None:
            recorded.log.abandon()
        with kafkalog.open(tmp_path / PARTITION, "a", CONFIG) as log:
            end = log.log_end_offset
            assert log.append(recorded.batch(1, 10)).first_offset == end


class FailingSync(Disk):
    """Disk that fails to sync a ``.log`` when `broken` is set."""

    broken = False

    def sync(self, file):
        if self.broken and file.path.name.endswith(".log"):
            raise OSError(errno.EIO, "made to fail")
        super().sync(file)


def open_failing_log(tmp_path, scheduler):
    disk = FailingSync()
    log = open_log(
        Path(tmp_path, PARTITION),
        CONFIG,
        clock=ManualClock(NOW_MS),
        scheduler=scheduler,
        disk=disk,
    )
    log.append(RecordedLog(tmp_path, disk).batch(1, 100))
    disk.broken = True
    return log


def fail_in_the_background(log, scheduler):
    log.roll()
    while not scheduler.errors:
        pass


def test_an_error_in_the_background_is_raised_by_the_next_call(tmp_path):
    with ThreadScheduler() as scheduler:
        log = open_failing_log(tmp_path, scheduler)
        fail_in_the_background(log, scheduler)
        with pytest.raises(kafkalog.LogClosedError, match="made to fail"):
            log.flush()
        log.close()


def test_an_error_in_the_background_is_raised_by_close_if_no_call_raised_it(tmp_path):
    with ThreadScheduler() as scheduler:
        log = open_failing_log(tmp_path, scheduler)
        fail_in_the_background(log, scheduler)
        with pytest.raises(kafkalog.LogClosedError, match="made to fail"):
            log.close()
        log.close()


def test_a_failing_call_during_recovery_truncates_nothing(tmp_path):
    write_tree(tmp_path, {})
    recorded = RecordedLog(tmp_path, RecordingDisk(tmp_path))
    recorded.open()
    recorded.append(5, 200)
    recorded.flush()
    recorded.log.abandon()
    size = (tmp_path / PARTITION / f"{0:020d}.log").stat().st_size
    before = read_tree(tmp_path)
    calls = 0
    while True:
        write_tree(tmp_path, before)
        disk = FailingDisk(tmp_path, calls)
        reopened = RecordedLog(tmp_path, disk)
        try:
            reopened.open()
        except OSError:
            assert (tmp_path / PARTITION / f"{0:020d}.log").stat().st_size == size
            if reopened.log is not None:
                reopened.log.abandon()
            calls += 1
        else:
            disk.fail_at = -1
            reopened.log.abandon()
            break
    assert calls > 10


def truncate_with_failure(root, call, cut):
    """Truncate a log of four segments with a failing call; return whether it failed."""
    write_tree(root, {})
    disk = FailingDisk(root)
    recorded = RecordedLog(root, disk)
    recorded.open()
    for _ in range(8):
        recorded.append(1, 1300)
    recorded.flush()
    assert [segment.base_offset for segment in recorded.log.growing_segments] == [
        0,
        2,
        4,
        6,
    ]
    disk.fail_at = disk.calls + call
    try:
        cut(recorded.log)
    except OSError:
        return True
    else:
        return False
    finally:
        disk.fail_at = -1
        recorded.log.abandon()


def scan_offsets(root):
    """Return the offsets that a scan of the directory reads."""
    chunks = kafkalog.scan(root).chunks()
    return [int(offset) for records in chunks for offset in records.offset]


@pytest.mark.parametrize("offset", [1, 2, 3, 7])
def test_a_failing_call_in_a_truncation_leaves_the_first_records(memory_path, offset):
    call = 0
    while truncate_with_failure(memory_path, call, lambda log: log.truncate_to(offset)):
        left = scan_offsets(memory_path)
        assert left == list(range(8))[: len(left)]
        with Opened(memory_path) as log:
            assert log.log_end_offset == len(left) >= offset
            assert log.recovery_point <= offset
        call += 1
    assert call > 5
    assert scan_offsets(memory_path) == list(range(offset))


@pytest.mark.parametrize("offset", [3, 6, 7, 8, 20])
def test_a_failing_call_in_a_full_truncation_does_not_mix_old_and_new_records(
    memory_path, offset
):
    call = 0
    while truncate_with_failure(
        memory_path, call, lambda log: log.truncate_fully(offset)
    ):
        with Opened(memory_path) as log:
            left, start = scan_offsets(memory_path), log.log_start_offset
            assert left == list(range(start, 8))[: len(left)]
            assert log.log_end_offset == (left[-1] + 1 if left else offset)
        call += 1
    assert call > 9
    assert scan_offsets(memory_path) == []
    with Opened(memory_path) as log:
        assert log.log_start_offset == log.log_end_offset == offset
