"""What is taken out of the engine is missed: the harness finds each of these faults."""

import sys
from collections import Counter

import pytest

from kafkalog.indexes.growing_index import GrowingIndex
from kafkalog.indexes.growing_txn_index import GrowingTransactionIndex
from kafkalog.log import deletion, flushing, ownership, rolling, truncation
from kafkalog.log.leader_epochs import LeaderEpochs
from kafkalog.log.state import LogState
from kafkalog.segment.growing_segment import GrowingSegment
from kafkalog.storage.file_names import MAX_OFFSET
from tests.crash.judging import Lost
from tests.crash.power_cuts import cuts, told, tried
from tests.crash.recording import RecordingDisk
from tests.crash.stories import STORIES

pytestmark = pytest.mark.slow

SEEDS = range(4)
MIXED = 2


def finds(memory_path, name, make_disk=RecordingDisk):
    """Play a story, and answer what the first state is that may not be."""
    roots = memory_path / "told", memory_path / "left"
    for root in roots:
        root.mkdir(exist_ok=True)
    for seed in SEEDS:
        life, disk = told(roots[0], name, seed, make_disk)
        try:
            for _ in tried(cuts(life, disk, seed, MIXED), roots[1], Counter()):
                pass
        except Lost as error:
            return str(error)
    return None


def finds_with(memory_path, name, **effects):
    """Answer what is found on a disk that does something otherwise."""
    return finds(memory_path, name, type("OtherDisk", (RecordingDisk,), effects))


def without_sync_of(suffix):
    def sync(self, file):
        if not file.path.name.endswith(suffix):
            RecordingDisk.sync(self, file)

    return sync


def without_sync_of_directory(place):
    def sync_directory(self, path):
        if (self.root == path) != (place == "log directory"):
            RecordingDisk.sync_directory(self, path)

    return sync_directory


def without_sync_of_directory_in(function):
    def sync_directory(self, path):
        if sys._getframe(1).f_code.co_name != function:
            RecordingDisk.sync_directory(self, path)

    return sync_directory


def replace_renaming_first(self, path, data):
    temporary = path.with_name(path.name + ".tmp")
    with self.open(temporary, create=True) as file:
        file.truncate(0)
        file.write(data, 0)
        file.rename(path)
        file.sync()
    self.sync_directory(path.parent)


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        ("plain", ".log"),
        ("plain", ".timeindex"),
        ("plain", "leader-epoch-checkpoint.tmp"),
        ("aborting", ".txnindex"),
        ("deciding", ".log"),
        ("compressing", ".log"),
    ],
)
def test_a_file_that_is_not_forced_is_missed(memory_path, name, suffix):
    assert finds_with(memory_path, name, sync=without_sync_of(suffix))


@pytest.mark.parametrize(
    ("name", "place"),
    [("plain", "log directory"), ("plain", "partition"), ("swapping", "partition")],
)
def test_a_directory_that_is_not_forced_is_missed(memory_path, name, place):
    lax = without_sync_of_directory(place)
    assert finds_with(memory_path, name, sync_directory=lax)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("splitting", "replace_segments"),
        ("swapping", "clear_leftovers"),
        ("truncating", "mark_from_the_end"),
        ("beginning_anew", "mark_from_the_end"),
    ],
)
def test_renamings_that_are_not_forced_one_by_one_are_missed(
    memory_path, name, function
):
    lax = without_sync_of_directory_in(function)
    assert finds_with(memory_path, name, sync_directory=lax)


def test_a_rename_before_its_data_is_missed(memory_path):
    assert finds_with(memory_path, "plain", replace=replace_renaming_first)


def test_a_cut_that_is_not_forced_is_missed(memory_path, monkeypatch):
    monkeypatch.setattr(GrowingSegment, "cut_for_good", GrowingSegment.cut)
    assert finds(memory_path, "cutting")


def start_in_a_new_segment(life, random):
    """Let a log without epochs begin within a segment just begun, and flush it."""

    def follow():
        offset = life.log.log_end_offset
        batch = life.batch(1, 100, base_offset=offset, magic=1)
        life.step(lambda: life.log.append_as_follower(batch, leader_epoch=0))

    life.open()
    follow()
    life.flush()
    follow()
    life.roll()
    follow()
    follow()
    life.replicate()
    life.step(lambda: life.log.delete_records(3))
    life.flush()


