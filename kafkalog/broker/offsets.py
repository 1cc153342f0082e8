"""ListOffsets and OffsetForLeaderEpoch: offsets by time and by leader epoch.

Source: ``KafkaApis.handleListOffsetRequest``, ``Partition.fetchOffsetForTimestamp``,
``ReplicaManager.lastOffsetForLeaderEpoch``, ``ListOffsetsRequest.java``.
"""

from __future__ import annotations

from typing import Any, Final

from kafkalog.broker.catalogue import Catalogue, ServedPartition
from kafkalog.log.leader_epochs import end_offset_for, epoch_for_offset
from kafkalog.messages.schema import Message
from kafkalog.protocol.error_codes import ErrorCode
from kafkalog.protocol.frames import Request

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
FIRST_VERSIONS: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The first version of ListOffsets in which a special timestamp has its meaning."""

READ_COMMITTED: Final = 1
NOTHING: Final = -1
NO_EPOCH: Final = -1


def list_offsets(catalogue: Catalogue, request: Request) -> Message:
    """Answer the offsets of timestamps, or of the ends of logs."""
    message = request.message
    is_committed = message.get("isolationLevel") == READ_COMMITTED
    topics = [
        {
            "name": topic["name"],
            "partitions": [
                {
                    "partitionIndex": asked["partitionIndex"],
                    **_offset(catalogue, topic["name"], asked, request, is_committed),
                }
                for asked in topic["partitions"]
            ],
        }
        for topic in message["topics"]
        if topic["partitions"]
    ]
    return {"topics": topics}


def _offset(
    catalogue: Catalogue,
    topic: str,
    asked: Message,
    request: Request,
    is_committed: bool,
) -> dict[str, Any]:
    timestamp = asked["timestamp"]
    is_known = timestamp >= 0 or timestamp in FIRST_VERSIONS
    if not is_known or request.version < FIRST_VERSIONS.get(timestamp, 0):
        return {"errorCode": ErrorCode.UNSUPPORTED_VERSION}
    partition = checked_partition(catalogue, topic, asked["partitionIndex"], asked)
    if isinstance(partition, ErrorCode):
        return {"errorCode": partition}
    log = partition.log
    time, offset = NOTHING, NOTHING
    if timestamp == LATEST:
        offset = partition.end_offset(is_committed=is_committed)
    elif timestamp in (EARLIEST, EARLIEST_LOCAL):
        offset = log.log_start_offset
    elif timestamp == MAX_TIMESTAMP or timestamp >= 0:
        is_time = timestamp >= 0
        offset, time = log.record_at(timestamp) if is_time else log.latest_record()
        if offset >= partition.end_offset(is_committed=is_committed):
            time, offset = NOTHING, NOTHING
    epoch = None if offset == NOTHING else epoch_for_offset(log.leader_epochs, offset)
    if timestamp == LATEST:
        epoch = partition.leader_epoch
    return {
        "timestamp": time,
        "offset": offset,
        "leaderEpoch": NO_EPOCH if epoch is None else epoch,
    }


def checked_partition(
    catalogue: Catalogue, topic: str, number: int, asked: Message
) -> ServedPartition | ErrorCode:
    """Return a partition, or why it is not the one that is asked for.

    The leader epoch that a client knows may be older or newer than the partition's.
    """
    partition = catalogue.partition(topic, number)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    epoch = asked.get("currentLeaderEpoch", NO_EPOCH)
    if epoch in (NO_EPOCH, partition.leader_epoch):
        return partition
    if epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH


def offset_for_leader_epoch(catalogue: Catalogue, request: Request) -> Message:
    """Answer the end offsets of leader epochs."""
    return {
        "topics": [
            {
                "topic": topic["topic"],
                "partitions": [
                    {
                        "partition": asked["partition"],
                        **_epoch_end(catalogue, topic["topic"], asked),
                    }
                    for asked in topic["partitions"]
                ],
            }
            for topic in request.message["topics"]
        ]
    }


def _epoch_end(catalogue: Catalogue, topic: str, asked: Message) -> dict[str, Any]:
    partition = checked_partition(catalogue, topic, asked["partition"], asked)
    if isinstance(partition, ErrorCode):
        return {"errorCode": partition}
    log = partition.log
    found = end_offset_for(log.leader_epochs, asked["leaderEpoch"], log.log_end_offset)
    if found is None:
        return {}
    return {"leaderEpoch": found.epoch, "endOffset": found.end_offset}
