"""FindCoordinator, ListGroups and DescribeGroups: where groups are, and what they are.

Source: ``KafkaApis.handleFindCoordinatorRequest``, ``GroupMetadataManager.java``.
"""

from __future__ import annotations

from typing import Any, Final

from kafkalog.broker.catalogue import Catalogue
from kafkalog.broker.classic_group import ClassicGroup, GroupState
from kafkalog.broker.committed_offsets import CommittedOffsets
from kafkalog.broker.endpoint import Endpoint
from kafkalog.broker.group_coordinator import GroupCoordinator
from kafkalog.messages.schema import Message
from kafkalog.protocol.error_codes import MALFORMED, ErrorCode
from kafkalog.protocol.frames import Request

GROUP, TRANSACTION = 0, 1
COORDINATED: Final = (GROUP, TRANSACTION)
FIRST_WITH_KEYS: Final = 4
FIRST_WITH_ERROR: Final = 6
NO_COORDINATOR: Final = {
    "errorCode": ErrorCode.INVALID_REQUEST,
    "errorMessage": MALFORMED,
    "nodeId": -1,
    "host": "",
    "port": -1,
}
"""The answer to a kind of key that Kafka does not know."""

NO_GROUP: Final = "Group {} not found."


def find_coordinator(
    catalogue: Catalogue, endpoint: Endpoint, request: Request
) -> Message:
    """Answer that this node coordinates all groups and transactions."""
    message, node = request.message, endpoint.as_node(catalogue.node_id)
    is_here = message.get("keyType", GROUP) in COORDINATED
    found = node if is_here else NO_COORDINATOR
    if request.version < FIRST_WITH_KEYS:
        return {**found, "errorMessage": "NONE"} if is_here else found
    return {
        "coordinators": [{"key": key, **found} for key in message["coordinatorKeys"]]
    }


def list_groups(
    coordinator: GroupCoordinator, commits: CommittedOffsets, request: Request
) -> Message:
    """Answer which groups there are: with members, or with offsets alone."""
    states = {name.lower() for name in request.message.get("statesFilter", ())}
    types = {name.lower() for name in request.message.get("typesFilter", ())}
    found = []
    for group_id in sorted({*coordinator.groups, *commits.groups}):
        group = coordinator.groups.get(group_id) or ClassicGroup(group_id)
        if states and group.state.value.lower() not in states:
            continue
        if types and "classic" not in types:
            continue
        found.append(
            {
                "groupId": group_id,
                "protocolType": group.protocol_type or "consumer",
                "groupState": group.state.value,
                "groupType": "classic",
            }
        )
    return {"groups": found}


def describe_groups(
    coordinator: GroupCoordinator, commits: CommittedOffsets, request: Request
) -> Message:
    """Answer the state and the members of groups."""
    found = []
    for group_id in request.message["groups"]:
        group = coordinator.groups.get(group_id)
        if group is None and group_id in commits.groups:
            group = ClassicGroup(group_id, protocol_type="consumer")
        if group is None:
            is_known = request.version < FIRST_WITH_ERROR
            error = ErrorCode.NONE if is_known else ErrorCode.GROUP_ID_NOT_FOUND
            found.append(
                {
                    "groupId": group_id,
                    "errorCode": error,
                    "errorMessage": None if is_known else NO_GROUP.format(group_id),
                    "groupState": GroupState.DEAD.value,
                }
            )
            continue
        found.append(_described(group))
    return {"groups": found}


def _described(group: ClassicGroup) -> dict[str, Any]:
    is_stable = group.state is GroupState.STABLE
    return {
        "groupId": group.group_id,
        "groupState": group.state.value,
        "protocolType": group.protocol_type or "",
        "protocolData": (group.protocol or "") if is_stable else "",
        "members": [
            {
                "memberId": member.member_id,
                "groupInstanceId": member.instance_id,
                "clientId": member.client_id,
                "clientHost": member.host,
                "memberMetadata": member.metadata(group.protocol) if is_stable else b"",
                "memberAssignment": member.assignment,
            }
            for member in group.members.values()
        ],
    }
