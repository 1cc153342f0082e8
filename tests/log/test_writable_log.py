"""Cases of Kafka's own storage tests that no recorded scenario covers."""

import errno
import os
import random
from contextlib import suppress

import numpy as np
import pytest

from kafkalog import (
    InvalidOffsetError,
    LogClosedError,
    LogConfig,
    LogSegmentOffsetOverflowError,
    RecordBatchBuilder,
    UnexpectedAppendOffsetError,
)
from kafkalog.formats.batch_headers import scan_headers
from kafkalog.formats.control_keys import ControlRecordType
from kafkalog.log.recovery.log_loading import load_log
from kafkalog.messages.control_records import end_transaction_marker
from kafkalog.segment.growing_segment import GrowingSegment
from kafkalog.storage.durable_file import Disk
from kafkalog.testing import ManualClock, ManualScheduler, SingleWriteDisk

NOW = 1_700_000_000_000
SMALL = LogConfig(
    internal_segment_bytes=300,
    segment_index_bytes=240,
    index_interval_bytes=0,
    file_delete_delay_ms=1000,
)
FAR = 2**31


class Brittle(SingleWriteDisk):
    """A disk that fails for files of one kind, once that is set."""

    kind = None

    def write(self, file, data, position):
        self._meet(file.path)
        super().write(file, data, position)

    def sync(self, file):
        self._meet(file.path)
        super().sync(file)

    def _meet(self, path):
        if self.kind is not None and path.name.endswith(self.kind):
            raise OSError(errno.EIO, os.strerror(errno.EIO))


class Loading:
    """Loads the log in a directory, repeatedly, with a clock and tasks of the test."""

    def __init__(self, directory):
        self.directory = directory / "t-0"
        self.clock = ManualClock(NOW)
        self.tasks = ManualScheduler(self.clock)

    def __call__(self, config=SMALL, **more):
        moved = {"clock": self.clock, "scheduler": self.tasks}
        return load_log(self.directory, config, **moved, **more)


@pytest.fixture
def load(tmp_path):
    return Loading(tmp_path)


@pytest.fixture
def clock(load):
    return load.clock


@pytest.fixture
def tasks(load):
    return load.tasks


def batch(*values, timestamp=NOW, **settings):
    builder = RecordBatchBuilder(**settings)
    for value in values or (b"x" * 60,):
        builder.append(b"k", value, timestamp=timestamp)
    return builder.build()


PAYER = {"producer_id": 1, "producer_epoch": 0}


def abort():
    builder = RecordBatchBuilder(**PAYER, is_transactional=True, is_control=True)
    builder.append(*end_transaction_marker(ControlRecordType.ABORT, 0), timestamp=NOW)
    return builder.build()


def bases(log):
    return [segment.base_offset for segment in log.growing_segments]


def offsets(log):
    found, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        read = log.read(offset, max_bytes=1)
        data = read.data
        if not data:
            break
        last = int.from_bytes(data[:8]) + int.from_bytes(data[23:27])
        found.append(last)
        offset = last + 1
    return found


# Appending


def test_jitter_lets_a_segment_roll_earlier(load, monkeypatch):
    monkeypatch.setattr("kafkalog.config.log_config.getrandbits", lambda bits: 400)
    log = load(LogConfig(segment_ms=1000, segment_jitter_ms=500))
    log.append(batch(timestamp=NOW))
    log.append(batch(timestamp=NOW + 600))
    assert bases(log) == [0]
    log.append(batch(timestamp=NOW + 601))
    assert bases(log) == [0, 2]


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", ["none", "gzip", "lz4"])
def test_a_follower_rejects_offsets_below_the_log_end_and_reports_them(
    load, magic, codec
):
    log = load(LogConfig())
    log.append(batch(*[b"v"] * 9))
    old = {"magic": magic, "codec": codec, "base_offset": 5}
    if magic == 0:
        old["timestamp_type"] = -1
    few = RecordBatchBuilder(**old)
    for _ in range(3):
        few.append(b"k", b"v", timestamp=-1 if magic == 0 else NOW)
    with pytest.raises(UnexpectedAppendOffsetError) as raised:
        log.append_as_follower(few.build())
    last = 5 if magic < 2 and codec == "none" else 7
    assert raised.value.first_offset == 5
    assert raised.value.last_offset == 7
    assert str(last if magic < 2 else 5) in str(raised.value)
    assert log.log_end_offset == 9


def test_an_empty_log_reports_rejected_offsets_below_its_start(load):
    log = load(log_start_offset=7)
    with pytest.raises(UnexpectedAppendOffsetError) as raised:
        log.append_as_follower(batch(b"1", b"2", b"3", base_offset=4, leader_epoch=0))
    assert (raised.value.first_offset, raised.value.last_offset) == (4, 6)


