"""Whole log directories kept as a broker keeps them, and one judged by a broker."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import threading

import pytest

import kafkalog
from kafkalog import (
    BrokerConfig,
    ConfigError,
    InconsistentTopicIdError,
    LogClosedError,
    LogConfig,
    LogLockedError,
    LogManager,
    LogStateError,
    NotALogDirectoryError,
    OffsetOutOfRangeError,
    RecordBatchBuilder,
)
from kafkalog.files.checkpoint_file import read_offsets
from kafkalog.files.durable_file import Disk
from kafkalog.formats.checkpoint import parse_epochs
from kafkalog.log.clock import ManualClock, ManualScheduler
from tests import golden_data

NOW_MS = 1_763_740_000_000  # 2025: the brokers' records lie in 2023
MARKER = ".kafka_cleanshutdown"
POINTS = "recovery-point-offset-checkpoint"
STARTS = "log-start-offset-checkpoint"
HIGHS = "replication-offset-checkpoint"
METADATA = "__cluster_metadata-0"
SMALL = LogConfig(internal_segment_bytes=2000, file_delete_delay_ms=1000)
ID_1, ID_2 = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"

# The topics of the crashed broker, as tests/golden/make created them.
TORN = LogConfig(
    internal_segment_bytes=6000,
    index_interval_bytes=200,
    segment_index_bytes=400,
    retention_ms=-1,
)
TORN_TOPICS = {
    "torn.preallocated": TORN.with_changes({"preallocate": "true"}),
    "torn.sparse": TORN.with_changes({"segment.index.bytes": "10485760"}),
    "__transaction_state": LogConfig(segment_index_bytes=400, cleanup_policy="compact"),
}


def batch(count=10, timestamp=NOW_MS):
    builder = RecordBatchBuilder()
    for number in range(count):
        builder.append(b"key-%d" % number, b"v" * 50, timestamp=timestamp)
    return builder.build()


def manage(*directories, config=SMALL, clock=None, scheduler=None, **options):
    clock = ManualClock(NOW_MS) if clock is None else clock
    scheduler = ManualScheduler(clock) if scheduler is None else scheduler
    return LogManager(directories, config, clock=clock, scheduler=scheduler, **options)


def fill(log, appends=1):
    for _ in range(appends):
        log.append(batch())
    log.update_high_watermark(log.log_end_offset)


def copy_of(set_name, tmp_path):
    return shutil.copytree(golden_data.logs(set_name), tmp_path / "logs")


def contents(directory):
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


class DyingDisk(Disk):
    """A disk on which nothing below a directory can be forced any more."""

    def __init__(self):
        self.dead = None

    def _refuse(self, path):
        if self.dead is not None and str(path).startswith(str(self.dead)):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    def write(self, file, data, position):
        self._refuse(file.path)
        super().write(file, data, position)

    def open(self, path, *, create=False, exclusive=False):
        self._refuse(path)
        return super().open(path, create=create, exclusive=exclusive)

    def make_directory(self, path):
        self._refuse(path)
        super().make_directory(path)


# Judged by a broker


@pytest.fixture(scope="module")
def recovered(tmp_path_factory):
    """Give what a broker's crashed directory is after it was opened and closed."""
    logs = copy_of("k431-crash", tmp_path_factory.mktemp("crash"))
    with manage(logs, config=TORN, topics=TORN_TOPICS) as manager:
        reports = {f"{name[0]}-{name[1]}": manager[name].report for name in manager}
    return logs, reports


TORN_PARTITIONS = sorted(
    path.name for path in golden_data.partitions("k431-crash") if path.name != METADATA
)


@pytest.mark.parametrize("partition", TORN_PARTITIONS)
def test_what_a_crash_left_is_recovered_to_what_the_broker_made_of_it(
    recovered, partition
):
    ours = contents(recovered[0] / partition)
    theirs = contents(golden_data.logs("k431-recovered") / partition)
    epochs = "leader-epoch-checkpoint"
    assert ours.keys() == theirs.keys()
    differing = [name for name in ours if ours[name] != theirs[name]]
    assert set(differing) <= {epochs}
    known, later = parse_epochs(ours[epochs]), parse_epochs(theirs[epochs])
    assert known == later[:-1]  # the broker began another, as it led again


