"""Texts of the metadata of tiered segments: ``toString`` of Kafka's classes.

Source: ``RemoteLogSegmentMetadata.java``, ``RemoteLogSegmentMetadataUpdate.java``,
``RemotePartitionDeleteMetadata.java``, ``RemoteLogSegmentMetadataSnapshot.java``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafkalog.errors import CorruptMessageError
from kafkalog.messages.schema import Message

SEGMENT_STATES: Final = (
    "COPY_SEGMENT_STARTED",
    "COPY_SEGMENT_FINISHED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_SEGMENT_FINISHED",
)
PARTITION_STATES: Final = (
    "DELETE_PARTITION_MARKED",
    "DELETE_PARTITION_STARTED",
    "DELETE_PARTITION_FINISHED",
)


def remote_metadata_text(name: str, message: Message) -> str:
    """Return the text of a message of schema `name`.

    Raises `CorruptMessageError` where the constructor of Kafka's class throws: for an
    unknown state, no leader epochs, or an invalid range of offsets. The reason is
    Kafka's text.

    >>> text = remote_metadata_text(
    ...     "RemotePartitionDeleteMetadataRecord",
    ...     {
    ...         "topicIdPartition": {"name": "t", "id": "A" * 22, "partition": 0},
    ...         "brokerId": 1,
    ...         "eventTimestampMs": 7,
    ...         "remotePartitionDeleteState": 0,
    ...     },
    ... )
    >>> text[:64]
    'RemotePartitionDeleteMetadata{topicPartition=AAAAAAAAAAAAAAAAAAA'
    """
    return _TEXTS[name](message)


def _segment(message: Message) -> str:
    start, end = message["startOffset"], message["endOffset"]
    if start < 0:
        raise _error(
            f"Unexpected start offset = {start}. "
            "StartOffset for a remote segment cannot be negative"
        )
    if end < start:
        raise _error(
            f"Unexpected end offset = {end}. EndOffset for a remote segment cannot be "
            f"less than startOffset = {start}"
        )
    epochs = _epochs(message)
    state = _state(SEGMENT_STATES, message["remoteLogSegmentState"])
    return _text(
        "RemoteLogSegmentMetadata",
        remoteLogSegmentId=_segment_id(message["remoteLogSegmentId"]),
        startOffset=start,
        endOffset=end,
        brokerId=message["brokerId"],
        maxTimestampMs=message["maxTimestampMs"],
        eventTimestampMs=message["eventTimestampMs"],
        segmentLeaderEpochs=epochs,
        segmentSizeInBytes=message["segmentSizeInBytes"],
        customMetadata=_custom(message),
        state=state,
        txnIdxEmpty=_boolean(message),
    )


def _update(message: Message) -> str:
    return _text(
        "RemoteLogSegmentMetadataUpdate",
        remoteLogSegmentId=_segment_id(message["remoteLogSegmentId"]),
        customMetadata=_custom(message),
        state=_state(SEGMENT_STATES, message["remoteLogSegmentState"]),
        eventTimestampMs=message["eventTimestampMs"],
        brokerId=message["brokerId"],
    )


def _deletion(message: Message) -> str:
    state = message["remotePartitionDeleteState"]
    if not 0 <= state < len(PARTITION_STATES):
        expected = f"0 to {len(PARTITION_STATES) - 1}"
        raise _error(f"state {state}, expected {expected}", kafka_message="null")
    return _text(
        "RemotePartitionDeleteMetadata",
        topicPartition=_partition(message["topicIdPartition"]),
        state=PARTITION_STATES[state],
        eventTimestampMs=message["eventTimestampMs"],
        brokerId=message["brokerId"],
    )


def _snapshot(message: Message) -> str:
    state = _state(SEGMENT_STATES, message["remoteLogSegmentState"])
    return _text(
        "RemoteLogSegmentMetadataSnapshot",
        segmentId=message["segmentId"],
        startOffset=message["startOffset"],
        endOffset=message["endOffset"],
        maxTimestampMs=message["maxTimestampMs"],
        segmentLeaderEpochs=_epochs(message),
        segmentSizeInBytes=message["segmentSizeInBytes"],
        customMetadata=_custom(message),
        state=state,
        txnIdxEmpty=_boolean(message),
    )


_TEXTS: Final = {
    "RemoteLogSegmentMetadataRecord": _segment,
    "RemoteLogSegmentMetadataUpdateRecord": _update,
    "RemotePartitionDeleteMetadataRecord": _deletion,
    "RemoteLogSegmentMetadataSnapshotRecord": _snapshot,
}


def _text(class_name: str, **members: object) -> str:
    inner = ", ".join(f"{name}={value}" for name, value in members.items())
    return f"{class_name}{{{inner}}}"


def _segment_id(entry: Message) -> str:
    partition = _partition(entry["topicIdPartition"])
    return _text("RemoteLogSegmentId", topicIdPartition=partition, id=entry["id"])


def _partition(entry: Message) -> str:
    return f"{entry['id']}:{entry['name']}-{entry['partition']}"


def _epochs(message: Message) -> str:
    """Return the epochs as the text of a sorted map; of a duplicate, the last one."""
    epochs: dict[int, int] = {
        entry["leaderEpoch"]: entry["offset"]
        for entry in message["segmentLeaderEpochs"]
    }
    if not epochs:
        raise _error("segmentLeaderEpochs can not be null or empty")
    inner = ", ".join(f"{epoch}={epochs[epoch]}" for epoch in sorted(epochs))
    return f"{{{inner}}}"


def _custom(message: Message) -> str:
    custom: bytes | None = message["customMetadata"]
    if custom is None:
        return "Optional.empty"
    return f"Optional[CustomMetadata{{{len(custom)} bytes}}]"


def _boolean(message: Message) -> str:
    return str(message.get("txnIndexEmpty", False)).lower()


def _state(states: Sequence[str], state: int) -> str:
    if not 0 <= state < len(states):
        raise _error("state can not be null")
    return states[state]


def _error(reason: str, kafka_message: str | None = None) -> CorruptMessageError:
    return CorruptMessageError(reason, position=0, kafka_message=kafka_message)
