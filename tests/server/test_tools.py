"""What tools and web interfaces ask for: sizes, pages, producers, transactions."""

from __future__ import annotations

import shutil

import pytest

import kafkalog
from kafkalog.analysis.internal_tables import transactional_ids
from kafkalog.broker.broker import (
    DELETE_GROUPS,
    DESCRIBE_CONFIGS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_PRODUCERS,
    DESCRIBE_TOPIC_PARTITIONS,
    DESCRIBE_TRANSACTIONS,
    JOIN_GROUP,
    LIST_CONFIG_RESOURCES,
    LIST_TRANSACTIONS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
)
from kafkalog.broker.configs import (
    BROKER,
    DEFAULT_CONFIG,
    GROUP,
    TOPIC,
    TOPIC_CONFIG,
)
from kafkalog.log.reading.cluster_metadata import (
    METADATA_PARTITION,
    read_cluster_settings,
)
from kafkalog.protocol.error_codes import ErrorCode
from kafkalog.server.server import serve
from tests import golden_data
from tests.server.client import Client

SUBSCRIPTION = b"\0\0\0\0\0\1\0\6ledger\xff\xff\xff\xff"
"""Version 0 of a consumer's subscription: one topic, and no data."""

ROOT = golden_data.logs("k431-clean")


@pytest.fixture
def client():
    with serve(ROOT) as server, Client(server.address) as opened:
        yield opened


def commit(client, group, topic, *offsets):
    partitions = [
        {"partitionIndex": number, "committedOffset": offset, "committedMetadata": ""}
        for number, offset in enumerate(offsets)
    ]
    topics = [{"name": topic, "partitions": partitions}]
    message = {
        "groupId": group,
        "generationIdOrMemberEpoch": -1,
        "memberId": "",
        "topics": topics,
    }
    client.ask(OFFSET_COMMIT, 8, message)


def offsets_of(client, group):
    answer = client.ask(OFFSET_FETCH, 6, {"groupId": group, "topics": None})
    return {
        (topic["name"], partition["partitionIndex"]): partition["committedOffset"]
        for topic in answer["topics"]
        for partition in topic["partitions"]
    }


def delete_offsets(client, group, topic, *numbers):
    partitions = [{"partitionIndex": number} for number in numbers]
    topics = [{"name": topic, "partitions": partitions}]
    message = {"groupId": group, "topics": topics}
    answer = client.ask(OFFSET_DELETE, 0, message)
    errors = [
        partition["errorCode"]
        for found in answer["topics"]
        for partition in found["partitions"]
    ]
    return answer["errorCode"], errors


def join(client, group, protocol_type="consumer", metadata=b""):
    """Let one member join a group."""
    message = {
        "groupId": group,
        "sessionTimeoutMs": 30_000,
        "rebalanceTimeoutMs": 30_000,
        "memberId": "",
        "groupInstanceId": None,
        "protocolType": protocol_type,
        "protocols": [{"name": "range", "metadata": metadata}],
    }
    first = client.ask(JOIN_GROUP, 5, message)
    assert first["errorCode"] == ErrorCode.MEMBER_ID_REQUIRED
    joined = client.ask(JOIN_GROUP, 5, {**message, "memberId": first["memberId"]})
    assert joined["errorCode"] == ErrorCode.NONE


def test_a_page_goes_on_where_the_one_before_ended(client):
    found, cursor = [], None
    while True:
        request = {"topics": [], "responsePartitionLimit": 5, "cursor": cursor}
        page = client.ask(DESCRIBE_TOPIC_PARTITIONS, 0, request)
        numbers = [
            (topic["name"], partition["partitionIndex"])
            for topic in page["topics"]
            for partition in topic["partitions"]
        ]
        found += numbers
        cursor = page["nextCursor"]
        if cursor is None:
            break
        assert len(numbers) == 5
    assert found == [
        (topic["name"], partition["partitionIndex"])
        for topic in client.ask(METADATA, 12, {"topics": None})["topics"]
        for partition in topic["partitions"]
    ]


def test_the_size_of_a_partition_is_that_of_its_segments(client):
    answer = client.ask(DESCRIBE_LOG_DIRS, 4, {"topics": None})
    [directory] = answer["results"]
    assert directory["logDir"] == str(ROOT)
    assert 0 < directory["usableBytes"] <= directory["totalBytes"]
    for topic in directory["topics"]:
        for partition in topic["partitions"]:
            path = ROOT / f"{topic['name']}-{partition['partitionIndex']}"
            size = sum(file.stat().st_size for file in path.glob("*.log"))
            assert partition["partitionSize"] == size


def test_producers_are_those_of_the_log(client):
    topics = [{"name": "ledger", "partitionIndexes": [0, 1]}]
    [topic] = client.ask(DESCRIBE_PRODUCERS, 0, {"topics": topics})["topics"]
    for partition in topic["partitions"]:
        log = kafkalog.open(ROOT / f"ledger-{partition['partitionIndex']}")
        assert [
            (each["producerId"], each["currentTxnStartOffset"])
            for each in partition["activeProducers"]
        ] == log.producer_states()[["producer_id", "current_txn_first_offset"]].tolist()
        assert partition["activeProducers"]