def test_a_batch_with_holes_leaves_its_last_sequence(load):
    log = load()
    holes = {"base_offset": 0, "last_offset": 6, "leader_epoch": 0}
    log.append_as_follower(batch(b"1", b"2", base_sequence=0, **holes, **PAYER))
    for _ in range(2):
        (known,) = log.producers.values()
        assert known.last_sequence == 6
        log.close()
        log = load(clean=False)
    assert log.append(batch(base_sequence=7, **PAYER)).first_offset == 7


def test_a_log_whose_directory_has_failed_rejects_every_call(load):
    disk = Brittle()
    log = load(disk=disk)
    log.append(batch())
    disk.kind = ".log"
    with pytest.raises(OSError, match="error"):
        log.append(batch())
    disk.kind = None
    with pytest.raises(LogClosedError):
        log.append(batch())
    with pytest.raises(LogClosedError):
        log.read(0)


def test_a_failing_transaction_index_keeps_the_data_and_the_last_stable_offset(load):
    disk = Brittle()
    log = load(disk=disk)
    payment = batch(base_sequence=0, is_transactional=True, **PAYER)
    log.append(payment, guard=log.start_verification(1, 0, 0))
    disk.kind = ".txnindex"
    with pytest.raises(OSError, match="error"):
        log.append(abort(), origin="coordinator", transaction_version=0)
    disk.kind = None
    assert (log.log_end_offset, log.last_stable_offset) == (2, 0)
    log.abandon()
    again = load(clean=False)
    again.update_high_watermark(2)
    assert (again.log_end_offset, again.last_stable_offset) == (2, 2)
    assert [aborted.first_offset for aborted in again.find_aborted(0, 2)] == [0]


def test_a_snapshot_that_cannot_be_forced_keeps_the_recovery_point(load, tasks):
    disk = Brittle()
    log = load(disk=disk)
    for sequence in range(3):
        log.append(batch(base_sequence=sequence, **PAYER))
    assert len(bases(log)) > 1
    disk.kind = ".snapshot"
    with pytest.raises(OSError, match="error"):
        tasks.run_due()
    assert log.recovery_point == 0


# Retention and truncation


def test_segments_below_the_log_start_are_deleted_first_and_then_old_ones(load):
    later = {"retention.ms": 1000, "message.timestamp.after.max.ms": 10**10}
    log = load(SMALL.with_changes(later))
    for number in range(8):
        log.append(batch(timestamp=NOW + (10**9 if number < 2 else number)))
    log.update_high_watermark(8)
    load.clock.time_ms += 10_000
    assert log.delete_old_segments() == 0
    log.delete_records(2)
    assert log.delete_old_segments() == 4
    assert bases(log) == [8]
    assert log.delete_old_segments() == 0


@pytest.mark.parametrize("target", [1, 3])
def test_a_truncated_segment_has_indexes_of_full_size_again(load, target):
    log = load()
    for _ in range(6):
        log.append(batch())
    log.flush(include_active=True)
    first = log.growing_segments[0]
    assert first.offset_index.path.stat().st_size < 240
    log.truncate_to(target)
    active = log.growing_segments[-1]
    for index in (active.offset_index, active.time_index):
        assert index.path.stat().st_size == 240
    for _ in range(6):
        log.append(batch())
    assert offsets(log) == list(range(target + 6))


@pytest.mark.parametrize("target", range(7))
def test_a_log_can_be_truncated_at_any_offset_and_appended_to(load, target):
    log = load()
    for _ in range(6):
        log.append(batch())
    assert log.truncate_to(target) is (target < 6)
    assert log.log_end_offset == target
    for _ in range(6):
        log.append(batch())
    assert offsets(log) == list(range(target + 6))


# Segments whose offsets are too far apart


def put_far_apart(directory):
    """Write an invalid segment, with relative offsets above 2**31 - 1."""
    directory.mkdir()
    firsts = (0, 1, FAR, FAR + 1, 2 * FAR + 5)
    data = [batch(base_offset=first, leader_epoch=0) for first in firsts]
    (directory / f"{0:020}.log").write_bytes(b"".join(data))
    return list(firsts)


def test_a_segment_whose_offsets_are_too_far_apart_is_split(load, tmp_path):
    firsts = put_far_apart(tmp_path / "t-0")
    log = load(clean=False)
    assert bases(log) == [0, FAR, 2 * FAR + 5]
    assert offsets(log) == firsts
    assert log.report.split == [0]


class Cut(BaseException):
    """The process ends."""


