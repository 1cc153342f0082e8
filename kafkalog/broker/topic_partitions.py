"""DescribeTopicPartitions and ListPartitionReassignments: partitions in pages.

Source: ``DescribeTopicPartitionsRequestHandler.java``, ``KRaftMetadataCache.java``,
``ReplicationControlManager.java``.
"""

from __future__ import annotations

from typing import Any, Final

from kafkalog.broker.catalogue import INTERNAL_TOPICS, Catalogue
from kafkalog.broker.metadata import TOPIC_OPERATIONS, partitions_of
from kafkalog.messages.schema import Message
from kafkalog.protocol.error_codes import ErrorCode
from kafkalog.protocol.frames import Request
from kafkalog.storage.file_names import is_topic_name

MOST_PARTITIONS: Final = 2000
"""Kafka's default of ``max.request.partition.size.limit``."""


def describe_topic_partitions(catalogue: Catalogue, request: Request) -> Message:
    """Answer topics by name with their partitions, from a cursor on and up to a limit.

    It follows ``DescribeTopicPartitionsRequestHandler``.
    """
    catalogue.refresh()
    message = request.message
    names, cursor = {topic["name"] for topic in message["topics"]}, message["cursor"]
    has_all, first, start = not names, "", 0
    if cursor is not None:
        first, start = cursor["topicName"], cursor["partitionIndex"]
        if start < 0 or not (has_all or first in names):
            return {
                "topics": [
                    {"name": topic["name"], "errorCode": ErrorCode.INVALID_REQUEST}
                    for topic in message["topics"]
                ]
            }
    wanted = sorted(
        name for name in (catalogue.topics if has_all else names) if name >= first
    )
    left = max(min(MOST_PARTITIONS, message["responsePartitionLimit"]), 1)
    topics: list[dict[str, Any]] = []
    for name in wanted:
        if not left:
            return _page(topics, name, 0)
        topic = catalogue.topics.get(name)
        if topic is None:
            topics.append(_missing(name))
            continue
        at = start if name == first else 0
        numbers = range(topic.partition_count)[at : at + left]
        topics.append(
            {
                "name": name,
                "topicId": topic.topic_id,
                "isInternal": topic.is_internal,
                "topicAuthorizedOperations": TOPIC_OPERATIONS,
                "partitions": [
                    {**partition, "eligibleLeaderReplicas": [], "lastKnownElr": []}
                    for partition in partitions_of(catalogue, topic, numbers)
                ],
            }
        )
        left -= len(numbers)
        if at + len(numbers) < topic.partition_count and not left:
            return _page(topics, name, at + len(numbers))
    return {"topics": topics}


def _page(topics: list[dict[str, Any]], name: str, number: int) -> Message:
    """Return the topics, and where the next request is to go on."""
    cursor = {"topicName": name, "partitionIndex": number}
    return {"topics": topics, "nextCursor": cursor}


def _missing(name: str) -> dict[str, Any]:
    is_valid = is_topic_name(name)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return {
        "name": name,
        "errorCode": unknown if is_valid else ErrorCode.INVALID_TOPIC_EXCEPTION,
        "isInternal": name in INTERNAL_TOPICS,
        "topicAuthorizedOperations": TOPIC_OPERATIONS,
    }


def list_partition_reassignments(_request: Request) -> Message:
    """Answer that no partition moves, as ``ReplicationControlManager`` then does."""
    return {"errorMessage": None, "topics": []}
