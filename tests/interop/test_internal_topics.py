"""Records of internal topics, described as by the parsers of kafka-dump-log."""

import json
import subprocess
from pathlib import Path

import pytest

from kafkalog.errors import InvalidRecordError
from kafkalog.messages.message_parsers import KINDS, describe_record
from tests.interop.broker import java_command
from tests.messages import internal_messages

pytestmark = [pytest.mark.spark, pytest.mark.interop]
PROGRAM = Path(__file__).with_name("KafkaDecoders.java")
EACH = 20


def kafka_results(questions):
    command = java_command(PROGRAM, heap="512m")
    lines = "".join(f"{json.dumps(each)}\n" for each in questions)
    done = subprocess.run(
        command, input=lines, capture_output=True, encoding="utf-8", check=True
    )
    return [json.loads(line) for line in done.stdout.split("\n")[:-1]]


def question(offset, topic, key, value):
    return {
        "kind": internal_messages.KINDS[topic],
        "offset": offset,
        "key": None if key is None else key.hex(),
        "value": None if value is None else value.hex(),
    }


def our_answer(question):
    parts = [question[name] for name in ("key", "value")]
    parts = [None if part is None else bytes.fromhex(part) for part in parts]
    try:
        key, payload = describe_record(question["kind"], *parts, question["offset"])
    except InvalidRecordError as error:
        return {"thrown": str(error)}
    return {"key": key, "payload": payload}


def differences(records):
    questions = [question(offset, *record) for offset, record in enumerate(records)]
    results = kafka_results(questions)
    assert len(results) == len(questions)
    return [
        (question, theirs, ours)
        for question, theirs in zip(questions, results, strict=True)
        if theirs != (ours := our_answer(question))
    ]


@pytest.fixture(scope="module")
def valid():
    offsets = "__consumer_offsets"
    group_records = [
        (offsets, *record) for record in internal_messages.groups(2, 20 * EACH)
    ]
    return [*internal_messages.records(1, EACH), *group_records]


def test_records_of_every_schema_and_version_are_described_as_by_the_tool(valid):
    assert differences(valid) == []


def test_damaged_records_are_described_as_by_the_tool(valid):
    assert differences(internal_messages.damaged(3, valid * 3)) == []


def test_records_without_key_or_value_are_described_as_by_the_tool(valid):
    few = valid[::EACH]
    without = [(topic, key, None) for topic, key, _ in few]
    without += [(topic, None, value) for topic, _, value in few]
    without += [(topic, b"", value) for topic, _, value in few]
    without += [(topic, key, b"") for topic, key, _ in few]
    assert differences(without) == []


def test_unknown_types_and_versions_are_described_as_by_the_tool():
    assert set(internal_messages.KINDS.values()) == set(KINDS)
    numbers = [number.to_bytes(2, "big") for number in (*range(300), 0x7FFF, 0x8000)]
    versions = [version.to_bytes(2, "big") for version in (*range(9), 0xFFFF)]
    records = [
        (topic, key + b"\0\1g\0\1h" + bytes(40), version + bytes(60))
        for topic in internal_messages.KINDS
        for key in numbers
        for version in (versions if key[0] == 0 and key[1] < 40 else versions[:1])
    ]
    framed = [
        (topic, None, bytes([frame]) + varint + bytes([version]) + bytes(9))
        for topic in ("__cluster_metadata", "__remote_log_metadata")
        for frame in (0, 1, 2)
        for varint in map(internal_messages.varint, (*range(300), 0x7FFF, 0x8000))
        for version in (0, 1, 2, 3, 4, 5, 9)
    ]
    assert differences(records + framed) == []
