"""Kafka 4.3.1 and `serve` answer the same, on copies of one log directory."""

from __future__ import annotations

import shutil
import time
from struct import Struct
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkalog.config.broker_config import BrokerConfig
from kafkalog.config.log_config import LogConfig
from kafkalog.config.settings import settings_of
from kafkalog.protocol.protocol_schemas import API_VERSIONS, api_of
from kafkalog.server.server import serve
from tests import golden_data
from tests.interop.broker import JARS, Broker
from tests.protocol.protocol_messages import messages_of
from tests.server.client import Client, parsed

pytestmark = pytest.mark.interop

QUIET = """\
offsets.topic.num.partitions=3
offsets.retention.minutes=1000000
offsets.retention.check.interval.ms=1000000000
transaction.state.log.num.partitions=2
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000000000
transaction.remove.expired.transaction.cleanup.interval.ms=1000000000
log.cleaner.enable=false
log.retention.hours=168
log.initial.task.delay.ms=1000000000
"""
"""Settings with which a broker leaves a log directory as it is."""

PRODUCER_EXPIRATION_MS = 24 * 60 * 60 * 1000
STATIC_BROKER_CONFIG = 4
ADDRESS = {"host", "port"}
EPOCH = {"leaderEpoch"}
VOLATILE = {
    "DescribeCluster": ADDRESS,
    "FindCoordinator": ADDRESS,
    "ListOffsets": EPOCH,
    "DescribeConfigs": {"documentation"},
    "DescribeLogDirs": {"logDir", "usableBytes"},
    "DescribeTopicPartitions": EPOCH,
    "Metadata": ADDRESS | EPOCH,
}
"""Fields that differ by API: of the address, and what a broker changes as it starts."""

UNORDERED = {
    "brokers",
    "configs",
    "configResources",
    "transactionStates",
    "activeProducers",
    "unknownStateFilters",
    "topics",
    "partitions",
    "results",
}
"""Arrays in the order of a hash table."""


class Case(NamedTuple):
    """A request by hand: its API, its first version, its message."""

    key: int
    first: int
    message: dict


def topics(*names, **fields):
    return {"topics": [{"name": name, **fields} for name in names]}


def page(limit, cursor, *names):
    at = None
    if cursor is not None:
        at = dict(zip(("topicName", "partitionIndex"), cursor, strict=True))
    return {**topics(*names), "responsePartitionLimit": limit, "cursor": at}


def quotas(*components):
    names = ("entityType", "matchType", "match")
    found = [dict(zip(names, each, strict=True)) for each in components]
    return {"components": found, "strict": False}


def acls(kind=1, pattern=1, operation=1, permission=1):
    return {
        "resourceTypeFilter": kind,
        "patternTypeFilter": pattern,
        "operation": operation,
        "permissionType": permission,
    }


def transactions(states, producers, duration=-1, pattern=None):
    return {
        "stateFilters": [*states],
        "producerIdFilters": [*producers],
        "durationFilter": duration,
        "transactionalIdPattern": pattern,
    }


def configs(kind, name, *keys, synonyms=True):
    resource = {
        "resourceType": kind,
        "resourceName": name,
        "configurationKeys": [*keys] or None,
    }
    return {
        "resources": [resource],
        "includeSynonyms": synonyms,
        "includeDocumentation": False,
    }


