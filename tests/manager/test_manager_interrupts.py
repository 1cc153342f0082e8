"""An interrupt in any call of a manager: it completes, or the directories are closed.

After any line the directories can be opened again in this process, and all records
whose appends had returned are there. See `tests/log/test_interrupts.py`.
"""

import shutil
import sys
from contextlib import suppress
from itertools import count

import pytest

import kafkalog
from kafkalog import LogConfig
from kafkalog.cleaner import LogCleaner
from kafkalog.errors import KafkaLogError, LogClosedError
from kafkalog.log import ownership
from kafkalog.storage.durable_file import Disk
from kafkalog.storage.file_names import CLEAN_SHUTDOWN
from kafkalog.testing import ManualClock, ManualScheduler, open_manager
from tests.log.test_interrupts import Interrupting
from tests.log.writing import NOW

CONFIG = LogConfig(cleanup_policy=("compact", "delete"), retention_ms=-1)
MOST = 40
NAMES = [("orders", 0), ("orders", 1), ("state", 0)]


def opened(root):
    clock = ManualClock(NOW)
    directories = [root / "a", root / "b"]
    return open_manager(
        directories, CONFIG, clock=clock, scheduler=ManualScheduler(clock)
    )


def filled(root):
    """Return a manager with a record in each of three logs."""
    manager = opened(root)
    for name in NAMES:
        log = manager.open(*name)
        log.append_records([{"key": b"k", "value": b"v", "timestamp": NOW}])
        log.update_high_watermark(1)
    return manager


def close(manager):
    manager.close()


def create(manager):
    manager.open("new", 0)


def delete(manager):
    manager.delete("orders", 1)


def checkpoint(manager):
    manager.checkpoint()


def flush(manager):
    manager.flush_due()


def move(manager):
    source = manager["orders", 0].path.parent
    [target] = {log.path.parent for log in manager.values()} - {source}
    manager.move("orders", 0, target)
    while manager.moves:
        manager.advance_moves()


def clean(manager):
    log = manager["state", 0]
    log.roll()
    log.update_high_watermark(log.log_end_offset)
    manager.cleaner.clean("state", 0)


CALLS = [close, create, delete, checkpoint, flush, move, clean]


def interrupted(manager, call, at):
    """Interrupt a call at a line; return whether it was interrupted."""
    try:
        with Interrupting(at, KeyboardInterrupt):
            call(manager)
    except KeyboardInterrupt:
        return True
    return False


def open_below(root):
    """Return the log directories that this process has open."""
    return [path for path in ownership._owned if path.is_relative_to(root)]


def check_reopened(root, call):
    """Check that the directories can be opened, and have all records."""
    assert open_below(root) == []
    with opened(root) as manager:
        kept = NAMES if call is not delete else [("orders", 0), ("state", 0)]
        assert set(kept) <= set(manager)
        assert manager.offline == {}
        for name in kept:
            assert manager[name].log_end_offset == 1
            manager[name].append_records([{"key": b"k", "value": b"more"}])
    for name in kept:
        [log] = root.glob(f"?/{name[0]}-{name[1]}")
        assert kafkalog.scan(log).count() == 2


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_whichever_line_is_interrupted_the_directories_can_be_opened(memory_path, call):
    (memory_path / "count").mkdir()
    manager = filled(memory_path / "count")
    with Interrupting(0, KeyboardInterrupt) as counted:
        call(manager)
    manager.close()
    hit = 0
    for at in range(1, counted.lines + 1, 1 + counted.lines // MOST):
        root = memory_path / str(at)
        root.mkdir()
        manager = filled(root)
        hit += interrupted(manager, call, at)
        with suppress(KafkaLogError):
            manager.close()
        check_reopened(root, call)
        shutil.rmtree(root)
    assert hit


def interrupted_at_end(manager, at):
    """Interrupt the end of a block at a line; return the tracer of the lines."""
    tracer = Interrupting(at, KeyboardInterrupt)
    before = sys.gettrace()
    try:
        with manager:
            sys.settrace(tracer.enter)
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return tracer


@pytest.mark.parametrize("is_block", [False, True])
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_an_interrupted_close_releases_the_directories(memory_path, is_block):
    lines = 1
    for at in count(1):
        root = memory_path / str(at)
        root.mkdir()
        manager = filled(root)
        if is_block:
            lines = interrupted_at_end(manager, at).lines
        elif interrupted(manager, close, at):
            lines = at
            manager.close()
        check_reopened(root, close)
        shutil.rmtree(root)
        if lines < at:
            break
    assert at > 8


def interrupt_next_append(monkeypatch):
    real = Disk.write_each

    def interrupted(self, writes):
        monkeypatch.setattr(Disk, "write_each", real)
        real(self, writes)
        raise KeyboardInterrupt

    monkeypatch.setattr(Disk, "write_each", interrupted)


def append_interrupted(log, monkeypatch):
    interrupt_next_append(monkeypatch)
    log.append_records([{"key": b"k", "value": b"v"}])


def test_an_interrupt_in_a_block_reaches_the_caller(tmp_path, monkeypatch):
    (tmp_path / "one").mkdir()
    log = kafkalog.open(tmp_path / "one" / "orders-0", "a")
    with pytest.raises(KeyboardInterrupt), log:
        append_interrupted(log, monkeypatch)
    manager = filled(tmp_path)
    with pytest.raises(KeyboardInterrupt), manager:
        append_interrupted(manager["orders", 0], monkeypatch)
    assert open_below(tmp_path) == []


def test_a_manager_closes_the_logs_that_were_not_interrupted_in_order(
    tmp_path, monkeypatch
):
    manager = filled(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        append_interrupted(manager["orders", 0], monkeypatch)
    with pytest.raises(LogClosedError):
        manager["orders", 0].append_records([{"key": b"k", "value": b"v"}])
    place = manager["orders", 0].path.parent
    manager.checkpoint()
    manager.close()
    [other] = {tmp_path / "a", tmp_path / "b"} - {place}
    assert not (place / CLEAN_SHUTDOWN).exists()
    assert (other / CLEAN_SHUTDOWN).exists()
    with opened(tmp_path) as manager:
        assert {log.log_end_offset for log in manager.values()} <= {1, 2}
        assert set(manager) == set(NAMES)


def fail_in_block(manager, prepare):
    with manager:
        prepare()
        raise ZeroDivisionError


def test_an_error_while_closing_is_a_note_on_the_error_of_the_block(
    tmp_path, monkeypatch
):
    def fail(*_):
        raise OSError(5, "made to fail")

    with pytest.raises(ZeroDivisionError) as raised:
        fail_in_block(filled(tmp_path), lambda: monkeypatch.setattr(Disk, "sync", fail))
    assert any("made to fail" in note for note in raised.value.__notes__)
    monkeypatch.undo()
    assert open_below(tmp_path) == []


def test_a_cleaner_that_was_interrupted_in_its_thread_is_closed_at_once(
    tmp_path, monkeypatch
):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    manager = filled(tmp_path)
    log = manager["state", 0]
    log.roll()
    log.update_high_watermark(log.log_end_offset)
    with LogCleaner({("state", 0): log}) as cleaner:
        monkeypatch.setattr(type(cleaner.states), "end_cleaning", interrupt)
        with pytest.raises(KeyboardInterrupt):
            cleaner.clean("state", 0)
    manager.close()
    assert open_below(tmp_path) == []