@pytest.mark.parametrize("name", [POINTS, STARTS, HIGHS])
def test_its_checkpoints_are_those_of_the_broker(recovered, name):
    theirs = read_offsets(golden_data.logs("k431-recovered"), name)
    ours = read_offsets(recovered[0], name)
    if name == HIGHS:  # a broker that leads alone raises it to the end of each log
        before = read_offsets(golden_data.logs("k431-crash"), name)
        assert ours == before
    else:
        assert ours == theirs


def test_it_ends_with_a_marker_of_a_clean_stop_and_no_lock(recovered):
    assert (recovered[0] / MARKER).read_bytes() == b'{"version":0,"brokerEpoch":-1}'
    assert not (recovered[0] / ".lock").exists()


def test_it_tells_what_was_read_through_and_cut(recovered):
    report = recovered[1]["torn.preallocated-0"]
    assert not report.clean
    assert [one.base_offset for one in report.recovered] == [0, 88]
    assert report.bytes_cut == 6000 - 802


NEEDLESS_SNAPSHOTS = {  # at the start of a log, or between its segments
    "k431-clean": {
        "cutoff-0/00000000000000000060.snapshot",
        "expired-0/00000000000000000090.snapshot",
        "state.and-delete-0/00000000000000000067.snapshot",
    },
    "k431-recovered": set(),
    "k431-repl-broker1": {"twins-0/00000000000000000084.snapshot"},
}


@pytest.mark.parametrize("set_name", NEEDLESS_SNAPSHOTS)
def test_a_clean_directory_that_is_opened_and_closed_stays_as_it_was(
    tmp_path, set_name
):
    logs = copy_of(set_name, tmp_path)
    before = contents(logs)
    with manage(logs, config=LogConfig()) as manager:
        assert all(log.report.clean for log in manager.values())
        assert not any(log.report.recovered for log in manager.values())
        names = set(manager)
    changed = {name for name, data in contents(logs).items() if data != before[name]}
    assert changed <= {POINTS, HIGHS, STARTS}  # hash maps, written in another order
    gone = before.keys() - contents(logs).keys()
    assert {
        name for name in gone if not name.endswith(".deleted")
    } == NEEDLESS_SNAPSHOTS[set_name]
    assert names == {
        (path.name.rpartition("-")[0], int(path.name.rpartition("-")[2]))
        for path in golden_data.partitions(set_name)
        if path.name != METADATA and not path.name.endswith("-delete")
    }
    for name in (POINTS, HIGHS, STARTS):
        assert read_offsets(logs, name) == read_offsets(
            golden_data.logs(set_name), name
        )


# What lies in a directory


def test_marked_directories_are_kept_apart_and_those_to_be_deleted_go_later(tmp_path):
    with manage(tmp_path) as manager:
        for number in range(4):
            fill(manager.open("orders", number))
    word = "0" * 32
    for number, state in ((1, "future"), (2, "delete"), (3, "stray")):
        (tmp_path / f"orders-{number}").rename(
            tmp_path / f"orders-{number}.{word}-{state}"
        )
    clock = ManualClock(NOW_MS)
    with manage(tmp_path, clock=clock) as manager:
        assert list(manager) == [("orders", 0)]
        assert list(manager.futures) == [("orders", 1)]
        assert manager.futures["orders", 1].log_end_offset == 10
        assert [path.name for path in manager.strays] == [f"orders-3.{word}-stray"]
        assert manager.remove_deleted() == 0
        clock.time_ms += 1000
        assert manager.remove_deleted() == 1
    left = sorted(path.name for path in tmp_path.iterdir() if path.is_dir())
    assert left == ["orders-0", f"orders-1.{word}-future", f"orders-3.{word}-stray"]
    assert read_offsets(tmp_path, POINTS) == {("orders", 0): 10, ("orders", 1): 10}


