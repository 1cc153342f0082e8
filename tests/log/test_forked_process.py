"""Forked processes: a child does not own the logs that its parent has open."""

import fcntl
import json
import os
import threading
import traceback
import warnings
from contextlib import ExitStack, contextmanager

import pytest

from kafkalog.indexes import growing_index
from kafkalog.storage.file_names import CLEAN_SHUTDOWN, LOCK
from kafkalog.testing import ManualClock, ManualScheduler, open_log, open_manager
from tests.log.writing import NOW, SMALL, batch


def in_child(work):
    """Run a function in a forked process; return its result."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of other tests' threads
        child = os.fork()
    if not child:
        try:
            result = work()
        except BaseException:
            result = traceback.format_exc()
        os.write(writing, json.dumps(result).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as results:
        result = json.loads(results.read())
    os.waitpid(child, 0)
    return result


def opened(directory, name="orders-0"):
    clock = ManualClock(NOW)
    scheduler = ManualScheduler(clock)
    path = directory / name
    return open_log(path, SMALL, clock=clock, scheduler=scheduler)


def managed(directory):
    clock = ManualClock(NOW)
    return open_manager(directory, SMALL, clock=clock, scheduler=ManualScheduler(clock))


def refusal(work):
    """Return the name of the error that a function raises."""
    try:
        work()
    except Exception as error:
        return type(error).__name__
    return None


def is_locked_for_others(directory):
    def try_lock():
        with (directory / LOCK).open("r+b") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    return in_child(try_lock)


def tree(directory):
    """Read all files except the lock file: closing that one would release the lock."""
    return {
        path.relative_to(directory).as_posix(): (
            b"" if path.name == LOCK else path.read_bytes()
        )
        for path in directory.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("name", ["orders-0", "orders-1"])
def test_a_child_cannot_open_a_log_that_its_parent_has_locked(tmp_path, name):
    with opened(tmp_path) as log:
        assert in_child(lambda: refusal(lambda: opened(tmp_path, name))) == (
            "LogLockedError"
        )
        assert not (tmp_path / "orders-1").exists()
        assert is_locked_for_others(tmp_path)
        log.append(batch())


@pytest.mark.parametrize("how", ["close", "abandon"])
def test_a_child_that_closes_an_inherited_log_changes_nothing(tmp_path, how):
    (tmp_path / CLEAN_SHUTDOWN).write_bytes(b"")
    log = opened(tmp_path)
    log.append(batch(2))
    before = tree(tmp_path)
    assert in_child(getattr(log, how)) is None
    assert tree(tmp_path) == before
    assert is_locked_for_others(tmp_path)
    log.append(batch(2))
    log.close()
    assert (tmp_path / CLEAN_SHUTDOWN).exists()
    assert not (tmp_path / LOCK).exists()
    with opened(tmp_path) as log:
        assert log.report.clean
        assert log.log_end_offset == 4


@pytest.mark.parametrize(
    "work",
    [
        lambda log: log.append(batch()),
        lambda log: log.flush(),
        lambda log: log.roll(),
        lambda log: log.truncate_to(0),
        lambda log: log.delete(),
        lambda log: log.owned_directory.forget(("orders", 0)),
        lambda log: log.owned_directory.lower_recovery_point(("orders", 0), 0),
        lambda log: log.owned_directory.write("recovery-point-offset-checkpoint", dict),
    ],
)
def test_a_child_changes_nothing_of_an_inherited_log(tmp_path, work):
    with opened(tmp_path) as log:
        log.append(batch(2))
        before = tree(tmp_path)
        assert in_child(lambda: refusal(lambda: work(log))) == "LogClosedError"
        assert tree(tmp_path) == before


def test_a_child_can_take_the_lock_after_its_parent_has_released_it(tmp_path):
    log = opened(tmp_path)
    reading_end, writing_end = os.pipe()

    def child():
        os.read(reading_end, 1)
        with opened(tmp_path) as own:
            log.close()
            log.abandon()
            own.append(batch())
            return is_locked_for_others(tmp_path)

    def let_go():
        log.close()
        os.write(writing_end, b".")

    letting_go = threading.Timer(0.2, let_go)
    letting_go.start()
    assert in_child(child) is True
    letting_go.join()
    with opened(tmp_path) as again:
        assert again.log_end_offset == 1


def test_a_child_does_not_wait_for_a_lock_held_by_a_thread_of_its_parent(tmp_path):
    log = opened(tmp_path)
    held, enough = threading.Event(), threading.Event()

    def hold():
        with log.runtime.lock:
            held.set()
            enough.wait()

    holding = threading.Thread(target=hold)
    holding.start()
    held.wait()
    assert in_child(log.close) is None
    enough.set()
    holding.join()
    log.close()


def test_a_child_leaves_the_logs_of_a_manager_to_its_parent(tmp_path):
    manager = managed(tmp_path)
    manager.open("orders", 0).append(batch(2))
    before = tree(tmp_path)

    def child():
        return [
            refusal(lambda: manager.open("orders", 0)),
            refusal(lambda: manager.open("orders", 1)),
            refusal(lambda: manager.delete("orders", 0)),
            refusal(manager.checkpoint),
            refusal(manager.close),
        ]

    assert in_child(child) == ["LogClosedError"] * 4 + [None]
    assert tree(tmp_path) == before
    assert is_locked_for_others(tmp_path)
    manager["orders", 0].append(batch(2))
    manager.close()
    with managed(tmp_path) as manager:
        assert manager["orders", 0].report.clean
        assert manager["orders", 0].log_end_offset == 4


@contextmanager
def held_by_a_thread(*locks):
    """Hold locks in another thread, as an operation of the parent may."""
    held, enough = threading.Event(), threading.Event()

    def hold():
        with ExitStack() as stack:
            for lock in locks:
                stack.enter_context(lock)
            held.set()
            enough.wait()

    holding = threading.Thread(target=hold)
    holding.start()
    held.wait()
    try:
        yield
    finally:
        enough.set()
        holding.join()


@pytest.mark.parametrize("how", ["close", "abandon", "__exit__"])
def test_a_child_closes_a_log_while_a_thread_of_its_parent_appends_and_rolls(
    tmp_path, how
):
    log = opened(tmp_path)
    log.append(batch(2))
    segment = log.growing_segments[-1]
    indexes = segment.offset_index, segment.time_index, segment.txn_index
    arguments = (None, None, None) if how == "__exit__" else ()
    with held_by_a_thread(log.runtime.lock, *(index._lock for index in indexes)):
        assert in_child(lambda: getattr(log, how)(*arguments)) is None
        assert in_child(lambda: refusal(lambda: log.append(batch()))) == (
            "LogClosedError"
        )
    log.append(batch(2))
    log.close()


def test_a_child_opens_another_log_while_a_thread_of_its_parent_opens_an_index(
    tmp_path,
):
    def child():
        with opened(tmp_path / "own") as own:
            own.append(batch())
            return own.log_end_offset

    for name in ("parents", "own"):
        (tmp_path / name).mkdir()
    with opened(tmp_path / "parents") as log:
        log.append(batch(2))
        with held_by_a_thread(growing_index._open._lock):
            assert in_child(child) == 1


@pytest.mark.parametrize("how", ["close", "abandon", "__exit__"])
def test_a_child_closes_a_manager_whatever_a_thread_of_its_parent_does(tmp_path, how):
    manager = managed(tmp_path)
    manager.open("orders", 0).append(batch(2))
    arguments = (None, None, None) if how == "__exit__" else ()
    locks = manager._lock, manager._moving, manager.cleaner.states._lock
    with held_by_a_thread(*locks):
        assert in_child(lambda: getattr(manager, how)(*arguments)) is None
        for call in (manager.checkpoint, manager.retain, manager.advance_moves):
            assert in_child(lambda call=call: refusal(call)) == "LogClosedError"
        assert in_child(manager.cleaner.close) is None
    manager["orders", 0].append(batch(2))
    manager.close()
