"""Options of the sink: names of Kafka's producer, and all faults in one error."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.errors import ConfigError
from kafkalog.spark.sink.write_options import SinkOptions, parse_sink_options


def parse(**options):
    streaming = options.pop("streaming", False)
    named = {name.replace("__", "."): value for name, value in options.items()}
    return parse_sink_options({"path": "/logs", **named}, streaming=streaming)


def test_the_defaults_are_those_of_a_producer():
    assert parse() == SinkOptions(path=Path("/logs"))
    assert (parse().batch_bytes, parse().max_request_bytes) == (16384, 1048576)


def test_names_are_those_of_spark_and_kafka_in_any_case():
    options = parse(
        TOPIC="orders",
        Partitions="3",
        visibility="transaction",
        batchid="7",
        kafka__compression__type="zstd",
        compression__zstd__level="9",
        batch__size="65536",
        kafka__max__request__size="2097152",
        buffer__memory="1000",
        topic__segment__bytes="1048576",
        checkpointLocation="/checkpoint",
        queryName="to logs",
    )
    assert options == SinkOptions(
        path=Path("/logs"),
        topic="orders",
        partitions=3,
        visibility="transaction",
        batch_id="7",
        codec="zstd",
        level=9,
        batch_bytes=65536,
        max_request_bytes=2097152,
        buffer_bytes=1000,
        topic_settings={"segment.bytes": "1048576"},
    )


@pytest.mark.parametrize(
    ("codec", "level"), [("none", None), ("gzip", -1), ("snappy", None), ("lz4", 9)]
)
def test_the_level_is_the_default_of_the_codec(codec, level):
    assert (parse(compression__type=codec).level) == level


def test_other_options_of_a_producer_are_ignored():
    options = parse(kafka__bootstrap__servers="host:9092", kafka__acks="all")
    assert options.ignored == ("kafka.acks", "kafka.bootstrap.servers")


def test_a_relative_path_is_made_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert parse_sink_options({"path": "logs"}).path == tmp_path / "logs"
    assert parse_sink_options({"path": "file:///logs"}).path == Path("/logs")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"path": "s3://bucket/logs"}, "path: expected a local or mounted directory"),
        ({"path": "hdfs://host/logs"}, "path: expected a local or mounted directory"),
        ({"path": ""}, "path: expected a log directory, got none"),
        ({"topic": ""}, "topic: expected a topic, got none"),
        ({"partitions": "0"}, "partitions: expected an integer of at least 1"),
        (
            {"visibility": "rows"},
            "visibility: expected record or transaction, got rows",
        ),
        ({"batchId": ""}, "batchId: expected a name"),
        ({"batchId": "7", "streaming": True}, "batchId: a stream has the id of its"),
        ({"compression__type": "brotli"}, "compression.type: expected one of none, gz"),
        ({"compression__gzip__level": "10"}, "compression.gzip.level"),
        ({"batch__size": "-1"}, "batch.size: expected an integer of at least 0"),
        (
            {"batch__size": "1", "kafka__batch__size": "2"},
            "expected one of the options",
        ),
        ({"topic__segment__byte": "1"}, "options topic.*: Unknown topic config name"),
        ({"kafka__key__serializer": "x"}, "kafka.key.serializer: not supported"),
        ({"partition": "1"}, "option partition: unknown option"),
    ],
)
def test_an_invalid_option_is_an_error_that_names_it(options, reason):
    with pytest.raises(ConfigError) as raised:
        parse(**options)
    assert reason in str(raised.value)


def test_all_faults_are_in_one_error():
    with pytest.raises(ConfigError) as raised:
        parse_sink_options({"partitions": "x", "visibility": "y", "nope": "z"})
    text = str(raised.value)
    assert all(name in text for name in ("path", "partitions", "visibility", "nope"))
