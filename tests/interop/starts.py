"""Starts of a broker in situations: the predicted outcome, and what the broker does."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

import kafkalog
from kafkalog import BrokerConfig
from kafkalog.storage.properties_file import read_properties
from tests.interop.broker import START_SECONDS, Broker
from tests.interop.clients import QUIET, create
from tests.interop.situations import BROKERS, OTHER, PARTITIONS, TOPIC

RECORDS = 160
ROUND = 20
YEARS_MS = 10**12
SETTINGS = {
    "internal_segment_bytes": 3000,
    "index_interval_bytes": 500,
    "retention_ms": YEARS_MS,
}
SETTLED_SECONDS = 8
"""Time after which a broker has no leader of a partition, if it gets none."""

STOPS = "does not start"
UNSERVED = "does not serve the partition"
STRAY = "renames the directory to `-stray`, and creates an empty one"
EMPTY = "creates an empty log"
SERVED = "serves all records"
Key = tuple[str, int]


def lost(records: int) -> str:
    return f"loses {records} of {RECORDS} records" if records else SERVED


def write(folder: Path) -> Broker:
    """Start a broker, write records to each partition, and stop it."""
    (folder / "written").mkdir()
    broker = Broker(folder / "written").start()
    counts = {TOPIC: len(PARTITIONS), OTHER: 1}
    for topic, count in counts.items():
        create(broker, topic, count, **SETTINGS)
    producer = Producer({"bootstrap.servers": broker.address, **QUIET})
    for first in range(0, RECORDS, ROUND):
        for topic, count in counts.items():
            for partition in range(count):
                for number in range(first, first + ROUND):
                    producer.produce(topic, b"v" * 20, b"%d" % number, partition)
        assert producer.flush(START_SECONDS) == 0
    broker.stop()
    return broker


def predict(broker: Broker) -> kafkalog.StartReport:
    settings = read_properties(broker.settings)
    return kafkalog.preflight(
        settings["log.dirs"].split(","),
        broker=BrokerConfig.from_properties(settings, ignore_unknown=True),
        node_id=int(settings["node.id"]),
        roles=settings["process.roles"].split(","),
    )


def predicted(report: kafkalog.StartReport, key: Key) -> str:
    """Return the predicted outcome for a partition."""
    if report.stops:
        return STOPS
    rows = [each for each in report.partitions if (each.topic, each.partition) == key]
    if any(each in report.new_strays for each in rows):
        return STRAY
    [row] = [each for each in rows if not each.directory.endswith("-stray")]
    if row.state == "missing" and not (row.unserved or "").startswith("no leader"):
        return EMPTY
    return lost(row.records_lost) if row.unserved is None else UNSERVED


class Started:
    """A broker that was started, or was not, and the partitions that it serves."""

    def __init__(self, broker: Broker, wanted: list[Key]) -> None:
        self.broker = broker
        self.before = {path.name for path in broker.logs.iterdir() if path.is_dir()}
        self.records: dict[Key, int] = {}
        self.is_running = True
        try:
            broker.start()
        except RuntimeError:
            self.is_running = False
            return
        end = time.monotonic() + SETTLED_SECONDS
        while time.monotonic() < end and broker.process.poll() is None:
            time.sleep(0.2)
        self.is_running = broker.process.poll() is None
        if self.is_running:
            try:
                counts = {key: self._count(key) for key in wanted}
                served = {key: n for key, n in counts.items() if n >= 0}
            finally:
                broker.stop()
            # A consumer of librdkafka does not check CRCs, as one of Kafka does.
            self.records = {key: min(n, self._valid(key)) for key, n in served.items()}

    def _valid(self, key: Key) -> int:
        """Return the number of valid records in the directory of a partition."""
        name = f"{key[0]}-{key[1]}"
        copy = self.broker.folder / "read" / name  # without links, which are not read
        shutil.copytree(self.broker.logs / name, copy)
        return kafkalog.scan(copy, on_corruption="skip").to_arrow().num_rows

    def _count(self, key: Key) -> int:
        """Return the number of records that a consumer reads; -1 without a leader."""
        settings = {"bootstrap.servers": self.broker.address, "group.id": "reader"}
        topics = AdminClient(settings | QUIET).list_topics(timeout=START_SECONDS).topics
        known = topics.get(key[0])
        if known is None or known.partitions[key[1]].leader < 0:
            return -1
        settings |= {"enable.partition.eof": "true"}
        consumer = Consumer(settings | QUIET)
        try:
            low, _ = consumer.get_watermark_offsets(TopicPartition(*key), timeout=5)
            consumer.assign([TopicPartition(*key, low)])
            return self._consume(consumer)
        except KafkaException:
            return -1
        finally:
            consumer.close()

    def _consume(self, consumer: Consumer) -> int:
        count = 0
        while (message := consumer.poll(5)) is not None:
            if message.error() is None:
                count += 1
            elif message.error().code() == KafkaError._PARTITION_EOF:
                break
        return count

    def outcome(self, key: Key) -> str:
        """Return what the broker did with a partition."""
        name = f"{key[0]}-{key[1]}"
        after = {path.name for path in self.broker.logs.iterdir() if path.is_dir()}
        if not self.is_running:
            return STOPS
        stray = re.compile(rf"{name}\.\w+-stray")
        if any(map(stray.fullmatch, after - self.before)):
            return STRAY
        if key not in self.records:
            return UNSERVED
        existed = any(each.partition(".")[0] == name for each in self.before)
        return lost(RECORDS - self.records[key]) if existed else EMPTY


def observe_all(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yield each situation with the predicted outcome, and the broker's."""
    written = write(folder)
    broker = copied(written, folder / "partitions")
    keys = [(TOPIC, number) for number in range(len(PARTITIONS))]
    for situation, key in zip(PARTITIONS, keys, strict=True):
        situation.change(broker.logs / f"{key[0]}-{key[1]}")
    report = predict(broker)
    started = Started(broker, keys)
    for situation, key in zip(PARTITIONS, keys, strict=True):
        yield situation.name, predicted(report, key), started.outcome(key)
    for number, situation in enumerate(BROKERS):
        key = situation.partition, 0
        broker = copied(written, folder / str(number))
        situation.change(broker.logs)
        report = predict(broker)
        started = Started(broker, [key])
        yield situation.name, predicted(report, key), started.outcome(key)


def copied(written: Broker, folder: Path) -> Broker:
    shutil.copytree(written.logs, folder / "logs")
    return Broker(folder)
