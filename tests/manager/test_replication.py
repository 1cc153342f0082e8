"""Replication of logs by `kafkalog.replicate`."""

import random
import shutil

import pytest

import kafkalog
from kafkalog import LogConfig, errors
from kafkalog.testing import ManualClock, ManualScheduler, open_log
from tests import golden_data
from tests.log.writing import NOW, batch

CONFIG = LogConfig(
    internal_segment_bytes=1500, segment_index_bytes=240, file_delete_delay_ms=0
)
NAMES = "abc"


def open_replica(root, name, config=CONFIG):
    clock = ManualClock(NOW)
    return open_log(
        root / name / "t-0", config, clock=clock, scheduler=ManualScheduler(clock)
    )


@pytest.fixture
def logs(tmp_path):
    opened = [open_replica(tmp_path, name) for name in NAMES]
    yield opened
    for log in opened:
        log.close()


def lead(log, epoch):
    log.assign_epoch(epoch)


def write(log, epoch, count=1, **fields):
    return log.append(batch(count, **fields), leader_epoch=epoch)


def keep_up(leader, follower, **options):
    """Replicate until the follower has caught up; return all steps."""
    steps = []
    while not steps or not steps[-1].caught_up:
        steps.append(kafkalog.replicate(leader, follower, **options))
        assert len(steps) < 200
    return steps


def batches(log, start=None, **options):
    """Return the batches from `start` on: their base offsets and bytes."""
    found, offset = [], log.log_start_offset if start is None else start
    while (read := log.read(offset, **options)).data:
        found += split(read.data)
        offset = read.next_offset
    return found


def split(data):
    """Return the base offset and the bytes of each whole batch."""
    found, position = [], 0
    while position < len(data):
        size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        whole = data[position : position + size]
        if len(whole) == size:
            found.append((int.from_bytes(whole[:8], "big"), whole))
        position += size
    return found


def test_a_follower_receives_the_same_bytes_and_epochs(logs):
    leader, follower, _ = logs
    lead(leader, 3)
    for count in range(1, 9):
        write(leader, 3, count)
    steps = keep_up(leader, follower, max_bytes=500)
    assert len(steps) > 3
    assert batches(follower) == batches(leader)
    assert follower.leader_epochs == leader.leader_epochs
    assert sum(step.bytes_appended for step in steps) == sum(
        len(data) for _, data in batches(leader)
    )


def test_the_high_watermark_follows_one_fetch_later(logs):
    leader, follower, _ = logs
    lead(leader, 0)
    write(leader, 0, 5)
    first = kafkalog.replicate(leader, follower)
    assert (first.log_end_offset, first.high_watermark, leader.high_watermark) == (
        5, 0, 0,
    )  # fmt: skip
    second = kafkalog.replicate(leader, follower)
    assert (second.high_watermark, leader.high_watermark) == (0, 5)
    assert kafkalog.replicate(leader, follower).high_watermark == 5


def test_the_slowest_follower_in_sync_holds_the_high_watermark(logs):
    leader, follower, _ = logs
    lead(leader, 0)
    for _ in range(5):
        write(leader, 0)
    for _ in range(3):
        kafkalog.replicate(leader, follower, in_sync=[2])
    assert leader.high_watermark == 2


def test_a_diverging_follower_is_truncated_to_where_the_epoch_ends(logs):
    old, new, _ = logs
    lead(old, 0)
    write(old, 0, 5)
    keep_up(old, new)
    write(old, 0, 2)  # not fetched by the new leader
    lead(new, 1)
    write(new, 1, 1)
    step = kafkalog.replicate(new, old)
    assert (step.fetch_offset, step.truncated_to, step.bytes_appended) == (7, 5, 0)
    keep_up(new, old)
    assert batches(old) == batches(new)
    assert old.leader_epochs == new.leader_epochs == [(0, 0), (1, 5)]


def test_an_epoch_that_the_leader_lacks_is_compared_step_by_step(logs):
    # KIP-279: each log has epochs that the other one does not have.
    one, other, _ = logs
    for log in (one, other):
        lead(log, 0)
        write(log, 0, 3)
    lead(one, 1)
    write(one, 1, 4)
    lead(other, 2)
    write(other, 2, 2)
    lead(other, 4)
    write(other, 4, 1)
    lead(one, 3)
    write(one, 3, 1)
    cuts = [step.truncated_to for step in keep_up(other, one)]
    assert [cut for cut in cuts if cut is not None][-1] == 3
    assert batches(one) == batches(other)


