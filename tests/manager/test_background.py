"""The background threads of a log manager."""

import threading

from kafkalog import BrokerConfig, LogManager
from kafkalog.storage.durable_file import Disk
from kafkalog.testing import open_manager
from tests.manager.managing import SMALL, fill

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
