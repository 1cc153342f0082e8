"""What a client gets of golden directories, with every version of each request."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

import kafkalog
from kafkalog.broker.broker import (
    DESCRIBE_CLUSTER,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FETCH,
    PRODUCE,
)
from kafkalog.log.reading.log_segments import list_segments
from kafkalog.protocol.error_codes import ErrorCode
from kafkalog.protocol.protocol_schemas import API_VERSIONS, api_of
from kafkalog.server.server import serve
from kafkalog.storage.file_names import parse_partition_dir
from tests import golden_data
from tests.server.client import Client

SETS = ["k282-clean", "k431-clean", "k431-crash", "oldclients"]
PARTITION = ("ledger", 0)


def versions(key):
    api = api_of(key)
    return range(api.lowest_version, api.highest_version + 1)


@pytest.fixture(scope="module")
def server():
    with serve(golden_data.logs("k431-clean")) as opened:
        yield opened


@pytest.fixture
def client(server):
    with Client(server.address) as opened:
        yield opened


def topics_of(client):
    return client.ask(METADATA, 12, {"topics": None})["topics"]


def fetch_request(topic, partition, offset, *, most=1 << 20, wait=0, committed=False):
    return {
        "maxWaitMs": wait,
        "minBytes": 1,
        "maxBytes": most,
        "isolationLevel": int(committed),
        "topics": [
            {
                "topic": topic["name"],
                "topicId": topic["topicId"],
                "partitions": [
                    {
                        "partition": partition,
                        "fetchOffset": offset,
                        "partitionMaxBytes": most,
                    }
                ],
            }
        ],
    }


def fetched(client, version, *request, **options):
    """Return the one partition of an answer."""
    answer = client.ask(FETCH, version, fetch_request(*request, **options))
    [topic] = answer["responses"]
    [partition] = topic["partitions"]
    return partition


def digest(root):
    """Return the content and the times of all files below a directory."""
    return {
        str(path): (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).digest())
        for path in sorted(Path(root).rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("name", SETS)
def test_every_batch_is_sent_as_it_is_stored_and_nothing_is_changed(name):
    root = golden_data.logs(name)
    before, batches = digest(root), 0
    with serve(root) as opened, Client(opened.address) as client:
        for topic in topics_of(client):
            for partition in topic["partitions"]:
                number = partition["partitionIndex"]
                if partition["errorCode"]:
                    continue
                log = kafkalog.open(root / f"{topic['name']}-{number}")
                offset, end, read = log.log_start_offset, log.log_end_offset, b""
                while offset < end:
                    found = fetched(client, 12, topic, number, offset, most=10_000)
                    assert found["errorCode"] == ErrorCode.NONE
                    assert found["highWatermark"] == end
                    sent = log.read(offset, max_bytes=10_000)
                    assert found["records"] == sent.data
                    read += sent.data
                    offset = sent.next_offset
                    batches += 1
                stored = b"".join(
                    segment.path.read_bytes() for segment in list_segments(log.path)
                )
                assert read in stored
    assert batches > 5
    assert digest(root) == before


@pytest.mark.parametrize("version", versions(FETCH))
def test_every_version_of_fetch_has_the_same_records(client, version):
    topic = next(each for each in topics_of(client) if each["name"] == PARTITION[0])
    newest = fetched(client, 18, topic, PARTITION[1], 0)
    assert newest["records"]
    found = fetched(client, version, topic, PARTITION[1], 0)
    assert found["records"] == newest["records"]
    assert found["lastStableOffset"] == newest["lastStableOffset"]


def test_a_fetch_within_a_batch_has_all_of_it(client):
    topic = next(each for each in topics_of(client) if each["name"] == PARTITION[0])
    log = kafkalog.open(golden_data.logs("k431-clean") / "ledger-0")
    batches = list(log.read(0).batches())
    batch = max(batches, key=lambda batch: batch.last_offset - batch.base_offset)
    assert batch.last_offset > batch.base_offset
    found = fetched(client, 12, topic, 0, batch.last_offset, most=1)
    base, size = struct.unpack_from(">qi", found["records"])
    assert (base, size + 12) == (batch.base_offset, batch.size_in_bytes)
    assert len(found["records"]) == batch.size_in_bytes


def test_read_committed_ends_at_the_stable_offset_and_lists_what_was_aborted(client):
    directory = golden_data.logs("k431-clean") / "ledger-0"
    log = kafkalog.open(directory)
    topic = next(each for each in topics_of(client) if each["name"] == PARTITION[0])
    found = fetched(client, 12, topic, 0, 0, committed=True)
    read = log.read(0, isolation="read_committed")
    assert read.aborted
    assert found["lastStableOffset"] == log.last_stable_offset
    aborted = [tuple(each.values()) for each in found["abortedTransactions"]]
    assert sorted(aborted) == sorted(read.aborted)
    assert fetched(client, 12, topic, 0, 0)["abortedTransactions"] is None


@pytest.mark.parametrize(
    ("offset", "error"),
    [(-1, ErrorCode.OFFSET_OUT_OF_RANGE), (1 << 40, ErrorCode.OFFSET_OUT_OF_RANGE)],
)
def test_an_offset_outside_of_the_log_is_an_error(client, offset, error):
    topic = next(each for each in topics_of(client) if each["name"] == PARTITION[0])
    assert fetched(client, 12, topic, 0, offset)["errorCode"] == error


def test_unknown_topics_and_partitions_are_errors(client):
    topic = next(each for each in topics_of(client) if each["name"] == PARTITION[0])
    unknown = {"name": "no-such-topic", "topicId": "AAAAAAAAAAAAAAAAAAAAAQ"}
    assert fetched(client, 12, unknown, 0, 0)["errorCode"] == 3
    assert fetched(client, 13, unknown, 0, 0)["errorCode"] == 100
    assert fetched(client, 12, topic, 99, 0)["errorCode"] == 3


@pytest.mark.parametrize("version", versions(METADATA))
def test_every_version_of_metadata_names_all_topics(client, version):
    root = golden_data.logs("k431-clean")
    asked = {"topics": [] if version == 0 else None}
    answer = client.ask(METADATA, version, asked)
    found = (parse_partition_dir(path.name) for path in root.iterdir())
    names = {name.topic for name in found if name and name.state is None}
    names.remove("__cluster_metadata")
    assert {topic["name"] for topic in answer["topics"]} == names
    [broker] = answer["brokers"]
    assert broker["nodeId"] == 1


@pytest.mark.parametrize("version", versions(LIST_OFFSETS))
@pytest.mark.parametrize("name", ["ledger", "expired", "orders.gzip"])
def test_every_version_of_list_offsets_has_the_ends_of_the_log(client, version, name):
    log = kafkalog.open(golden_data.logs("k431-clean") / f"{name}-0")
    time = 1_700_000_000_000
    expected = {
        -1: log.log_end_offset,
        -2: log.log_start_offset,
        time: int(log.offsets_for_times([time])[0]),
        1 << 50: -1,
    }
    for timestamp, offset in expected.items():
        partition = {"partitionIndex": 0, "timestamp": timestamp}
        asked = {
            "replicaId": -1,
            "topics": [{"name": name, "partitions": [partition]}],
        }
        [topic] = client.ask(LIST_OFFSETS, version, asked)["topics"]
        [found] = topic["partitions"]
        assert (found["errorCode"], found["offset"]) == (0, offset)


@pytest.mark.parametrize("version", [*versions(API_VERSIONS), 99])
def test_versions_are_answered_also_to_a_client_of_the_future(server, version):
    with Client(server.address) as client:
        known = min(version, 4)
        frame = struct.pack(">hhih", API_VERSIONS, version, 7, -1)
        if version >= 3:
            frame += b"\0" + (b"\2a\2b\0" if version == known else b"?")
        client.send_frame(frame)
        answered = version if version == known else 0
        data = client.receive_frame()
        assert data[:4] == struct.pack(">i", 7)
        message, end = api_of(API_VERSIONS).response_codec(answered).decode(data, 4)
        assert end == len(data)
        error = ErrorCode.NONE if version == known else ErrorCode.UNSUPPORTED_VERSION
        assert message["errorCode"] == error
        ranges = {
            each["apiKey"]: tuple(each.values())[1:3] for each in message["apiKeys"]
        }
        assert ranges[FETCH] == (4, 18)
        assert ranges[PRODUCE] == (0, 13)


@pytest.mark.parametrize("acks", [1, -1])
def test_what_is_produced_is_refused_with_a_reason(client, acks):
    data = [{"name": "ledger", "partitionData": [{"index": 0, "records": b"x"}]}]
    asked = {"acks": acks, "timeoutMs": 1, "topicData": data}
    [topic] = client.ask(PRODUCE, 9, asked)["responses"]
    [partition] = topic["partitionResponses"]
    assert partition["errorCode"] == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert "reading only" in partition["errorMessage"]


def test_a_request_without_acks_gets_no_answer_and_the_next_one_does(client):
    data = [{"name": "ledger", "partitionData": [{"index": 0, "records": b"x"}]}]
    client.send(PRODUCE, 9, {"acks": 0, "timeoutMs": 1, "topicData": data})
    assert client.ask(
        DESCRIBE_CLUSTER, 0, {"includeClusterAuthorizedOperations": False}
    )


def test_requests_are_answered_in_their_order(client):
    topic = next(each for each in topics_of(client) if each["name"] == PARTITION[0])
    end = fetched(client, 12, topic, 0, 0)["highWatermark"]
    waits = client.send(FETCH, 12, fetch_request(topic, 0, end, wait=200))
    later = client.send(METADATA, 12, {"topics": []})
    [answer] = client.receive(FETCH, 12, waits)["responses"]
    assert answer["partitions"][0]["records"] == b""
    assert client.receive(METADATA, 12, later)["topics"] == []


HOSTILE = {
    "a negative size": struct.pack(">i", -1),
    "a huge size": struct.pack(">i", 1 << 30),
    "an unknown API": struct.pack(">ihhih", 10, 9999, 0, 1, -1),
    "an unknown version": struct.pack(">ihhih", 10, FETCH, 99, 1, -1),
    "no header": struct.pack(">ih", 2, 3),
    "half a message": struct.pack(">ihhihi", 14, METADATA, 1, 1, -1, 1 << 30),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_frame_that_is_no_request_closes_the_connection_only(server, name):
    with Client(server.address) as hostile, Client(server.address) as other:
        hostile.socket.sendall(HOSTILE[name])
        assert hostile.receive_frame() is None
        assert topics_of(other)


def open_files():
    """Return the number of sockets and other files that this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def test_connections_that_end_anywhere_leave_the_server_as_it_was(server):
    before = open_files()
    for size in range(0, 20):
        with Client(server.address) as client:
            client.socket.sendall((struct.pack(">i", 100) + b"x" * 20)[:size])
    with Client(server.address) as client:
        assert topics_of(client)
        client.socket.setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
    with Client(server.address) as client:
        assert topics_of(client)
    end = time.monotonic() + 60
    while open_files() > before and time.monotonic() < end:
        time.sleep(0.01)  # the server closes its ends a moment later
    assert open_files() <= before


