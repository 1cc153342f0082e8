"""A worker that Spark keeps does not go through its modules after each task."""

from __future__ import annotations

import gc
import json
import subprocess
import sys

import pytest

from kafkalog.spark.workers import KEPT
from tests import golden_data

LOGS = str(golden_data.logs("k431-clean"))
FROZEN = """
import gc
from kafkalog.spark.workers import make_ready
before, frozen = len(gc.get_objects()), gc.get_freeze_count()
make_ready()
made = [[]]
made.append(made)
is_seen = any(one is made for one in gc.get_objects())
print(gc.get_freeze_count() - frozen, before, is_seen)
"""


CONVERSED = """
import gc, json, socket
from kafkalog.spark.workers import make_ready

server = socket.create_server(("127.0.0.1", 0))
ours = socket.create_connection(server.getsockname())
theirs, _ = server.accept()
pair = socket.socketpair()
make_ready()

def is_quick():
    return bool(ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK))

def holds_back():
    return not ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

told = []
for _ in range(3):
    for _ in range(3):  # question and answer: now acknowledgements are put off
        theirs.sendall(b"?")
        ours.recv(1)
        ours.sendall(b"!")
        theirs.recv(1)
    told.append(is_quick())
    gc.collect()  # as Spark's worker does after a task
    told.append(is_quick())
pair[0].sendall(b"open")
opened = [pair[1].recv(4).decode(), server.fileno() >= 0]
print(json.dumps([*told, holds_back(), *opened]))
"""


def frozen():
    """What is left alone in a process, what there was, and what is looked at still."""
    done = subprocess.run(
        [sys.executable, "-c", FROZEN], check=True, capture_output=True, text=True
    )
    count, before, is_seen = done.stdout.split()
    return int(count), int(before), is_seen == "True"


def test_a_process_that_is_kept_leaves_alone_what_was_there_and_no_more(monkeypatch):
    monkeypatch.setenv(KEPT, "1")
    count, before, new_one_is_seen = frozen()
    assert count > before / 2
    assert new_one_is_seen


def test_a_process_of_the_users_is_as_it_was(monkeypatch):
    monkeypatch.delenv(KEPT, raising=False)
    count, _, new_one_is_seen = frozen()
    assert count == 0
    assert new_one_is_seen


@pytest.mark.skipif(sys.platform != "linux", reason="Linux puts off and can be asked")
@pytest.mark.parametrize("is_kept", [True, False])
def test_between_tasks_nothing_is_waited_for(monkeypatch, is_kept):
    monkeypatch.delenv(KEPT, raising=False)
    if is_kept:
        monkeypatch.setenv(KEPT, "1")
    done = subprocess.run(
        [sys.executable, "-c", CONVERSED], check=True, capture_output=True, text=True
    )
    told = [*[False, is_kept] * 3, not is_kept, "open", True]
    assert json.loads(done.stdout) == told
    assert not done.stderr


@pytest.mark.spark
def test_a_process_that_plans_is_kept_and_such(spark):
    from kafkalog.spark.source import KafkaLogDataSource

    class Source(KafkaLogDataSource):
        @classmethod
        def name(cls):
            return "telling"

        def schema(self):
            return f"frozen_{gc.get_freeze_count() > 10_000} bigint"

    spark.dataSource.register(Source)
    frame = spark.read.format("telling").load(LOGS)
    assert frame.schema.names == ["frozen_True"]


@pytest.mark.spark
def test_a_worker_of_the_source_is_kept_and_such(spark):
    from kafkalog.spark.batch import BatchReader
    from kafkalog.spark.source import KafkaLogDataSource

    class Reader(BatchReader):
        def read(self, partition):
            assert list(super().read(partition))
            yield (gc.get_freeze_count(),)

    class Source(KafkaLogDataSource):
        @classmethod
        def name(cls):
            return "counting"

        def reader(self, schema):
            from kafkalog.spark.options import parse_options

            return Reader(parse_options(self.options, streaming=False), schema)

    spark.dataSource.register(Source)
    frame = spark.read.format("counting").schema("offset bigint").load(LOGS)
    assert all(row["offset"] > 10_000 for row in frame.collect())


@pytest.mark.spark
def test_a_worker_of_functions_is_kept_and_such(spark):
    from kafkalog.spark import map_batches

    def count(batches):
        import pyarrow as pa

        for _ in batches:
            yield pa.record_batch({"count": [gc.get_freeze_count()]})

    columns = ("offset bigint", ["offset"])
    assert map_batches(spark, LOGS, lambda batch: batch, *columns).count()
    counts = spark.range(0, 8, 1, 8).mapInArrow(count, "count bigint").collect()
    assert max(row["count"] for row in counts) > 10_000
