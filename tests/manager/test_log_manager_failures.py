"""Failures of one log directory, which do not affect the others."""

import errno
import os
import shutil

import pytest

from kafkalog import BrokerConfig, LogClosedError
from kafkalog.errors import CorruptCheckpointError, StrayFileError
from kafkalog.storage.checkpoint_file import CLEANED_TO
from kafkalog.testing import FailingDisk, ManualClock, ManualScheduler, SingleWriteDisk
from tests.log.writing import files_of
from tests.manager.managing import MARKER, NOW_MS, SMALL, batch, fill, manage

pytestmark = pytest.mark.slow


class DyingDisk(SingleWriteDisk):
    """A disk that fails every write below the directory `dead`."""

    def __init__(self):
        self.dead = None

    def _fail_if_dead(self, path):
        if self.dead is not None and str(path).startswith(str(self.dead)):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    def write(self, file, data, position):
        self._fail_if_dead(file.path)
        super().write(file, data, position)

    def open(self, path, *, create=False, exclusive=False):
        self._fail_if_dead(path)
        return super().open(path, create=create, exclusive=exclusive)

    def make_directory(self, path):
        self._fail_if_dead(path)
        super().make_directory(path)


# A directory that fails


def test_a_failing_directory_does_not_affect_the_others(tmp_path):
    disk = DyingDisk()
    a, b = tmp_path / "a", tmp_path / "b"
    manager = manage(a, b, disk=disk)
    for number in range(4):
        fill(manager.open("orders", number))
    here = [name for name in manager if (a / f"orders-{name[1]}").exists()]
    disk.dead = a
    with pytest.raises(OSError, match="Input/output"):
        manager[here[0]].append(batch())
    assert list(manager.offline) == [a]
    assert set(manager) == {("orders", n) for n in range(4)} - set(here)
    for name in manager:
        fill(manager[name])
    assert not (a / MARKER).exists()
    with pytest.raises(LogClosedError, match="offline"):
        manager.open("clicks", 0)
    with pytest.raises(LogClosedError, match="offline"):
        manager.delete("clicks", 0)
    fill(manager.open("clicks", 0, is_new=True))
    manager.checkpoint()
    manager.close()
    assert (b / MARKER).exists()
    assert not (a / MARKER).exists()
    disk.dead = None
    with manage(a, b) as manager:
        assert [manager[name].log_end_offset for name in here] == [10, 10]
        assert manager["clicks", 0].log_end_offset == 10
        assert not manager[here[0]].report.clean


