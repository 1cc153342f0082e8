"""Streams of a live broker's directory equal those of Spark's own Kafka source."""

from __future__ import annotations

import json
import time
from datetime import datetime, timedelta

import pytest
from confluent_kafka import Producer

from tests.interop.fill import RECORDS, WAIT_SECONDS
from tests.interop.sources import Sources, batches, catch_up, rows, start

pytestmark = [pytest.mark.spark, pytest.mark.interop]

PARTITIONS = 3
UNEVEN = (70, 20, 5)  # records of each partition


class Pair:
    """The same stream from both sources, each with a checkpoint and a directory."""

    def __init__(self, spark, broker, folder, **options):
        self.sources = Sources(spark, broker)
        self.spark = spark
        self.folder = folder
        self.options = options

    def catch_up(self):
        """Read all records from both; return the offsets of their batches."""
        return [self.catch_up_one(name) for name in self.sources.options]

    def catch_up_one(self, name):
        stream = self.sources.stream(name, **self.options)
        out, checkpoint = self.folder / name, self.folder / f"{name}.checkpoint"
        return catch_up(stream, out, checkpoint)

    def start(self):
        """Start both streams, to read whenever there is something new."""
        return [
            start(
                self.sources.stream(name, **self.options),
                self.folder / name,
                self.folder / f"{name}.checkpoint",
            )
            for name in self.sources.options
        ]

    def written(self):
        return [
            rows(self.spark.read.parquet(str(self.folder / name)))
            for name in self.sources.options
        ]


@pytest.fixture
def pair(spark, broker, tmp_path):
    def make(**options):
        options = {"startingOffsets": "earliest"} | options
        return Pair(spark, broker, tmp_path, **options)

    return make


@pytest.fixture
def topic(topics, tmp_path):
    name = f"streamed.{tmp_path.name}"
    topics.create(name, PARTITIONS)
    return name


def produce_unevenly(topics, topic, first=0):
    for partition, count in enumerate(UNEVEN):
        for number in range(first, first + count):
            topics.producer.produce(topic, b"%d" % number, partition=partition)
    assert topics.producer.flush(60) == 0


def at_once(topics, topic, count):
    """Append records to the first partition as one batch, visible all at once."""
    settings = {"bootstrap.servers": topics.broker.address, "linger.ms": 5_000}
    topics.produce(topic, 0, count, producer=Producer(settings))


def seen(query, count):
    """Wait until a query has read so many batches with rows; return their offsets."""
    deadline = time.monotonic() + WAIT_SECONDS
    while len(found := batches(query)) < count:
        assert time.monotonic() < deadline, f"{count} batches did not come: {found}"
        assert query.isActive, query.exception()
        time.sleep(0.1)
    return found


@pytest.fixture
def stopping():
    queries = []
    yield queries
    for query in queries:
        query.stop()


def check_written(pair):
    theirs, ours = pair.written()
    assert theirs
    assert ours == theirs


def test_batches_of_a_stream_end_at_the_same_offsets(pair, topics, topic):
    produce_unevenly(topics, topic)
    stream = pair(subscribe=topic, maxOffsetsPerTrigger=17)
    theirs, ours = stream.catch_up()
    assert len(theirs) > 4
    assert ours == theirs
    check_written(stream)


def test_a_restarted_stream_continues_at_its_checkpoint(pair, topics, topic):
    stream = pair(subscribe=topic, maxOffsetsPerTrigger=31, includeHeaders="true")
    for turn in range(3):
        topics.produce(topic, turn * RECORDS, RECORDS, PARTITIONS)
        theirs, ours = stream.catch_up()
        assert theirs
        assert ours == theirs
    assert stream.catch_up() == [[], []]
    check_written(stream)


def test_a_stream_by_a_pattern_reads_topics_created_later(pair, topics, topic):
    produce_unevenly(topics, topic)
    stream = pair(subscribePattern=f"^{topic}|^later.{topic}", maxOffsetsPerTrigger=40)
    for name in (topic, f"{topic}.more", f"later.{topic}", f"no.{topic}"):
        if name != topic:
            topics.create(name, 2)
            topics.produce(name, 0, 25, 2)
        theirs, ours = stream.catch_up()
        assert ours == theirs
        assert bool(theirs) == (name != f"no.{topic}")
    check_written(stream)
    assert len(stream.written()[1]) == sum(UNEVEN) + 2 * 25


