"""The coordinator of consumer groups: joins, assignments, heartbeats, timeouts.

Groups live in memory. They follow the classic protocol, which all clients have, with
members of any protocol type: consumers, Connect, Schema Registry.

Source: ``GroupMetadataManager.java`` (``classicGroupJoin``, ``classicGroupSync``,
``classicGroupHeartbeat``, ``classicGroupLeave``), ``GroupCoordinatorService.java``.
"""

from __future__ import annotations

from typing import Any, Final

from kafkalog.broker.classic_group import ClassicGroup, GroupState, Member, Reply
from kafkalog.broker.timers import Timers
from kafkalog.log.clock import Clock
from kafkalog.messages.schema import Message
from kafkalog.protocol.error_codes import ErrorCode
from kafkalog.protocol.frames import Request

LEAST_SESSION_MS: Final = 6_000
MOST_SESSION_MS: Final = 1_800_000
INITIAL_DELAY_MS: Final = 3_000
"""Kafka's ``group.initial.rebalance.delay.ms``: how long the first member waits."""

FIRST_WITH_KNOWN_ID: Final = 4
FIRST_WITHOUT_ASSIGNMENT: Final = 9
FIRST_WITH_MEMBERS: Final = 3
NO_GENERATION: Final = -1
JOIN: Final = "join"
SYNC: Final = "sync"
SESSION: Final = "session"