def test_a_directory_that_fails_when_logs_are_loaded_is_let_go_of(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    with manage(a, b) as manager:
        for number in range(2):
            manager.open("orders", number)
    (b / "orders-1" / "leader-epoch-checkpoint").write_bytes(b"nonsense")
    with manage(a, b) as manager:
        assert list(manager) == [("orders", 0)]
        assert "leader-epoch-checkpoint" in str(manager.offline[b])
    (tmp_path / "file").write_bytes(b"")
    with manage(a, tmp_path / "file") as manager:
        assert list(manager.offline) == [tmp_path / "file"]


def test_a_corrupt_checkpoint_of_the_cleaner_takes_its_directory_offline(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    with manage(a, b) as manager:
        for number in range(2):
            fill(manager.open("orders", number))
    (b / CLEANED_TO).write_bytes(b"nonsense")
    before = files_of(b)
    with manage(a, b) as manager:
        assert list(manager) == [("orders", 0)]
        assert f"{b / CLEANED_TO} at byte 0" in str(manager.offline[b])
    with pytest.raises(CorruptCheckpointError, match=CLEANED_TO):
        manage(b)
    assert files_of(b) == before
    with manage(a, b, broker=BrokerConfig(log_cleaner_enable=False)) as manager:
        assert len(manager) == 2


@pytest.mark.parametrize("logs", [("clicks", "orders"), ("orders", "clicks")])
def test_a_log_that_is_none_stops_all_whatever_else_fails(tmp_path, logs):
    a, b = tmp_path / "a", tmp_path / "b"
    for directory in (a, b):
        with manage(directory) as manager:
            for topic in logs:
                fill(manager.open(topic if directory == b else f"{topic}2", 0))
    (b / f"{logs[0]}-0" / "leader-epoch-checkpoint").write_bytes(b"nonsense")
    stray = b / f"{logs[1]}-0" / "x.log"
    stray.write_bytes(b"")
    with pytest.raises(StrayFileError, match=r"x\.log"):
        manage(a, b)
    assert (a / MARKER).exists()
    assert (b / MARKER).exists()
    stray.unlink()
    with manage(a, b) as manager:
        assert set(manager) == {(f"{topic}2", 0) for topic in logs}
        assert all(log.report.clean for log in manager.values())
        assert list(manager.offline) == [b]
    assert (a / MARKER).exists()
    assert (b / MARKER).exists()  # nothing was changed before the error


def test_a_disk_failure_of_one_log_takes_its_directory_offline(tmp_path):
    disk = DyingDisk()
    a, b = tmp_path / "a", tmp_path / "b"
    with manage(a, b) as manager:
        for number in range(4):
            fill(manager.open("orders", number))
    here = sorted(int(path.name[-1]) for path in b.glob("orders-*"))
    disk.dead = b / f"orders-{here[0]}"
    (b / MARKER).unlink()
    with manage(a, b, disk=disk) as manager:
        assert list(manager.offline) == [b]
        assert "Input/output" in str(manager.offline[b])
        assert {number for _, number in manager} == set(range(4)) - set(here)
    disk.dead = None
    with manage(a, b) as manager:
        assert [log.log_end_offset for log in manager.values()] == [10] * 4


def test_a_new_partition_goes_to_another_directory_if_the_first_fails(tmp_path):
    disk = DyingDisk()
    a, b = tmp_path / "a", tmp_path / "b"
    with manage(a, b, disk=disk) as manager:
        disk.dead = a
        fill(manager.open("orders", 0))
        assert (b / "orders-0").is_dir()
        assert list(manager.offline) == [a]


def test_the_error_is_raised_if_no_directory_is_left(tmp_path):
    disk = DyingDisk()
    manager = manage(tmp_path / "a", disk=disk)
    disk.dead = tmp_path / "a"
    with pytest.raises(OSError, match="Input/output"):
        manager.open("orders", 0)
    manager.close()
    disk.dead = tmp_path
    with pytest.raises(OSError, match="Input/output"):
        manage(tmp_path / "b", disk=disk)


def test_a_failure_of_close_is_raised_and_writes_no_marker(tmp_path):
    disk = DyingDisk()
    a, b = tmp_path / "a", tmp_path / "b"
    manager = manage(a, b, disk=disk)
    for number in range(2):
        fill(manager.open("orders", number))
    disk.dead = a
    with pytest.raises(OSError, match="Input/output"):
        manager.close()
    assert not (a / MARKER).exists()
    assert (b / MARKER).exists()
    manager.close()
    with pytest.raises(LogClosedError):
        manager.open("orders", 2)


def test_a_failure_of_a_background_task_is_raised_by_close(tmp_path):
    disk, clock = DyingDisk(), ManualClock(NOW_MS)
    scheduler = ManualScheduler(clock)
    manager = manage(tmp_path, disk=disk, clock=clock, scheduler=scheduler)
    log = manager.open("orders", 0)
    fill(log, 3)
    log.delete_records(25)
    disk.dead = tmp_path
    with pytest.raises(OSError, match="Input/output"):
        scheduler.run_due()
    with pytest.raises(OSError, match="Input/output"):
        manager.close()
    assert not (tmp_path / MARKER).exists()


def test_a_log_that_the_caller_abandoned_is_recovered_when_it_is_opened_again(tmp_path):
    with manage(tmp_path) as manager:
        fill(manager.open("orders", 0))
    with manage(tmp_path) as manager:
        log = manager["orders", 0]
        assert log.report.clean
        whole = log.growing_segments[-1].size
        log.append(batch())
        path = log.growing_segments[-1].path
        log.abandon()
        os.truncate(path, path.stat().st_size - 7)  # as when the disk is full
        again = manager.open("orders", 0)
        assert not again.report.clean
        assert again.log_end_offset == 10
        assert again.growing_segments[-1].size == whole
        fill(again)
        again.close()
        assert manager.open("orders", 0).log_end_offset == 20


def test_a_log_whose_append_failed_is_recovered_when_it_is_opened_again(tmp_path):
    with manage(tmp_path) as manager:
        fill(manager.open("orders", 0))
    disk = FailingDisk()
    with manage(tmp_path, disk=disk) as manager:
        log = manager["orders", 0]
        disk.fail_at = len(disk.calls)
        with pytest.raises(OSError, match="No space"):
            log.append(batch())
        log.close()
        again = manager.open("orders", 0)
        assert not again.report.clean
        assert again.log_end_offset == 10
        fill(again)
        assert again.log_end_offset == 20


def test_a_log_whose_truncation_failed_is_recovered_from_the_target_offset(tmp_path):
    with manage(tmp_path) as manager:
        fill(manager.open("orders", 0), 5)
    for call in range(1, 30):
        disk = FailingDisk()
        with manage(tmp_path, disk=disk) as manager:
            log = manager["orders", 0]
            fill(log)
            log.flush()
            disk.fail_at = len(disk.calls) + call
            try:
                log.truncate_to(20)
            except OSError:
                log.close()
            disk.fail_at, failed = None, len(disk.calls) > disk.fail_at
            if not failed:
                break
            again = manager.open("orders", 0)
            assert not again.report.clean
            assert again.recovery_point <= again.log_end_offset
            fill(again, 5)
    assert call > 3


# Any call that fails

KEEP_LITTLE = {"retention.bytes": "5000", "file.delete.delay.ms": "0"}
FLUSHED = {("orders", 0): 20, ("orders", 1): 10}


def work(root, disk):
    """Call each method of a manager; return whether nothing failed."""
    manager = None
    try:
        manager = manage(root, disk=disk, config=SMALL.with_changes(KEEP_LITTLE))
        for name in FLUSHED:
            fill(manager.open(*name), 4)
        manager.open("clicks", 0)
        manager.checkpoint()
        manager.delete("orders", 2)
        manager.retain()
        manager.truncate_to({("orders", 1): 30})
        manager.remove_deleted()
        manager.close()
    except (OSError, LogClosedError):
        if manager is not None:
            manager.abandon()
        return False
    return not manager.offline


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    root = tmp_path_factory.mktemp("prepared") / "logs"
    with manage(root) as manager:
        fill(manager.open("orders", 0), 2)
        fill(manager.open("orders", 1), 1)
        fill(manager.open("orders", 2), 3)
    return root


def test_a_failure_of_any_call_is_reported_and_loses_no_flushed_record(
    prepared, memory_path, monkeypatch
):
    monkeypatch.setattr(os, "fsync", lambda _: None)  # no power is cut here
    disk = FailingDisk()
    assert work(shutil.copytree(prepared, memory_path / "whole"), disk)
    calls = len(disk.calls)
    assert calls > 100
    for fail_at in range(calls):
        root = shutil.copytree(prepared, memory_path / f"{fail_at}")
        disk = FailingDisk(fail_at)
        fine = work(root, disk)
        assert len(disk.calls) > fail_at
        assert not fine, disk.calls[fail_at]
        with manage(root) as manager:
            assert not manager.offline
            for name, end in FLUSHED.items():
                assert manager[name].log_end_offset >= end, disk.calls[fail_at]
            assert set(manager) <= {*FLUSHED, ("orders", 2), ("clicks", 0)}
            fill(manager.open("orders", 0))
        shutil.rmtree(root)


# Which logs are offline


def test_the_logs_of_an_offline_directory_are_listed_and_errors_name_it(tmp_path):
    disk = DyingDisk()
    a, b = tmp_path / "a", tmp_path / "b"
    with manage(a, b, disk=disk) as manager:
        for number in range(2):
            fill(manager.open("orders", number, directory=a))
        fill(manager.open("clicks", 0, directory=b))
        assert manager.offline_logs == {}
        disk.dead = a
        with pytest.raises(OSError, match="Input/output"):
            manager["orders", 0].append(batch())
        assert manager.offline_logs == {("orders", 0): a, ("orders", 1): a}
        message = f"orders-1 is in the offline log directory {a}: .*Input/output"
        for call in (manager.open, manager.delete):
            with pytest.raises(LogClosedError, match=message):
                call("orders", 1)
        with pytest.raises(LogClosedError, match=message):
            manager.move("orders", 1, b)
        with pytest.raises(KeyError) as caught:
            manager["orders", 1]
        assert caught.value.__notes__ == [f"It is in an offline log directory: {a}"]
        assert ("orders", 1) not in manager
        with pytest.raises(LogClosedError, match=f"may be in .* directory: {a}"):
            manager.open("other", 0)


def test_logs_that_were_not_loaded_are_listed_as_offline(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    with manage(a, b) as manager:
        for number in range(3):
            fill(manager.open("orders", number, directory=(a, b)[number % 2]))
    disk = DyingDisk()
    disk.dead = a / "orders-2"
    (a / MARKER).unlink()
    with manage(a, b, disk=disk) as manager:
        assert manager.offline_logs == {("orders", 0): a, ("orders", 2): a}
        assert list(manager) == [("orders", 1)]