FETCH = 1
LIST_OFFSETS = 2
METADATA = 3
FIND_COORDINATOR = 10
EPOCH_ENDS = 23
DESCRIBE_CLUSTER = 60
DESCRIBE_ACLS = 29
DESCRIBE_CONFIGS = 32
LIST_CONFIG_RESOURCES = 74
DESCRIBE_LOG_DIRS = 35
REASSIGNMENTS = 46
QUOTAS = 48
ALTER_QUOTAS = 49
SCRAM = 50
ALTER_SCRAM = 51
DELETE_GROUPS = 42
OFFSET_DELETE = 47
PRODUCERS = 61
TRANSACTIONS = 65
LIST_TRANSACTIONS = 66
TOPIC_PARTITIONS = 75
GOLDEN = ("ledger", "once", "orders.none", "state.txn", "__consumer_offsets")
TRANSACTIONAL_IDS = (
    *("ledger.id-0", "ledger.id-1", "ledger.id-2", "ledger.id-3", "ledger.zombie"),
    *("state.txn.id-0", "state.txn.id-1"),
)
NAMES = ("ledger", "once", "spare-2", "none", "a b", ".")
VERSIONS = {"clientSoftwareName": "tests", "clientSoftwareVersion": "1"}
NO_TOPIC_ID = "AAAAAAAAQACAAAAAAAAAAQ"
BATCH_SIZE = Struct(">8xi")
EVENTS_MS = 1_700_000_000_000
BY_HAND = [
    Case(METADATA, 0, {"topics": []}),
    Case(METADATA, 1, {"topics": None}),
    *(
        Case(METADATA, first, {"topics": [{"name": name} for name in NAMES], **more})
        for first, more in (
            (4, {"allowAutoTopicCreation": False}),
            (
                8,
                {
                    "allowAutoTopicCreation": False,
                    "includeTopicAuthorizedOperations": True,
                },
            ),
        )
    ),
    Case(DESCRIBE_CLUSTER, 0, {"includeClusterAuthorizedOperations": False}),
    Case(DESCRIBE_CLUSTER, 0, {"includeClusterAuthorizedOperations": True}),
    Case(DESCRIBE_CLUSTER, 1, {"endpointType": 2}),
    *(
        Case(
            LIST_OFFSETS,
            1,
            {
                "replicaId": -1,
                "isolationLevel": isolation,
                "topics": [
                    {
                        "name": name,
                        "partitions": [
                            {
                                "partitionIndex": number,
                                "currentLeaderEpoch": -1,
                                "timestamp": timestamp,
                            }
                            for number in (0, 1, 7)
                        ],
                    }
                    for name in (*GOLDEN, "cutoff", "expired", "spare-0", "none")
                ],
            },
        )
        for isolation in (0, 1)
        for timestamp in (-1, -2, -3, -4, -5, -6, -7, 0, EVENTS_MS, EVENTS_MS * 2)
    ),
    *(
        Case(
            EPOCH_ENDS,
            2,
            {
                "replicaId": -1,
                "topics": [
                    {
                        "topic": name,
                        "partitions": [
                            {
                                "partition": number,
                                "currentLeaderEpoch": -1,
                                "leaderEpoch": epoch,
                            }
                            for number in (0, 7)
                        ],
                    }
                    for name in (*GOLDEN, "none")
                ],
            },
        )
        for epoch in (-1, 0, 1000)
    ),
    *(
        Case(
            FIND_COORDINATOR,
            4,
            {"keyType": kind, "coordinatorKeys": ["a", "b"]},
        )
        for kind in (0, 1, 3)
    ),
    *(Case(FIND_COORDINATOR, 0, {"key": key}) for key in ("a",)),
    *(Case(DESCRIBE_ACLS, 1, acls(*each)) for each in [(), (0,), (2, 3, 4, 3)]),
    *(
        Case(DESCRIBE_CONFIGS, 1, configs(2, name))
        for name in (*GOLDEN, "cutoff", "expired", "sizes", "none", "a b", "", ".")
    ),
    Case(DESCRIBE_CONFIGS, 1, configs(2, "once", "retention.ms", "none")),
    Case(DESCRIBE_CONFIGS, 1, configs(2, "once", synonyms=False)),
    *(Case(DESCRIBE_CONFIGS, 1, configs(4, name)) for name in ("", "1", "2", "x")),
    Case(DESCRIBE_CONFIGS, 1, configs(1, "once")),
    *(
        Case(LIST_CONFIG_RESOURCES, 1, {"resourceTypes": kinds})
        for kinds in ([], [2], [4, 8], [1], [16], [32])
    ),
    Case(LIST_CONFIG_RESOURCES, 0, {"resourceTypes": []}),
    Case(DESCRIBE_LOG_DIRS, 1, {"topics": None}),
    Case(DESCRIBE_LOG_DIRS, 1, {"topics": []}),
    Case(
        DESCRIBE_LOG_DIRS,
        1,
        {"topics": [{"topic": name, "partitions": [0, 1, 9]} for name in NAMES]},
    ),
    Case(REASSIGNMENTS, 0, {"topics": None}),
    Case(REASSIGNMENTS, 0, topics("ledger", "none", partitionIndexes=[0, 7])),
    *(
        Case(QUOTAS, 0, quotas(*components))
        for components in [
            [],
            [("user", 0, "a"), ("client-id", 1, None)],
            [("user", 0, None)],
            [("ip", 1, "a")],
            [("ip", 2, "a")],
            [("ip", 2, None)],
            [("ip", 3, None)],
            [("", 0, "a")],
            [("none", 0, "a")],
            [("user", 0, "a"), ("user", 1, None)],
            [("user", 0, "a"), ("ip", 1, None)],
        ]
    ),
    Case(SCRAM, 0, {"users": None}),
    Case(DELETE_GROUPS, 0, {"groupsNames": ["gone", "gone", ""]}),
    Case(OFFSET_DELETE, 0, {"groupId": "gone", "topics": []}),
    Case(OFFSET_DELETE, 0, {"groupId": "", "topics": []}),
    Case(
        PRODUCERS,
        0,
        topics(*GOLDEN, "none", "a b", "", ".", partitionIndexes=[0, 1, 7]),
    ),
    Case(TRANSACTIONS, 0, {"transactionalIds": [*TRANSACTIONAL_IDS, "none", ""]}),
    *(
        Case(LIST_TRANSACTIONS, first, transactions(*each))
        for first, each in [
            (0, ((), ())),
            (0, (("Ongoing", "Empty", "none"), ())),
            (0, (("CompleteCommit",), (1, 2, 3))),
            (1, ((), (), 1000)),
            (1, ((), (), 1 << 62)),
            (2, ((), (), -1, "l.*")),
            (2, ((), (), -1, "(")),
            (2, ((), (), -1, "")),
        ]
    ),
    Case(SCRAM, 0, {"users": [{"name": name} for name in ("a", "b", "a", "")]}),
    *(
        Case(TOPIC_PARTITIONS, 0, page(*each))
        for each in [
            (2000, None),
            (0, None),
            (7, ("once", 1)),
            (7, ("once", 2)),
            (2, None, *NAMES),
            (2, ("ledger", 1), *NAMES),
            (2, ("spare-2", 1), *NAMES),
            (2, ("gone", 0)),
            (2, ("gone", 0), *NAMES),
            (2, ("ledger", -1), *NAMES),
        ]
    ),
]
AT_RANDOM = sorted({case.key for case in BY_HAND} - {METADATA})