def test_a_stream_below_its_minimum_waits_for_another_start(pair, topics, topic):
    produce_unevenly(topics, topic)
    stream = pair(subscribe=topic, minOffsetsPerTrigger=50, maxOffsetsPerTrigger=60)
    for remaining in (True, False):
        theirs, ours = stream.catch_up()
        assert len(theirs) == 1
        assert ours == theirs
        assert (len(stream.written()[0]) < sum(UNEVEN)) == remaining
    check_written(stream)


def test_a_stream_waits_for_its_minimum(pair, topics, topic, stopping):
    at_once(topics, topic, 20)
    stream = pair(subscribe=topic, minOffsetsPerTrigger=30, maxTriggerDelay="10m")
    stopping += stream.start()
    for query in stopping:
        assert len(seen(query, 1)) == 1
    at_once(topics, topic, 29)
    time.sleep(2)
    assert [len(batches(query)) for query in stopping] == [1, 1]
    at_once(topics, topic, 1)
    theirs, ours = (seen(query, 2) for query in stopping)
    assert ours == theirs
    assert ours[1][1][topic]["0"] == 50
    check_written(stream)


def test_a_stream_waits_at_most_the_maximum_delay(pair, topics, topic, stopping):
    at_once(topics, topic, 20)
    stream = pair(subscribe=topic, minOffsetsPerTrigger=1000, maxTriggerDelay="4s")
    stopping += stream.start()
    for query in stopping:
        seen(query, 1)
    at_once(topics, topic, 7)
    theirs, ours = (seen(query, 2) for query in stopping)
    assert ours == theirs
    for query in stopping:
        first, second = (
            datetime.fromisoformat(one["timestamp"])
            for one in query.recentProgress
            if one["numInputRows"]
        )
        assert second - first > timedelta(seconds=3)
    check_written(stream)


def test_a_read_committed_stream_stops_at_an_open_transaction(pair):
    options = {"kafka__isolation__level": "read_committed"}
    stream = pair(subscribe="money", **options)
    theirs, ours = stream.catch_up()
    assert theirs
    assert ours == theirs
    check_written(stream)


def test_a_stream_from_a_timestamp_begins_at_the_same_offsets(pair, topics):
    stream = pair(
        subscribe="orders",
        startingOffsetsByTimestamp=json.dumps(
            {"orders": dict.fromkeys("012", 1_700_000_111_000)}
        ),
    )
    theirs, ours = stream.catch_up()
    assert theirs
    assert ours == theirs
    check_written(stream)


def test_records_deleted_during_a_stream_are_skipped_if_allowed(pair, topics, topic):
    produce_unevenly(topics, topic)
    stream = pair(subscribe=topic, failOnDataLoss="false")
    stream.catch_up()
    produce_unevenly(topics, topic, 100)
    topics.delete_before(topic, 0, 100)
    theirs, ours = stream.catch_up()
    assert ours == theirs
    check_written(stream)
    assert len(stream.written()[1]) == 2 * sum(UNEVEN) - 30


def test_records_deleted_during_a_stream_fail_it_unless_allowed(pair, topics, topic):
    produce_unevenly(topics, topic)
    stream = pair(subscribe=topic)
    stream.catch_up()
    produce_unevenly(topics, topic, 100)
    topics.delete_before(topic, 0, 100)
    for name in stream.sources.options:
        with pytest.raises(Exception, match="70") as caught:
            stream.catch_up_one(name)
        assert "failOnDataLoss" in str(caught.value)


def test_a_partition_created_during_a_stream_is_read_from_its_first_offset(
    pair, topics, topic
):
    produce_unevenly(topics, topic)
    stream = pair(subscribe=topic)
    stream.catch_up()
    topics.widen(topic, PARTITIONS + 1)
    topics.produce(topic, 0, 4 * RECORDS, PARTITIONS + 1)
    theirs, ours = stream.catch_up()
    assert ours == theirs
    check_written(stream)


def test_a_segment_is_read_while_the_broker_writes_to_it(pair, topics, topic):
    stream = pair(subscribe=topic, maxOffsetsPerTrigger=500)
    live = stream.sources.stream("kafkalog", **stream.options)
    query = start(live, stream.folder / "kafkalog", stream.folder / "checkpoint")
    try:
        for turn in range(40):
            topics.produce(topic, turn * RECORDS, RECORDS, PARTITIONS)
        query.processAllAvailable()
    finally:
        query.stop()
    expected = rows(stream.sources.frame("kafka", {"subscribe": topic}))
    assert len(expected) == 40 * RECORDS
    assert rows(stream.spark.read.parquet(str(stream.folder / "kafkalog"))) == expected
