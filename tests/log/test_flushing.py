"""Flushes: other calls are not blocked, and changes during a flush are respected."""

import errno
import os
import threading
from pathlib import Path

import pytest

from kafkalog import LogClosedError
from kafkalog.indexes.txn_index import AbortedTransaction
from kafkalog.storage.durable_file import Disk
from kafkalog.testing import FailingDisk, ManualClock, ManualScheduler, TracingDisk
from tests.log.writing import NOW, SMALL, batch, load, offsets_in


class WaitingDisk(Disk):
    """A disk during whose ``fsync`` another thread acts; `order` has the events.

    With `at`, during the ``fsync`` of that file; `forced` has the names of files.
    """

    def __init__(self):
        self.order = []
        self.forced = []
        self.at = None
        self.meanwhile = None

    def sync(self, file):
        self._wait(file.path.suffix)
        super().sync(file)
        self.forced.append(file.path.name)

    def sync_directory(self, path):
        self._wait("names")
        super().sync_directory(path)

    def _wait(self, what):
        if self.meanwhile is not None and self.at in (None, what):
            other = threading.Thread(target=self.meanwhile)
            self.meanwhile = None
            self.order.append(f"forces {what}")
            other.start()
            other.join(timeout=60)
            self.order.append("continues")


@pytest.mark.parametrize("how", ["flush", "roll"])
def test_a_flush_blocks_neither_readers_nor_the_writer(tmp_path, how):
    disk, clock = WaitingDisk(), ManualClock(NOW)
    scheduler = ManualScheduler(clock)
    log = load(tmp_path, disk=disk, clock=clock, scheduler=scheduler)
    log.append(batch())

    def read_and_append():
        disk.order.append(f"reads {offsets_in(log)}")
        disk.order.append(f"appends {log.append(batch()).first_offset}")

    if how == "roll":
        log.roll()
    disk.meanwhile = read_and_append
    if how == "flush":
        log.flush()
    else:
        scheduler.run_due()
    forced = "forces .log" if how == "flush" else "forces .snapshot"
    assert disk.order == [forced, "reads [0]", "appends 1", "continues"]
    assert log.recovery_point == 1
    assert log.log_end_offset == 2
    log.flush()
    assert log.recovery_point == 2
    log.close()


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_a_log_truncated_during_a_flush_keeps_its_recovery_point(tmp_path, cut):
    disk = WaitingDisk()
    log = load(tmp_path, disk=disk)
    log.append(batch(1))
    log.append(batch(1))

    def cut_and_append():
        log.truncate_to(cut)
        for _ in range(3):
            log.append(batch(1))

    disk.meanwhile = cut_and_append
    log.flush()
    assert log.log_end_offset == cut + 3
    assert log.recovery_point == (2 if cut == 2 else 0)
    log.close()


class LosingDisk(Disk):
    """A disk that fails to force, and reports that once to each open file, as Linux.

    Handles of one open file share where it was last read: that is its number.
    """

    def __init__(self, suffix):
        self.suffix = suffix
        self.opened = 0
        self.loses = False
        self.reported = set()
        self.when_told = None

    def open(self, path, *, create=False, exclusive=False):
        file = super().open(path, create=create, exclusive=exclusive)
        self.opened += 1
        os.lseek(file.descriptor, self.opened, os.SEEK_SET)
        return file

    def sync(self, file):
        number = os.lseek(file.descriptor, 0, os.SEEK_CUR)
        lost = self.loses and file.path.suffix == self.suffix
        if lost and number not in self.reported:
            self.reported.add(number)
            when_told, self.when_told = self.when_told, None
            if when_told is not None:
                other = threading.Thread(target=when_told)
                other.start()
                other.join(timeout=60)
            raise OSError(errno.EIO, "made to fail")
        super().sync(file)


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex"])
def test_an_fsync_error_is_raised_to_every_caller_that_flushes(tmp_path, suffix):
    disk = LosingDisk(suffix)
    log = load(tmp_path, disk=disk)
    log.append(batch(3))
    log.append(batch(3))
    log.update_config(SMALL.with_changes({"flush.messages": "1"}))
    raised = []

    def append():
        try:
            log.append(batch(3))
        except OSError as error:
            raised.append(error.errno)

    disk.loses, disk.when_told = True, append
    with pytest.raises(OSError, match="made to fail"):
        log.flush()
    assert raised == [errno.EIO]
    assert log.recovery_point == 0
    log.abandon()


def test_no_file_stays_open_when_a_segment_cannot_be_forced_to_disk(tmp_path):
    disk = FailingDisk()
    log = load(tmp_path, disk=disk)
    log.append(batch(3))
    descriptors = set(Path("/proc/self/fd").iterdir())
    disk.fail_at = len(disk.calls) + 1
    with pytest.raises(OSError, match="No space"):
        log.flush()
    assert disk.calls[-1][0] == "open"
    assert set(Path("/proc/self/fd").iterdir()) == descriptors
    log.abandon()


@pytest.mark.parametrize("forces", [".log", "names"])
def test_a_segment_rolled_during_a_flush_is_flushed_again(tmp_path, forces):
    disk, clock = WaitingDisk(), ManualClock(NOW)
    scheduler = ManualScheduler(clock)
    log = load(tmp_path, disk=disk, clock=clock, scheduler=scheduler)
    log.append(batch(3))

    def roll():
        log.roll()
        disk.forced.clear()

    disk.at, disk.meanwhile = forces, roll
    log.flush()
    scheduler.run_due()
    rolled = log.growing_segments[0]
    assert log.recovery_point == rolled.time_index.last_entry.offset + 1 == 3
    indexes = rolled.offset_index, rolled.time_index
    expected = {rolled.path.name, *(index.path.name for index in indexes)}
    assert expected <= set(disk.forced)
    log.close()


def test_a_segment_deleted_during_a_flush_is_no_error(tmp_path):
    disk = WaitingDisk()
    log = load(tmp_path, disk=disk)
    for _ in range(30):
        log.append(batch(3))
    log.update_high_watermark(log.log_end_offset)
    assert len(log.growing_segments) > 3
    disk.meanwhile = lambda: log.delete_records(20) and log.delete_old_segments()
    log.flush()
    assert log.recovery_point == log.log_end_offset
    assert log.growing_segments[0].base_offset > 0
    disk.meanwhile = log.abandon
    with pytest.raises(LogClosedError):
        log.flush(include_active=True)


def test_the_directory_is_synced_once_for_a_new_transaction_index(
    tmp_path,
):
    disk = TracingDisk()
    log = load(tmp_path, disk=disk)
    log.append(batch())
    log.flush()
    [segment] = log.growing_segments
    forced = []
    for offset in (1, 2):
        log.append(batch())
        aborted = AbortedTransaction(7, offset, offset, offset + 1)
        segment.txn_index.append(aborted)
        disk.calls.clear()
        log.flush()
        forced.append(disk.calls_of("sync_directory"))
    assert forced == [[("sync_directory", "t-0")], []]
    log.close()
