"""ApiVersions, Metadata and DescribeCluster: what the cluster is, and what it has.

Source: ``ApiVersionsResponse.java``, ``KafkaApis.handleTopicMetadataRequest``,
``KRaftMetadataCache.java``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafkalog.broker.catalogue import Catalogue, ServedTopic
from kafkalog.broker.endpoint import Endpoint
from kafkalog.broker.topic_names import topic_name_fault
from kafkalog.messages.schema import Message
from kafkalog.protocol.error_codes import ErrorCode
from kafkalog.protocol.frames import Request
from kafkalog.text.uuid_text import ZERO_UUID

TOPIC_OPERATIONS = 3576
CLUSTER_OPERATIONS = 8096
"""A bit for each operation: a node without access lists allows all of them."""

BROKER_ENDPOINTS, CONTROLLER_ENDPOINTS = 1, 2
"""The types of endpoints that DescribeCluster asks for; brokers have the first."""


def api_versions(ranges: Mapping[int, tuple[int, int]], *, is_known: bool) -> Message:
    """Return which APIs are served in which versions.

    With `is_known` false, the request has a version of the future.
    """
    keys = [
        {"apiKey": key, "minVersion": low, "maxVersion": high}
        for key, (low, high) in sorted(ranges.items())
    ]
    error = ErrorCode.NONE if is_known else ErrorCode.UNSUPPORTED_VERSION
    return {"errorCode": error, "apiKeys": keys}


def metadata(catalogue: Catalogue, endpoint: Endpoint, request: Request) -> Message:
    """Answer which topics there are, and where their partitions are."""
    catalogue.refresh()
    asked = request.message["topics"]
    # Before version 1 no topics stands for all of them, from then on null does.
    if asked is None or (not asked and request.version == 0):
        topics = [_topic(catalogue, topic) for topic in catalogue.topics.values()]
    else:
        topics = [_asked(catalogue, topic) for topic in asked]
    if request.message.get("includeTopicAuthorizedOperations"):
        topics = [
            {**topic, "topicAuthorizedOperations": TOPIC_OPERATIONS} for topic in topics
        ]
    return {
        "brokers": [endpoint.as_node(catalogue.node_id)],
        "clusterId": catalogue.cluster_id,
        "controllerId": catalogue.node_id,
        "topics": topics,
        **_cluster_operations(request),
    }


def _cluster_operations(request: Request) -> dict[str, int]:
    """Return what may be done with the cluster, if the client asks for it."""
    is_asked = request.message.get("includeClusterAuthorizedOperations")
    return {"clusterAuthorizedOperations": CLUSTER_OPERATIONS} if is_asked else {}


def describe_cluster(
    catalogue: Catalogue, endpoint: Endpoint, request: Request
) -> Message:
    """Answer which brokers there are: this one."""
    kind = request.message.get("endpointType", BROKER_ENDPOINTS)
    if kind not in (BROKER_ENDPOINTS, CONTROLLER_ENDPOINTS):
        return {
            "errorCode": ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            "errorMessage": f"Unsupported endpoint type {kind}",
        }
    if kind != BROKER_ENDPOINTS:
        return {
            "errorCode": ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "errorMessage": "The request was sent to an endpoint of type BROKER, but "
            "we wanted an endpoint of type CONTROLLER",
        }
    node = endpoint.as_node(catalogue.node_id)
    return {
        "clusterId": catalogue.cluster_id,
        "controllerId": catalogue.node_id,
        "brokers": [{**node, "brokerId": node["nodeId"]}],
        **_cluster_operations(request),
    }


def _asked(catalogue: Catalogue, asked: Message) -> dict[str, Any]:
    name, topic_id = asked.get("name"), asked.get("topicId", ZERO_UUID)
    if name is None:
        name = catalogue.names.get(topic_id)
        if name is None:
            return {
                "errorCode": ErrorCode.UNKNOWN_TOPIC_ID,
                "name": None,
                "topicId": topic_id,
                "partitions": [],
            }
    topic = catalogue.topics.get(name)
    if topic is None:
        is_valid = topic_name_fault(name) is None
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return {
            "errorCode": unknown if is_valid else ErrorCode.INVALID_TOPIC_EXCEPTION,
            "name": name,
            "partitions": [],
        }
    return _topic(catalogue, topic)


def _topic(catalogue: Catalogue, topic: ServedTopic) -> dict[str, Any]:
    return {
        "errorCode": ErrorCode.NONE,
        "name": topic.name,
        "topicId": topic.topic_id,
        "isInternal": topic.is_internal,
        "partitions": [*partitions_of(catalogue, topic, range(topic.partition_count))],
    }


def partitions_of(
    catalogue: Catalogue, topic: ServedTopic, numbers: Iterable[int]
) -> Iterable[Message]:
    """Yield what clients are told of a topic's partitions with these numbers."""
    # Clients take the number of partitions for the range of their numbers, so those
    # that lie on other brokers are listed, without a leader.
    for number in numbers:
        partition = catalogue.partition(topic.name, number)
        if partition is None:
            yield {
                "errorCode": ErrorCode.LEADER_NOT_AVAILABLE,
                "partitionIndex": number,
                "leaderId": -1,
            }
            continue
        nodes = [catalogue.node_id]
        yield {
            "errorCode": ErrorCode.NONE,
            "partitionIndex": number,
            "leaderId": catalogue.node_id,
            "leaderEpoch": partition.leader_epoch,
            "replicaNodes": nodes,
            "isrNodes": nodes,
        }