@pytest.fixture(scope="module")
def brokers(tmp_path_factory):
    """Yield the addresses of Kafka and of `serve`, and their log directories."""
    if not (JARS / "broker" / "done").exists():
        pytest.fail("no jars in build/interop: make test-interop", pytrace=False)
    theirs = Broker(tmp_path_factory.mktemp("theirs"))
    with theirs.settings.open("a") as properties:
        properties.write(QUIET)
    ours = tmp_path_factory.mktemp("ours") / "logs"
    for copy in (theirs.logs, ours):
        shutil.copytree(golden_data.logs("k431-clean"), copy)
    theirs.start()
    with Client(theirs.address) as client:
        wait_for_leaders(client)
        remove_security(client)
    try:
        with serve(ours) as server:
            yield theirs.address, server.address
    finally:
        theirs.stop()


def wait_for_leaders(client):
    """Wait until the broker leads all partitions."""
    topics = client.ask(METADATA, 1, {"topics": None})["topics"]
    asked = [
        {
            "name": topic["name"],
            "partitions": [
                {"partitionIndex": partition["partitionIndex"], "timestamp": -2}
                for partition in topic["partitions"]
            ],
        }
        for topic in topics
    ]
    message = {"replicaId": -1, "topics": asked}
    while any(
        partition["errorCode"]
        for topic in client.ask(LIST_OFFSETS, 1, message)["topics"]
        for partition in topic["partitions"]
    ):
        time.sleep(0.1)


def remove_security(client):
    """Remove the quotas and the SCRAM users, which `serve` has none of."""
    quotas = client.ask(QUOTAS, 1, {"components": [], "strict": False})["entries"]
    users = client.ask(SCRAM, 0, {"users": None})["results"]
    entries = [
        {
            "entity": entry["entity"],
            "ops": [
                {"key": value["key"], "value": 0.0, "remove": True}
                for value in entry["values"]
            ],
        }
        for entry in quotas
    ]
    deletions = [
        {"name": user["user"], "mechanism": info["mechanism"]}
        for user in users
        for info in user["credentialInfos"]
    ]
    assert entries
    assert deletions
    client.ask(ALTER_QUOTAS, 1, {"entries": entries, "validateOnly": False})
    client.ask(ALTER_SCRAM, 0, {"deletions": deletions, "upsertions": []})


def answer_of(address, key, version, message):
    """Return the answer; None if the connection is closed instead."""
    with Client(address) as client:
        number = client.send(key, version, message)
        try:
            frame = client.receive_frame()
        except ConnectionResetError:
            return None
        return None if frame is None else parsed(key, version, frame, number)


def is_forgotten(value):
    """Return whether a broker drops a producer as it starts, which `serve` does not."""
    return (
        isinstance(value, dict)
        and value.get("currentTxnStartOffset") == -1
        and value["lastTimestamp"] < time.time() * 1000 - PRODUCER_EXPIRATION_MS
    )


def comparable(value, volatile):
    """Return an answer without what may differ."""
    if isinstance(value, list):
        return [comparable(each, volatile) for each in value if not is_forgotten(each)]
    if not isinstance(value, dict):
        return value
    found = {}
    for name, each in value.items():
        if name not in volatile:
            each = comparable(each, volatile)
            found[name] = sorted(each, key=repr) if name in UNORDERED else each
    return found


