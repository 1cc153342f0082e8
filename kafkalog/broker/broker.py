"""`Broker`: the answer to each request of Kafka's protocol, from log directories.

It has no socket, no thread and no clock of its own: the caller says what time it is.

Source: ``KafkaApis.scala``, ``ApiKeys.java``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from kafkalog.broker.catalogue import Catalogue
from kafkalog.broker.classic_group import Reply
from kafkalog.broker.committed_offsets import CommittedOffsets
from kafkalog.broker.configs import Configs
from kafkalog.broker.endpoint import Endpoint
from kafkalog.broker.fetching import fetch
from kafkalog.broker.group_coordinator import INITIAL_DELAY_MS, GroupCoordinator
from kafkalog.broker.group_deletion import delete_groups, delete_offsets
from kafkalog.broker.group_descriptions import (
    describe_groups,
    find_coordinator,
    list_groups,
)
from kafkalog.broker.log_directories import describe_log_dirs
from kafkalog.broker.metadata import api_versions, describe_cluster, metadata
from kafkalog.broker.offsets import list_offsets, offset_for_leader_epoch
from kafkalog.broker.producers import describe_producers
from kafkalog.broker.security import (
    describe_acls,
    describe_client_quotas,
    describe_user_scram_credentials,
)
from kafkalog.broker.timers import Timers
from kafkalog.broker.topic_partitions import (
    describe_topic_partitions,
    list_partition_reassignments,
)
from kafkalog.broker.transaction_states import TransactionStates
from kafkalog.log.clock import Clock
from kafkalog.messages.schema import Message
from kafkalog.protocol.error_codes import ErrorCode
from kafkalog.protocol.frames import Pieces, Request, parse_request
from kafkalog.protocol.protocol_schemas import API_VERSIONS, api_of

PRODUCE: Final = 0
FETCH: Final = 1
LIST_OFFSETS: Final = 2
METADATA: Final = 3
OFFSET_COMMIT: Final = 8
OFFSET_FETCH: Final = 9
FIND_COORDINATOR: Final = 10
JOIN_GROUP: Final = 11
HEARTBEAT: Final = 12
LEAVE_GROUP: Final = 13
SYNC_GROUP: Final = 14
DESCRIBE_GROUPS: Final = 15
LIST_GROUPS: Final = 16
OFFSET_FOR_LEADER_EPOCH: Final = 23
DESCRIBE_ACLS: Final = 29
DESCRIBE_CONFIGS: Final = 32
DESCRIBE_LOG_DIRS: Final = 35
DELETE_GROUPS: Final = 42
LIST_PARTITION_REASSIGNMENTS: Final = 46
OFFSET_DELETE: Final = 47
DESCRIBE_CLIENT_QUOTAS: Final = 48
DESCRIBE_USER_SCRAM_CREDENTIALS: Final = 50
DESCRIBE_CLUSTER: Final = 60
DESCRIBE_PRODUCERS: Final = 61
DESCRIBE_TRANSACTIONS: Final = 65
LIST_TRANSACTIONS: Final = 66
LIST_CONFIG_RESOURCES: Final = 74
DESCRIBE_TOPIC_PARTITIONS: Final = 75

FETCH_INTERVAL_MS: Final = 20
"""Least time between two looks at the logs of a fetch that waits."""

READ_ONLY: Final = (
    "the log directory is served for reading only: nothing can be produced to it"
)


@dataclass(slots=True)
class Waiting:
    """An answer that comes later: `poll` returns it, or None until then.

    It is called whenever something has happened, and with True from `deadline_ms` on.
    """

    poll: Callable[[bool], Pieces | None]
    deadline_ms: int | None = None


class Broker:
    """One node that serves log directories for reading."""

    def __init__(
        self,
        catalogue: Catalogue,
        endpoint: Endpoint,
        clock: Clock,
        *,
        rebalance_delay_ms: int = INITIAL_DELAY_MS,
    ) -> None:
        self.catalogue = catalogue
        self.timers = Timers()
        self._clock = clock
        commits = CommittedOffsets(catalogue)
        groups = self._groups = GroupCoordinator(
            clock, self.timers, initial_delay_ms=rebalance_delay_ms
        )
        configs = Configs(catalogue)
        transactions = TransactionStates(catalogue, clock)
        self._answers: dict[int, Callable[[Request], Message]] = {
            LIST_OFFSETS: partial(list_offsets, catalogue),
            METADATA: partial(metadata, catalogue, endpoint),
            OFFSET_COMMIT: lambda request: commits.commit(
                request, groups.check_commit(request)
            ),
            OFFSET_FETCH: commits.fetch,
            FIND_COORDINATOR: partial(find_coordinator, catalogue, endpoint),
            HEARTBEAT: groups.heartbeat,
            LEAVE_GROUP: groups.leave,
            DESCRIBE_GROUPS: partial(describe_groups, groups, commits),
            LIST_GROUPS: partial(list_groups, groups, commits),
            OFFSET_FOR_LEADER_EPOCH: partial(offset_for_leader_epoch, catalogue),
            DESCRIBE_CLUSTER: partial(describe_cluster, catalogue, endpoint),
            DESCRIBE_ACLS: describe_acls,
            DESCRIBE_CONFIGS: configs.describe,
            LIST_CONFIG_RESOURCES: configs.list,
            DESCRIBE_LOG_DIRS: partial(describe_log_dirs, catalogue),
            LIST_PARTITION_REASSIGNMENTS: list_partition_reassignments,
            DESCRIBE_CLIENT_QUOTAS: describe_client_quotas,
            DESCRIBE_USER_SCRAM_CREDENTIALS: describe_user_scram_credentials,
            DELETE_GROUPS: partial(delete_groups, groups, commits),
            OFFSET_DELETE: partial(delete_offsets, catalogue, groups, commits),
            DESCRIBE_PRODUCERS: partial(describe_producers, catalogue),
            DESCRIBE_TRANSACTIONS: transactions.describe,
            LIST_TRANSACTIONS: transactions.list,
            DESCRIBE_TOPIC_PARTITIONS: partial(describe_topic_partitions, catalogue),
        }
        own = (PRODUCE, FETCH, JOIN_GROUP, SYNC_GROUP, API_VERSIONS)
        self.ranges = {
            key: (api.lowest_version, api.highest_version)
            for key in (*own, *self._answers)
            for api in [api_of(key)]
        }
        # Without a version 0 of Produce, older clients do not compress what they send.
        self.ranges[PRODUCE] = 0, self.ranges[PRODUCE][1]

    def handle(self, frame: bytes, host: str) -> Pieces | Waiting | None:
        """Answer the request in a frame; None if the client expects no answer.

        `host` is that of the client.

        Raises `UnsupportedVersionError` and `CorruptMessageError` for a frame that is
        no request that is served: the connection is to be closed.
        """
        request = parse_request(frame, self.ranges)
        key = request.api.key
        if key == API_VERSIONS:
            return self._api_versions(request)
        if key == FETCH:
            return self._fetch(request)
        if key == PRODUCE:
            return self._refuse(request)
        if key == JOIN_GROUP:
            return _later(request, self._groups.join(request, host))
        if key == SYNC_GROUP:
            return _later(request, self._groups.sync(request))
        return request.response(self._answers[key](request))

    def _api_versions(self, request: Request) -> Pieces:
        low, high = self.ranges[API_VERSIONS]
        is_known = low <= request.version <= high
        answer = api_versions(self.ranges, is_known=is_known)
        return request.response(answer)

    def _fetch(self, request: Request) -> Pieces | Waiting:
        answer = fetch(self.catalogue, request)
        if answer.is_due:
            return request.response(answer.message)
        answer.discard()

        next_ms = self._clock.now_ms() + FETCH_INTERVAL_MS

        def poll(is_over: bool) -> Pieces | None:
            nonlocal next_ms
            if not is_over and self._clock.now_ms() < next_ms:
                return None
            next_ms = self._clock.now_ms() + FETCH_INTERVAL_MS
            now = fetch(self.catalogue, request)
            if now.is_due or is_over:
                return request.response(now.message)
            now.discard()
            return None

        deadline = self._clock.now_ms() + request.message["maxWaitMs"]
        return Waiting(poll, deadline)

    def _refuse(self, request: Request) -> Pieces | None:
        """Refuse to produce, with an error that no client retries."""
        if not request.message["acks"]:
            return None
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        topics = [
            {
                "name": topic.get("name", ""),
                "topicId": topic.get("topicId"),
                "partitionResponses": [
                    {
                        "index": partition["index"],
                        "errorCode": error,
                        "baseOffset": -1,
                        "errorMessage": READ_ONLY,
                    }
                    for partition in topic["partitionData"]
                ],
            }
            for topic in request.message["topicData"]
        ]
        return request.response({"responses": topics})


def _later(request: Request, reply: Reply) -> Pieces | Waiting:
    """Return the answer of a reply, or what waits for it."""

    def poll(_is_over: bool) -> Pieces | None:
        return None if reply.message is None else request.response(reply.message)

    return poll(False) or Waiting(poll)
