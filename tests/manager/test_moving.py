"""Moves of partitions from one log directory of a manager to another."""

import errno
import os
import shutil
import threading
from dataclasses import replace

import pytest

from kafkalog import (
    BrokerConfig,
    LogClosedError,
    LogManager,
    OffsetOutOfRangeError,
)
from kafkalog.errors import LogArgumentError, LogStateError
from kafkalog.storage.checkpoint_file import read_offsets, write_offsets
from kafkalog.storage.durable_file import DISK
from kafkalog.testing import (
    FailingDisk,
    ManualClock,
    ManualScheduler,
    SingleWriteDisk,
)
from tests.manager.managing import (
    HIGHS,
    NOW_MS,
    POINTS,
    SMALL,
    STARTS,
    batch,
    fill,
    manage,
)

NAME = "orders", 0
CLEANED = "cleaner-offset-checkpoint"
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def paths(root):
    """Return the paths of three log directories."""
    return root / "a", root / "b", root / "c"


@pytest.fixture
def directories(tmp_path):
    return paths(tmp_path)


def finish(manager, max_bytes=1 << 20):
    """Advance the moves until there are none; return the number of calls."""
    for calls in range(1000):
        if not manager.moves:
            return calls
        manager.advance_moves(max_bytes)
    raise AssertionError(manager.moves)


def content(log):
    """Return the bytes of all batches of a log."""
    data, offset = b"", log.log_start_offset
    while offset < log.log_end_offset:
        read = log.read(offset)
        data, offset = data + read.data, read.next_offset
    return data


def names(directory):
    return sorted(path.name for path in directory.iterdir() if path.is_dir())


def states(directory):
    """Return the names of partitions in a directory, without their random part."""
    return sorted(
        name if "." not in name else name.partition(".")[0] + name[name.rindex("-") :]
        for name in names(directory)
    )


# The directory of a new partition


def test_a_new_partition_goes_to_the_directory_requested(directories):
    with manage(*directories) as manager:
        for number in range(3):
            manager.open("orders", number, directory=directories[1])
        manager.open("clicks", 0)
        assert manager.open("orders", 0, directory=directories[2]) is manager[NAME]
        with pytest.raises(LogArgumentError, match=r"expected one of .*/a, .*/b, "):
            manager.open("orders", 3, directory=directories[0].parent)
    assert names(directories[1]) == ["orders-0", "orders-1", "orders-2"]
    assert names(directories[0]) == ["clicks-0"]


def test_future_logs_count_as_logs_of_their_directory(directories):
    a, b = directories[:2]
    with manage(a, b) as manager:
        manager.open("orders", 0, directory=a)
        manager.open("orders", 1, directory=b)
        manager.move("orders", 0, b)
        manager.open("clicks", 0)
    assert names(a) == ["clicks-0", "orders-0"]


# Moves


def test_a_moved_partition_has_the_same_records_and_offsets(directories):
    a, b = directories[:2]
    clock = ManualClock(NOW_MS)
    with manage(a, b, clock=clock) as manager:
        log = manager.open("orders", 0, directory=a, topic_id=TOPIC_ID)
        fill(log, 12)
        log.delete_records(15)
        log.update_high_watermark(100)
        before = content(log)
        manager.move("orders", 0, b)
        assert states(b) == ["orders-0-future"]
        assert manager.moves[NAME].lag == 120
        assert (manager.moves[NAME].source, manager.moves[NAME].target) == (a, b)
        assert finish(manager, 1500) > 3
        assert states(a) == ["orders-0-delete"]
        assert names(b) == ["orders-0"]
        moved = manager[NAME]
        assert moved.path == b / "orders-0"
        assert content(moved) == before
        assert moved.log_start_offset == 15
        assert moved.high_watermark == 100
        assert moved.topic_id == TOPIC_ID
        assert moved.recovery_point == 120
        with pytest.raises(OffsetOutOfRangeError):
            moved.read(14)
        with pytest.raises(LogClosedError):
            log.append(batch())
        fill(moved)
        clock.time_ms += 1000
        assert manager.remove_deleted() == 1
        assert names(a) == []
    with manage(a, b) as manager:
        assert content(manager[NAME])[: len(before)] == before
        assert manager[NAME].log_end_offset == 130
        assert manager[NAME].report.clean


