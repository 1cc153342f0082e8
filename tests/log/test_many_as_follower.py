"""Many appends as a follower in one call have the same outcomes as single calls."""

import errno
import os
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkalog
from kafkalog import (
    CorruptRecordError,
    KafkaLogError,
    LogClosedError,
    LogConfig,
    LogRollError,
    UnexpectedAppendOffsetError,
)
from kafkalog.log import appending
from kafkalog.storage.durable_file import Disk
from tests.log.writing import NOW, SMALL, batch, files_of, load, offsets_in

LARGE = LogConfig(internal_segment_bytes=1 << 20, segment_index_bytes=2400)


@st.composite
def fetched(draw):
    """Draw batches that a leader may have sent, mostly contiguous."""
    appends, offset, epoch = [], 0, 2
    for _ in range(draw(st.integers(2, 12))):
        epoch += draw(st.sampled_from([0] * 8 + [1, 1, 2, -1, -2]))
        data = b""
        for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3]))):
            offset += draw(st.sampled_from([0] * 8 + [1, 40, -1, -3]))
            count = draw(st.integers(1, 4))
            data += one_batch(draw, count, max(offset, 0), max(epoch, 0))
            offset = max(offset, 0) + count
        appends.append(corrupted(draw, data))
    return appends


def one_batch(draw, count, offset, epoch):
    """Encode a batch of a drawn kind at an offset."""
    kind = draw(st.sampled_from(["plain"] * 6 + ["lz4", "owned", "open", "old"]))
    fields = {"base_offset": offset, "leader_epoch": epoch}
    if kind == "lz4":
        fields["codec"] = kind
    elif kind == "old":
        fields = {"base_offset": offset, "magic": 1}
    elif kind in ("owned", "open"):
        sequence = draw(st.integers(0, 5))
        fields |= {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence}
        fields["is_transactional"] = kind == "open"
    later = draw(st.sampled_from([0, 0, 5, 9_000, -70]))
    return batch(count, timestamp=NOW + later, **fields)


def corrupted(draw, data):
    """Truncate the data, change a byte, remove it all, or leave it."""
    how = draw(st.sampled_from(["whole"] * 9 + ["cut", "flipped", "none"]))
    at = draw(st.integers(0, len(data) - 1))
    return {
        "whole": data,
        "cut": data[:at],
        "flipped": data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :],
        "none": b"",
    }[how]


def one_by_one(log, appends, epoch):
    """Append each in a call of its own."""
    outcomes = []
    for data in appends:
        try:
            outcomes.append(log.append_as_follower(data, leader_epoch=epoch))
        except KafkaLogError as error:
            outcomes.append(error)
    return outcomes


def in_one_call(log, appends, epoch):
    """Append all in one call."""
    return log.append_many_as_follower(appends, leader_epoch=epoch)


def run_log(directory, append, appends, epoch, config):
    """Append, and then a little more; return outcomes, state and files."""
    with load(directory, config) as log:
        log.assign_epoch(2, 0)
        log.append_as_follower(batch(base_offset=0, leader_epoch=2))
        outcomes = append(log, appends, epoch)
        known = log.log_end_offset, log.leader_epochs, repr(log.producers)
        # A rejected append leaves its roll, which may be above the log end offset.
        outcomes += log.append_many([batch(2)])
        with suppress(LogRollError):
            log.roll()
    described = [
        (type(outcome), str(outcome).replace(str(directory), ""))
        if isinstance(outcome, KafkaLogError)
        else outcome
        for outcome in outcomes
    ]
    return described, known, files_of(directory)


@pytest.mark.parametrize("config", [SMALL, LARGE], ids=["small", "large"])
@given(appends=fetched(), epoch=st.sampled_from([None, 2, 3, 9]))
def test_many_appends_leave_the_same_bytes_as_single_calls(
    tmp_path_factory, config, appends, epoch
):
    lives = [
        run_log(tmp_path_factory.mktemp("run_log"), append, given, epoch, config)
        for append, given in (
            (in_one_call, appends),
            (one_by_one, appends),
            (one_by_one, list(map(memoryview, appends))),
        )
    ]
    assert lives[0] == lives[1]
    assert lives[0] == lives[2]


def test_batches_of_a_follower_are_one_write(tmp_path, monkeypatch):
    with load(tmp_path, LARGE) as log:
        log.append_as_follower(batch(leader_epoch=0))
        appends = [batch(2, base_offset=at, leader_epoch=0) for at in (1, 3, 9)]
        monkeypatch.setattr(appending, "_try_append", None)
        outcomes = log.append_many_as_follower(appends, leader_epoch=0)
        assert [outcome.last_offset for outcome in outcomes] == [2, 4, 10]
        assert offsets_in(log) == [0, 1, 2, 3, 4, 9, 10]


def test_a_rejected_append_does_not_stop_the_following_ones(tmp_path):
    with load(tmp_path, LARGE) as log:
        appends = [
            batch(2, leader_epoch=0),
            batch(2, leader_epoch=0),
            b"no batch at all" * 9,
            batch(2, base_offset=2, leader_epoch=1),
            batch(2, base_offset=2, leader_epoch=0),
        ]
        first, again, torn, later, last = log.append_many_as_follower(
            appends, leader_epoch=0
        )
        assert (first.last_offset, last.last_offset) == (1, 3)
        assert isinstance(again, UnexpectedAppendOffsetError)
        assert isinstance(torn, CorruptRecordError)
        assert later.valid_bytes == 0


def test_the_latest_epoch_is_read_at_each_append_and_not_once_per_call(tmp_path):
    with load(tmp_path, LARGE) as log:
        log.assign_epoch(5)
        appends = [batch(base_offset=at, leader_epoch=at + 3) for at in (0, 1)]
        outcomes = log.append_many_as_follower(appends)
        assert [outcome.valid_bytes > 0 for outcome in outcomes] == [True, False]
        assert log.leader_epochs == [(3, 0)]


class BrokenDisk(Disk):
    """A disk that fails, once it is broken, at one kind of call."""

    broken = None

    def write_each(self, writes):
        self._fail("write_each")
        super().write_each(writes)

    def sync(self, file):
        self._fail("sync")
        super().sync(file)

    def _fail(self, effect):
        if self.broken == effect:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize("effect", ["write_each", "sync"])
def test_a_disk_that_fails_on_the_fast_path_closes_the_log(tmp_path, effect):
    disk, each = BrokenDisk(), LARGE.with_changes({"flush.messages": 3})
    log = load(tmp_path, each, disk=disk)
    for offset in range(2):
        log.append_as_follower(batch(base_offset=offset, leader_epoch=0))
    disk.broken = effect
    with pytest.raises(OSError, match="Input/output"):
        log.append_as_follower(batch(base_offset=2, leader_epoch=0))
    disk.broken = None
    with pytest.raises(LogClosedError, match="Input/output"):
        log.append_as_follower(batch(base_offset=3, leader_epoch=0))
    log.abandon()


def test_calls_in_turn_as_a_leader_and_a_follower_keep_to_their_own_policy(tmp_path):
    def copied(base_offset):
        return batch(2, base_offset=base_offset, leader_epoch=0)

    with kafkalog.open(tmp_path / "t-0", "a") as log:
        firsts = [
            log.append(batch(2), origin="replication").first_offset,
            log.append_as_follower(copied(5)).first_offset,
            log.append(batch(2), origin="replication").first_offset,
            log.append(batch(2)).first_offset,
            log.append_as_follower(copied(20)).first_offset,
        ]
    assert firsts == [0, 5, 7, 9, 20]
