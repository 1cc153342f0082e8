"""What a log manager does in the background, side by side."""

import threading

from kafkalog import BrokerConfig, LogManager
from kafkalog.storage.durable_file import Disk
from tests.manager.managing import SMALL, fill

PATIENCE_S = 20


class MeetingDisk(Disk):
    """A disk that forces a `.log` only while it forces another."""

    def __init__(self):
        self.meeting = threading.Barrier(2)
        self.met = threading.Event()

    def sync(self, file):
        if file.path.suffix == ".log" and not self.met.is_set():
            self.meeting.wait(PATIENCE_S)
            self.met.set()
        super().sync(file)


def test_as_many_threads_work_in_the_background_as_the_broker_has(tmp_path):
    disk, broker = MeetingDisk(), BrokerConfig(background_threads=2)
    with LogManager(tmp_path, SMALL, broker=broker, disk=disk) as manager:
        for topic in ("orders", "clicks"):
            fill(manager.open(topic, 0))
            manager[topic, 0].roll()
        assert disk.met.wait(PATIENCE_S)