def test_logs_that_should_not_be_there_are_put_aside(tmp_path):
    with manage(tmp_path) as manager:
        manager.open("orders", 0, topic_id=ID_1)
        manager.open("orders", 1)
    with manage(tmp_path, is_stray=lambda log: log.topic_id is None) as manager:
        assert list(manager) == [("orders", 0)]
        [stray] = manager.strays
    assert stray.name.startswith("orders-1.")
    assert stray.name.endswith("-stray")
    assert read_offsets(tmp_path, POINTS) == {("orders", 0): 0}


def test_a_directory_that_is_no_partitions_stops_all(tmp_path):
    (tmp_path / "lost+found").mkdir()
    with pytest.raises(NotALogDirectoryError, match="lost"):
        manage(tmp_path)
    (tmp_path / "lost+found").rmdir()
    (tmp_path / "remote-log-index-cache").mkdir()
    manage(tmp_path).close()


def test_one_partition_in_two_directories_stops_all(tmp_path):
    for name in "ab":
        with manage(tmp_path / name) as manager:
            manager.open("orders", 0)
    with pytest.raises(LogStateError, match="two directories"):
        manage(tmp_path / "a", tmp_path / "b")
    assert not (tmp_path / "a" / MARKER).exists()
    manage(tmp_path / "a").close()


def test_the_same_directory_twice_or_none_is_refused(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(ConfigError, match="twice"):
        manage(tmp_path, tmp_path / "link")
    with pytest.raises(ConfigError, match="no log directory"):
        manage()


def test_one_directory_may_be_given_as_it_is(tmp_path):
    with LogManager(str(tmp_path / "new" / "logs"), SMALL) as manager:
        assert list(manager) == []
        assert "0 logs" in repr(manager)


# Locks


def test_a_managed_directory_is_locked_within_the_process_and_outside(tmp_path):
    program = f"import kafkalog; kafkalog.LogManager({str(tmp_path)!r})"
    with manage(tmp_path) as manager:
        manager.open("orders", 0)
        with pytest.raises(LogLockedError):
            manage(tmp_path)
        with pytest.raises(LogLockedError):
            kafkalog.open(tmp_path / "orders-0", "a")
        other = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False
        )
        assert "LogLockedError" in other.stderr
    with (
        kafkalog.open(tmp_path / "orders-0", "a"),
        pytest.raises(LogLockedError),
    ):
        manage(tmp_path)
    manage(tmp_path).close()


def test_a_locked_directory_leaves_the_others_free(tmp_path):
    with manage(tmp_path / "b"):
        with pytest.raises(LogLockedError):
            manage(tmp_path / "a", tmp_path / "b")
        manage(tmp_path / "a").close()


# The marker and the checkpoints


def test_the_marker_is_gone_while_logs_are_open_and_back_with_its_epoch(tmp_path):
    logs = copy_of("k431-recovered", tmp_path)
    said = (logs / MARKER).read_bytes()
    with manage(logs, config=TORN, topics=TORN_TOPICS):
        assert not (logs / MARKER).exists()
    assert (logs / MARKER).read_bytes() == said


def test_logs_that_were_abandoned_are_recovered_from_their_recovery_points(tmp_path):
    manager = manage(tmp_path)
    log = manager.open("orders", 0)
    fill(log, 8)
    log.flush(60)
    manager.checkpoint()
    manager.abandon()
    assert not (tmp_path / MARKER).exists()
    with manage(tmp_path) as manager:
        report = manager["orders", 0].report
        assert not report.clean
        assert report.recovered[0].base_offset <= 60
        assert manager["orders", 0].log_end_offset == 80
        assert manager["orders", 0].high_watermark == 80