def test_a_follower_before_the_log_start_is_restarted(logs):
    leader, follower, _ = logs
    lead(leader, 0)
    write(leader, 0, 3)
    keep_up(leader, follower)
    write(leader, 0, 5)
    leader.update_high_watermark(8)
    leader.delete_records(6)
    step = kafkalog.replicate(leader, follower)
    assert (step.restarted_at, step.truncated_to) == (6, None)
    keep_up(leader, follower)
    assert follower.log_start_offset == leader.log_start_offset == 6
    assert batches(follower, 6) == batches(leader, 6)


def test_a_follower_past_the_end_of_a_leader_without_its_epoch_is_truncated(logs):
    leader, follower, _ = logs
    lead(leader, 0)
    write(leader, 0, 3)
    lead(follower, 5)
    write(follower, 5, 9)
    step = kafkalog.replicate(leader, follower)
    assert step.truncated_to == 3


def test_the_log_start_offset_follows(logs):
    leader, follower, _ = logs
    lead(leader, 0)
    write(leader, 0, 8)
    keep_up(leader, follower)
    kafkalog.replicate(leader, follower)
    leader.delete_records(4)
    keep_up(leader, follower)
    assert follower.log_start_offset == 4


def test_an_empty_follower_takes_a_batch_that_begins_before_its_start(logs):
    leader, follower, _ = logs
    lead(leader, 0)
    write(leader, 0, 8)
    leader.update_high_watermark(8)
    leader.delete_records(5)  # within the only batch
    assert kafkalog.replicate(leader, follower).restarted_at == 5
    step = kafkalog.replicate(leader, follower)
    assert step.log_end_offset == 8
    assert follower.log_start_offset == 5
    assert batches(follower, 5) == batches(leader, 5)


@pytest.mark.parametrize("topic", ["orders.zstd-0", "state.txn-0", "orders.gzip-0"])
def test_the_log_of_a_broker_is_replicated_without_being_opened_for_writing(
    tmp_path, topic
):
    source = tmp_path / "source" / topic
    shutil.copytree(golden_data.logs("k431-clean") / topic, source)
    before = {path.name: path.read_bytes() for path in source.iterdir()}
    config = LogConfig()
    with (
        kafkalog.open(source) as leader,
        kafkalog.open(tmp_path / "copy" / topic, "a", config) as follower,
    ):
        keep_up(leader, follower, max_bytes=2000)
        start = leader.log_start_offset
        assert batches(follower, start) == batches(leader, start)
        assert follower.log_end_offset == leader.log_end_offset
    assert {path.name: path.read_bytes() for path in source.iterdir()} == before


def test_a_log_is_not_replicated_to_itself(logs):
    with pytest.raises(errors.LogArgumentError, match="one log as leader and foll"):
        kafkalog.replicate(logs[0], logs[0])
    with pytest.raises(errors.LogArgumentError, match="max_bytes -1, expected at"):
        kafkalog.replicate(logs[0], logs[1], max_bytes=-1)