def test_the_lines_of_the_checkpoints_move_along(directories):
    a, b = directories[:2]
    with manage(a, b) as manager:
        log = manager.open("orders", 0, directory=a)
        fill(log, 8)
        log.delete_records(5)
        manager.checkpoint()
        write_offsets(a, CLEANED, {NAME: 30, ("clicks", 1): 7}, DISK)
        manager.move("orders", 0, b)
        finish(manager)
        for name, offset in ((POINTS, 80), (HIGHS, 80), (STARTS, 5), (CLEANED, 30)):
            assert NAME not in read_offsets(a, name)
            assert read_offsets(b, name) == {NAME: offset}
        assert read_offsets(a, CLEANED) == {("clicks", 1): 7}


def test_batches_appended_during_a_move_are_copied_too(directories):
    a, b = directories[:2]
    with manage(a, b) as manager:
        log = manager.open("orders", 0, directory=a)
        fill(log, 5)
        manager.move("orders", 0, b)
        for _ in range(5):
            manager.advance_moves(1)
            fill(log)
        assert NAME in manager.moves
        expected = content(log)
        finish(manager)
        assert content(manager[NAME]) == expected


def test_a_partition_without_records_is_moved(directories):
    a, b = directories[:2]
    with manage(a, b) as manager:
        manager.open("orders", 0, directory=a)
        manager.move("orders", 0, b)
        finish(manager)
        fill(manager[NAME])
    assert names(b) == ["orders-0"]


def test_a_partition_moves_back_and_forth(directories):
    a, b = directories[:2]
    with manage(a, b) as manager:
        fill(manager.open("orders", 0, directory=a), 3)
        for turn in range(4):
            manager.move("orders", 0, (b, a)[turn % 2])
            finish(manager)
            fill(manager[NAME], 2)
        assert manager[NAME].log_end_offset == 110
    assert states(a) == ["orders-0", "orders-0-delete", "orders-0-delete"]
    with manage(a, b) as manager:
        assert manager[NAME].log_end_offset == 110


def test_the_background_moves_partitions(directories):
    a, b = directories[:2]
    clock = ManualClock(NOW_MS)
    scheduler = ManualScheduler(clock)
    with manage(a, b, clock=clock, scheduler=scheduler) as manager:
        fill(manager.open("orders", 0, directory=a), 5)
        manager.move("orders", 0, b)
        assert "ReplicaAlterLogDirsThread-0" in scheduler.run_due()
        assert manager[NAME].path.parent == b
        scheduler.run_due()
        waiting = [task.name for task in scheduler.pending()]
        assert "ReplicaAlterLogDirsThread-0" not in waiting


def test_threads_append_while_their_partition_moves(directories):
    a, b = directories[:2]
    with LogManager([a, b], SMALL) as manager:
        manager.open("orders", 0, directory=a)
        appended = []

        def work():
            while len(appended) < 100:
                try:
                    appended.append(manager[NAME].append(batch()).first_offset)
                except LogClosedError:  # it has moved
                    assert manager[NAME].path.parent in (a, b)

        thread = threading.Thread(target=work)
        thread.start()
        turn = 0
        while thread.is_alive():
            turn += 1
            manager.move("orders", 0, (a, b)[turn % 2])
            while manager.moves and thread.is_alive():
                manager.advance_moves()
        thread.join()
        finish(manager)
        assert turn > 1
        assert appended == list(range(0, 1000, 10))
        found = [one.base_offset for one in manager[NAME].read(0).batches()]
        assert found == appended[: len(found)]
        assert len(content(manager[NAME])) == 100 * len(batch())


# Aborted moves, deleted partitions


