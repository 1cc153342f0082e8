"""An opening that is rejected or fails changes nothing and leaves nothing open."""

import errno
import os
import threading
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

import kafkalog
from kafkalog import (
    CorruptCheckpointError,
    InconsistentTopicIdError,
    LogArgumentError,
    LogLockedError,
    LogStateError,
    NotALogDirectoryError,
    StrayFileError,
)
from kafkalog.log.recovery.log_loading import load_log
from kafkalog.log.writable_log import WritableLog
from kafkalog.testing import FailingDisk, ManualClock, ManualScheduler, open_log
from tests.log.clusters import IDS
from tests.log.writing import NOW, SMALL, batch, files_of
from tests.manager.managing import manage

OTHER_ID = IDS["state"]
MARKER = ".kafka_cleanshutdown"
METADATA = "partition.metadata"
EPOCHS = "leader-epoch-checkpoint"


def open_descriptors():
    """Return the number of files that this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def log_directory(root):
    """Write a log directory of two partitions, closed in order."""
    with kafkalog.LogManager(root, SMALL) as logs:
        for topic in ("orders", "clicks"):
            log = logs.open(topic, 0, topic_id=IDS["orders"])
            for _ in range(9):
                log.append(batch(3))
    (root / MARKER).write_bytes(b'{"version":0,"brokerEpoch":11}')
    return root


def write(name, content):
    def damage(directory):
        (directory / name).write_bytes(content)

    return damage


def make_directory(name):
    def damage(directory):
        (directory / name).unlink(missing_ok=True)
        (directory / name).mkdir()

    return damage


def nothing(_directory):
    pass


REFUSALS = {
    "another topic": (nothing, InconsistentTopicIdError),
    "garbage in partition.metadata": (write(METADATA, b"x"), CorruptCheckpointError),
    "no partition.metadata file": (make_directory(METADATA), OSError),
    "garbage in the epochs": (write(EPOCHS, b"x"), CorruptCheckpointError),
    "a negative epoch": (write(EPOCHS, b"0\n1\n-1 0\n"), LogArgumentError),
    "no epoch file": (make_directory(EPOCHS), OSError),
    "a stray .log": (write("backup.log", b""), StrayFileError),
    "a stray index": (write("backup.timeindex", b""), StrayFileError),
    "a stray snapshot": (write("x.snapshot", b""), StrayFileError),
    "a stray .cleaned": (write("x.log.cleaned", b""), StrayFileError),
}


@pytest.fixture
def damaged(tmp_path, request):
    damage, error = REFUSALS[request.param]
    root = log_directory(tmp_path / "logs")
    damage(root / "orders-0")
    return root, error, OTHER_ID if damage is nothing else None


def each_refusal(*names):
    return pytest.mark.parametrize("damaged", names or list(REFUSALS), indirect=True)


@each_refusal()
def test_a_refused_opening_changes_nothing_and_leaves_nothing_open(damaged):
    root, error, topic_id = damaged
    before, descriptors = files_of(root), open_descriptors()
    threads = threading.active_count()
    with pytest.raises(error):
        kafkalog.open(root / "orders-0", "a", SMALL, topic_id=topic_id)
    assert files_of(root) == before
    assert open_descriptors() == descriptors
    assert threading.active_count() == threads
    with kafkalog.open(root / "clicks-0", "a", SMALL) as log:
        assert log.report.clean


@each_refusal()
def test_a_refused_opening_leaves_the_other_logs_of_the_directory_clean(damaged):
    root, error, topic_id = damaged
    with kafkalog.open(root / "clicks-0", "a", SMALL), pytest.raises(error):
        kafkalog.open(root / "orders-0", "a", SMALL, topic_id=topic_id)
    assert (root / MARKER).exists()


@each_refusal("a stray .log", "a negative epoch")
def test_a_refused_manager_changes_nothing_and_leaves_nothing_open(damaged):
    root, error, _ = damaged
    before, descriptors = files_of(root), open_descriptors()
    threads = threading.active_count()
    with pytest.raises(error):
        kafkalog.LogManager(root, SMALL)
    assert files_of(root) == before
    assert open_descriptors() == descriptors
    assert threading.active_count() == threads


@each_refusal("garbage in partition.metadata", "no epoch file")
def test_a_directory_that_is_offline_from_the_start_is_left_unchanged(
    damaged, tmp_path
):
    root, _, _ = damaged
    before, descriptors = files_of(root), open_descriptors()
    with manage(tmp_path / "other", root) as manager:
        assert list(manager.offline) == [root]
        assert files_of(root) == before
    assert open_descriptors() == descriptors
    with pytest.raises((OSError, CorruptCheckpointError)):
        manage(root)
    assert files_of(root) == before
    assert open_descriptors() == descriptors


def _foreign_directory(root):
    (root / "lost+found").mkdir()


def _twin(root):
    (root.with_name("more") / "orders-0").mkdir()


def _lock(root):
    scheduler = ManualScheduler(ManualClock(NOW))
    return open_log(root / "orders-0", SMALL, scheduler=scheduler)


@pytest.mark.parametrize(
    ("disturb", "error"),
    [
        (_foreign_directory, NotALogDirectoryError),
        (_twin, LogStateError),
        (_lock, LogLockedError),
    ],
)
def test_a_manager_refused_for_one_directory_changes_none(tmp_path, disturb, error):
    roots = [log_directory(tmp_path / "more"), log_directory(tmp_path / "logs")]
    for name in ("orders-0", "clicks-0"):
        (roots[0] / name).rename(roots[0] / f"my-{name}")
    log = disturb(roots[1])
    before, descriptors = files_of(tmp_path), open_descriptors()
    with pytest.raises(error):
        manage(*roots)
    assert files_of(tmp_path) == before
    assert open_descriptors() == descriptors
    if log is not None:
        log.close()


def test_a_locked_directory_or_no_partition_is_rejected_without_a_trace(tmp_path):
    root = log_directory(tmp_path / "logs")
    scheduler = ManualScheduler(ManualClock(NOW))
    with open_log(root / "orders-0", SMALL, scheduler=scheduler):
        before, descriptors = files_of(root), open_descriptors()
        for name, error in (("orders-0", LogLockedError), ("x", NotALogDirectoryError)):
            with pytest.raises(error):
                kafkalog.open(root / name, "a", SMALL)
        assert files_of(root) == before
        assert open_descriptors() == descriptors


def test_a_lock_file_left_by_a_crash_stays_when_opening_is_refused(tmp_path):
    root = log_directory(tmp_path / "logs")
    (root / ".lock").touch()
    with pytest.raises(InconsistentTopicIdError):
        kafkalog.open(root / "orders-0", "a", SMALL, topic_id=OTHER_ID)
    assert (root / ".lock").exists()
    kafkalog.open(root / "orders-0", "a", SMALL).close()
    assert not (root / ".lock").exists()


# Failures once something was changed


@contextmanager
def suppress_full_disk():
    """Suppress the error of a full disk, and note that it was full."""
    failed = []
    try:
        yield failed
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        failed.append(error)


@pytest.mark.parametrize("clean", [True, False])
def test_whichever_call_fails_while_loading_no_file_stays_open(tmp_path, clean):
    for call in count():
        root = log_directory(tmp_path / str(call))
        sorted((root / "orders-0").glob("*.index"))[0].unlink()
        if not clean:
            (root / MARKER).unlink()
            (root / "recovery-point-offset-checkpoint").unlink()
        descriptors = open_descriptors()
        clock, disk = ManualClock(NOW), FailingDisk(call)
        scheduler = ManualScheduler(clock)
        options = {"clock": clock, "scheduler": scheduler, "disk": disk}
        with suppress_full_disk() as failed:
            open_log(root / "orders-0", SMALL, **options).abandon()
        assert open_descriptors() == descriptors
        if not failed:
            break
    assert call > 10


def test_an_opening_that_fails_at_the_very_end_leaves_nothing_open(
    tmp_path, monkeypatch
):
    root = log_directory(tmp_path / "logs")
    descriptors, threads = open_descriptors(), threading.active_count()

    def fail(*_, **__):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(WritableLog, "start_high_watermark", fail)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        kafkalog.open(root / "orders-0", "a", SMALL)
    assert open_descriptors() == descriptors
    assert threading.active_count() == threads
    assert not (root / MARKER).exists()


def test_a_log_that_cannot_be_split_leaves_nothing_open(tmp_path):
    directory = tmp_path / "t-0"
    directory.mkdir()
    path = directory / "00000000000000000050.log"
    path.write_bytes(batch(1, base_offset=10, leader_epoch=0))
    descriptors = open_descriptors()
    clock = ManualClock(NOW)
    with pytest.raises(LogArgumentError, match="expected one too far from base offset"):
        load_log(
            directory, SMALL, clean=False, clock=clock, scheduler=ManualScheduler(clock)
        )
    assert open_descriptors() == descriptors


# A log directory that is created


def test_a_created_log_directory_has_a_marker_once_all_logs_are_closed(tmp_path):
    root = tmp_path / "new"
    with kafkalog.open(root / "orders-0", "a", SMALL) as log:
        log.append(batch(3))
        with kafkalog.open(root / "clicks-0", "a", SMALL):
            assert not (root / MARKER).exists()
        assert not (root / MARKER).exists()
    assert (root / MARKER).read_bytes() == b'{"version":0,"brokerEpoch":-1}'
    with kafkalog.open(root / "orders-0", "a", SMALL) as log:
        assert log.report.clean
        assert log.log_end_offset == 3


def test_a_created_log_directory_has_no_marker_after_a_crash(tmp_path):
    root = tmp_path / "new"
    kafkalog.open(root / "orders-0", "a", SMALL).abandon()
    assert not (root / MARKER).exists()
    kafkalog.open(root / "orders-0", "a", SMALL).close()
    assert not (root / MARKER).exists()


def test_the_parent_of_a_log_directory_is_not_created(tmp_path):
    with pytest.raises(FileNotFoundError):
        kafkalog.open(tmp_path / "a" / "b" / "orders-0", "a", SMALL)
    assert not list(tmp_path.iterdir())


def test_a_manager_creates_its_directories_and_their_markers(tmp_path):
    with manage(tmp_path / "a" / "b"):
        assert not (tmp_path / "a" / "b" / MARKER).exists()
    assert (tmp_path / "a" / "b" / MARKER).exists()


INVALID = {
    "config of type dict, expected a LogConfig": {"config": {}},
    "broker of type dict, expected a BrokerConfig": {"broker": {}},
    "topic id 'x', expected 22 characters": {"topic_id": "x"},
    "topic id 'A{22}', expected 22 characters": {"topic_id": 22 * "A"},
    "topic id 5, expected 22 characters": {"topic_id": 5},
}


@pytest.mark.parametrize("reason", INVALID)
def test_an_invalid_argument_creates_nothing(tmp_path, reason):
    with pytest.raises(LogArgumentError, match=reason):
        kafkalog.open(tmp_path / "logs" / "orders-0", "a", **INVALID[reason])
    assert not list(tmp_path.iterdir())


def test_a_manager_refuses_settings_of_another_type(tmp_path):
    threads = threading.active_count()
    for options in ({"config": {}}, {"topics": {"orders": {}}}, {"broker": {}}):
        with pytest.raises(LogArgumentError, match="of type dict, expected"):
            kafkalog.LogManager(tmp_path / "logs", **options)
    assert not list(tmp_path.iterdir())
    assert threading.active_count() == threads


def test_a_manager_refuses_an_invalid_topic_id(tmp_path):
    with kafkalog.LogManager(tmp_path) as logs:
        with pytest.raises(LogArgumentError, match="topic id 'x', expected"):
            logs.open("orders", 0, topic_id="x")
        assert not list(logs)
        # The last character has bits that an id does not use.
        log = logs.open("orders", 0, topic_id=21 * "x" + "y")
        log.append(batch(1))
    written = (tmp_path / "orders-0" / METADATA).read_text()
    assert written.endswith(21 * "x" + "w")
    path, same = tmp_path / "orders-0", 21 * "x" + "y"
    with kafkalog.open(path, "a", SMALL, topic_id=same) as log:
        assert log.topic_id == 21 * "x" + "w"