def whole_batches(records):
    """Return the batches without the part of one that Kafka cuts off at the limit."""
    end = 0
    while end + BATCH_SIZE.size <= len(records):
        size = BATCH_SIZE.size + BATCH_SIZE.unpack_from(records, end)[0]
        if end + size > len(records):
            break
        end += size
    return records[:end]


def fails_in_kafka(key, message):
    """Return whether Kafka answers with an error of its own code."""
    if key == TOPIC_PARTITIONS:  # a NullPointerException
        return message["cursor"] is None and {"name": ""} in message["topics"]
    if key == LIST_OFFSETS:  # an IllegalArgumentException
        return message.get("isolationLevel", 0) not in (0, 1)
    return False


def is_of_others(key, message):
    """Return whether settings are asked for that `serve` does not know."""
    kinds = {each["resourceType"] for each in message.get("resources", ())}
    return key == DESCRIBE_CONFIGS and bool(kinds & {8, 16, 32})


def leave_out(answer, static):
    """Leave out what a broker has in a file of its own, and what logs do not use."""
    known = settings_of(LogConfig).keys() | settings_of(BrokerConfig).keys()
    for result in answer["results"]:
        result["configs"] = [
            {
                **config,
                "synonyms": [
                    each
                    for each in config["synonyms"]
                    if each["source"] != STATIC_BROKER_CONFIG
                ],
            }
            for config in result["configs"]
            if config["name"] in known
            if (result["resourceName"], config["name"]) not in static
        ]


def check(brokers, key, version, message):
    if fails_in_kafka(key, message) or is_of_others(key, message):
        return
    volatile = VOLATILE.get(api_of(key).name, set())
    answers = [answer_of(address, key, version, message) for address in brokers]
    if key == DESCRIBE_CONFIGS:
        static = {
            (result["resourceName"], config["name"])
            for result in answers[0]["results"]
            for config in result["configs"]
            if config["configSource"] == STATIC_BROKER_CONFIG
        }
        for answer in answers:
            leave_out(answer, static)
    theirs, ours = (comparable(answer, volatile) for answer in answers)
    assert ours == theirs


LAST = {(FIND_COORDINATOR, 0): 3, (METADATA, 0): 0}
"""The last version of requests by hand whose fields later versions do not have."""


@pytest.mark.parametrize("case", BY_HAND, ids=lambda case: api_of(case.key).name)
def test_requests_by_hand(brokers, case):
    last = LAST.get((case.key, case.first), api_of(case.key).highest_version)
    for version in range(case.first, last + 1):
        check(brokers, case.key, version, case.message)


def test_versions_are_those_of_kafka(brokers):
    theirs, ours = (
        {
            api["apiKey"]: (api["minVersion"], api["maxVersion"])
            for api in answer_of(address, API_VERSIONS, 4, VERSIONS)["apiKeys"]
        }
        for address in brokers
    )
    assert ours == {key: theirs[key] for key in ours}


@pytest.mark.parametrize("offset", [0, 3, 50, 400, 10**6])
@pytest.mark.parametrize("name", [*GOLDEN, "cutoff", "expired", "orders.zstd", "none"])
def test_fetches(brokers, name, offset):
    topics = answer_of(brokers[0], METADATA, 12, {"topics": None})["topics"]
    ids = {topic["name"]: topic["topicId"] for topic in topics}
    partitions = [
        {"partition": number, "fetchOffset": offset, "partitionMaxBytes": 2000}
        for number in (0, 7)
    ]
    topic_id = ids.get(name, NO_TOPIC_ID)
    topic = {"topic": name, "topicId": topic_id, "partitions": partitions}
    for version in range(4, api_of(FETCH).highest_version + 1):
        for isolation in (0, 1):
            message = {
                "maxWaitMs": 0,
                "minBytes": 0,
                "maxBytes": 3000,
                "isolationLevel": isolation,
                "topics": [topic],
            }
            theirs, ours = (
                answer_of(address, FETCH, version, message) for address in brokers
            )
            for response in theirs["responses"]:
                for partition in response["partitions"]:
                    partition["records"] = whole_batches(partition["records"])
            assert ours == theirs


@pytest.mark.parametrize("key", AT_RANDOM, ids=lambda key: api_of(key).name)
@settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_requests_at_random(brokers, key, data):
    api = api_of(key)
    version = data.draw(st.integers(api.lowest_version, api.highest_version))
    flexible = api.is_flexible(version)
    message = data.draw(messages_of(api.request.fields, version, flexible))
    check(brokers, key, version, message)
