"""DescribeTransactions and ListTransactions: what ``__transaction_state`` says.

Source: ``TransactionCoordinator.scala``, ``TransactionStateManager.scala``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from kafkalog.broker.catalogue import Catalogue
from kafkalog.log.clock import Clock
from kafkalog.messages.internal_records import (
    TRANSACTION_STATES,
    transaction_state_name,
)
from kafkalog.messages.schema import Message
from kafkalog.protocol.error_codes import ErrorCode
from kafkalog.protocol.frames import Request
from kafkalog.query.newest_records import current_messages, newest_records
from kafkalog.query.scan import scan

TRANSACTION_STATE: Final = "__transaction_state"
TRANSACTION: Final = (0,)
DEAD: Final = "Dead"


class TransactionStates:
    """The state of each transactional id; it is read anew when the topic has grown."""

    def __init__(self, catalogue: Catalogue, clock: Clock) -> None:
        self._catalogue = catalogue
        self._clock = clock
        self._ends: list[tuple[int, int]] = []
        self._states: dict[str, Message] = {}

    def describe(self, request: Request) -> Message:
        """Answer the transactions of ids, as ``TransactionCoordinator`` does."""
        states = self._current()
        asked = request.message["transactionalIds"]
        return {
            "transactionStates": [
                {"transactionalId": name, **_described(name, states.get(name))}
                for name in asked
            ]
        }

    def list(self, request: Request) -> Message:
        """Answer the ids that filters select, as ``TransactionStateManager`` does."""
        message = request.message
        known = set(TRANSACTION_STATES)
        asked = list(dict.fromkeys(message["stateFilters"]))
        producers = set(message["producerIdFilters"])
        least_ms = message.get("durationFilter", -1)
        try:
            pattern = re.compile(message.get("transactionalIdPattern") or ".*", re.S)
        except re.error:
            return {"errorCode": ErrorCode.INVALID_REGULAR_EXPRESSION}
        now = self._clock.now_ms()
        return {
            "unknownStateFilters": [name for name in asked if name not in known],
            "transactionStates": [
                {
                    "transactionalId": name,
                    "producerId": state["producerId"],
                    "transactionState": state_name,
                }
                for name, state in self._current().items()
                for state_name in [transaction_state_name(state["transactionStatus"])]
                if not producers or state["producerId"] in producers
                if not asked or state_name in asked
                if least_ms < 0 or now - state["transactionStartTimestampMs"] > least_ms
                if pattern.fullmatch(name)
            ],
        }

    def _current(self) -> dict[str, Message]:
        topic = self._catalogue.topics.get(TRANSACTION_STATE)
        if topic is None:
            return {}
        partitions = [
            partition
            for number in topic.directories
            for partition in [self._catalogue.partition(topic.name, number)]
            if partition is not None
        ]
        ends = [(each.number, each.log.log_end_offset) for each in partitions]
        if ends != self._ends:
            found = scan([each.log.directory for each in partitions])
            newest = newest_records(found, TRANSACTION_STATE, TRANSACTION)
            self._states = {
                key["transactionalId"]: value
                for key, value in current_messages(newest, TRANSACTION_STATE)
                if transaction_state_name(value["transactionStatus"]) != DEAD
            }
            self._ends = ends
        return self._states


def _described(name: str, state: Message | None) -> dict[str, Any]:
    if not name:
        return {"errorCode": ErrorCode.INVALID_REQUEST}
    if state is None:
        return {"errorCode": ErrorCode.TRANSACTIONAL_ID_NOT_FOUND}
    return {
        "producerId": state["producerId"],
        "producerEpoch": state["producerEpoch"],
        "transactionState": transaction_state_name(state["transactionStatus"]),
        "transactionTimeoutMs": state["transactionTimeoutMs"],
        "transactionStartTimeMs": state["transactionStartTimestampMs"],
        "topics": [*_topics(state)],
    }


def _topics(state: Message) -> Iterator[dict[str, Any]]:
    for topic in state["transactionPartitions"] or ():
        yield {"topic": topic["topic"], "partitions": topic["partitionIds"]}
