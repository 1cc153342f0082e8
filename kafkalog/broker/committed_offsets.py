"""OffsetCommit and OffsetFetch: the offsets that groups have committed.

They begin with those in ``__consumer_offsets`` of the directories, which is read when a
group is first asked for. What is committed here is kept in memory.

Source: ``OffsetMetadataManager.java``, ``KafkaApis.handleOffsetFetchRequest``.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import Any, Final, NamedTuple

from kafkalog.broker.catalogue import Catalogue
from kafkalog.messages.schema import Message
from kafkalog.protocol.error_codes import ErrorCode
from kafkalog.protocol.frames import Request
from kafkalog.query.newest_records import (
    CONSUMER_OFFSETS,
    OFFSET_COMMIT,
    current_messages,
    newest_records,
)
from kafkalog.query.scan import scan
from kafkalog.text.uuid_text import ZERO_UUID

NO_OFFSET: Final = -1
NO_EPOCH: Final = -1
FIRST_BY_ID: Final = 10
FIRST_WITH_GROUPS: Final = 8


class Commit(NamedTuple):
    """A committed offset, and what was committed with it."""

    offset: int
    leader_epoch: int
    metadata: str


Place = tuple[str, int]
"""Topic and partition."""


class CommittedOffsets:
    """The committed offsets of groups, by group, topic and partition."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    @cached_property
    def groups(self) -> defaultdict[str, dict[Place, Commit]]:
        """The offsets by group; the first use reads those that are stored."""
        found: defaultdict[str, dict[Place, Commit]] = defaultdict(dict)
        directories = self._catalogue.directories_of(CONSUMER_OFFSETS)
        if not directories:
            return found
        stored = scan(directories, on_corruption="skip")
        newest = newest_records(stored, CONSUMER_OFFSETS, OFFSET_COMMIT)
        for key, value in current_messages(newest, CONSUMER_OFFSETS):
            found[key["group"]][key["topic"], key["partition"]] = Commit(
                value["offset"], value.get("leaderEpoch", NO_EPOCH), value["metadata"]
            )
        return found

    def commit(self, request: Request, error: ErrorCode) -> Message:
        """Take the offsets of a request, unless there is an error for all of them."""
        message = request.message
        topics = []
        for topic in message["topics"]:
            name = self._name(topic, request.version)
            partitions = []
            for asked in topic["partitions"]:
                number = asked["partitionIndex"]
                code = error or self._check(name, number)
                if not code:
                    assert name is not None
                    self.groups[message["groupId"]][name, number] = Commit(
                        asked["committedOffset"],
                        asked.get("committedLeaderEpoch", NO_EPOCH),
                        asked["committedMetadata"] or "",
                    )
                partitions.append({"partitionIndex": number, "errorCode": code})
            topics.append({**_named(topic), "partitions": partitions})
        return {"topics": topics}

    def fetch(self, request: Request) -> Message:
        """Answer the offsets of groups: those asked for, or all."""
        message = request.message
        if request.version < FIRST_WITH_GROUPS:
            return {
                "topics": self._topics(message["groupId"], message["topics"], request)
            }
        return {
            "groups": [
                {
                    "groupId": group["groupId"],
                    "topics": self._topics(group["groupId"], group["topics"], request),
                }
                for group in message["groups"]
            ]
        }

    def _topics(
        self, group_id: str, asked: list[Message] | None, request: Request
    ) -> list[dict[str, Any]]:
        commits = self.groups.get(group_id, {})
        if asked is None:
            numbers = defaultdict(list)
            for topic, number in commits:
                numbers[topic].append(number)
            asked = [
                {
                    "name": topic,
                    "topicId": self._id(topic),
                    "partitionIndexes": sorted(partitions),
                }
                for topic, partitions in sorted(numbers.items())
            ]
        found = []
        for wanted in asked:
            name = self._name(wanted, request.version)
            error = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.NONE
            partitions = [
                {
                    "partitionIndex": number,
                    "committedOffset": commit.offset,
                    "committedLeaderEpoch": commit.leader_epoch,
                    "metadata": commit.metadata,
                    "errorCode": error,
                }
                for number in wanted["partitionIndexes"]
                for commit in [
                    commits.get((name or "", number), Commit(NO_OFFSET, NO_EPOCH, ""))
                ]
            ]
            found.append({**_named(wanted), "partitions": partitions})
        return found

    def _name(self, topic: Message, version: int) -> str | None:
        if version < FIRST_BY_ID:
            name: str = topic["name"]
            return name
        return self._catalogue.names.get(topic["topicId"])

    def _id(self, topic: str) -> str:
        served = self._catalogue.topics.get(topic)
        return ZERO_UUID if served is None else served.topic_id

    def _check(self, topic: str | None, number: int) -> ErrorCode:
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        served = self._catalogue.topics.get(topic)
        if served is None or number not in served.directories:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE


def _named(topic: Message) -> dict[str, Any]:
    return {
        "name": topic.get("name", ""),
        "topicId": topic.get("topicId", ZERO_UUID),
    }
