"""Fetch: whole batches from an offset on, as ranges of files.

A fetch waits until there are enough bytes, or its time is over. Every fetch is a full
one: the answer has no session, as a broker answers whose cache of sessions is full.

Source: ``ReplicaManager.fetchMessages``, ``ReplicaManager.readFromLog``,
``DelayedFetch.scala``, ``FetchSession.java``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kafkalog.broker.catalogue import Catalogue, ServedPartition
from kafkalog.broker.offsets import READ_COMMITTED, checked_partition
from kafkalog.errors import KafkaLogError, LocatedError, OffsetOutOfRangeError
from kafkalog.log.reading.followed_log import StoredRange
from kafkalog.messages.schema import Message
from kafkalog.protocol.error_codes import ErrorCode
from kafkalog.protocol.frames import Request
from kafkalog.text.uuid_text import ZERO_UUID

MOST_BYTES: Final = 55 * 1024 * 1024
"""Kafka's ``fetch.max.bytes``: the most that one answer has."""

FIRST_VERSION_BY_ID: Final = 13
FIRST_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
FIRST_STORAGE_ERROR: Final = 6


@dataclass(slots=True)
class FetchAnswer:
    """An answer to a fetch, and whether it is to be sent at once."""

    message: Message
    ranges: list[StoredRange]
    size: int
    is_due: bool

    def discard(self) -> None:
        """Let the files of an answer that is not sent be closed."""
        for part in self.ranges:
            part.done()


def fetch(catalogue: Catalogue, request: Request) -> FetchAnswer:
    """Answer a fetch by what is there now."""
    message = request.message
    session, epoch = message.get("sessionId", 0), message.get("sessionEpoch", -1)
    if epoch not in (FIRST_EPOCH, FINAL_EPOCH):
        error = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        empty = {"errorCode": error, "sessionId": session, "responses": []}
        return FetchAnswer(empty, [], 0, is_due=True)
    left = min(message.get("maxBytes", MOST_BYTES), MOST_BYTES)
    answer = FetchAnswer({"responses": []}, [], 0, is_due=False)
    for topic in message["topics"]:
        name = topic.get("topic")
        if request.version >= FIRST_VERSION_BY_ID:
            name = catalogue.names.get(topic["topicId"])
        partitions = []
        for asked in topic["partitions"]:
            found = _partition(catalogue, name, asked, request, left - answer.size)
            is_first = not answer.size
            records = found.pop("range", None)
            if (
                records is not None
                and not is_first
                and records.size > left - answer.size
            ):
                records.done()
                records = None
            if records is not None:
                found["records"] = records
                answer.ranges.append(records)
                answer.size += records.size
            answer.is_due |= found["errorCode"] != ErrorCode.NONE
            partitions.append({"partitionIndex": asked["partition"], **found})
        answer.message["responses"].append(
            {
                "topic": name,
                "topicId": topic.get("topicId", ZERO_UUID),
                "partitions": partitions,
            }
        )
    answer.is_due |= not message["topics"] or message["maxWaitMs"] <= 0
    answer.is_due |= answer.size >= min(message["minBytes"], left)
    return answer


def _partition(
    catalogue: Catalogue, topic: str | None, asked: Message, request: Request, left: int
) -> dict[str, Any]:
    """Return the members of a partition in the answer, the range of a file included."""
    if topic is None:
        return _unknown(ErrorCode.UNKNOWN_TOPIC_ID)
    partition = checked_partition(catalogue, topic, asked["partition"], asked)
    if partition is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return _unknown(partition)
    if isinstance(partition, ErrorCode):
        return _error(partition)
    try:
        return _records(partition, asked, request, left)
    except OffsetOutOfRangeError:
        return _error(ErrorCode.OFFSET_OUT_OF_RANGE)
    except LocatedError:
        return _error(ErrorCode.CORRUPT_MESSAGE)
    except (KafkaLogError, OSError):
        is_known = request.version >= FIRST_STORAGE_ERROR
        return _error(
            ErrorCode.KAFKA_STORAGE_ERROR
            if is_known
            else ErrorCode.NOT_LEADER_OR_FOLLOWER
        )


def _records(
    partition: ServedPartition, asked: Message, request: Request, left: int
) -> dict[str, Any]:
    log, offset = partition.log, asked["fetchOffset"]
    is_committed = request.message["isolationLevel"] == READ_COMMITTED
    end = partition.end_offset(is_committed=is_committed)
    most = min(asked["partitionMaxBytes"], max(left, 0))
    found = log.fetch(offset, most, end)
    aborted = None
    if is_committed:
        following = offset if found is None else found.next_offset
        aborted = [
            {"producerId": producer, "firstOffset": first}
            for producer, first in log.aborted(offset, following)
        ]
    return {
        "errorCode": ErrorCode.NONE,
        "highWatermark": partition.high_watermark,
        "lastStableOffset": partition.stable_offset,
        "logStartOffset": log.log_start_offset,
        "abortedTransactions": aborted,
        "records": b"",
        "range": found,
    }


def _unknown(code: ErrorCode) -> dict[str, Any]:
    """Return what is answered for no partition."""
    return {"errorCode": code, "highWatermark": -1, "records": b""}


def _error(code: ErrorCode) -> dict[str, Any]:
    """Return what is answered for a partition that cannot be read."""
    return {**_unknown(code), "abortedTransactions": None}