def test_transactions_are_those_of_their_coordinator(client):
    asked = {"stateFilters": [], "producerIdFilters": []}
    listed = client.ask(LIST_TRANSACTIONS, 0, asked)["transactionStates"]
    rows = transactional_ids(ROOT).to_pylist()
    by_id = {row["transactional_id"]: row for row in rows}
    assert {
        each["transactionalId"]: (each["producerId"], each["transactionState"])
        for each in listed
    } == {name: (row["producer_id"], row["state"]) for name, row in by_id.items()}
    found = client.ask(DESCRIBE_TRANSACTIONS, 0, {"transactionalIds": [*by_id]})
    for state in found["transactionStates"]:
        row = by_id[state["transactionalId"]]
        assert state["producerEpoch"] == row["producer_epoch"]
        assert state["transactionTimeoutMs"] == row["timeout_ms"]
        assert [
            {"topic": topic["topic"], "partition": partition}
            for topic in state["topics"]
            for partition in topic["partitions"]
        ] == row["partitions"]


def test_a_group_without_members_is_deleted_with_its_offsets(client):
    commit(client, "away", "ledger", 5, 6)
    names = ["away", "gone"]
    [away, gone] = client.ask(DELETE_GROUPS, 2, {"groupsNames": names})["results"]
    assert away["errorCode"] == ErrorCode.NONE
    assert gone["errorCode"] == ErrorCode.GROUP_ID_NOT_FOUND
    assert offsets_of(client, "away") == {}


def test_single_offsets_are_deleted(client):
    commit(client, "some", "ledger", 5, 6)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert delete_offsets(client, "some", "ledger", 1, 9) == (0, [0, unknown])
    assert offsets_of(client, "some") == {("ledger", 0): 5}


def test_a_group_with_members_is_kept(client):
    join(client, "busy", metadata=SUBSCRIPTION)
    [result] = client.ask(DELETE_GROUPS, 2, {"groupsNames": ["busy"]})["results"]
    assert result["errorCode"] == ErrorCode.NON_EMPTY_GROUP
    commit(client, "busy", "once", 3)
    subscribed = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert delete_offsets(client, "busy", "ledger", 0) == (0, [subscribed])
    assert delete_offsets(client, "busy", "once", 0) == (0, [0])


def test_offsets_of_other_members_than_consumers_are_kept(client):
    join(client, "workers", "connect")
    assert delete_offsets(client, "workers", "once", 0)[0] == ErrorCode.NON_EMPTY_GROUP


def configs_of(client, kind, name, *keys):
    resource = {
        "resourceType": kind,
        "resourceName": name,
        "configurationKeys": [*keys] or None,
    }
    message = {
        "resources": [resource],
        "includeSynonyms": True,
        "includeDocumentation": False,
    }
    [result] = client.ask(DESCRIBE_CONFIGS, 4, message)["results"]
    return {config["name"]: config for config in result["configs"]}


def test_the_settings_of_a_topic_are_those_of_the_cluster(client):
    own = read_cluster_settings(ROOT / METADATA_PARTITION).topics["squeeze.gzip"]
    found = configs_of(client, TOPIC, "squeeze.gzip")
    assert own
    for name, value in own.items():
        assert found[name]["value"] == value
        assert found[name]["configSource"] == TOPIC_CONFIG
    assert found["preallocate"]["value"] == "false"
    assert found["preallocate"]["configSource"] == DEFAULT_CONFIG


def test_only_settings_that_are_asked_for_are_answered(client):
    assert [*configs_of(client, BROKER, "1", "log.roll.ms", "none")] == ["log.roll.ms"]


def test_damaged_metadata_is_an_error_of_the_answer(tmp_path):
    for name in ("once-0", METADATA_PARTITION):
        shutil.copytree(ROOT / name, tmp_path / name)
    for snapshot in (tmp_path / METADATA_PARTITION).glob("*.checkpoint"):
        snapshot.write_bytes(b"damaged")
    resource = {
        "resourceType": TOPIC,
        "resourceName": "once",
        "configurationKeys": None,
    }
    message = {"resources": [resource], "includeSynonyms": False}
    with serve(tmp_path) as server, Client(server.address) as client:
        [result] = client.ask(DESCRIBE_CONFIGS, 1, message)["results"]
        assert result["errorCode"] == ErrorCode.KAFKA_STORAGE_ERROR
        assert METADATA_PARTITION in result["errorMessage"]
        listed = client.ask(LIST_CONFIG_RESOURCES, 1, {"resourceTypes": [GROUP]})
        assert listed["errorCode"] == ErrorCode.KAFKA_STORAGE_ERROR
