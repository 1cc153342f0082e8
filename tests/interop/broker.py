"""Kafka's own programs: a broker of one node on loopback, and its tools."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from contextlib import closing
from pathlib import Path

from tests.spark.session import QUICK_START

ROOT = Path(__file__).parents[2]
JARS = ROOT / "build" / "interop"
CLUSTER = "AAAAAAAAQACAAAAAAAAAAQ"
START_SECONDS = 60
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
log.dirs={logs}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.retention.hours=-1
log.message.timestamp.before.max.ms=9223372036854775807
log.message.timestamp.after.max.ms=9223372036854775807
log.retention.check.interval.ms=500
log.flush.start.offset.checkpoint.interval.ms=200
log.cleaner.backoff.ms=200
log.segment.delete.delay.ms=0
log.initial.task.delay.ms=200
message.max.bytes=10485760
"""


def java_command(
    name, *arguments, heap="256m", level="ERROR", java_options=QUICK_START
):
    """Return the command that runs a Java program with this log level."""
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else "java"
    options = [f"-Xmx{heap}", f"-Dorg.apache.logging.log4j.level={level}"]
    options += java_options.split()
    jars = ["-cp", f"{JARS}/broker/*"]
    return [java, *options, *jars, name, *map(str, arguments)]


def run_java(name, *arguments):
    """Run one of Kafka's programs to its end; raise an error if it fails."""
    command = java_command(name, *arguments)
    return subprocess.run(command, check=True, capture_output=True, encoding="utf-8")


def free_port():
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Broker:
    """A broker's process; its log directory is `logs`, its address `address`."""

    def __init__(self, folder, java_options=QUICK_START):
        self.folder = Path(folder)
        self.java_options = java_options
        self.logs = self.folder / "logs"
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        self.settings = self.folder / "server.properties"
        self.settings.write_text(
            PROPERTIES.format(port=port, controller=free_port(), logs=self.logs)
        )
        self.process = None

    def start(self):
        if not (self.logs / "meta.properties").exists():
            arguments = ["format", "-t", CLUSTER, "-c", self.settings]
            run_java("kafka.tools.StorageTool", *arguments)
        with (self.folder / "broker.out").open("wb") as out:
            self.process = subprocess.Popen(
                java_command(
                    "kafka.Kafka",
                    self.settings,
                    heap="512m",
                    level="INFO",
                    java_options=self.java_options,
                ),
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        self._wait()
        return self

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _wait(self):
        host, port = self.address.split(":")
        for _ in range(START_SECONDS * 5):
            if self.process.poll() is not None:
                break
            try:
                socket.create_connection((host, int(port))).close()
            except OSError:
                time.sleep(0.2)
            else:
                return
        printed = (self.folder / "broker.out").read_text()[-2000:]
        raise RuntimeError(f"the broker did not start: {printed}")
