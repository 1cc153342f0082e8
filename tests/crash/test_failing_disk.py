"""A disk that fails, once, at each of the calls of a log's life.

The error comes to whoever asked; from then on the log takes nothing, and opened again,
by then with or without a power cut, it has all that had been flushed.
"""

import errno
from pathlib import Path
from random import Random

import pytest

import kafkalog
from kafkalog.log.clock import ThreadScheduler
from kafkalog.storage.durable_file import Disk as RealDisk
from kafkalog.testing import ManualClock, open_log
from tests.crash.judging import Opened, expected_in, judge
from tests.crash.lives import CONFIG, NOW_MS, PARTITION, Life
from tests.crash.power_cut import Disk
from tests.crash.recording import RecordingDisk, read_tree, write_tree

pytestmark = pytest.mark.slow

CLEAN = {".kafka_cleanshutdown": b'{"version":0,"brokerEpoch":-1}'}
SHARES = 4
ERRORS = (errno.ENOSPC, errno.EIO)


def whole_life(life):
    """Do all that a log does, and wait for all that is done later."""
    life.open(topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
    life.append(2, 300)
    life.append_many(400, 900, 1300, 200, 700)
    life.append_from(7, 2, size=200)
    life.append_from(20, size=300, is_transactional=True)
    life.append_from(21, size=1200, is_transactional=True)
    life.flush()
    life.end(20, commit=False)
    life.end(21, commit=True)
    life.step(lambda: life.log.assign_epoch(3))
    life.roll()
    life.append_from(7, size=1400)
    life.append_from(7, size=1400)
    life.replicate()
    life.checkpoint()
    life.step(lambda: life.log.delete_records(5), may_leave_holes=True)
    life.step(lambda: life.log.delete_old_segments(), may_leave_holes=True)
    life.clock.time_ms += 2000
    life.append(1, 800)
    life.append(1, 2100)
    end = life.log.log_end_offset
    life.step(lambda: life.log.truncate_to(end - 2), may_leave_holes=True)
    life.append(1, 100)
    life.flush()
    life.close()
    life.open()
    life.step(lambda: life.log.truncate_fully(100), may_leave_holes=True)
    life.append(3, 100)
    life.close()


class FailingDisk(RecordingDisk):
    """Fails at one call, counted from 0; of what it was to write half is written."""

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


def lived(root, **options):
    """Live until the disk fails; answers the error."""
    write_tree(root, CLEAN)
    disk = FailingDisk(root, **options)
    life = Life(root, disk)
    try:
        whole_life(life)
    except OSError as error:
        return life, disk, error
    return life, disk, None


@pytest.mark.parametrize("share", range(SHARES))
def test_whichever_call_fails_it_is_told_and_nothing_flushed_is_lost(
    roots, share, figure
):
    reference, disk, _ = lived(roots[0])
    assert disk.calls > 200
    for fail_at in range(share, disk.calls, SHARES):
        error = ERRORS[fail_at // SHARES % 2]
        life, tape, raised = lived(roots[0], fail_at=fail_at, error=error)
        assert raised is not None, f"call {fail_at} failed, and nobody was told"
        assert raised.errno == error
        if life.log is not None:
            with pytest.raises(kafkalog.LogClosedError):
                life.log.append(life.batch(1, 10))
            life.log.abandon()
        expected = expected_in(reference.marks, len(life.marks), inside=True)
        judge(roots[1], read_tree(roots[0]), expected)
        model = Disk(tape.before)
        for event in tape.events:
            model.take(event)
        for _, tree in model.states(Random(fail_at), 1):
            judge(roots[1], tree, expected)
    failed = len(range(share, disk.calls, SHARES))
    figure("failing calls", f"share {share}", failed, f"of {disk.calls}")


def test_a_log_whose_disk_failed_is_opened_again_in_the_same_process(tmp_path):
    life, disk, _ = lived(tmp_path)
    for fail_at in range(disk.calls // 2, disk.calls // 2 + 9):
        life, _, raised = lived(tmp_path, fail_at=fail_at)
        assert raised is not None
        if life.log is not None:
            life.log.abandon()
        with kafkalog.open(tmp_path / PARTITION, "a", CONFIG) as log:
            end = log.log_end_offset
            assert log.append(life.batch(1, 10)).first_offset == end


class FailingSync(RealDisk):
    """Fails to force a ``.log`` to disk, once it is told to."""

    broken = False

    def sync(self, file):
        if self.broken and file.path.name.endswith(".log"):
            raise OSError(errno.EIO, "made to fail")
        super().sync(file)


def opened_to_fail(tmp_path, scheduler):
    disk = FailingSync()
    log = open_log(
        Path(tmp_path, PARTITION),
        CONFIG,
        clock=ManualClock(NOW_MS),
        scheduler=scheduler,
        disk=disk,
    )
    log.append(Life(tmp_path, disk).batch(1, 100))
    disk.broken = True
    return log


def fail_in_the_background(log, scheduler):
    log.roll()
    while not scheduler.errors:
        pass


def test_what_failed_in_the_background_is_told_by_the_next_call(tmp_path):
    with ThreadScheduler() as scheduler:
        log = opened_to_fail(tmp_path, scheduler)
        fail_in_the_background(log, scheduler)
        with pytest.raises(kafkalog.LogClosedError, match="made to fail"):
            log.flush()
        log.close()


def test_what_failed_in_the_background_is_told_by_close_if_by_nothing_else(tmp_path):
    with ThreadScheduler() as scheduler:
        log = opened_to_fail(tmp_path, scheduler)
        fail_in_the_background(log, scheduler)
        with pytest.raises(kafkalog.LogClosedError, match="made to fail"):
            log.close()
        log.close()


def test_a_failing_call_while_a_log_is_recovered_empties_nothing(tmp_path):
    write_tree(tmp_path, {})
    life = Life(tmp_path, RecordingDisk(tmp_path))
    life.open()
    life.append(5, 200)
    life.flush()
    life.log.abandon()
    size = (tmp_path / PARTITION / f"{0:020d}.log").stat().st_size
    before = read_tree(tmp_path)
    calls = 0
    while True:
        write_tree(tmp_path, before)
        disk = FailingDisk(tmp_path, calls)
        again = Life(tmp_path, disk)
        try:
            again.open()
        except OSError:
            assert (tmp_path / PARTITION / f"{0:020d}.log").stat().st_size == size
            if again.log is not None:
                again.log.abandon()
            calls += 1
        else:
            disk.fail_at = -1
            again.log.abandon()
            break
    assert calls > 10


def cut_short(root, call, cut):
    """Cut a log of four segments on a disk that fails at a call; whether it did."""
    write_tree(root, {})
    disk = FailingDisk(root)
    life = Life(root, disk)
    life.open()
    for _ in range(8):
        life.append(1, 1300)
    life.flush()
    assert [one.base_offset for one in life.log.growing_segments] == [0, 2, 4, 6]
    disk.fail_at = disk.calls + call
    try:
        cut(life.log)
    except OSError:
        return True
    else:
        return False
    finally:
        disk.fail_at = -1
        life.log.abandon()


def scanned(root):
    """Read the offsets that whoever looks at the directory finds."""
    return [int(at) for one in kafkalog.scan(root).chunks() for at in one.offset]


@pytest.mark.parametrize("offset", [1, 2, 3, 7])
def test_whichever_call_fails_in_a_cut_over_segments_the_first_records_are_left(
    memory_path, offset
):
    call = 0
    while cut_short(memory_path, call, lambda log: log.truncate_to(offset)):
        left = scanned(memory_path)
        assert left == list(range(8))[: len(left)]
        with Opened(memory_path) as log:
            assert log.log_end_offset == len(left) >= offset
            assert log.recovery_point <= offset
        call += 1
    assert call > 5
    assert scanned(memory_path) == list(range(offset))


@pytest.mark.parametrize("offset", [3, 6, 7, 8, 20])
def test_whichever_call_fails_in_a_log_that_is_cut_wholly_old_and_new_do_not_mix(
    memory_path, offset
):
    call = 0
    while cut_short(memory_path, call, lambda log: log.truncate_fully(offset)):
        with Opened(memory_path) as log:
            left, start = scanned(memory_path), log.log_start_offset
            assert left == list(range(start, 8))[: len(left)]
            assert log.log_end_offset == (left[-1] + 1 if left else offset)
        call += 1
    assert call > 9
    assert scanned(memory_path) == []
    with Opened(memory_path) as log:
        assert log.log_start_offset == log.log_end_offset == offset
