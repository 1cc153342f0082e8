"""Messages of internal topics, and the bytes that Kafka's own classes wrote for them.

The schemas are written out here. The examples cover each type of field and both
encodings.
"""

from kafkalog.messages.message import Schema
from kafkalog.messages.schema import Array, Field

T = 1_700_000_000_000

OFFSET_COMMIT = Schema(
    "OffsetCommitValue",
    (
        Field("offset", "int64"),
        Field("leaderEpoch", "int32", since=3, default=-1),
        Field("metadata", "string"),
        Field("commitTimestamp", "int64"),
        Field("expireTimestamp", "int64", since=1, until=1, default=-1),
        Field("topicId", "uuid", since=4, tag=0),
    ),
    highest_version=4,
    flexible_since=4,
)
MEMBER = (
    Field("memberId", "string"),
    Field("groupInstanceId", "string", since=3, nullable_since=3, default=None),
    Field("clientId", "string"),
    Field("clientHost", "string"),
    Field("rebalanceTimeout", "int32", since=1, default=-1),
    Field("sessionTimeout", "int32"),
    Field("subscription", "bytes"),
    Field("assignment", "bytes"),
)
GROUP_METADATA = Schema(
    "GroupMetadataValue",
    (
        Field("protocolType", "string"),
        Field("generation", "int32"),
        Field("protocol", "string", nullable_since=0),
        Field("leader", "string", nullable_since=0),
        Field("currentStateTimestamp", "int64", since=2, default=-1),
        Field("members", Array(MEMBER)),
    ),
    highest_version=4,
    flexible_since=4,
)
CLASSIC_MEMBER = (
    Field("sessionTimeoutMs", "int32"),
    Field(
        "supportedProtocols",
        Array((Field("name", "string"), Field("metadata", "bytes"))),
    ),
)
GROUP_MEMBER = Schema(
    "ConsumerGroupMemberMetadataValue",
    (
        Field("instanceId", "string", nullable_since=0),
        Field("rackId", "string", nullable_since=0),
        Field("clientId", "string"),
        Field("clientHost", "string"),
        Field("subscribedTopicNames", Array("string")),
        Field("subscribedTopicRegex", "string", nullable_since=0),
        Field("rebalanceTimeoutMs", "int32"),
        Field("serverAssignor", "string", nullable_since=0),
        Field("classicMemberMetadata", CLASSIC_MEMBER, nullable_since=0, tag=0),
    ),
    flexible_since=0,
)
TRANSACTION = Schema(
    "TransactionLogValue",
    (
        Field("producerId", "int64"),
        Field("producerEpoch", "int16"),
        Field("transactionTimeoutMs", "int32"),
        Field("transactionStatus", "int8"),
        Field(
            "transactionPartitions",
            Array((Field("topic", "string"), Field("partitionIds", Array("int32")))),
            nullable_since=0,
        ),
        Field("transactionLastUpdateTimestampMs", "int64"),
        Field("transactionStartTimestampMs", "int64"),
        Field("previousProducerId", "int64", since=1, tag=0, default=-1),
        Field("nextProducerId", "int64", since=1, tag=1, default=-1),
        Field("clientTransactionVersion", "int16", since=1, tag=2),
    ),
    highest_version=1,
    flexible_since=1,
)

COMMIT = {"offset": 42, "metadata": "m", "commitTimestamp": T}
MEMBERS = [
    {
        "memberId": "m1",
        "groupInstanceId": None,
        "clientId": "c",
        "clientHost": "/h",
        "rebalanceTimeout": 60_000,
        "sessionTimeout": 10_000,
        "subscription": b"\1\2",
        "assignment": b"\3",
    }
]
GROUP = {
    "protocolType": "consumer",
    "generation": 7,
    "protocol": "range",
    "leader": "m1",
    "currentStateTimestamp": T,
    "members": MEMBERS,
}
ONGOING = {
    "producerId": 4242,
    "producerEpoch": 1,
    "transactionTimeoutMs": 60_000,
    "transactionStatus": 1,
    "transactionPartitions": [{"topic": "t", "partitionIds": [0, 1]}],
    "transactionLastUpdateTimestampMs": T,
    "transactionStartTimestampMs": T,
}
EMPTY = {
    **ONGOING,
    "producerEpoch": 0,
    "transactionStatus": 0,
    "transactionPartitions": None,
    "transactionStartTimestampMs": -1,
}

# Schema, version, message, and the bytes of Kafka's class without the int16 prefix.
EXAMPLES = {
    "OffsetCommitValue0": (
        OFFSET_COMMIT,
        0,
        COMMIT,
        "000000000000002a00016d0000018bcfe56800",
    ),
    "OffsetCommitValue1": (
        OFFSET_COMMIT,
        1,
        {**COMMIT, "expireTimestamp": T + 1000},
        "000000000000002a00016d0000018bcfe568000000018bcfe56be8",
    ),
    "OffsetCommitValue3": (
        OFFSET_COMMIT,
        3,
        {**COMMIT, "leaderEpoch": 5},
        "000000000000002a0000000500016d0000018bcfe56800",
    ),
    "OffsetCommitValue4": (
        OFFSET_COMMIT,
        4,
        {**COMMIT, "leaderEpoch": 5},
        "000000000000002a00000005026d0000018bcfe5680000",
    ),
    "GroupMetadataValue3": (
        GROUP_METADATA,
        3,
        GROUP,
        "0008636f6e73756d657200000007000572616e676500026d310000018bcfe56800000000"
        "0100026d31ffff00016300022f680000ea60000027100000000201020000000103",
    ),
    "GroupMetadataValue4": (
        GROUP_METADATA,
        4,
        GROUP,
        "09636f6e73756d6572000000070672616e6765036d310000018bcfe5680002036d310002"
        "63032f680000ea600000271003010202030000",
    ),
    "a tagged struct that is null": (
        GROUP_MEMBER,
        0,
        {
            "instanceId": None,
            "rackId": None,
            "clientId": "c",
            "clientHost": "/h",
            "subscribedTopicNames": [],
            "subscribedTopicRegex": "",
            "rebalanceTimeoutMs": -1,
            "serverAssignor": None,
            "classicMemberMetadata": None,
        },
        "00000263032f680101ffffffff0001000100",
    ),
    "TransactionLogValue0": (
        TRANSACTION,
        0,
        ONGOING,
        "000000000000109200010000ea6001000000010001740000000200000000000000010000"
        "018bcfe568000000018bcfe56800",
    ),
    "TransactionLogValue1": (
        TRANSACTION,
        1,
        ONGOING,
        "000000000000109200010000ea6001020274030000000000000001000000018bcfe56800"
        "0000018bcfe5680000",
    ),
    "TransactionLogValue1 with tags": (
        TRANSACTION,
        1,
        {**ONGOING, "previousProducerId": 4241, "clientTransactionVersion": 2},
        "000000000000109200010000ea6001020274030000000000000001000000018bcfe56800"
        "0000018bcfe56800020008000000000000109102020002",
    ),
    "a null array": (
        TRANSACTION,
        0,
        EMPTY,
        "000000000000109200000000ea6000ffffffff0000018bcfe56800ffffffffffffffff",
    ),
}
