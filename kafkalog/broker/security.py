"""Access lists, quotas and SCRAM users: a node that has none of them says so.

Source: ``AclApis.scala``, ``DescribeAclsRequest.java``, ``ClientQuotasImage.java``,
``ScramImage.java``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from kafkalog.errors import CorruptMessageError
from kafkalog.messages.schema import Message
from kafkalog.protocol.error_codes import ErrorCode
from kafkalog.protocol.frames import Request

UNKNOWN: Final = 0
"""Kafka's number of the unknown type, operation and permission of access lists."""

IP: Final = "ip"
ENTITY_TYPES: Final = frozenset({"user", "client-id", IP})


def describe_acls(request: Request) -> Message:
    """Answer that there is no authorizer, as ``AclApis`` without one.

    Raises `CorruptMessageError` for a filter that Kafka does not read.
    """
    message = request.message
    for name in (
        *("patternTypeFilter", "resourceTypeFilter"),
        *("permissionType", "operation"),
    ):
        if message[name] == UNKNOWN:
            reason = f"{name} {UNKNOWN} of DescribeAcls, expected a known one"
            raise CorruptMessageError(reason)
    return {
        "errorCode": ErrorCode.SECURITY_DISABLED,
        "errorMessage": "No Authorizer is configured on the broker",
    }


def describe_client_quotas(request: Request) -> Message:
    """Answer that no quota matches, as ``ClientQuotasImage`` without quotas."""
    error, reason = _quota_fault(request.message["components"])
    entries: list[Message] | None = None if error else []
    return {"errorCode": error, "errorMessage": reason, "entries": entries}


def _quota_fault(components: Sequence[Message]) -> tuple[ErrorCode, str]:
    """Return the error of a filter of quotas."""
    invalid, types = ErrorCode.INVALID_REQUEST, set()
    for component in components:
        entity, kind = component["entityType"], component["matchType"]
        if not entity:
            return invalid, "Invalid empty entity type."
        if entity in types:
            reason = f"Entity type {entity} cannot appear more than once in the filter."
            return invalid, reason
        if entity not in ENTITY_TYPES:
            return ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {entity}"
        types.add(entity)
        is_named = component["match"] is not None
        match kind:
            case 0 if not is_named:
                reason = "MATCH_TYPE_EXACT, but set match string to null."
            case 1 if is_named:
                reason = "MATCH_TYPE_DEFAULT, but also specified a match string."
            case 2 if is_named:
                reason = "MATCH_TYPE_SPECIFIED, but also specified a match string."
            case 0 | 1 | 2:
                continue
            case _:
                return invalid, f"Unknown match type {kind}"
        return invalid, f"Request specified {reason}"
    if IP in types and len(types) > 1:
        return invalid, (
            "Invalid entity filter component combination. IP filter component should "
            "not be used with user or clientId filter component."
        )
    return ErrorCode.NONE, ""


def describe_user_scram_credentials(request: Request) -> Message:
    """Answer that no user has credentials, as ``ScramImage`` without users."""
    asked = Counter(user["name"] for user in request.message["users"] or ())
    return {"results": [_user(name, count) for name, count in asked.items()]}


def _user(name: str, count: int) -> dict[str, Any]:
    if count > 1:
        error = ErrorCode.DUPLICATE_RESOURCE
        reason = (
            "Cannot describe SCRAM credentials for the same user twice in a single "
            f"request: {name}"
        )
    else:
        error = ErrorCode.RESOURCE_NOT_FOUND
        reason = f"Attempt to describe a user credential that does not exist: {name}"
    return {"user": name, "errorCode": error, "errorMessage": reason}
