"""The checks of crash states find each flush that is removed from the engine."""

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
from tests.crash.power_cuts import check_cuts, cuts, record_workload
from tests.crash.recording import RecordingDisk
from tests.crash.state_checks import InvalidStateError
from tests.crash.workloads import WORKLOADS

pytestmark = pytest.mark.slow

SEEDS = range(4)
LAST_SEED = SEEDS[-1:]
"""The seed of some faults, which are found late, or not, with the others."""
MIXED = 2


def find_fault(memory_path, name, make_disk=RecordingDisk, seeds=SEEDS):
    """Run a workload, and return the error of the first invalid state."""
    roots = memory_path / "recorded", memory_path / "left"
    for root in roots:
        root.mkdir(exist_ok=True)
    for seed in seeds:
        recorded, disk = record_workload(roots[0], name, seed, make_disk)
        try:
            for _ in check_cuts(cuts(recorded, disk, seed, MIXED), roots[1], Counter()):
                pass
        except InvalidStateError as error:
            return str(error)
    return None


def find_fault_on_disk(memory_path, name, seeds=SEEDS, **effects):
    """Return the error of the first invalid state on a disk with other methods."""
    disk = type("OtherDisk", (RecordingDisk,), effects)
    return find_fault(memory_path, name, disk, seeds)


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
    ("name", "suffix", "seeds"),
    [
        ("appending", ".log", SEEDS),
        ("appending", ".timeindex", LAST_SEED),
        ("appending", "leader-epoch-checkpoint.tmp", SEEDS),
        ("aborting", ".txnindex", SEEDS),
        ("deciding", ".log", SEEDS),
        ("compressing", ".log", SEEDS),
    ],
)
def test_a_file_that_is_not_synced_is_found(memory_path, name, suffix, seeds):
    assert find_fault_on_disk(memory_path, name, seeds, sync=without_sync_of(suffix))


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("appending", "log directory"),
        ("appending", "partition"),
        ("swapping", "partition"),
    ],
)
def test_a_directory_that_is_not_synced_is_found(memory_path, name, place):
    lax = without_sync_of_directory(place)
    assert find_fault_on_disk(memory_path, name, sync_directory=lax)


@pytest.mark.parametrize(
    ("name", "function", "seeds"),
    [
        ("splitting", "replace_segments", SEEDS),
        ("swapping", "clear_leftovers", LAST_SEED),
        ("truncating", "mark_from_the_end", SEEDS),
        ("beginning_anew", "mark_from_the_end", SEEDS),
    ],
)
def test_renames_that_are_not_synced_one_by_one_are_found(
    memory_path, name, function, seeds
):
    lax = without_sync_of_directory_in(function)
    assert find_fault_on_disk(memory_path, name, seeds, sync_directory=lax)


def test_a_rename_before_the_sync_of_its_data_is_found(memory_path):
    assert find_fault_on_disk(memory_path, "appending", replace=replace_renaming_first)


def test_a_truncation_that_is_not_synced_is_found(memory_path, monkeypatch):
    monkeypatch.setattr(GrowingSegment, "cut_for_good", GrowingSegment.cut)
    assert find_fault(memory_path, "cutting")


def start_in_a_new_segment(recorded, random):
    """Flush a log without epochs that starts inside a new segment."""

    def append_one():
        offset = recorded.log.log_end_offset
        batch = recorded.batch(1, 100, base_offset=offset, magic=1)
        recorded.step(lambda: recorded.log.append_as_follower(batch, leader_epoch=0))

    recorded.open()
    append_one()
    recorded.flush()
    append_one()
    recorded.roll()
    append_one()
    append_one()
    recorded.replicate()
    recorded.step(lambda: recorded.log.delete_records(3))
    recorded.flush()


def test_names_that_are_not_synced_before_the_data_are_found(memory_path, monkeypatch):
    monkeypatch.setitem(WORKLOADS, "start", start_in_a_new_segment)
    assert find_fault(memory_path, "start") is None
    monkeypatch.setattr(GrowingSegment, "_force_names", GrowingSegment.make_indexes)
    assert find_fault(memory_path, "start")