class Ending(Disk):
    """A disk that ends the process at the n-th renaming."""

    left = 0

    def rename(self, source, target):
        if not self.left:
            raise Cut
        self.left -= 1
        super().rename(source, target)


@pytest.mark.parametrize("renamings", range(12))
def test_an_interrupted_split_is_repeated_or_completed(load, tmp_path, renamings):
    firsts = put_far_apart(tmp_path / "t-0")
    disk = Ending()
    disk.left = renamings
    with suppress(Cut):
        load(clean=False, disk=disk).abandon()
    log = load(clean=False)
    assert bases(log) == [0, FAR, 2 * FAR + 5]
    assert offsets(log) == firsts
    left = {path.suffix for path in (tmp_path / "t-0").iterdir()}
    assert left.isdisjoint({".cleaned", ".swap"})


def test_a_segment_rejects_offsets_too_far_from_its_base(tmp_path):
    for first in (99, 100 + FAR):
        log = load_log(tmp_path / f"t-{first % 7}", SMALL, log_start_offset=100)
        segment = log.growing_segments[0]
        assert isinstance(segment, GrowingSegment)
        data = np.frombuffer(batch(base_offset=first, leader_epoch=0), np.uint8)
        rows, _, _ = scan_headers(data)
        with pytest.raises(LogSegmentOffsetOverflowError):
            segment.append(data, rows, first)
        log.close()


# After a crash


def test_corrupt_indexes_are_rebuilt(load, tmp_path):
    log = load()
    for number in range(12):
        log.append(batch(timestamp=NOW + number))
    log.flush(include_active=True)
    log.abandon()
    drawn = random.Random(11)
    for path in (tmp_path / "t-0").glob("*index"):
        path.write_bytes(drawn.randbytes(path.stat().st_size))
    again = load(clean=False)
    assert offsets(again) == list(range(12))
    for number in range(12):
        assert again.find_offset(NOW + number).offset == number
    again.close()


@pytest.mark.parametrize("seed", range(10))
def test_garbage_after_the_last_batch_is_truncated_and_nothing_before_it(
    load, tmp_path, seed
):
    log = load(LogConfig())
    for _ in range(5):
        log.append(batch())
    log.flush()
    log.abandon()
    path = tmp_path / "t-0" / f"{0:020}.log"
    whole = path.read_bytes()
    path.write_bytes(whole + random.Random(seed).randbytes(200))
    again = load(LogConfig(), clean=False)
    assert again.log_end_offset == 5
    assert path.read_bytes() == whole


def test_late_deletions_do_not_remove_new_snapshots(load, tmp_path, clock, tasks):
    log = load()
    for sequence in range(6):
        log.append(batch(base_sequence=sequence, **PAYER))
    log.abandon()
    second = tmp_path / "t-0" / f"{bases(log)[1]:020}.log"
    damaged = bytearray(second.read_bytes())
    damaged[-1] ^= 1
    second.write_bytes(damaged)
    again = load(clean=False)
    end = again.log_end_offset
    for sequence in range(end, 6):
        again.append(batch(base_sequence=sequence, **PAYER))
    fresh = {path.name for path in (tmp_path / "t-0").glob("*.snapshot")}
    clock.time_ms += SMALL.file_delete_delay_ms
    tasks.run_due()
    assert fresh == {path.name for path in (tmp_path / "t-0").glob("*.snapshot")}
    assert not list((tmp_path / "t-0").glob("*.deleted"))
    assert {f"{base:020}.snapshot" for base in bases(again)[1:]} <= fresh


def test_a_swapped_segment_replaces_the_files_at_its_offsets(load, tmp_path):
    log = load()
    log.append(batch(base_sequence=0, **PAYER))
    log.roll()
    log.flush()
    log.close()
    swap = tmp_path / "t-0" / f"{1:020}.log.swap"
    swap.write_bytes(batch(b"1", b"2", base_offset=1, leader_epoch=0))
    again = load(recovery_point=1)
    assert f"{1:020}.snapshot" in again.report.removed
    assert (bases(again), again.log_end_offset) == ([0, 1], 3)
    assert not list((tmp_path / "t-0").glob("*.swap"))


def test_an_index_with_entries_above_the_log_end_rejects_appends(load, tmp_path):
    log = load(LogConfig(index_interval_bytes=0))
    for _ in range(4):
        log.append(batch())
    log.close()
    path = tmp_path / "t-0" / f"{0:020}.log"
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 4)
    again = load(LogConfig(index_interval_bytes=0))
    assert again.log_end_offset == 0
    again.append(batch())  # the first after an opening makes no index entry
    with pytest.raises(InvalidOffsetError):
        again.append(batch())
