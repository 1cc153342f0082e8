"""The background threads of a log manager."""

import threading

from kafkalog import BrokerConfig, LogManager, RecordBatchBuilder
from kafkalog.storage.durable_file import Disk
from kafkalog.testing import ManualClock, ManualScheduler, open_manager
from tests.manager.managing import NOW_MS, SMALL, fill, manage

PATIENCE_S = 20


class MeetingDisk(Disk):
    """A disk that syncs a `.log` only while it syncs another."""

    def __init__(self):
        self.meeting = threading.Barrier(2)
        self.met = threading.Event()

    def sync(self, file):
        if file.path.suffix == ".log" and not self.met.is_set():
            self.meeting.wait(PATIENCE_S)
            self.met.set()
        super().sync(file)


def test_tasks_that_overlap_run_in_as_many_threads_as_the_broker_allows(tmp_path):
    disk, broker = MeetingDisk(), BrokerConfig(background_threads=2)
    with open_manager(tmp_path, SMALL, broker=broker, disk=disk) as manager:
        for topic in ("orders", "clicks"):
            fill(manager.open(topic, 0))
            manager[topic, 0].roll()
        assert disk.met.wait(PATIENCE_S)


def scheduler_threads():
    return [
        thread
        for thread in threading.enumerate()
        if thread.name == "kafkalog-scheduler"
    ]


def test_the_logs_of_a_manager_share_one_scheduler_thread(tmp_path):
    broker = BrokerConfig(background_threads=1)
    assert not scheduler_threads()
    with LogManager(tmp_path, SMALL, broker=broker) as manager:
        for partition in range(3):
            log = manager.open("orders", partition)
            fill(log)
            log.roll()
        assert len(scheduler_threads()) == 1
    assert not scheduler_threads()
    assert not [thread for thread in threading.enumerate() if "kafkalog" in thread.name]


class BothDirectoriesDisk(Disk):
    """A disk that opens a file for the first time only while it opens two."""

    def __init__(self):
        self.meeting = threading.Barrier(2)
        self.threads = set()

    def open(self, path, *, create=False, exclusive=False):
        thread = threading.current_thread()
        if "kafkalog-load" in thread.name and thread not in self.threads:
            self.threads.add(thread)
            if len(self.threads) <= 2:
                self.meeting.wait(PATIENCE_S)
        return super().open(path, create=create, exclusive=exclusive)


def test_log_directories_are_loaded_at_the_same_time(tmp_path):
    directories = [tmp_path / "a", tmp_path / "b"]
    broker = BrokerConfig(num_recovery_threads_per_data_dir=1)
    with LogManager(directories, SMALL) as manager:
        for number, directory in enumerate(directories):
            fill(manager.open("orders", number, directory=directory))
    disk = BothDirectoriesDisk()
    for directory in directories:
        (directory / ".kafka_cleanshutdown").unlink()
    with open_manager(directories, SMALL, broker=broker, disk=disk) as manager:
        assert len(manager) == 2
        assert not manager.offline


def test_producers_expire_in_the_background(tmp_path):
    clock = ManualClock(NOW_MS)
    scheduler = ManualScheduler(clock)
    broker = BrokerConfig(
        producer_id_expiration_ms=5000, producer_id_expiration_check_interval_ms=1000
    )
    with manage(tmp_path, clock=clock, scheduler=scheduler, broker=broker) as manager:
        log = manager.open("orders", 0)
        builder = RecordBatchBuilder(producer_id=7, producer_epoch=0, base_sequence=0)
        builder.append(b"key", b"value", timestamp=NOW_MS)
        log.append(builder.build())
        clock.time_ms += 4000
        scheduler.run_due()
        assert list(log.producers) == [7]
        clock.time_ms += 2000
        scheduler.run_due()
        assert not log.producers