def test_names_that_are_not_forced_before_the_data_are_missed(memory_path, monkeypatch):
    monkeypatch.setitem(STORIES, "start", start_in_a_new_segment)
    assert finds(memory_path, "start") is None
    monkeypatch.setattr(GrowingSegment, "_force_names", GrowingSegment.make_indexes)
    assert finds(memory_path, "start")


def test_the_name_of_a_first_abort_that_is_not_forced_is_missed(
    memory_path, monkeypatch
):
    always = property(lambda _: True, lambda *_: None)
    monkeypatch.setattr(GrowingTransactionIndex, "is_named", always, raising=False)
    assert "aborted" in finds(memory_path, "aborting")


def test_an_index_whose_size_is_not_forced_is_missed(memory_path, monkeypatch):
    def close(self):
        if self.is_loaded:
            self.trim()
            self.close_handle()

    monkeypatch.setattr(GrowingIndex, "close", close)
    assert finds(memory_path, "stopping")


def test_room_behind_the_end_whose_cut_is_not_forced_is_missed(
    memory_path, monkeypatch
):
    def finish(self):
        self.cut(self.size)
        self._close_log()

    monkeypatch.setattr(GrowingSegment, "finish_log", finish)
    assert finds(memory_path, "preallocating")


def test_a_roll_behind_the_last_flush_that_forces_nothing_is_missed(
    memory_path, monkeypatch
):
    begin = rolling._begin

    def begin_as_if_unflushed(log, base):
        known = log.recovery_point
        log.recovery_point = min(known, base - 1)
        segment = begin(log, base)
        log.recovery_point = known
        return segment

    monkeypatch.setattr(rolling, "_begin", begin_as_if_unflushed)
    assert finds(memory_path, "aborting")


def test_a_recovery_point_that_stays_behind_a_cut_is_missed(memory_path, monkeypatch):
    monkeypatch.setattr(
        ownership.OwnedDirectory, "lower_recovery_point", lambda *_: None
    )
    assert finds(memory_path, "cutting")


def forget(*_):
    """Stand for taking note."""


def mark_from_the_beginning(doomed, directory, disk):
    deletion.mark_from_the_end(doomed[::-1], directory, disk)


@pytest.mark.parametrize(
    ("name", "module"), [("truncating", truncation), ("beginning_anew", rolling)]
)
def test_segments_that_are_cut_from_the_beginning_are_missed(
    memory_path, monkeypatch, name, module
):
    monkeypatch.setattr(module, "mark_from_the_end", mark_from_the_beginning)
    assert finds(memory_path, name)


@pytest.mark.parametrize("name", ["truncating", "beginning_anew"])
def test_a_log_start_that_stays_beyond_a_cut_is_missed(memory_path, monkeypatch, name):
    monkeypatch.setattr(ownership.OwnedDirectory, "set_log_start", forget)
    assert finds(memory_path, name)


def flush_late(life, random):
    """Cut a log while the flush of a roll is due, and append in the place of it."""
    del random
    life.runs_due = False
    life.open()
    life.append(3)
    life.append(3)
    life.step(lambda: life.log.roll())
    life.step(lambda: life.log.truncate_to(3))
    life.scheduler.run_due()
    life.mark()
    life.append(3, 300)
    life.flush()


def test_a_flush_that_was_due_before_a_cut_and_counts_beyond_it_is_missed(
    memory_path, monkeypatch
):
    monkeypatch.setitem(STORIES, "late", flush_late)
    assert finds(memory_path, "late") is None
    monkeypatch.setattr(LogState, "reach", property(lambda _: MAX_OFFSET))
    assert "forced to disk, and lost" in finds(memory_path, "late")


def test_epochs_that_were_cut_and_stay_in_their_file_are_missed(
    memory_path, monkeypatch
):
    monkeypatch.setattr(LeaderEpochs, "flush", forget)
    assert "of epoch" in finds(memory_path, "waiting")


@pytest.mark.parametrize("name", ["plain", "following", "preallocating"])
def test_a_flush_that_does_not_count_is_missed(memory_path, monkeypatch, name):
    monkeypatch.setattr(flushing, "_note_flushed", forget)
    with pytest.raises(AssertionError, match="forced to 0, not to"):
        finds(memory_path, name)


def test_nothing_is_found_where_nothing_is_taken_out(memory_path):
    assert finds(memory_path, "plain") is None
