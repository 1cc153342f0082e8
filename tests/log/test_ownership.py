"""A log open for writing: lock, marker and checkpoints of its log directory."""

import errno
import os
import subprocess
import sys

import pytest

import kafkalog
from kafkalog import LogLockedError, NotALogDirectoryError
from kafkalog.log import ownership
from kafkalog.storage.file_names import CLEAN_SHUTDOWN, LOCK
from kafkalog.testing import FailingDisk, TracingDisk, open_log
from tests.log.writing import SMALL, batch

POINTS = "recovery-point-offset-checkpoint"
MARKS = "replication-offset-checkpoint"
STARTS = "log-start-offset-checkpoint"
TRY_LOCK = """
import fcntl, sys
try:
    fcntl.lockf(open(sys.argv[1], "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print("locked")
else:
    print("free")
"""
HOLD_LOCK = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print(flush=True)
sys.stdin.read()
"""


def lock_as_seen_elsewhere(directory, name=LOCK):
    command = [sys.executable, "-c", TRY_LOCK, str(directory / name)]
    return subprocess.run(
        command, check=True, capture_output=True, text=True
    ).stdout.strip()


def opened(directory, name="orders-0", **options):
    return open_log(directory / name, SMALL, **options)


def test_another_process_finds_the_directory_locked_until_the_last_log_is_closed(
    tmp_path,
):
    first = opened(tmp_path)
    second = opened(tmp_path, "orders-1")
    assert lock_as_seen_elsewhere(tmp_path) == "locked"
    first.close()
    assert lock_as_seen_elsewhere(tmp_path) == "locked"
    second.close()
    assert not (tmp_path / LOCK).exists()


def test_a_directory_locked_by_another_process_is_rejected_and_left_unchanged(tmp_path):
    (tmp_path / CLEAN_SHUTDOWN).write_bytes(b"")
    command = [sys.executable, "-c", HOLD_LOCK, str(tmp_path / LOCK)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as other:
        other.stdout.readline()
        with pytest.raises(
            LogLockedError, match="locked by a broker or another process"
        ):
            opened(tmp_path)
        other.stdin.close()
    assert (tmp_path / CLEAN_SHUTDOWN).exists()
    assert not (tmp_path / "orders-0").exists()
    opened(tmp_path).close()


def test_a_rejected_opening_within_the_process_does_not_release_the_lock(tmp_path):
    with opened(tmp_path):
        with pytest.raises(LogLockedError):
            opened(tmp_path)
        assert lock_as_seen_elsewhere(tmp_path) == "locked"


def test_the_marker_is_removed_while_a_log_is_open_and_restored_if_it_existed(tmp_path):
    content = b'{"version":0,"brokerEpoch":11}'
    (tmp_path / CLEAN_SHUTDOWN).write_bytes(content)
    with opened(tmp_path) as log:
        assert log.report.clean
        assert not (tmp_path / CLEAN_SHUTDOWN).exists()
    assert (tmp_path / CLEAN_SHUTDOWN).read_bytes() == content


def test_no_marker_is_written_if_there_was_none(tmp_path):
    opened(tmp_path).close()
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()
    with opened(tmp_path) as log:
        assert not log.report.clean


def test_the_marker_is_not_restored_after_a_log_was_abandoned(tmp_path):
    (tmp_path / CLEAN_SHUTDOWN).write_bytes(b"")
    first, second = opened(tmp_path), opened(tmp_path, "orders-1")
    first.abandon()
    second.close()
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()


@pytest.mark.parametrize("how", ["abandoned", "failed", "not loaded"])
def test_a_log_not_closed_in_order_is_recovered_though_the_directory_stays_open(
    tmp_path, how
):
    opened(tmp_path).close()
    (tmp_path / CLEAN_SHUTDOWN).write_bytes(b"")
    disk = FailingDisk()
    with opened(tmp_path, "orders-1", disk=disk):
        log = opened(tmp_path, disk=disk)
        log.append(batch(2))
        if how == "abandoned":
            log.abandon()
        elif how == "failed":
            disk.fail_at = len(disk.calls)
            with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
                log.append(batch(2))
            log.close()
        else:
            log.close()
            disk.fail_at = len(disk.calls) + 1
            with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
                opened(tmp_path, disk=disk)
        with opened(tmp_path, disk=disk) as log:
            assert not log.report.clean
            assert log.log_end_offset == 2
            assert log.recovery_point <= 2
            assert log.growing_segments[0].size == len(batch(2))
            assert log.append(batch(2)).first_offset == 2
        with opened(tmp_path, "orders-2", disk=disk) as log:
            assert log.report.clean


def test_closing_writes_only_the_checkpoint_lines_of_its_own_partition(tmp_path):
    for name in (POINTS, MARKS, STARTS):
        (tmp_path / name).write_text("0\n1\nothers 3 42\n")
    with opened(tmp_path) as log:
        for _ in range(20):
            log.append(batch(5))
        log.update_high_watermark(90)
        log.delete_records(33)
    for name, offset in ((POINTS, 100), (MARKS, 90), (STARTS, 33)):
        lines = (tmp_path / name).read_text().splitlines()
        assert sorted(lines[2:]) == [f"orders 0 {offset}", "others 3 42"]


def test_a_path_that_is_no_partition_is_rejected(tmp_path):
    (tmp_path / "file-0").write_bytes(b"")
    for name in ("nodash", "file-0", f"orders-0.{32 * 'a'}-delete"):
        with pytest.raises(NotALogDirectoryError):
            opened(tmp_path, name)
    assert not (tmp_path / LOCK).exists()


def test_an_unknown_mode_is_refused(tmp_path):
    with pytest.raises(ValueError, match="mode 'w', expected 'r' or 'a'"):
        kafkalog.open(tmp_path / "orders-0", "w")


def test_the_lock_is_released_if_a_log_cannot_be_loaded(tmp_path):
    opened(tmp_path).close()
    (tmp_path / "orders-0" / "leader-epoch-checkpoint").write_text("nonsense")
    with pytest.raises(kafkalog.CorruptCheckpointError):
        opened(tmp_path)
    assert not (tmp_path / LOCK).exists()


def test_the_lock_is_released_whichever_call_fails_while_opening(tmp_path):
    disk = TracingDisk()
    (tmp_path / "noted").mkdir()
    opened(tmp_path / "noted", disk=disk).abandon()
    letting_go = 1  # the removal of the lock file is noted, too
    assert len(disk.calls) > letting_go
    for call in range(len(disk.calls) - letting_go):
        directory = tmp_path / str(call)
        directory.mkdir()
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            opened(directory, disk=FailingDisk(fail_at=call))
        opened(directory).close()


@pytest.mark.parametrize(
    ("call", "effect"), [(1, "remove"), (2, "sync_directory"), (None, "reading")]
)
def test_a_marker_that_cannot_be_removed_leaves_no_lock(
    tmp_path, monkeypatch, call, effect
):
    def read_regular(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / LOCK).touch()
    (tmp_path / "same").hardlink_to(tmp_path / LOCK)
    (tmp_path / CLEAN_SHUTDOWN).touch()
    disk = FailingDisk(fail_at=call)
    if call is None:
        monkeypatch.setattr(ownership, "read_regular", read_regular)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        opened(tmp_path, disk=disk)
    assert call is None or disk.calls[call][0] == effect
    assert lock_as_seen_elsewhere(tmp_path, "same") == "free"
    assert (tmp_path / LOCK).exists() == (effect == "reading")  # nothing changed yet


@pytest.mark.parametrize("call", [0, 3, 7, 12])
def test_a_close_that_fails_raises_and_leaves_no_marker(tmp_path, call):
    (tmp_path / CLEAN_SHUTDOWN).write_bytes(b"")
    disk = FailingDisk()
    log = opened(tmp_path, disk=disk)
    log.append(batch(2))
    disk.fail_at = len(disk.calls) + call
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        log.close()
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()
    assert not (tmp_path / LOCK).exists()
    with opened(tmp_path) as log:
        assert log.log_end_offset == 2
