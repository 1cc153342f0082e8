"""The recorded settings and validations are those of Kafka."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.config import recorded
from tests.interop.broker import java_command

pytestmark = [pytest.mark.spark, pytest.mark.interop]
PROGRAM = Path(__file__).with_name("KafkaSettings.java")


def kafka_answers(*arguments, given=""):
    command = java_command(PROGRAM, *arguments, heap="512m")
    done = subprocess.run(
        command, input=given, capture_output=True, encoding="utf-8", check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_kafka_defines_its_settings_as_recorded():
    defined = kafka_answers("definitions")
    assert [each for each in recorded.DEFINITIONS if each not in defined] == []
    topic = {each["name"] for each in defined if each["of"] == "topic"}
    assert topic == recorded.definitions_of("topic").keys()


def test_kafka_validates_settings_as_recorded():
    questions = [
        {"of": each["of"], "given": each["given"]} for each in recorded.VALIDATED
    ]
    given = "".join(f"{json.dumps(each)}\n" for each in questions)
    assert (
        list(recorded.only_differing(kafka_answers(given=given))) == recorded.VALIDATED
    )