def test_what_is_appended_is_read_and_a_waiting_fetch_gets_it(tmp_path):
    with kafkalog.open(tmp_path / "logs" / "orders-0", "a") as log:
        log.append_records({"value": [b"first"]})
        with serve(tmp_path / "logs") as opened, Client(opened.address) as client:
            [topic] = topics_of(client)
            found = fetched(client, 12, topic, 0, 0)
            assert found["highWatermark"] == 1
            number = client.send(FETCH, 12, fetch_request(topic, 0, 1, wait=60_000))
            log.append_records({"value": [b"second"]})
            [answer] = client.receive(FETCH, 12, number)["responses"]
            [partition] = answer["partitions"]
            [records] = kafkalog.scan(partition["records"]).chunks()
            assert records.value.to_list() == [b"second"]


def test_the_command_prints_its_address_and_ends_with_a_signal():
    command = [sys.executable, "-m", "kafkalog", "serve", "--listen", "127.0.0.1:0"]
    for number in (signal.SIGINT, signal.SIGTERM):
        with subprocess.Popen(
            [*command, golden_data.logs("k431-clean")],
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            line = process.stdout.readline()
            with Client(line.split()[-1]) as client:
                assert topics_of(client)
            process.send_signal(number)
            assert process.wait(60) == 0
        assert line.startswith("listening on 127.0.0.1:")


def test_an_error_of_the_server_is_reported_and_ends_one_connection(
    server, monkeypatch, caplog
):
    def failing(*_):
        raise ZeroDivisionError("a defect")

    with Client(server.address) as client, Client(server.address) as other:
        assert topics_of(client)
        monkeypatch.setitem(server._broker._answers, LIST_OFFSETS, failing)
        asked = {"replicaId": -1, "topics": []}
        client.send(LIST_OFFSETS, 4, asked)
        assert client.receive_frame() is None
        assert "a defect" in caplog.text
        assert topics_of(other)


@pytest.mark.parametrize("version", versions(OFFSET_FETCH))
def test_groups_stand_where_the_directory_says(version):
    root = golden_data.logs("k431-clean")
    rows = kafkalog.groups(root).to_pylist()
    group = rows[0]["group"]
    stored = {
        (row["topic"], row["partition"]): (row["offset"], row["metadata"])
        for row in rows
        if row["group"] == group
    }
    with serve(root, topics="*") as opened, Client(opened.address) as client:
        ids = {topic["name"]: topic["topicId"] for topic in topics_of(client)}
        asked = [
            {"name": topic, "topicId": ids[topic], "partitionIndexes": [number]}
            for topic, number in stored
        ]
        message = {"groupId": group, "topics": asked}
        message["groups"] = [{"groupId": group, "topics": asked}]
        answer = client.ask(OFFSET_FETCH, version, message)
    [found] = answer.get("groups") or [answer]
    names = {topic_id: name for name, topic_id in ids.items()}
    assert {
        (topic.get("name") or names[topic["topicId"]], each["partitionIndex"]): (
            each["committedOffset"],
            each["metadata"],
        )
        for topic in found["topics"]
        for each in topic["partitions"]
    } == stored


HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


def test_beside_a_broker_a_log_ends_at_its_checkpointed_high_watermark(tmp_path):
    logs = tmp_path / "logs"
    with kafkalog.open(logs / "orders-0", "a") as log:
        for _ in range(3):
            log.append_records({"value": [b"1", b"2"]})
    marks = logs / "replication-offset-checkpoint"
    marks.write_text("0\n1\norders 0 4\n")

    def ends(opened):
        with Client(opened.address) as client:
            [topic] = topics_of(client)
            found = fetched(client, 12, topic, 0, 0)
            asked = {"partitionIndex": 0, "timestamp": -1}
            asked = {"name": "orders", "partitions": [asked]}
            asked = {"replicaId": -1, "topics": [asked]}
            [answer] = client.ask(LIST_OFFSETS, 4, asked)["topics"]
            chunks = kafkalog.scan(found["records"]).chunks()
            return (
                found["highWatermark"],
                found["lastStableOffset"],
                answer["partitions"][0]["offset"],
                sum(map(len, chunks)),
            )

    with serve(logs) as opened:
        assert ends(opened) == (6, 6, 6, 6)
    holder = [sys.executable, "-c", HOLDER, logs / ".lock"]
    with subprocess.Popen(
        holder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "locked\n"
        with serve(logs) as opened:
            assert ends(opened) == (4, 4, 4, 4)
            os.utime(marks, ns=(1, 1))
            marks.write_text("0\n1\norders 0 6\n")
            assert ends(opened) == (6, 6, 6, 6)
        process.stdin.close()
        assert process.wait(60) == 0


def test_clients_wait_where_there_are_too_many_open_files():
    command = [sys.executable, "-m", "kafkalog", "serve", "--listen", "127.0.0.1:0"]
    logs = str(golden_data.logs("k431-clean"))
    limited = ["bash", "-c", 'ulimit -n 80; exec "$@"', "bash", *command, logs]
    with ExitStack() as ended:
        process = subprocess.Popen(limited, stdout=subprocess.PIPE, text=True)
        ended.enter_context(process)
        ended.callback(process.kill)
        address = process.stdout.readline().split()[-1]
        with ExitStack() as stack:
            clients = [stack.enter_context(Client(address)) for _ in range(100)]
            assert topics_of(clients[0])
        with Client(address) as client:
            assert topics_of(client)
        process.terminate()
        assert process.wait(60) == 0
