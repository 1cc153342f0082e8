"""DescribeProducers: the producers that have written to a partition.

Source: ``KafkaApis.handleDescribeProducersRequest``,
``ReplicaManager.activeProducerState``, ``UnifiedLog.activeProducers``.
"""

from __future__ import annotations

from typing import Any, Final

from kafkalog.broker.catalogue import Catalogue
from kafkalog.broker.topic_names import topic_name_fault
from kafkalog.messages.schema import Message
from kafkalog.protocol.error_codes import ErrorCode
from kafkalog.protocol.frames import Request

NO_PARTITION: Final = "This server does not host this topic-partition."


def describe_producers(catalogue: Catalogue, request: Request) -> Message:
    """Answer the state of each producer, from the newest snapshot and what follows.

    It follows ``UnifiedLog.activeProducers``. Producers that a broker has forgotten
    because they have not written for a day are among them.
    """
    return {
        "topics": [
            {
                "name": topic["name"],
                "partitions": [
                    {
                        "partitionIndex": number,
                        **_partition(catalogue, topic["name"], number),
                    }
                    for number in topic["partitionIndexes"]
                ],
            }
            for topic in request.message["topics"]
        ]
    }


def _partition(catalogue: Catalogue, topic: str, number: int) -> dict[str, Any]:
    fault = topic_name_fault(topic)
    if fault is not None:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
        return {"errorCode": error, "errorMessage": fault}
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic not in catalogue.topics:
        return {"errorCode": error, "errorMessage": NO_PARTITION}
    partition = catalogue.partition(topic, number)
    if partition is None:
        return {"errorCode": error}
    return {
        "activeProducers": [
            {
                "producerId": int(entry["producer_id"]),
                "producerEpoch": int(entry["producer_epoch"]),
                "lastSequence": int(entry["last_sequence"]),
                "lastTimestamp": int(entry["timestamp"]),
                "coordinatorEpoch": int(entry["coordinator_epoch"]),
                "currentTxnStartOffset": int(entry["current_txn_first_offset"]),
            }
            for entry in partition.log.producer_states()
        ]
    }
