"""`LogManager`: directories, locks, checkpoints, partitions, periodic tasks."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import kafkalog
from kafkalog import (
    BrokerConfig,
    ConfigError,
    InconsistentTopicIdError,
    LogArgumentError,
    LogClosedError,
    LogConfig,
    LogLockedError,
    LogManager,
    LogStateError,
    NotALogDirectoryError,
    OffsetOutOfRangeError,
)
from kafkalog.storage.checkpoint_file import read_offsets
from kafkalog.storage.durable_file import Disk
from kafkalog.storage.location import locate
from kafkalog.testing import ManualClock, ManualScheduler, open_manager
from tests.manager.managing import (
    HIGHS,
    MARKER,
    NOW_MS,
    POINTS,
    SMALL,
    STARTS,
    batch,
    fill,
    manage,
)

ID_1, ID_2 = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"


# Directories of partitions


def test_marked_directories_are_not_opened_and_deleted_ones_are_removed_later(tmp_path):
    with manage(tmp_path) as manager:
        for number in range(4):
            fill(manager.open("orders", number))
    unique = "0" * 32
    for number, state in ((1, "future"), (2, "delete"), (3, "stray")):
        (tmp_path / f"orders-{number}").rename(
            tmp_path / f"orders-{number}.{unique}-{state}"
        )
    clock = ManualClock(NOW_MS)
    with manage(tmp_path, clock=clock) as manager:
        assert list(manager) == [("orders", 0)]
        assert list(manager.futures) == [("orders", 1)]
        assert manager.futures["orders", 1].log_end_offset == 10
        assert [path.name for path in manager.strays] == [f"orders-3.{unique}-stray"]
        assert manager.remove_deleted() == 0
        clock.time_ms += 1000
        assert manager.remove_deleted() == 1
    left = sorted(path.name for path in tmp_path.iterdir() if path.is_dir())
    assert left == ["orders-0", f"orders-1.{unique}-future", f"orders-3.{unique}-stray"]
    assert read_offsets(tmp_path, POINTS) == {("orders", 0): 10, ("orders", 1): 10}


def test_stray_logs_are_renamed(tmp_path):
    with manage(tmp_path) as manager:
        manager.open("orders", 0, topic_id=ID_1)
        manager.open("orders", 1)
    with manage(tmp_path, is_stray=lambda log: log.topic_id is None) as manager:
        assert list(manager) == [("orders", 0)]
        [stray] = manager.strays
    assert stray.name.startswith("orders-1.")
    assert stray.name.endswith("-stray")
    assert read_offsets(tmp_path, POINTS) == {("orders", 0): 0}


def test_a_directory_that_is_not_a_partitions_is_an_error(tmp_path):
    (tmp_path / "lost+found").mkdir()
    with pytest.raises(NotALogDirectoryError, match="lost"):
        manage(tmp_path)
    (tmp_path / "lost+found").rmdir()
    (tmp_path / "remote-log-index-cache").mkdir()
    manage(tmp_path).close()


def test_one_partition_in_two_directories_is_an_error(tmp_path):
    for name in "ab":
        with manage(tmp_path / name) as manager:
            manager.open("orders", 0)
    with pytest.raises(LogStateError, match="two directories"):
        manage(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "a" / MARKER).exists()
    manage(tmp_path / "a").close()


def test_duplicate_directories_and_no_directory_are_errors(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(ConfigError, match="duplicate log directory"):
        manage(tmp_path, tmp_path / "link")
    with pytest.raises(ConfigError, match="0 log directories, expected"):
        manage()


def test_a_single_directory_needs_no_list(tmp_path):
    with LogManager(str(tmp_path / "new" / "logs"), SMALL) as manager:
        assert list(manager) == []
        assert "0 logs" in repr(manager)


# Locks


def test_a_managed_directory_is_locked_for_this_and_other_processes(tmp_path):
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


def test_a_locked_directory_leaves_the_others_unlocked(tmp_path):
    manage(tmp_path / "a").close()
    with manage(tmp_path / "b"):
        with pytest.raises(LogLockedError):
            manage(tmp_path / "a", tmp_path / "b")
        assert (tmp_path / "a" / MARKER).exists()
        manage(tmp_path / "a").close()


# The marker and the checkpoints


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


def test_unreadable_checkpoints_count_as_empty(tmp_path):
    with manage(tmp_path) as manager:
        fill(manager.open("orders", 0))
    for name in (POINTS, STARTS, HIGHS):
        (tmp_path / name).write_bytes(b"nonsense")
    with manage(tmp_path) as manager:
        assert manager["orders", 0].log_end_offset == 10
        assert manager["orders", 0].high_watermark == 0


def test_a_checkpoint_opens_only_the_first_and_the_last_segment(tmp_path):
    with manage(tmp_path) as manager:
        fill(manager.open("orders", 0), 20)
    with manage(tmp_path) as manager:
        manager.checkpoint()
        assert len(manager["orders", 0]._log.segments.in_use) == 2


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


def test_a_log_that_the_caller_closed_is_opened_again(tmp_path):
    with manage(tmp_path) as manager:
        for _ in range(2):
            with manager.open("orders", 0) as log:
                fill(log)
        manager.checkpoint()
        manager.retain()
    assert (tmp_path / MARKER).exists()
    with manage(tmp_path) as manager:
        assert manager["orders", 0].report.clean
        assert manager["orders", 0].log_end_offset == 20
        assert manager["orders", 0].high_watermark == 20


# Partitions


def test_partitions_go_to_the_directory_with_the_fewest_that_is_not_cordoned(tmp_path):
    paths = [tmp_path / name for name in "abc"]
    broker = BrokerConfig(
        log_dirs=[str(path) for path in paths], cordoned_log_dirs=[str(paths[2])]
    )
    with manage(*paths, broker=broker) as manager:
        for number in range(4):
            manager.open("orders", number)
        assert manager.open("orders", 0) is manager["orders", 0]
        with pytest.raises(LogArgumentError, match=f"cordoned: {paths[2]}"):
            manager.open("orders", 4, directory=paths[2])
    counts = [len(list(path.glob("orders-*"))) for path in paths]
    assert counts == [2, 2, 0]


def test_the_first_directory_is_used_if_all_are_cordoned(tmp_path):
    paths = [tmp_path / name for name in "ab"]
    broker = BrokerConfig(log_dirs=[str(path) for path in paths], cordoned_log_dirs="*")
    with manage(*paths, broker=broker) as manager:
        for number in range(2):
            manager.open("orders", number)
    assert [len(list(path.glob("orders-*"))) for path in paths] == [2, 0]


def test_a_topic_has_its_own_settings_and_new_ones_reach_its_logs(tmp_path):
    topics = {"orders": LogConfig(retention_bytes=1)}
    with manage(tmp_path, topics=topics) as manager:
        assert manager.open("orders", 0).config.retention_bytes == 1
        assert manager.open("clicks", 0).config is SMALL
        manager.update_config("clicks", LogConfig(retention_bytes=2))
        assert manager["clicks", 0].config.retention_bytes == 2
        assert manager.open("clicks", 1).config.retention_bytes == 2


def test_a_topic_id_is_kept_and_another_is_rejected(tmp_path):
    with manage(tmp_path) as manager:
        manager.open("orders", 0, topic_id=ID_1)
        with pytest.raises(InconsistentTopicIdError):
            manager.open("orders", 0, topic_id=ID_2)
    with manage(tmp_path) as manager:
        assert manager["orders", 0].topic_id == ID_1


def test_a_deleted_partition_is_closed_at_once_and_its_files_are_removed_later(
    tmp_path,
):
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


def test_a_log_that_the_caller_deleted_or_truncated_is_opened_as_it_is_now(tmp_path):
    manager = manage(tmp_path)
    for number in range(2):
        log = manager.open("orders", number)
        fill(log, 3)
        log.delete_records(5)
        log.flush()
    manager.checkpoint()
    manager["orders", 0].delete()
    manager["orders", 1].truncate_to(10)
    reopened = manager.open("orders", 0)
    assert (reopened.log_start_offset, reopened.log_end_offset) == (0, 0)
    assert reopened.high_watermark == 0
    assert read_offsets(tmp_path, POINTS) == {("orders", 1): 10}
    manager.abandon()


def test_a_deleted_partition_is_removed_from_the_cleaners_checkpoint(tmp_path):
    with manage(tmp_path) as manager:
        manager.open("orders", 0)
        (tmp_path / "cleaner-offset-checkpoint").write_text("0\n2\norders 0 5\nx 1 2\n")
        manager.delete("orders", 0)
    assert read_offsets(tmp_path, "cleaner-offset-checkpoint") == {("x", 1): 2}


def test_settings_that_are_no_log_config_are_rejected_and_change_nothing(tmp_path):
    with kafkalog.LogManager(tmp_path, kafkalog.LogConfig()) as manager:
        log = manager.open("t", 0)
        with pytest.raises(kafkalog.LogStateError, match="config of type dict"):
            manager.update_config("t", {"retention.ms": "1"})
        assert manager.config_of("t") == log.config == kafkalog.LogConfig()


@pytest.mark.parametrize(
    ("topic", "partition"),
    [(".", 0), ("..", 0), ("a/b", 0), ("t", -1), ("t", 2**31), ("t", 1.0), ("t", "1")],
)
def test_a_partition_that_kafka_cannot_have_is_not_created(tmp_path, topic, partition):
    with kafkalog.LogManager(tmp_path, kafkalog.LogConfig()) as manager:
        with pytest.raises(ValueError, match="expected"):
            manager.open(topic, partition)
        assert list(manager) == []
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_a_topic_with_the_longest_name_is_created_deleted_and_listed(tmp_path):
    topic = "t" * 249
    with manage(tmp_path) as manager:
        manager.open(topic, 10)
        manager.delete(topic, 10)
    [marked] = tmp_path.glob("*-delete")
    assert len(marked.name) == 255
    with manage(tmp_path, config=LogConfig(file_delete_delay_ms=0)) as manager:
        assert list(manager) == []
        assert manager.remove_deleted() == 1
    assert not marked.exists()


def test_a_manager_is_safe_for_many_threads(tmp_path):
    appended = dict.fromkeys(range(4), 0)
    broker = BrokerConfig(
        log_initial_task_delay_ms=0, log_retention_check_interval_ms=1
    )
    with LogManager(
        [tmp_path / "a", tmp_path / "b"], LogConfig(retention_ms=-1), broker=broker
    ) as manager:

        def work(number):
            for turn in range(8):
                fill(manager.open("orders", number))
                appended[number] += 10
                fill(manager.open("passing", 4 * turn + number))
                manager.checkpoint()
                manager.delete("passing", 4 * turn + number)
                assert ("orders", number) in list(manager)

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(work, appended))
    with manage(tmp_path / "a", tmp_path / "b") as manager:
        ends = {name[1]: log.log_end_offset for name, log in manager.items()}
        assert ends == appended
        assert all(log.report.clean for log in manager.values())


# Periodic tasks


@pytest.mark.parametrize("keep", [{"retention.bytes": 3000}, {"retention.ms": 20_000}])
def test_tasks_retain_flush_and_checkpoint_at_their_times(tmp_path, keep):
    clock = ManualClock(NOW_MS)
    scheduler = ManualScheduler(clock)
    broker = BrokerConfig(log_flush_scheduler_interval_ms=1000)
    config = SMALL.with_changes({**keep, "flush.ms": "5000"})
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
        scheduler.run_due()  # the tasks of the log itself
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
    scheduler.run_due()  # a closed manager is not changed


def test_retention_and_truncation_on_demand(tmp_path):
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


def test_the_background_thread_runs_the_tasks(tmp_path):
    broker = BrokerConfig(log_initial_task_delay_ms=0)
    config = SMALL.with_changes({"file.delete.delay.ms": "0"})
    gone = threading.Event()

    class WatchedDisk(Disk):
        def remove_directory(self, path):
            super().remove_directory(path)
            gone.set()

    with open_manager(tmp_path, config, broker=broker, disk=WatchedDisk()) as manager:
        fill(manager.open("orders", 0))
        manager.delete("orders", 0)
        assert gone.wait(30)
    assert not list(tmp_path.glob("orders*"))


@pytest.mark.parametrize("secret", ["s3://key:secret@bucket/logs", "hdfs://secret/x"])
@pytest.mark.parametrize("as_argument", [str, lambda url: [url], locate])
def test_a_url_is_no_log_directory_and_not_shown(
    secret, as_argument, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LogArgumentError) as caught:
        LogManager(as_argument(secret))
    scheme = secret.partition(":")[0]
    assert str(caught.value) == f"{scheme}: URL, expected a local path to write to"
    assert not list(tmp_path.iterdir())


def test_a_file_url_is_a_local_log_directory(tmp_path):
    with LogManager(f"file://{tmp_path}/logs") as manager:
        manager.open("t", 0).append(batch())
    assert (tmp_path / "logs" / "t-0").is_dir()
