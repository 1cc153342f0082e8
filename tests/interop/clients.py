"""Clients of a broker, and `read`, which scans what `consume` consumes."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import kafkalog
from tests.interop import writing
from tests.interop.broker import START_SECONDS

QUIET = {"log_level": 0}


def create(broker, topic, partitions=1, **config):
    """Create a topic without retention."""
    admin = AdminClient({"bootstrap.servers": broker.address} | QUIET)
    named = {name.replace("_", "."): str(value) for name, value in config.items()}
    new = NewTopic(topic, partitions, 1, config={"retention.ms": "-1"} | named)
    for made in admin.create_topics([new]).values():
        made.result(START_SECONDS)


def produce(broker, topic, codec, first, partition=-1):
    """Produce the records numbered from `first` on."""
    settings = {"bootstrap.servers": broker.address, "compression.type": codec}
    producer = Producer(settings | QUIET)
    for number in range(first, first + writing.RECORDS):
        key, value = writing.record(number)
        time = writing.T + number
        producer.produce(topic, value, key, partition=partition, timestamp=time)
    assert producer.flush(START_SECONDS) == 0


def consume(broker, topic, isolation, partition=0, first=0):
    """Return what a consumer of an isolation level reads: offset, key, value."""
    consumer = consumer_of(broker, isolation)
    consumer.assign([TopicPartition(topic, partition, first)])
    seen = []
    while (message := consumer.poll(START_SECONDS)) is not None:
        if message.error():
            break
        seen.append((message.offset(), message.key(), message.value()))
    consumer.close()
    return seen


def consumer_of(broker, isolation="read_uncommitted"):
    """Return a consumer that reports the end of a partition."""
    settings = {"bootstrap.servers": broker.address, "group.id": "reader"}
    settings |= {"isolation.level": isolation, "enable.partition.eof": True}
    return Consumer(settings | QUIET)


def read(directory, isolation):
    """Return what a scan of a partition directory reads: offset, key, value."""
    found = kafkalog.scan(directory, isolation=isolation).to_arrow()
    columns = (found[name].to_pylist() for name in ("offset", "key", "value"))
    return list(zip(*columns, strict=True))