class GroupCoordinator:
    """The groups, and the timers of their members."""

    def __init__(
        self, clock: Clock, timers: Timers, *, initial_delay_ms: int = INITIAL_DELAY_MS
    ) -> None:
        self.groups: dict[str, ClassicGroup] = {}
        self._clock = clock
        self._timers = timers
        self._initial_delay_ms = initial_delay_ms

    def join(self, request: Request, host: str) -> Reply:
        """Let a member join; the answer comes when all members have joined."""
        message, reply = request.message, Reply()
        group_id, member_id = message["groupId"], message["memberId"]
        session_ms = message["sessionTimeoutMs"]
        if not group_id:
            return _failed(member_id, ErrorCode.INVALID_GROUP_ID)
        if not LEAST_SESSION_MS <= session_ms <= MOST_SESSION_MS:
            return _failed(member_id, ErrorCode.INVALID_SESSION_TIMEOUT)
        group = self.groups.get(group_id)
        if group is None:
            if member_id:
                return _failed(member_id, ErrorCode.UNKNOWN_MEMBER_ID)
            group = self.groups[group_id] = ClassicGroup(group_id)
        protocols = [(each["name"], each["metadata"]) for each in message["protocols"]]
        if not group.supports(message["protocolType"], protocols):
            return _failed(member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        rebalance_ms = message.get("rebalanceTimeoutMs") or session_ms
        member = Member(
            member_id,
            message.get("groupInstanceId"),
            request.client_id or "",
            host,
            message["protocolType"],
            protocols,
            rebalance_ms,
            session_ms,
            joining=reply,
        )
        if not member_id:
            self._join_as_new(group, member, request)
        elif member_id in group.pending:
            self._add(group, member)
        else:
            self._join_again(group, member)
        return reply

    def _join_as_new(
        self, group: ClassicGroup, member: Member, request: Request
    ) -> None:
        instance_id = member.instance_id
        member.member_id = group.new_member_id(member.client_id, instance_id)
        assert member.joining is not None
        if instance_id is not None and instance_id in group.static_members:
            self._replace_static(group, member, request)
        elif instance_id is None and request.version >= FIRST_WITH_KNOWN_ID:
            group.pending.add(member.member_id)
            self._expect_heartbeat(group, member.member_id, member.session_timeout_ms)
            _fail(member.joining, member.member_id, ErrorCode.MEMBER_ID_REQUIRED)
        else:
            self._add(group, member)

    def _join_again(self, group: ClassicGroup, joining: Member) -> None:
        reply = joining.joining
        assert reply is not None
        error = _check_member(group, joining.member_id, joining.instance_id)
        if error:
            _fail(reply, joining.member_id, error)
            return
        member = group.members[joining.member_id]
        has_changed = member.protocols != joining.protocols
        match group.state:
            case GroupState.PREPARING_REBALANCE:
                self._update(group, member, joining)
            case GroupState.COMPLETING_REBALANCE if not has_changed:
                reply.message = _joined(group, member)
            case GroupState.COMPLETING_REBALANCE:
                self._update(group, member, joining)
            case GroupState.STABLE if has_changed or group.leader == member.member_id:
                self._update(group, member, joining)
            case GroupState.STABLE:
                reply.message = {**_joined(group, member), "members": []}
            case _:
                _fail(reply, joining.member_id, ErrorCode.UNKNOWN_MEMBER_ID)

    def _add(self, group: ClassicGroup, member: Member) -> None:
        if group.state is GroupState.PREPARING_REBALANCE:
            group.has_new_member = True
        group.add(member)
        self._expect_heartbeat(group, member.member_id, member.session_timeout_ms)
        self._rebalance(group)

    def _update(self, group: ClassicGroup, member: Member, joining: Member) -> None:
        if member.joining is not None and member.joining is not joining.joining:
            _fail(member.joining, member.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        member.update(joining)
        self._rebalance(group)

    def _replace_static(
        self, group: ClassicGroup, joining: Member, request: Request
    ) -> None:
        """Let a static member come back under a new id, mostly without a rebalance."""
        assert joining.instance_id is not None
        assert joining.joining is not None
        old_id = group.static_members[joining.instance_id]
        old, leader = group.members[old_id], group.leader
        for waiting in (old.joining, old.syncing):
            if waiting is not None:
                _fail(waiting, old_id, ErrorCode.FENCED_INSTANCE_ID)
        old.joining = old.syncing = None
        member = group.replace_static(joining.instance_id, old_id, joining.member_id)
        self._timers.cancel((SESSION, group.group_id, old_id))
        self._expect_heartbeat(group, member.member_id, member.session_timeout_ms)
        member.update(joining)
        if group.state is GroupState.STABLE:
            if group.protocol != group.preferred_protocol():
                self._rebalance(group)
                return
            member.joining = None
            answer = _joined(group, member)
            if request.version >= FIRST_WITHOUT_ASSIGNMENT:
                answer["skipAssignment"] = group.leader == member.member_id
            else:
                # An old client that leads would assign anew: it gets the old leader.
                answer |= {"leader": leader, "members": []}
            joining.joining.message = answer
        elif group.state is GroupState.COMPLETING_REBALANCE:
            self._prepare(group)
        else:
            self._complete_if_joined(group)

    def _rebalance(self, group: ClassicGroup) -> None:
        if group.state is not GroupState.PREPARING_REBALANCE:
            self._prepare(group)
        else:
            self._complete_if_joined(group)

    def _prepare(self, group: ClassicGroup) -> None:
        """Begin a rebalance: all members have to join again."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            for member in group.members.values():
                member.assignment = b""
                self._end_sync(group, member, ErrorCode.REBALANCE_IN_PROGRESS)
        self._timers.cancel((SYNC, group.group_id))
        is_first = group.state is GroupState.EMPTY
        group.state = GroupState.PREPARING_REBALANCE
        if not is_first:
            self._complete_by(group, group.rebalance_timeout_ms)
            self._complete_if_joined(group)
            return
        group.has_new_member = False
        delay = self._initial_delay_ms
        left = max(group.rebalance_timeout_ms - delay, 0)
        self._wait_for_more(group, delay, left)

    def _wait_for_more(self, group: ClassicGroup, delay: int, left: int) -> None:
        """Wait for more members of a new group, as long as new ones come."""

        def due() -> None:
            if group.has_new_member and left:
                group.has_new_member = False
                more = min(self._initial_delay_ms, left)
                self._wait_for_more(group, more, max(left - delay, 0))
            else:
                self._complete(group)

        at = self._clock.now_ms() + delay
        self._timers.set((JOIN, group.group_id), at, due)
        if not delay:
            self._timers.cancel((JOIN, group.group_id))
            self._complete(group)

    def _complete_by(self, group: ClassicGroup, delay: int) -> None:
        at = self._clock.now_ms() + delay
        self._timers.set((JOIN, group.group_id), at, lambda: self._complete(group))

    def _complete_if_joined(self, group: ClassicGroup) -> None:
        # In a new group the first wait is for members that are not known yet.
        is_first = group.generation == 0 and self._initial_delay_ms
        if group.all_have_joined and not is_first:
            self._complete(group)

    def _complete(self, group: ClassicGroup) -> None:
        """End the joining: whoever has not joined is out, and all get their answers."""
        self._timers.cancel((JOIN, group.group_id))
        for member in list(group.members.values()):
            if member.joining is None and member.instance_id is None:
                self._forget(group, member.member_id)
        if not group.elect_joined_leader() and group.members:
            self._complete_by(group, group.rebalance_timeout_ms)
            return
        group.next_generation()
        for member in group.members.values():
            if member.joining is not None:
                member.joining.message = _joined(group, member)
                member.joining = None
            self._expect_heartbeat(group, member.member_id, member.session_timeout_ms)
            group.unsynced.add(member.member_id)
        if group.members:
            at = self._clock.now_ms() + group.rebalance_timeout_ms
            self._timers.set(
                (SYNC, group.group_id), at, lambda: self._expire_unsynced(group)
            )

    def _expire_unsynced(self, group: ClassicGroup) -> None:
        """Remove the members that did not ask for their assignment."""
        if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return
        if not group.unsynced:
            return
        for member_id in list(group.unsynced):
            self._forget(group, member_id)
        self._prepare(group)

    def sync(self, request: Request) -> Reply:
        """Answer a member's part of the assignment, once the leader has made it."""
        message = request.message
        group = self.groups.get(message["groupId"])
        if group is None:
            return Reply({"errorCode": ErrorCode.UNKNOWN_MEMBER_ID})
        error = _check_generation(
            group,
            message["memberId"],
            message.get("groupInstanceId"),
            message["generationId"],
        )
        for asked, known in (
            (message.get("protocolType"), group.protocol_type),
            (message.get("protocolName"), group.protocol),
        ):
            if not error and asked is not None and asked != known:
                error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if error:
            return Reply({"errorCode": error})
        member = group.members[message["memberId"]]
        group.unsynced.discard(member.member_id)
        match group.state:
            case GroupState.PREPARING_REBALANCE:
                return Reply({"errorCode": ErrorCode.REBALANCE_IN_PROGRESS})
            case GroupState.STABLE:
                self._expect_heartbeat(
                    group, member.member_id, member.session_timeout_ms
                )
                return Reply(_synced(group, member))
            case GroupState.COMPLETING_REBALANCE:
                reply = member.syncing = Reply()
                if group.leader == member.member_id:
                    self._assign(group, message["assignments"])
                return reply
        return Reply({"errorCode": ErrorCode.UNKNOWN_MEMBER_ID})

    def _assign(self, group: ClassicGroup, assignments: list[Message]) -> None:
        parts = {each["memberId"]: each["assignment"] for each in assignments}
        group.state = GroupState.STABLE
        for member in group.members.values():
            member.assignment = parts.get(member.member_id, b"")
            self._end_sync(group, member, ErrorCode.NONE)

    def _end_sync(self, group: ClassicGroup, member: Member, error: ErrorCode) -> None:
        if member.syncing is None:
            return
        member.syncing.message = (
            _synced(group, member) if not error else {"errorCode": error}
        )
        member.syncing = None
        group.unsynced.discard(member.member_id)
        self._expect_heartbeat(group, member.member_id, member.session_timeout_ms)

    def heartbeat(self, request: Request) -> Message:
        """Answer whether a member is still one, and has to join again."""
        message = request.message
        group = self.groups.get(message["groupId"])
        if group is None:
            return {"errorCode": ErrorCode.UNKNOWN_MEMBER_ID}
        error = _check_generation(
            group,
            message["memberId"],
            message.get("groupInstanceId"),
            message["generationId"],
        )
        if error:
            return {"errorCode": error}
        if group.state is GroupState.EMPTY:
            return {"errorCode": ErrorCode.UNKNOWN_MEMBER_ID}
        member = group.members[message["memberId"]]
        self._expect_heartbeat(group, member.member_id, member.session_timeout_ms)
        if group.state is GroupState.PREPARING_REBALANCE:
            return {"errorCode": ErrorCode.REBALANCE_IN_PROGRESS}
        return {"errorCode": ErrorCode.NONE}

    def leave(self, request: Request) -> Message:
        """Remove members."""
        message = request.message
        group = self.groups.get(message["groupId"])
        leaving: list[Message] = message.get("members") or [
            {"memberId": message.get("memberId", "")}
        ]
        if group is None:
            if request.version < FIRST_WITH_MEMBERS:
                return {"errorCode": ErrorCode.UNKNOWN_MEMBER_ID}
            unknown = {"errorCode": ErrorCode.UNKNOWN_MEMBER_ID}
            return {"members": [{**_identity(each), **unknown} for each in leaving]}
        results = []
        has_left = False
        for each in leaving:
            error = self._leave(group, each)
            has_left |= not error
            results.append({**_identity(each), "errorCode": error})
        if has_left and group.state in (
            GroupState.STABLE,
            GroupState.COMPLETING_REBALANCE,
        ):
            self._prepare(group)
        elif has_left and group.state is GroupState.PREPARING_REBALANCE:
            self._complete_if_joined(group)
        if request.version < FIRST_WITH_MEMBERS:
            return {"errorCode": results[0]["errorCode"]}
        return {"members": results}

    def _leave(self, group: ClassicGroup, leaving: Message) -> ErrorCode:
        member_id, instance_id = leaving["memberId"], leaving.get("groupInstanceId")
        if not member_id and instance_id is not None:
            if instance_id not in group.static_members:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = group.static_members[instance_id]
        elif member_id in group.pending:
            self._forget(group, member_id)
            return ErrorCode.NONE
        else:
            error = _check_member(group, member_id, instance_id)
            if error:
                return error
        self._forget(group, member_id)
        return ErrorCode.NONE

    def check_commit(self, request: Request) -> ErrorCode:
        """Return the error of a commit of offsets."""
        message = request.message
        if not message["groupId"]:
            return ErrorCode.INVALID_GROUP_ID
        generation = message.get("generationIdOrMemberEpoch", NO_GENERATION)
        member_id = message.get("memberId", "")
        instance_id = message.get("groupInstanceId")
        group = self.groups.get(message["groupId"])
        if group is None:
            is_simple = generation < 0
            return ErrorCode.NONE if is_simple else ErrorCode.ILLEGAL_GENERATION
        if generation < 0 and group.state is GroupState.EMPTY:
            return ErrorCode.NONE
        if generation >= 0 or member_id or instance_id is not None:
            error = _check_generation(group, member_id, instance_id, generation)
            if error:
                return error
        elif group.state is not GroupState.EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if group.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        if member_id in group.members:
            member = group.members[member_id]
            self._expect_heartbeat(group, member_id, member.session_timeout_ms)
        return ErrorCode.NONE

    def _forget(self, group: ClassicGroup, member_id: str) -> None:
        member = group.members.get(member_id)
        if member is not None:
            for waiting in (member.joining, member.syncing):
                if waiting is not None:
                    _fail(waiting, member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        group.remove(member_id)
        self._timers.cancel((SESSION, group.group_id, member_id))

    def _expect_heartbeat(
        self, group: ClassicGroup, member_id: str, session_ms: int
    ) -> None:
        at = self._clock.now_ms() + session_ms
        self._timers.set(
            (SESSION, group.group_id, member_id),
            at,
            lambda: self._expire(group, member_id),
        )

    def _expire(self, group: ClassicGroup, member_id: str) -> None:
        """Remove a member whose session has ended."""
        member = group.members.get(member_id)
        if member is None:
            group.pending.discard(member_id)
            if group.state is GroupState.PREPARING_REBALANCE:
                self._complete_if_joined(group)
            return
        if member.joining is not None or member.syncing is not None:
            # It waits for an answer, and sends no heartbeats meanwhile.
            self._expect_heartbeat(group, member_id, member.session_timeout_ms)
            return
        self._forget(group, member_id)
        if group.state is GroupState.PREPARING_REBALANCE:
            self._complete_if_joined(group)
        elif group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self._prepare(group)


def _identity(member: Message) -> dict[str, Any]:
    return {
        "memberId": member["memberId"],
        "groupInstanceId": member.get("groupInstanceId"),
    }


def _check_member(
    group: ClassicGroup, member_id: str, instance_id: str | None
) -> ErrorCode:
    """Return the error of a member that is not one, or whose place another took."""
    if instance_id is not None and instance_id not in group.static_members:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if instance_id is not None and group.static_members[instance_id] != member_id:
        return ErrorCode.FENCED_INSTANCE_ID
    if member_id not in group.members:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE


def _check_generation(
    group: ClassicGroup, member_id: str, instance_id: str | None, generation: int
) -> ErrorCode:
    error = _check_member(group, member_id, instance_id)
    if not error and generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return error


def _joined(group: ClassicGroup, member: Member) -> dict[str, Any]:
    is_leader = group.leader == member.member_id
    return {
        "errorCode": ErrorCode.NONE,
        "generationId": group.generation,
        "protocolType": group.protocol_type,
        "protocolName": group.protocol,
        "leader": group.leader,
        "memberId": member.member_id,
        "members": group.described_members() if is_leader else [],
    }


def _synced(group: ClassicGroup, member: Member) -> dict[str, Any]:
    return {
        "errorCode": ErrorCode.NONE,
        "protocolType": group.protocol_type,
        "protocolName": group.protocol,
        "assignment": member.assignment,
    }


def _failed(member_id: str, error: ErrorCode) -> Reply:
    reply = Reply()
    _fail(reply, member_id, error)
    return reply


def _fail(reply: Reply, member_id: str, error: ErrorCode) -> None:
    """Answer an error to a join or a sync."""
    reply.message = {
        "errorCode": error,
        "memberId": member_id,
        "generationId": NO_GENERATION,
        "protocolName": "",
        "leader": "",
    }