def test_the_name_of_a_first_transaction_index_that_is_not_synced_is_found(
    memory_path, monkeypatch
):
    always = property(lambda _: True, lambda *_: None)
    monkeypatch.setattr(GrowingTransactionIndex, "is_named", always, raising=False)
    assert "aborted" in find_fault(memory_path, "aborting")


def test_the_size_of_an_index_that_is_not_synced_is_found(memory_path, monkeypatch):
    def close(self):
        if self.is_loaded:
            self.trim()
            self.close_handle()

    monkeypatch.setattr(GrowingIndex, "close", close)
    assert find_fault(memory_path, "stopping")


def test_the_truncation_of_preallocated_space_that_is_not_synced_is_found(
    memory_path, monkeypatch
):
    def finish(self):
        self.cut(self.size)
        self._close_log()

    monkeypatch.setattr(GrowingSegment, "finish_log", finish)
    assert find_fault(memory_path, "preallocating")


def test_a_roll_after_the_last_flush_that_syncs_nothing_is_found(
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
    assert find_fault(memory_path, "aborting")


def test_a_recovery_point_that_is_not_lowered_by_a_truncation_is_found(
    memory_path, monkeypatch
):
    monkeypatch.setattr(
        ownership.OwnedDirectory, "lower_recovery_point", lambda *_: None
    )
    assert find_fault(memory_path, "cutting")


def do_nothing(*_):
    """Do nothing."""


def mark_from_the_beginning(doomed, directory, disk):
    deletion.mark_from_the_end(doomed[::-1], directory, disk)


@pytest.mark.parametrize(
    ("name", "module"), [("truncating", truncation), ("beginning_anew", rolling)]
)
def test_segments_that_are_removed_from_the_first_on_are_found(
    memory_path, monkeypatch, name, module
):
    monkeypatch.setattr(module, "mark_from_the_end", mark_from_the_beginning)
    assert find_fault(memory_path, name)


@pytest.mark.parametrize("name", ["truncating", "beginning_anew"])
def test_a_log_start_offset_that_is_not_lowered_by_a_truncation_is_found(
    memory_path, monkeypatch, name
):
    monkeypatch.setattr(ownership.OwnedDirectory, "set_log_start", do_nothing)
    assert find_fault(memory_path, name)


def flush_late(recorded, random):
    """Truncate a log while the flush of a roll is due, and append again."""
    del random
    recorded.runs_due = False
    recorded.open()
    recorded.append(3)
    recorded.append(3)
    recorded.step(lambda: recorded.log.roll())
    recorded.step(lambda: recorded.log.truncate_to(3))
    recorded.scheduler.run_due()
    recorded.mark()
    recorded.append(3, 300)
    recorded.flush()


def test_a_late_flush_that_counts_beyond_the_end_after_a_truncation_is_found(
    memory_path, monkeypatch
):
    monkeypatch.setitem(WORKLOADS, "late", flush_late)
    assert find_fault(memory_path, "late") is None
    monkeypatch.setattr(LogState, "reach", property(lambda _: MAX_OFFSET))
    assert "flushed batches are lost" in find_fault(memory_path, "late")


def test_truncated_epochs_that_stay_in_their_file_are_found(memory_path, monkeypatch):
    monkeypatch.setattr(LeaderEpochs, "flush", do_nothing)
    assert "of epoch" in find_fault(memory_path, "waiting")


@pytest.mark.parametrize("name", ["appending", "following", "preallocating"])
def test_a_flush_that_does_not_move_the_recovery_point_is_found(
    memory_path, monkeypatch, name
):
    monkeypatch.setattr(flushing, "_note_flushed", do_nothing)
    with pytest.raises(AssertionError, match="recovery point 0, expected"):
        find_fault(memory_path, name)


def test_nothing_is_found_if_nothing_is_removed(memory_path):
    assert find_fault(memory_path, "appending", seeds=SEEDS[:1]) is None