def test_an_aborted_move_leaves_the_current_log(directories):
    a, b = directories[:2]
    clock = ManualClock(NOW_MS)
    with manage(a, b, clock=clock) as manager:
        log = manager.open("orders", 0, directory=a)
        fill(log, 5)
        manager.move("orders", 0, b)
        manager.advance_moves(1)
        assert manager.abort_move("orders", 0)
        assert not manager.abort_move("orders", 0)
        assert not manager.moves
        assert states(b) == ["orders-0-delete"]
        assert read_offsets(b, POINTS) == {}
        fill(log)
        clock.time_ms += 1000
        assert manager.remove_deleted() == 1
    assert names(b) == []


def test_a_move_to_another_directory_replaces_the_first(directories):
    a, b, c = directories
    with manage(a, b, c) as manager:
        fill(manager.open("orders", 0, directory=a), 5)
        manager.move("orders", 0, b)
        manager.move("orders", 0, b)
        manager.advance_moves(1)
        manager.move("orders", 0, c)
        assert manager.moves[NAME].target == c
        assert states(b) == ["orders-0-delete"]
        manager.move("orders", 0, a)
        assert not manager.moves
        assert names(a) == ["orders-0"]
        assert states(c) == ["orders-0-delete"]


def test_the_future_log_of_a_deleted_partition_is_deleted(directories):
    a, b = directories[:2]
    with manage(a, b) as manager:
        fill(manager.open("orders", 0, directory=a), 5)
        manager.move("orders", 0, b)
        manager.delete("orders", 0)
        assert not manager.moves
        assert not manager
        assert manager.advance_moves() == 0
    assert states(a) == states(b) == ["orders-0-delete"]


def test_a_partition_that_does_not_exist_is_not_moved(directories):
    a, b = directories[:2]
    with manage(a, b) as manager:
        with pytest.raises(KeyError):
            manager.move("orders", 0, b)
        manager.open("orders", 0, directory=a)
        with pytest.raises(LogArgumentError, match="expected one of"):
            manager.move("orders", 0, directories[2])
    with pytest.raises(LogClosedError):
        manager.move("orders", 0, b)


def test_a_partition_is_not_moved_to_a_cordoned_directory(directories):
    a, b = directories[:2]
    broker = BrokerConfig(
        log_dirs=[str(path) for path in directories], cordoned_log_dirs=[str(b)]
    )
    with manage(*directories, broker=broker) as manager:
        fill(manager.open(*NAME, directory=a))
        with pytest.raises(LogArgumentError, match=f"cordoned: {b}") as raised:
            manager.move(*NAME, b)
        assert raised.value.kafka_name == "InvalidReplicaAssignmentException"
        assert not manager.moves
        manager.move(*NAME, directories[2])
        finish(manager)


def test_nothing_is_copied_while_the_rate_is_above_its_limit(directories):
    a, b = directories[:2]
    clock = ManualClock(NOW_MS)
    broker = BrokerConfig(replica_alter_log_dirs_io_max_bytes_per_second=100)
    with manage(a, b, clock=clock, broker=broker) as manager:
        fill(manager.open(*NAME, directory=a), 3)
        manager.move(*NAME, b)
        copied = manager.advance_moves(1)
        assert manager.moves[NAME].lag == 20
        wait_ms = copied * 10
        for waited in (0, 1000, wait_ms - 1):
            clock.time_ms = NOW_MS + waited
            assert manager.advance_moves(1) == 0
        clock.time_ms = NOW_MS + wait_ms
        assert manager.advance_moves(1) == copied
        assert manager.moves[NAME].lag == 10
        clock.time_ms += wait_ms
        assert manager.advance_moves(1) == copied
        assert manager[NAME].path.parent == b


def test_a_topic_too_long_for_a_future_log_is_not_moved(directories):
    a, b = directories[:2]
    topic = "t" * 220
    with manage(a, b) as manager:
        manager.open(topic, 0, directory=a)
        with pytest.raises(LogArgumentError, match="262 characters, expected at most"):
            manager.move(topic, 0, b)
        assert not manager.offline


# Future logs found at opening


