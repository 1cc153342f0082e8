"""Topics of every kind on a broker, and deletion of their records."""

from __future__ import annotations

import itertools
import time

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

T = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = 60  # of a codec, in a topic of three partitions
WAIT_SECONDS = 60
KINDS = {
    "orders": (3, {}),
    "stamped": (1, {"message.timestamp.type": "LogAppendTime"}),
    "money": (2, {}),
    "empty": (2, {}),
    "cut": (1, {}),
    "rolled": (2, {"segment.bytes": str(1 << 20)}),
    "compacted": (
        1,
        {
            "cleanup.policy": "compact",
            "segment.ms": "300",
            "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": "0",
        },
    ),
}


class Topics:
    """Writes to a broker's topics; one transaction stays open until the end."""

    def __init__(self, broker):
        self.broker = broker
        self.admin = AdminClient(self._settings())
        self.producer = self._producer()
        self.open = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.open is not None:
            self.open.abort_transaction(WAIT_SECONDS)

    def _settings(self):
        return {"bootstrap.servers": self.broker.address, "log_level": 0}

    def create(self, name, partitions=1, **config):
        config = {key.replace("_", "."): str(value) for key, value in config.items()}
        self._made([NewTopic(name, partitions, 1, config=config)])

    def _producer(self):
        return Producer(self._settings() | {"linger.ms": 20})

    def widen(self, name, partitions):
        new_partitions = [NewPartitions(name, partitions)]
        for one in self.admin.create_partitions(new_partitions).values():
            one.result(WAIT_SECONDS)
        self.producer = self._producer()  # the former has the old metadata

    def _made(self, topics):
        for one in self.admin.create_topics(topics).values():
            one.result(WAIT_SECONDS)

    def produce(self, name, first, count, partitions=1, producer=None, **more):
        """Produce records numbered from `first` on, to the partitions in turn."""
        chosen = producer or self.producer
        for number in range(first, first + count):
            record = record_of(number) | more
            chosen.produce(name, partition=number % partitions, **record)
        assert chosen.flush(WAIT_SECONDS) == 0

    def fill(self):
        self._made(
            [NewTopic(name, n, 1, config=more) for name, (n, more) in KINDS.items()]
        )
        for number, codec in enumerate(CODECS):
            settings = {"compression.type": codec, "linger.ms": 20}
            producer = Producer(self._settings() | settings)
            self.produce("orders", number * RECORDS, RECORDS, 3, producer)
        self.produce("stamped", 0, 50)
        self.produce("cut", 0, 90)
        self.delete_before("cut", 0, 33)
        self.produce("rolled", 0, 3_000, 2, value=b"0123456789" * 200)
        self.pay()
        self.compact()

    def pay(self):
        """Commit and abort in turn, then leave a transaction open and produce more."""
        committing = self._transactional("payer")
        for turn in range(6):
            committing.begin_transaction()
            self.produce("money", turn * 10, 10, 2, committing)
            if turn % 2:
                committing.abort_transaction(WAIT_SECONDS)
            else:
                committing.commit_transaction(WAIT_SECONDS)
        self.open = self._transactional("hesitant")
        self.open.begin_transaction()
        self.produce("money", 100, 3, 1, self.open)  # of partition 0 alone
        self.produce("money", 200, 10, 2)

    def compact(self):
        """Overwrite a few keys, and wait until the broker has compacted them.

        Each batch makes the broker roll, since its timestamps are a second apart.
        """
        for turn in range(20):
            self.produce("compacted", turn * 4, 4, key=b"k%d" % turn)
        for key in itertools.islice(itertools.cycle([b"k1", b"k2", b"k3"]), 30):
            self.produce("compacted", 80, 1, key=key)
        self.produce("compacted", 90, 1, key=b"k1", value=None)
        folder = self.broker.logs / "compacted-0"
        deadline = time.monotonic() + WAIT_SECONDS
        while len(list(folder.glob("*.log"))) > 2:  # the cleaned and the active one
            assert time.monotonic() < deadline, "the broker did not compact"
            time.sleep(0.1)

    def delete_before(self, name, partition, offset):
        """Delete records before an offset, and wait for the broker's checkpoint."""
        positions = [TopicPartition(name, partition, offset)]
        for one in self.admin.delete_records(positions).values():
            one.result(WAIT_SECONDS)
        checkpoint = self.broker.logs / "log-start-offset-checkpoint"
        deadline = time.monotonic() + WAIT_SECONDS
        while f"{name} {partition} {offset}\n" not in checkpoint.read_text():
            assert time.monotonic() < deadline, "the log start was not written"
            time.sleep(0.1)

    def _transactional(self, name):
        settings = {"transactional.id": name, "transaction.timeout.ms": 900_000}
        producer = Producer(self._settings() | settings)
        producer.init_transactions(WAIT_SECONDS)
        return producer


def record_of(number):
    """Return the record of a number; key, value and headers are present in some."""
    headers = [("trace", b"t%d" % number), ("none", None), ("trace", b"")]
    return {
        "key": None if number % 5 == 0 else b"k%d" % (number % 7),
        "value": None if number % 11 == 3 else b"value %d " % number * (number % 4),
        "headers": headers[: number % 4] or None,
        "timestamp": T + number * 1000,
    }