def test_unreadable_checkpoints_are_taken_for_empty(tmp_path):
    with manage(tmp_path) as manager:
        fill(manager.open("orders", 0))
    for name in (POINTS, STARTS, HIGHS):
        (tmp_path / name).write_bytes(b"nonsense")
    with manage(tmp_path) as manager:
        assert manager["orders", 0].log_end_offset == 10
        assert manager["orders", 0].high_watermark == 0


def test_a_log_start_is_checkpointed_only_beyond_the_first_segment(tmp_path):
    with manage(tmp_path) as manager:
        for number in range(2):
            fill(manager.open("orders", number), 3)
        manager["orders", 0].delete_records(5)
    assert read_offsets(tmp_path, STARTS) == {("orders", 0): 5}
    with manage(tmp_path) as manager:
        with pytest.raises(OffsetOutOfRangeError):
            manager["orders", 0].read(4)
        assert manager["orders", 1].log_start_offset == 0


def test_a_log_that_its_user_closed_does_not_spoil_the_stop(tmp_path):
    with manage(tmp_path) as manager, manager.open("orders", 0) as log:
        fill(log)
    assert (tmp_path / MARKER).exists()
    with manage(tmp_path) as manager:
        assert manager["orders", 0].report.clean
        assert manager["orders", 0].log_end_offset == 10


# Partitions


def test_partitions_go_where_the_fewest_are_but_not_into_cordoned_directories(tmp_path):
    paths = [tmp_path / name for name in "abc"]
    broker = BrokerConfig(
        log_dirs=[str(path) for path in paths], cordoned_log_dirs=[str(paths[2])]
    )
    with manage(*paths, broker=broker) as manager:
        for number in range(4):
            manager.open("orders", number)
        assert manager.open("orders", 0) is manager["orders", 0]
    counts = [len(list(path.glob("orders-*"))) for path in paths]
    assert counts == [2, 2, 0]


def test_a_topic_has_its_own_settings_and_new_ones_reach_its_logs(tmp_path):
    topics = {"orders": LogConfig(retention_bytes=1)}
    with manage(tmp_path, topics=topics) as manager:
        assert manager.open("orders", 0).config.retention_bytes == 1
        assert manager.open("clicks", 0).config is SMALL
        manager.update_config("clicks", LogConfig(retention_bytes=2))
        assert manager["clicks", 0].config.retention_bytes == 2
        assert manager.open("clicks", 1).config.retention_bytes == 2


def test_a_topic_id_is_kept_and_another_is_refused(tmp_path):
    with manage(tmp_path) as manager:
        manager.open("orders", 0, topic_id=ID_1)
        with pytest.raises(InconsistentTopicIdError):
            manager.open("orders", 0, topic_id=ID_2)
    with manage(tmp_path) as manager:
        assert manager["orders", 0].topic_id == ID_1


def test_a_deleted_partition_is_gone_at_once_and_its_files_later(tmp_path):
    clock = ManualClock(NOW_MS)
    with manage(tmp_path, clock=clock) as manager:
        log = manager.open("orders", 0)
        fill(log)
        manager.open("clicks", 0)
        manager.delete("orders", 0)
        assert list(manager) == [("clicks", 0)]
        [marked] = tmp_path.glob("orders-0.*-delete")
        assert set(read_offsets(tmp_path, POINTS)) == {("clicks", 0)}
        with pytest.raises(LogClosedError):
            log.append(batch())
        with pytest.raises(KeyError):
            manager.delete("orders", 0)
        assert manager.open("orders", 0).log_end_offset == 0
        clock.time_ms += 999
        assert manager.remove_deleted() == 0
        clock.time_ms += 1
        assert manager.remove_deleted() == 1
        assert not marked.exists()
        assert ("orders", 0) in manager


def test_a_deleted_partition_is_taken_out_of_what_the_cleaner_noted(tmp_path):
    with manage(tmp_path) as manager:
        manager.open("orders", 0)
        (tmp_path / "cleaner-offset-checkpoint").write_text("0\n2\norders 0 5\nx 1 2\n")
        manager.delete("orders", 0)
    assert read_offsets(tmp_path, "cleaner-offset-checkpoint") == {("x", 1): 2}