def test_a_move_continues_when_the_directories_are_opened_again(directories):
    a, b = directories[:2]
    with manage(a, b) as manager:
        fill(manager.open("orders", 0, directory=a), 12)
        manager.move("orders", 0, b)
        for _ in range(4):
            manager.advance_moves(1000)
        expected = content(manager[NAME])
        copied = manager.futures[NAME].log_end_offset
        assert 0 < copied < 120
    with manage(a, b) as manager:
        assert manager.moves[NAME].lag == 120 - copied
        finish(manager, 1000)
        assert content(manager[NAME]) == expected
    assert names(b) == ["orders-0"]


def truncate_and_append_other_records(log):
    log.truncate_to(20)
    for _ in range(4):
        log.append(batch(timestamp=NOW_MS + 1))
    log.update_high_watermark(log.log_end_offset)


@pytest.mark.parametrize("reopened", [False, True])
def test_batches_that_were_truncated_in_the_current_log_are_copied_again(
    directories, reopened
):
    a, b = directories[:2]
    manager = manage(a, b)
    log = manager.open("orders", 0, directory=a)
    fill(log, 6)
    manager.move("orders", 0, b)
    while manager.moves[NAME].lag > 10:
        manager.advance_moves(1)
    if reopened:  # by another program, without the move
        manager.close()
        with manage(a) as alone:
            truncate_and_append_other_records(alone[NAME])
        manager = manage(a, b)
    else:
        truncate_and_append_other_records(log)
    with manager:
        expected = content(manager[NAME])
        finish(manager, 1)
        assert manager[NAME].path.parent == b
        assert content(manager[NAME]) == expected


def test_a_future_log_that_is_ahead_of_the_current_log_is_truncated(directories):
    a, b = directories[:2]
    with manage(a, b) as manager:
        fill(manager.open("orders", 0, directory=a), 4)
        manager.move("orders", 0, b)
        manager.advance_moves(1500)
    with manage(a) as alone:
        alone[NAME].truncate_to(10)
    with manage(a, b) as manager:
        assert manager.futures[NAME].log_end_offset > 10
        finish(manager)
        assert manager[NAME].log_end_offset == 10
        assert manager[NAME].path.parent == b


def test_a_future_log_without_a_current_log_is_not_replaced_by_an_empty_one(
    directories,
):
    a, b = directories[:2]
    with manage(a, b) as manager:
        fill(manager.open("orders", 0, directory=a), 2)
        manager.move("orders", 0, b)
        manager.advance_moves(1)
    for path in (a / "orders-0").iterdir():
        path.unlink()
    (a / "orders-0").rmdir()
    with manage(a, b) as manager:
        assert manager.moves[NAME].source is None
        assert manager.advance_moves() == 0
        with pytest.raises(LogStateError, match="future log without a current log"):
            manager.open("orders", 0)
        manager.abort_move("orders", 0)
        assert manager.open("orders", 0).log_end_offset == 0


# Failures


class DyingDisk(SingleWriteDisk):
    """A disk that fails each call whose name and path `when` returns True for."""

    def __init__(self, when=lambda *_: False):
        self.when = when

    def _check(self, call, path):
        if self.when(call, str(path)):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    def write(self, file, data, position):
        self._check("write", file.path)
        super().write(file, data, position)

    def rename(self, source, target):
        self._check("rename", target)
        super().rename(source, target)


def test_a_failing_target_leaves_the_current_log_and_no_mark(directories):
    a, b = directories[:2]
    disk = DyingDisk()
    with manage(a, b, disk=disk) as manager:
        log = manager.open("orders", 0, directory=a)
        fill(log, 4)
        manager.move("orders", 0, b)
        disk.when = lambda call, path: call == "rename" and path == str(b / "orders-0")
        finish(manager)
        assert list(manager.offline) == [b]
        assert not manager.moves
        assert not list(a.glob("*.kafkalog-move"))
        fill(log)
        with pytest.raises(LogClosedError, match=f"offline: {b}"):
            manager.move("orders", 0, b)
    with manage(a, b) as manager:
        assert NAME in manager.moves
        finish(manager)
        assert manager[NAME].log_end_offset == 50


