"""kafka-python, aiokafka and confluent-kafka get the records that a scan has."""

from __future__ import annotations

import asyncio
import threading
import time

import aiokafka
import confluent_kafka
import kafka
import pytest

import kafkalog
from tests import golden_data
from tests.clients.conftest import SET, rows_of

pytestmark = [
    pytest.mark.clients,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
LIMIT_S = 120


def deadline():
    end = time.monotonic() + LIMIT_S
    return lambda: time.monotonic() < end


def test_kafka_python(server, expected, isolation):
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=server.address,
        isolation_level=isolation,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    places = [kafka.TopicPartition(*place) for place in expected]
    consumer.assign(places)
    consumer.seek_to_beginning(*places)
    ends, found, in_time = consumer.end_offsets(places), {}, deadline()
    while in_time() and any(consumer.position(p) < ends[p] for p in places):
        for place, records in consumer.poll(500).items():
            found.setdefault((place.topic, place.partition), []).extend(
                (r.offset, r.timestamp, r.key, r.value, list(r.headers))
                for r in records
            )
    consumer.close()
    assert found == expected


def test_aiokafka(server, expected, isolation):
    async def read():
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=server.address,
            isolation_level=isolation,
            enable_auto_commit=False,
        )
        await consumer.start()
        try:
            places = [aiokafka.TopicPartition(*place) for place in expected]
            consumer.assign(places)
            await consumer.seek_to_beginning(*places)
            ends, found, in_time = await consumer.end_offsets(places), {}, deadline()
            while in_time():
                positions = [await consumer.position(place) for place in places]
                if positions == [ends[place] for place in places]:
                    break
                batches = await consumer.getmany(timeout_ms=500)
                for place, records in batches.items():
                    found.setdefault((place.topic, place.partition), []).extend(
                        (r.offset, r.timestamp, r.key, r.value, list(r.headers))
                        for r in records
                    )
            return found
        finally:
            await consumer.stop()

    assert asyncio.run(read()) == expected


def confluent(server, **settings):
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": server.address,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "session.timeout.ms": 6000,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )


def confluent_row(message):
    _, timestamp = message.timestamp()
    headers = message.headers() or []
    return message.offset(), timestamp, message.key(), message.value(), headers


def test_confluent_kafka(server, expected, isolation):
    consumer = confluent(server, group_id="assigned", isolation_level=isolation)
    begin = confluent_kafka.OFFSET_BEGINNING
    consumer.assign(
        [confluent_kafka.TopicPartition(*place, begin) for place in expected]
    )
    found, ended, in_time = {}, set(), deadline()
    while in_time() and len(ended) < len(expected):
        message = consumer.poll(1)
        if message is None:
            continue
        place = message.topic(), message.partition()
        if message.error():
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
            ended.add(place)
        else:
            found.setdefault(place, []).append(confluent_row(message))
    consumer.close()
    assert found == expected


class Member(threading.Thread):
    """A member of a group, which consumes until it is told to leave."""

    def __init__(self, server, group):
        super().__init__()
        self.consumer = confluent(server, group_id=group, auto_commit_interval_ms=100)
        self.read, self.leaving = set(), threading.Event()
        self.assigned = []
        self.consumer.subscribe(["once", "ledger"])
        self.start()

    def run(self):
        while not self.leaving.is_set():
            message = self.consumer.poll(0.2)
            if message is not None and not message.error():
                place = message.topic(), message.partition()
                self.read.add((*place, message.offset()))
            self.assigned = [
                (each.topic, each.partition) for each in self.consumer.assignment()
            ]
        self.consumer.close()

    def leave(self):
        self.leaving.set()
        self.join(LIMIT_S)


def wait_for(condition):
    in_time = deadline()
    while in_time() and not condition():
        time.sleep(0.1)
    assert condition()


def test_a_group_shares_partitions_as_members_come_and_go(server):
    all_places = {("once", 0), ("once", 1), ("ledger", 0), ("ledger", 1)}
    rows = rows_of("read_committed")
    everything = {(*place, row[0]) for place in all_places for row in rows[place]}
    first, second = Member(server, "shared"), Member(server, "shared")
    try:
        wait_for(lambda: {*first.assigned, *second.assigned} == all_places)
        wait_for(lambda: len(first.assigned) == len(second.assigned) == 2)
        wait_for(lambda: first.read | second.read == everything)
        second.leave()
        wait_for(lambda: {*first.assigned} == all_places)
    finally:
        first.leave()
        second.leave()


def test_a_group_continues_where_it_committed(server):
    end = kafkalog.open(golden_data.logs(SET) / "orders.none-0").log_end_offset
    place = kafka.TopicPartition("orders.none", 0)
    for expected in (0, 100):
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=server.address,
            group_id="continued",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        consumer.assign([place])
        assert consumer.position(place) == expected
        commit = kafka.structs.OffsetAndMetadata(100, "", -1)
        consumer.commit({place: commit})
        assert consumer.committed(place) == 100
        assert consumer.end_offsets([place]) == {place: end}
        consumer.close()


def test_what_is_produced_is_refused_at_once(server):
    producer = kafka.KafkaProducer(
        bootstrap_servers=server.address, enable_idempotence=False
    )
    with pytest.raises(kafka.errors.TopicAuthorizationFailedError):
        producer.send("ledger", b"value").get(timeout=LIMIT_S)
    producer.close()
