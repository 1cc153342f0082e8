"""Groups of the classic protocol on a clock that a test moves forward."""

from __future__ import annotations

import pytest

from kafkalog.broker.broker import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP
from kafkalog.broker.classic_group import GroupState
from kafkalog.broker.group_coordinator import GroupCoordinator
from kafkalog.broker.timers import Timers
from kafkalog.protocol.error_codes import ErrorCode
from kafkalog.protocol.frames import Request
from kafkalog.protocol.protocol_schemas import api_of
from kafkalog.testing import ManualClock

SESSION_MS = 10_000
REBALANCE_MS = 30_000
DELAY_MS = 3_000


class Group:
    """A coordinator with one group, to which requests are made."""

    def __init__(self):
        self.clock, self.timers = ManualClock(1_700_000_000_000), Timers()
        self.coordinator = GroupCoordinator(
            self.clock, self.timers, initial_delay_ms=DELAY_MS
        )

    @property
    def state(self):
        return self.coordinator.groups["group"].state

    def pass_time(self, ms):
        """Let time pass, and run what is due at each moment of it."""
        end = self.clock.time_ms + ms
        while (due := self.timers.next_ms) is not None and due <= end:
            self.clock.time_ms = max(due, self.clock.time_ms)
            self.timers.run(due)
        self.clock.time_ms = end

    def request(self, key, message):
        api = api_of(key)
        version = api.highest_version
        message = {"groupId": "group", **message}
        return Request(api, version, version, 1, "client", message)

    def join(self, member_id="", *, instance=None, protocols=("range",)):
        message = {
            "memberId": member_id,
            "groupInstanceId": instance,
            "sessionTimeoutMs": SESSION_MS,
            "rebalanceTimeoutMs": REBALANCE_MS,
            "protocolType": "consumer",
            "protocols": [{"name": name, "metadata": b"m"} for name in protocols],
        }
        return self.coordinator.join(self.request(JOIN_GROUP, message), "/127.0.0.1")

    def new_member(self, **options):
        """Join as a new member, whose id is required; return the id and the reply."""
        answer = self.join(**options).message
        assert answer["errorCode"] == ErrorCode.MEMBER_ID_REQUIRED
        return answer["memberId"], self.join(answer["memberId"], **options)

    def member(self, member_id, generation, **more):
        return {"memberId": member_id, "generationId": generation, **more}

    def sync(self, member_id, generation, assignments=()):
        parts = [{"memberId": m, "assignment": part} for m, part in assignments]
        message = self.member(member_id, generation, assignments=parts)
        return self.coordinator.sync(self.request(SYNC_GROUP, message))

    def heartbeat(self, member_id, generation):
        message = self.member(member_id, generation)
        answer = self.coordinator.heartbeat(self.request(HEARTBEAT, message))
        return answer["errorCode"]

    def leave(self, member_id):
        message = {"members": [{"memberId": member_id}]}
        return self.coordinator.leave(self.request(LEAVE_GROUP, message))


@pytest.fixture
def group():
    return Group()


@pytest.fixture
def stable(group):
    """Return a group of two members, its leader first, in generation 1."""
    (first, one), (second, two) = group.new_member(), group.new_member()
    assert one.message is two.message is None
    group.pass_time(2 * DELAY_MS)
    assert one.message["leader"] == first
    assert [each["memberId"] for each in one.message["members"]] == [first, second]
    assert two.message["members"] == []
    waits = group.sync(second, 1)
    assert waits.message is None
    leads = group.sync(first, 1, [(first, b"1"), (second, b"2")])
    assert (leads.message["assignment"], waits.message["assignment"]) == (b"1", b"2")
    assert group.state is GroupState.STABLE
    return group, first, second


def test_members_that_come_while_a_new_group_waits_extend_the_wait(group):
    _, one = group.new_member()
    group.pass_time(DELAY_MS - 1)
    _, two = group.new_member()
    group.pass_time(1)
    assert one.message is two.message is None
    group.pass_time(DELAY_MS)
    assert one.message["generationId"] == two.message["generationId"] == 1


def test_a_new_member_lets_all_join_again(stable):
    group, first, second = stable
    third, waits = group.new_member()
    for member in (first, second):
        assert group.heartbeat(member, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    again = [group.join(first), group.join(second)]
    assert {reply.message["generationId"] for reply in (waits, *again)} == {2}
    assert group.heartbeat(third, 1) == ErrorCode.ILLEGAL_GENERATION
    assert group.state is GroupState.COMPLETING_REBALANCE


def test_a_member_that_is_silent_is_removed_and_the_leader_is_told(stable):
    group, first, second = stable
    group.pass_time(SESSION_MS - 1)
    assert group.heartbeat(first, 1) == ErrorCode.NONE
    group.pass_time(1)
    assert group.heartbeat(second, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.heartbeat(first, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    answer = group.join(first).message
    assert [each["memberId"] for each in answer["members"]] == [first]


def test_whoever_does_not_join_again_in_time_is_out(stable):
    group, first, second = stable
    _, waits = group.new_member()
    again = group.join(first)
    for _ in range(REBALANCE_MS // 5_000):
        assert waits.message is None
        group.heartbeat(second, 1)
        group.pass_time(5_000)
    assert again.message["generationId"] == 2
    assert second not in {each["memberId"] for each in again.message["members"]}


def test_a_group_is_empty_when_all_have_left(stable):
    group, first, second = stable
    for member in (first, second):
        [left] = group.leave(member)["members"]
        assert left["errorCode"] == ErrorCode.NONE
    group.pass_time(REBALANCE_MS)
    assert group.state is GroupState.EMPTY
    [again] = group.leave(first)["members"]
    assert again["errorCode"] == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_comes_back_without_a_rebalance(group):
    first = group.join(instance="one")
    group.pass_time(2 * DELAY_MS)
    old = first.message["memberId"]
    assert group.sync(old, 1, [(old, b"part")]).message["assignment"] == b"part"
    back = group.join(instance="one").message
    assert (back["errorCode"], back["generationId"]) == (ErrorCode.NONE, 1)
    assert back["memberId"] != old
    assert group.sync(back["memberId"], 1).message["assignment"] == b"part"
    message = group.member(old, 1, groupInstanceId="one")
    fenced = group.coordinator.heartbeat(group.request(HEARTBEAT, message))
    assert fenced["errorCode"] == ErrorCode.FENCED_INSTANCE_ID


def test_a_member_without_a_common_protocol_is_refused(stable):
    group, _, _ = stable
    answer = group.join(protocols=("sticky",)).message
    assert answer["errorCode"] == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("session_ms", [0, 5_999, 1_800_001])
def test_a_session_too_short_or_too_long_is_refused(group, session_ms):
    message = {
        "memberId": "",
        "sessionTimeoutMs": session_ms,
        "protocolType": "consumer",
        "protocols": [],
    }
    reply = group.coordinator.join(group.request(JOIN_GROUP, message), "/127.0.0.1")
    assert reply.message["errorCode"] == ErrorCode.INVALID_SESSION_TIMEOUT