# What is due


def test_tasks_retain_flush_and_checkpoint_when_they_are_due(tmp_path):
    clock = ManualClock(NOW_MS)
    scheduler = ManualScheduler(clock)
    broker = BrokerConfig(log_flush_scheduler_interval_ms=1000)
    config = SMALL.with_changes({"retention.bytes": "3000", "flush.ms": "5000"})
    options = {"clock": clock, "scheduler": scheduler, "broker": broker}
    with manage(tmp_path, config=config, **options) as manager:
        log = manager.open("orders", 0)
        fill(log, 10)
        names = {task.name for task in scheduler.pending()}
        assert {
            "kafka-log-retention",
            "kafka-log-flusher",
            "kafka-delete-logs",
        } <= names
        scheduler.run_due()  # what the log itself has asked for
        clock.time_ms += broker.log_initial_task_delay_ms
        scheduler.run_due()
        assert log.log_start_offset > 0
        assert log.recovery_point == 100
        assert read_offsets(tmp_path, HIGHS) == {("orders", 0): 100}
        clock.time_ms += broker.log_flush_offset_checkpoint_interval_ms
        scheduler.run_due()
        assert read_offsets(tmp_path, POINTS) == {("orders", 0): 100}
        manager.delete("orders", 0)
        clock.time_ms += 2000
        scheduler.run_due()
        assert not list(tmp_path.glob("*-delete"))
    clock.time_ms += 10**9
    scheduler.run_due()  # nothing happens to what is closed


def test_retention_and_truncation_can_be_asked_for(tmp_path):
    config = SMALL.with_changes({"retention.ms": "1000"})
    clock = ManualClock(NOW_MS)
    with manage(tmp_path, config=config, clock=clock) as manager:
        fill(manager.open("orders", 0), 5)
        fill(manager.open("clicks", 0), 1)
        assert manager.retain() == 0
        manager.truncate_to({("clicks", 0): 0, ("gone", 7): 0})
        assert manager["clicks", 0].log_end_offset == 0
        assert ("clicks", 0) in read_offsets(tmp_path, POINTS)
        clock.time_ms += 1001
        assert manager.retain() == len(
            list((tmp_path / "orders-0").glob("*.log.deleted"))
        )
        assert manager["orders", 0].log_start_offset == 50


def test_a_thread_does_it_all_by_itself(tmp_path):
    broker = BrokerConfig(log_initial_task_delay_ms=0)
    config = SMALL.with_changes({"file.delete.delay.ms": "0"})
    gone = threading.Event()

    class WatchedDisk(Disk):
        def remove_directory(self, path):
            super().remove_directory(path)
            gone.set()

    with LogManager(tmp_path, config, broker=broker, disk=WatchedDisk()) as manager:
        fill(manager.open("orders", 0))
        manager.delete("orders", 0)
        assert gone.wait(30)
    assert not list(tmp_path.glob("orders*"))


# A directory that fails


def test_a_failing_directory_does_not_take_the_others_along(tmp_path):
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


def test_a_new_partition_goes_to_another_directory_if_the_first_fails(tmp_path):
    disk = DyingDisk()
    a, b = tmp_path / "a", tmp_path / "b"
    with manage(a, b, disk=disk) as manager:
        disk.dead = a
        fill(manager.open("orders", 0))
        assert (b / "orders-0").is_dir()
        assert list(manager.offline) == [a]


def test_without_a_directory_left_the_failure_is_raised(tmp_path):
    disk = DyingDisk()
    manager = manage(tmp_path / "a", disk=disk)
    disk.dead = tmp_path / "a"
    with pytest.raises(OSError, match="Input/output"):
        manager.open("orders", 0)
    manager.close()
    disk.dead = tmp_path
    with pytest.raises(OSError, match="Input/output"):
        manage(tmp_path / "b", disk=disk)


def test_a_stop_that_fails_is_raised_and_leaves_no_marker_there(tmp_path):
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