class Cluster:
    """Three replicas of a partition, one of them the leader; any of them may fail."""

    def __init__(self, root, seed):
        self.root, self.dice = root, random.Random(seed)
        self.logs = {name: open_replica(root, name) for name in NAMES}
        self.epoch, self.leader = -1, ""
        self.in_sync, self.fetched = set(NAMES), {}
        self.committed = []
        self.elect()

    def elect(self):
        """Make a replica in sync the leader, with the next epoch."""
        self.leader = self.dice.choice(sorted(self.in_sync))
        self.epoch += 1
        self.fetched = {}
        self.logs[self.leader].assign_epoch(self.epoch)
        self.check()

    def write(self):
        count = self.dice.randrange(1, 6)
        size = self.dice.choice([10, 200])
        write(self.logs[self.leader], self.epoch, count, size=size)

    def fetch(self):
        """Let one follower fetch; it is in sync once it has all committed batches."""
        name = self.dice.choice([other for other in NAMES if other != self.leader])
        leader = self.logs[self.leader]
        others = self.in_sync - {self.leader, name}
        ends = [self.fetched.get(other, 0) for other in others]
        limit = self.dice.choice([0, 300, 5000])
        step = kafkalog.replicate(
            leader, self.logs[name], max_bytes=limit, in_sync=ends
        )
        if step.truncated_to is None and step.restarted_at is None:
            self.fetched[name] = step.fetch_offset
            begin = leader.leader_epochs[-1].start_offset
            if step.fetch_offset >= max(begin, leader.high_watermark):
                self.in_sync.add(name)
        self.note()

    def note(self):
        """Record the committed batches; a new leader may not yet know all of them."""
        leader = self.logs[self.leader]
        committed = batches(leader, 0, isolation="high_watermark")
        self.committed = max(self.committed, committed, key=len)

    def shrink(self):
        """Remove a follower from the replicas in sync."""
        if len(self.in_sync) > 1:
            self.in_sync.remove(self.dice.choice(sorted(self.in_sync - {self.leader})))

    def restart(self):
        """Close or abandon a replica, and open it again."""
        name = self.dice.choice(NAMES)
        log = self.logs[name]
        if self.dice.random() < 0.5:
            log.abandon()
        log.close()
        self.logs[name] = open_replica(self.root, name)
        if name == self.leader:
            self.elect()

    def check(self):
        """Check that the leader has every committed batch, at its offset."""
        known = dict(batches(self.logs[self.leader], 0))
        for offset, data in self.committed:
            assert known.get(offset) == data

    def settle(self):
        """Let all followers catch up, and check that all logs are the same."""
        leader = self.logs[self.leader]
        for name in NAMES:
            if name != self.leader:
                keep_up(leader, self.logs[name])
                assert batches(self.logs[name], 0) == batches(leader, 0)
                # Only its leader has an epoch without batches.
                end = leader.log_end_offset
                with_batches = [
                    epoch for epoch in leader.leader_epochs if epoch.start_offset < end
                ]
                assert self.logs[name].leader_epochs == with_batches
        self.check()

    def play(self, steps):
        deeds = [self.write, self.fetch, self.shrink, self.restart, self.elect]
        for _ in range(steps):
            [deed] = self.dice.choices(deeds, weights=[30, 50, 4, 3, 6])
            deed()
        self.settle()
        for name in NAMES:
            self.logs[name].close()
            open_replica(self.root, name).close()  # removes segments marked deleted
            assert kafkalog.verify(self.root / name).ok


@pytest.mark.parametrize("seed", range(12))
def test_what_is_committed_survives_failovers_and_the_replicas_agree(tmp_path, seed):
    Cluster(tmp_path, seed).play(120)


def test_logs_that_cannot_be_joined_have_not_caught_up(logs):
    leader, follower, _ = logs
    write(leader, 1, 9)
    write(follower, 5, 9)
    before = batches(follower)
    with pytest.raises(errors.OffsetOutOfRangeError, match="leader epoch 5"):
        kafkalog.replicate(leader, follower)
    assert batches(follower) == before


def test_offsets_that_the_leader_lacks_are_named(tmp_path, logs):
    leader, follower, _ = logs
    lead(leader, 0)
    for _ in range(30):
        write(leader, 0, 2)
    while follower.log_end_offset < 4:
        kafkalog.replicate(leader, follower, max_bytes=1)
    [first, second, *_] = [each.base_offset for each in leader.segments]
    third = leader.segments[2].base_offset
    leader.close()
    for path in (tmp_path / "a" / "t-0").glob(f"{second:020d}.*"):
        path.unlink()
    with kafkalog.open(tmp_path / "a" / "t-0") as damaged:
        steps = keep_up(damaged, follower)
    skipped = [step.skipped for step in steps if step.skipped is not None]
    assert skipped == [(second, third - 1)]
    assert first < second < third


def test_a_follower_of_a_tiered_leader_begins_at_its_first_segment(tmp_path, logs):
    leader, follower, _ = logs
    lead(leader, 0)
    for epoch in (0, 1):
        for _ in range(15):
            write(leader, epoch, 2)
    base = leader.segments[-1].base_offset
    leader.update_high_watermark(60)
    leader.delete_records(3)
    leader.close()
    for path in (tmp_path / "a" / "t-0").glob("0*.*"):
        if int(path.stem) < base:
            path.unlink()
    starts = tmp_path / "a" / "log-start-offset-checkpoint"
    starts.write_text("0\n1\nt 0 3\n")
    with pytest.warns(errors.TieredLogWarning):
        tiered = kafkalog.open(tmp_path / "a" / "t-0")
    [step, *_] = keep_up(tiered, follower)
    assert step.restarted_at == base
    assert batches(follower, base) == batches(tiered, base)
    assert follower.leader_epochs == tiered.leader_epochs
    assert follower.log_start_offset == 3
