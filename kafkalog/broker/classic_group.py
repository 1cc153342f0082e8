"""A consumer group of the classic protocol: its members, its state, its generation.

Members join, the leader assigns, and all get their part of the assignment:

    Empty -> PreparingRebalance -> CompletingRebalance -> Stable
                    ^                      |                |
                    +----------------------+----------------+  a member comes or goes

Source: ``ClassicGroup.java``, ``ClassicGroupMember.java``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from uuid import uuid4

from kafkalog.messages.internal_records import subscribed_topics
from kafkalog.messages.schema import Message


class GroupState(Enum):
    """The state of a group; the value is Kafka's name."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(slots=True)
class Reply:
    """An answer that comes later: `message` is None until then."""

    message: Message | None = None


@dataclass(slots=True)
class Member:
    """A member of a group, and the requests of it that are not answered yet."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    protocol_type: str
    protocols: list[tuple[str, bytes]]
    rebalance_timeout_ms: int
    session_timeout_ms: int
    assignment: bytes = b""
    joining: Reply | None = None
    syncing: Reply | None = None

    def update(self, joining: Member) -> None:
        """Take what the member says as it joins again, and the request to answer."""
        self.protocols = joining.protocols
        self.rebalance_timeout_ms = joining.rebalance_timeout_ms
        self.session_timeout_ms = joining.session_timeout_ms
        self.joining = joining.joining

    def metadata(self, protocol: str | None) -> bytes:
        """Return what the member says under the name of a protocol."""
        return dict(self.protocols).get(protocol or "", b"")

    def vote(self, candidates: set[str]) -> str:
        """Return the first of the member's protocols that all others have, too."""
        return next(name for name, _ in self.protocols if name in candidates)


@dataclass(slots=True)
class ClassicGroup:
    """A group; `generation` rises with each rebalance."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)
    unsynced: set[str] = field(default_factory=set)
    has_new_member: bool = False

    def new_member_id(self, client_id: str, instance_id: str | None) -> str:
        """Return an id for a member."""
        return f"{instance_id if instance_id is not None else client_id}-{uuid4()}"

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest time that a member may take to join."""
        return max(
            (member.rebalance_timeout_ms for member in self.members.values()), default=0
        )

    @property
    def all_have_joined(self) -> bool:
        """Whether all known members have joined."""
        joined = all(member.joining is not None for member in self.members.values())
        return joined and not self.pending

    def supports(self, protocol_type: str, protocols: list[tuple[str, bytes]]) -> bool:
        """Return whether a member with these protocols can join."""
        if not protocols or not protocol_type:
            return False
        if not self.members:
            return True
        common = self.common_protocols()
        is_common = any(name in common for name, _ in protocols)
        return self.protocol_type == protocol_type and is_common

    def common_protocols(self) -> set[str]:
        """Return the protocols that all members have."""
        votes = Counter(
            name for member in self.members.values() for name, _ in member.protocols
        )
        return {name for name, count in votes.items() if count == len(self.members)}

    def subscribed_topics(self) -> frozenset[str] | None:
        """Return the topics that members consume; None if one cannot be read."""
        topics: set[str] = set()
        for member in self.members.values():
            found = subscribed_topics(member.metadata(self.protocol))
            if found is None:
                return None
            topics.update(found)
        return frozenset(topics)

    def add(self, member: Member) -> None:
        """Add a member; the first one leads."""
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.pending.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member; if it led, another one does."""
        member = self.members.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending.discard(member_id)
        self.unsynced.discard(member_id)

    def replace_static(self, instance_id: str, old_id: str, new_id: str) -> Member:
        """Give a static member that came back its new id; return it."""
        member = self.members.pop(old_id)
        member.member_id = new_id
        self.members[new_id] = member
        if self.leader == old_id:
            self.leader = new_id
        self.static_members[instance_id] = new_id
        return member

    def elect_joined_leader(self) -> bool:
        """Let a member that has joined lead; return whether there is one."""
        leader = self.members.get(self.leader or "")
        if leader is not None and leader.joining is not None:
            return True
        joined = (each for each in self.members.values() if each.joining is not None)
        found = next(joined, None)
        if found is not None:
            self.leader = found.member_id
        return found is not None

    def next_generation(self) -> None:
        """Begin the next generation, with the protocol that most members prefer."""
        self.generation += 1
        if self.members:
            self.protocol = self.preferred_protocol()
            self.state = GroupState.COMPLETING_REBALANCE
        else:
            self.protocol = None
            self.state = GroupState.EMPTY
        self.unsynced.clear()

    def preferred_protocol(self) -> str:
        """Return the protocol with the most votes of those that all members have."""
        candidates = self.common_protocols()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return max(votes.items(), key=lambda vote: vote[1])[0]

    def described_members(self) -> list[dict[str, Any]]:
        """Return the members as a join's answer has them for the leader."""
        return [
            {
                "memberId": member.member_id,
                "groupInstanceId": member.instance_id,
                "metadata": member.metadata(self.protocol),
            }
            for member in self.members.values()
        ]
