"""Kafka's own command line tools on what kafkalog serves."""

from __future__ import annotations

import subprocess

import pytest

import kafkalog
from tests import golden_data
from tests.clients.conftest import SET, rows_of
from tests.interop.broker import java_command, run_java

pytestmark = pytest.mark.clients
TOOLS = "org.apache.kafka.tools"


def run(name, server, *arguments):
    done = run_java(f"{TOOLS}.{name}", "--bootstrap-server", server.address, *arguments)
    return done.stdout.splitlines()


@pytest.mark.parametrize("group", [[], ["--group", "of-the-console"]])
def test_the_console_consumer_prints_every_value(server, group):
    rows = rows_of("read_uncommitted")["state.none", 0]
    arguments = ["--topic", "state.none", "--from-beginning"]
    arguments += ["--max-messages", len(rows)]
    lines = run("consumer.ConsoleConsumer", server, *arguments, *group)
    texts = ["null" if row[3] is None else row[3].decode() for row in rows]
    assert lines == texts


def test_the_ends_of_all_logs_are_listed(server):
    logs, lines = golden_data.logs(SET), run("GetOffsetShell", server)
    found = dict(line.rsplit(":", 1) for line in lines)
    assert len(found) > 20
    for place, end in found.items():
        log = kafkalog.open(logs / place.replace(":", "-"))
        assert int(end) == log.log_end_offset


def test_topics_are_listed(server):
    names = {topic for topic, _ in rows_of("read_uncommitted")}
    assert names <= set(run("TopicCommand", server, "--list"))


def test_groups_are_listed_with_what_they_committed(server):
    command = java_command(
        f"{TOOLS}.consumer.ConsoleConsumer", "--bootstrap-server", server.address,
        *("--topic", "ledger", "--group", "listed", "--timeout-ms", 4000),
        "--from-beginning",
    )  # fmt: skip
    subprocess.run(command, capture_output=True, check=False)
    listed = run("consumer.group.ConsumerGroupCommand", server, "--list")
    assert "listed" in listed
