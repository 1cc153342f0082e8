"""DeleteGroups and OffsetDelete: what is forgotten of the groups, in memory.

Source: ``GroupCoordinatorShard.java``, ``OffsetMetadataManager.java``,
``ClassicGroup.java``, ``KafkaApis.handleOffsetDeleteRequest``.
"""

from __future__ import annotations

from typing import Any

from kafkalog.broker.catalogue import Catalogue
from kafkalog.broker.committed_offsets import CommittedOffsets
from kafkalog.broker.group_coordinator import GroupCoordinator
from kafkalog.messages.schema import Message
from kafkalog.protocol.error_codes import ErrorCode
from kafkalog.protocol.frames import Request


def delete_groups(
    coordinator: GroupCoordinator, commits: CommittedOffsets, request: Request
) -> Message:
    """Delete groups without members, as ``GroupCoordinatorShard.deleteGroups``."""
    results = []
    for group_id in dict.fromkeys(request.message["groupsNames"]):
        group = coordinator.groups.get(group_id)
        error = ErrorCode.NONE
        if group is not None and group.members:
            error = ErrorCode.NON_EMPTY_GROUP
        elif group is None and group_id not in commits.groups:
            error = ErrorCode.GROUP_ID_NOT_FOUND
        else:
            coordinator.groups.pop(group_id, None)
            commits.groups.pop(group_id, None)
        results.append({"groupId": group_id, "errorCode": error})
    return {"results": results}


def delete_offsets(
    catalogue: Catalogue,
    coordinator: GroupCoordinator,
    commits: CommittedOffsets,
    request: Request,
) -> Message:
    """Delete offsets of a group, as ``OffsetMetadataManager.deleteOffsets``."""
    group_id = request.message["groupId"]
    group = coordinator.groups.get(group_id)
    if not group_id:
        return {"errorCode": ErrorCode.INVALID_GROUP_ID}
    if group is None and group_id not in commits.groups:
        return {"errorCode": ErrorCode.GROUP_ID_NOT_FOUND}
    subscribed: frozenset[str] | None = frozenset()
    if group is not None and group.members:
        if group.protocol_type != "consumer":
            return {"errorCode": ErrorCode.NON_EMPTY_GROUP}
        subscribed = group.subscribed_topics()
    offsets = commits.groups.get(group_id, {})
    topics: list[dict[str, Any]] = []
    for topic in request.message["topics"]:
        name, partitions = topic["name"], []
        served = catalogue.topics.get(name)
        numbers = range(0 if served is None else served.partition_count)
        for asked in topic["partitions"]:
            number, error = asked["partitionIndex"], ErrorCode.NONE
            if number not in numbers:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif subscribed is None or name in subscribed:
                error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            else:
                offsets.pop((name, number), None)
            partitions.append({"partitionIndex": number, "errorCode": error})
        topics.append({"name": name, "partitions": partitions})
    return {"topics": topics}