def test_a_failing_source_ends_with_the_moved_log(directories):
    a, b = directories[:2]
    disk = DyingDisk()
    with manage(a, b, disk=disk) as manager:
        fill(manager.open("orders", 0, directory=a), 4)
        manager.move("orders", 0, b)
        disk.when = lambda call, path: call == "rename" and path.endswith("-delete")
        finish(manager)
        assert list(manager.offline) == [a]
        assert manager[NAME].path.parent == b
        fill(manager[NAME])
    assert names(a) == names(b) == ["orders-0"]
    with manage(a, b) as manager:  # the mark is next to the incomplete one
        assert manager[NAME].log_end_offset == 50
        assert manager[NAME].path.parent == b
    assert states(a) == ["orders-0-delete"]
    assert not list(a.glob("*.kafkalog-move"))


def test_an_error_of_the_current_log_stops_the_move_until_it_is_started_again(
    directories,
):
    a, b = directories[:2]
    with manage(a, b) as manager:
        log = manager.open("orders", 0, directory=a)
        fill(log, 4)
        segment = log.growing_segments[0].path
        whole = segment.read_bytes()
        segment.write_bytes(whole[:100] + b"\xff" + whole[101:])
        manager.move("orders", 0, b)
        assert manager.advance_moves() == 0
        assert "CRC mismatch" in str(manager.moves[NAME].error)
        assert manager.advance_moves() == 0
        segment.write_bytes(whole)
        manager.move("orders", 0, b)
        finish(manager)
        assert manager[NAME].log_end_offset == 40


def move_with(disk, directories):
    """Move a partition from the first directory to the second; ignore failures."""
    manager = None
    try:
        manager = manage(*directories, disk=disk)
        manager.move("orders", 0, directories[1])
        finish(manager)
        fill(manager.open("orders", 0))
        manager["orders", 0].flush()
        manager.close()
    except (OSError, LogClosedError, AssertionError):
        pass
    finally:
        if manager is not None:
            manager.abandon()


@pytest.mark.slow
def test_a_failure_of_any_call_during_a_move_loses_no_record(memory_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)  # power failures are not simulated
    prepared = memory_path / "prepared"
    with manage(prepared / "a", prepared / "b") as manager:
        fill(manager.open("orders", 0, directory=prepared / "a"), 4)
        expected = content(manager[NAME])
    whole = shutil.copytree(prepared, memory_path / "whole")
    disk = FailingDisk()
    move_with(disk, (whole / "a", whole / "b"))
    calls = disk.calls
    assert len(calls) > 100
    for fail_at in range(len(calls)):
        root = shutil.copytree(prepared, memory_path / str(fail_at))
        directories = root / "a", root / "b"
        move_with(FailingDisk(fail_at), directories)
        with manage(*directories) as manager:
            assert not manager.offline
            finish(manager)
            assert content(manager[NAME])[: len(expected)] == expected, calls[fail_at]
            assert len(list(root.glob("?/orders-0"))) == 1
            assert not list(root.glob("?/*-move"))
        shutil.rmtree(root)


def test_a_compacted_log_is_not_compacted_while_it_moves(directories):
    compacted = replace(SMALL, cleanup_policy="compact", min_cleanable_dirty_ratio=0)
    with manage(*directories, topics={"orders": compacted}) as manager:
        fill(manager.open(*NAME, directory=directories[0]), 5)

        def is_chosen():
            chosen = manager.cleaner.states.take_filthiest()
            if chosen is not None:
                manager.cleaner.states.end_work([chosen.name])
            return chosen is not None

        assert is_chosen()
        manager.move(*NAME, directories[1])
        assert not is_chosen()
        assert manager.abort_move(*NAME)
        assert is_chosen()
        manager.move(*NAME, directories[1])
        finish(manager)
        assert is_chosen()
        assert manager[NAME].path.parent == directories[1]
