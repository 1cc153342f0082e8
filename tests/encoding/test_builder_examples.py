"""Batches of the builders are byte for byte those of Kafka's own classes.

``kafka_batches.txt`` has the bytes that Kafka wrote. Compressed examples may differ
only in the stream, which depends on the build of the codec's library.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.encoding.batch_builder import RecordBatchBuilder, empty_batch
from kafkalog.formats.control_keys import ControlRecordType
from kafkalog.formats.layout import TimestampType
from kafkalog.messages.control_records import control_record, end_transaction_marker
from tests import reference

T = 1_700_000_000_000
KAFKA = {
    name: bytes.fromhex(hexadecimal)
    for line in Path(__file__).with_name("kafka_batches.txt").read_text().splitlines()
    if not line.startswith("#")
    for name, hexadecimal in [line.split(": ")]
}
TWO = [(T, b"k1", b"hello"), (T + 5, None, b"world")]
KEYED = [(T, b"k1", b"hello"), (T + 5, b"k2", b"world")]
PRODUCER = {"producer_id": 4242, "producer_epoch": 1, "base_sequence": 7}
STAMPED = {
    "timestamp_type": TimestampType.LOG_APPEND_TIME,
    "log_append_time": T + 99,
}
AT_100 = {"base_offset": 100, "leader_epoch": 3}


def build(records, offsets=None, **settings):
    builder = RecordBatchBuilder(**settings)
    for i, (timestamp, key, value, *headers) in enumerate(records):
        offset = None if offsets is None else offsets[i]
        builder.append(key, value, timestamp=timestamp, headers=headers, offset=offset)
    return builder.build()


def control(kind, message, base_offset):
    record = (T, *control_record(kind, message))
    return build([record], base_offset=base_offset, leader_epoch=5, is_control=True)


def marker(kind):
    record = (T, *end_transaction_marker(kind, coordinator_epoch=9))
    return build(
        [record],
        base_offset=200,
        leader_epoch=3,
        producer_id=4242,
        producer_epoch=1,
        is_transactional=True,
        is_control=True,
    )


def voter_named_controller():
    endpoint = {"name": "CONTROLLER", "host": "localhost", "port": 9093}
    feature = {"minSupportedVersion": 0, "maxSupportedVersion": 1}
    return {
        "voterId": 1,
        "voterDirectoryId": "AAAAAAAAAAEAAAAAAAAAAg",
        "endpoints": [endpoint],
        "kRaftVersionFeature": feature,
    }


HORIZON = T + 500_000 + 86_400_000
UNCOMPRESSED = {
    "magic 0": build([(-1, b"k", b"hello")], magic=0, base_offset=7),
    "magic 0 tombstone": build([(-1, b"k", None)], magic=0, base_offset=8),
    "magic 1": build([(T, b"k", b"hello")], magic=1, base_offset=7),
    "magic 1 stamped": build([(T, b"k", b"hello")], magic=1, base_offset=7, **STAMPED),
    "magic 2": build(
        [(T, b"k1", b"hello", ("h", b"v"), ("n", None)), TWO[1]], **AT_100
    ),
    "transactional": build(TWO, is_transactional=True, **PRODUCER, **AT_100),
    "stamped": build(TWO, **STAMPED, **AT_100),
    "delete horizon": build(
        [(T, b"k1", None)], delete_horizon_ms=T + 86_400_000, **AT_100
    ),
    "empty": empty_batch(last_offset=101, max_timestamp=T + 5, **PRODUCER, **AT_100),
    "first gone": build(KEYED[1:], [101], last_offset=101, **PRODUCER, **AT_100),
    "last gone": build(KEYED[:1], [100], last_offset=101, **PRODUCER, **AT_100),
    "tombstone kept": build(
        [(T, b"k1", None), KEYED[1]], delete_horizon_ms=HORIZON, **AT_100
    ),
    "emptied": empty_batch(
        last_offset=100,
        max_timestamp=T,
        codec="lz4",
        is_transactional=True,
        **PRODUCER,
        **AT_100,
    ),
    "commit": marker(ControlRecordType.COMMIT),
    "abort": marker(ControlRecordType.ABORT),
    "leader change": control(
        ControlRecordType.LEADER_CHANGE,
        {
            "version": 0,
            "leaderId": 1,
            "voters": [{"voterId": 1}, {"voterId": 2}],
            "grantingVoters": [{"voterId": 1}],
        },
        0,
    ),
    "snapshot header": control(
        ControlRecordType.SNAPSHOT_HEADER,
        {"version": 0, "lastContainedLogTimestamp": T},
        0,
    ),
    "snapshot footer": control(ControlRecordType.SNAPSHOT_FOOTER, {"version": 0}, 9),
    "kraft version": control(
        ControlRecordType.KRAFT_VERSION, {"version": 0, "kRaftVersion": 1}, 1
    ),
    "voters": control(
        ControlRecordType.KRAFT_VOTERS,
        {"version": 0, "voters": [voter_named_controller()]},
        2,
    ),
}
COMPRESSED = {
    **{
        f"magic {magic}{' stamped' if stamp else ''} {codec}": build(
            TWO, magic=magic, codec=codec, base_offset=10, **stamp
        )
        for codec in ("gzip", "snappy", "lz4")
        for magic, stamp in ((0, {}), (1, {}), (1, STAMPED))
    },
    **{
        f"magic 2 {codec}": build(TWO, codec=codec, **AT_100)
        for codec in ("gzip", "snappy", "lz4", "zstd")
    },
}


def test_every_example_is_built():
    assert KAFKA.keys() == UNCOMPRESSED.keys() | COMPRESSED.keys()


@pytest.mark.parametrize("name", UNCOMPRESSED)
def test_an_uncompressed_example_is_the_bytes_of_kafka(name):
    assert UNCOMPRESSED[name].hex() == KAFKA[name].hex()


def without_stream(data):
    """Return the fields of a batch that do not depend on the compressed bytes."""
    (entry,) = reference.entries(data)
    assert entry["is_valid"]
    ignored = {"size_in_bytes": None, "crc": None, "value": None}
    return {**entry, **ignored}


@pytest.mark.parametrize("name", COMPRESSED)
def test_a_compressed_example_has_the_records_of_kafka(name):
    assert without_stream(COMPRESSED[name]) == without_stream(KAFKA[name])


@pytest.mark.parametrize("name", ["magic 2 snappy", "magic 2 lz4", "magic 2 zstd"])
def test_an_incompressible_example_is_the_bytes_of_kafka(name):
    assert COMPRESSED[name].hex() == KAFKA[name].hex()
