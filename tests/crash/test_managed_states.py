"""Power cuts while a log manager creates, deletes and truncates several logs.

Each log is checked as a single one, and no log directory may go offline.
"""

from collections import Counter, deque
from itertools import count, islice

import pytest

from kafkalog import LogManager
from kafkalog.log import watermarks
from kafkalog.log.ownership import OwnedDirectory
from kafkalog.manager.managed_directory import ManagedDirectory
from kafkalog.storage.checkpoint_file import LOG_STARTS
from tests.crash import recorded_manager
from tests.crash.recording import RecordingDisk
from tests.crash.state_checks import InvalidStateError

pytestmark = pytest.mark.slow

STATES = 600
STATES_WHILE_RECOVERED = 400
SHARE = 0.2
SMALL_SHARE = 0.1
SEEDS = range(2)


def test_a_power_cut_loses_nothing_that_was_flushed_in_any_log(roots, figure):
    figures = Counter()
    for seed in count():
        recorded = recorded_manager.record_workload(roots[0], seed)
        figures.update(
            cut.kind
            for cut in recorded_manager.check_cuts(recorded, roots[1], seed, SHARE)
        )
        if figures.total() >= STATES:
            break
    figure("crash states", "managed", figures.total(), f"{seed + 1} seeds")


def test_delayed_tasks_lose_nothing_that_was_flushed_in_any_log(roots, figure):
    figures = Counter()
    for seed in SEEDS:
        recorded = recorded_manager.record_workload(
            roots[0], seed, workload=recorded_manager.waiting
        )
        figures.update(
            cut.kind
            for cut in recorded_manager.check_cuts(
                recorded, roots[1], seed, SMALL_SHARE
            )
        )
    assert figures.total() > 500
    figure("crash states", "managed, late", figures.total())


def test_a_power_cut_during_recovery_loses_nothing_that_was_flushed_in_any_log(
    roots, figure
):
    figures = Counter()
    recorded = recorded_manager.record_workload(roots[0], 1000)
    states = recorded_manager.check_cuts(recorded, roots[1], 1000, SHARE)
    for number, cut in enumerate(islice(states, 20, None, 11)):
        later = recorded_manager.record_recovery(
            roots[0], cut, f"{recorded.name}, {number}"
        )
        again = recorded_manager.check_cuts(later, roots[1], number, SHARE)
        figures.update(state.kind for state in again)
        if figures.total() >= STATES_WHILE_RECOVERED:
            break
    assert figures.total() >= STATES_WHILE_RECOVERED
    counts = ", ".join(f"{kind} {n}" for kind, n in sorted(figures.items()))
    figure("crash states", "managed, recovered", figures.total(), counts)


def find_fault(roots, make_disk=RecordingDisk):
    for seed in SEEDS:
        try:
            recorded = recorded_manager.record_workload(roots[0], seed, make_disk)
            deque(recorded_manager.check_cuts(recorded, roots[1], seed), maxlen=0)
        except InvalidStateError as error:
            return str(error)
    return None


def test_a_log_that_is_not_synced_is_found(roots):
    class LaxDisk(RecordingDisk):
        def sync(self, file):
            if not file.path.name.endswith(".log"):
                super().sync(file)

    assert find_fault(roots, LaxDisk)


class NoLogNamesDisk(RecordingDisk):
    def sync_directory(self, path):
        if path != self.root:
            super().sync_directory(path)


def test_names_of_logs_that_are_not_synced_are_found(roots):
    assert find_fault(roots, NoLogNamesDisk)


def find_fault_of(roots, workload, share=1.0):
    """Return the error of the first invalid state in a share of those of a workload."""
    try:
        recorded = recorded_manager.record_workload(roots[0], 0, workload=workload)
        deque(recorded_manager.check_cuts(recorded, roots[1], 0, share), maxlen=0)
    except InvalidStateError as error:
        return str(error)
    return None


def do_nothing(*_):
    """Do nothing."""


def only_mark(directory, name):
    return directory._close_and_mark(directory.logs.pop(name), "delete")


def only_cut(manager, offsets):
    for name, offset in offsets.items():
        manager[name].truncate_to(offset)


def test_a_deleted_log_that_stays_in_the_checkpoints_is_found(roots, monkeypatch):
    """It is removed twice: by itself, and when all checkpoints are written.

    A broker does the second. Either suffices. Without both, a log of the same name
    would start after its end, and be emptied.
    """
    assert find_fault_of(roots, recorded_manager.deleting, SHARE) is None
    with monkeypatch.context() as without_rewriting:
        without_rewriting.setattr(ManagedDirectory, "delete", only_mark)
        assert find_fault_of(roots, recorded_manager.deleting, SHARE) is None
    monkeypatch.setattr(OwnedDirectory, "forget", do_nothing)
    assert find_fault_of(roots, recorded_manager.deleting, SHARE) is None
    monkeypatch.setattr(ManagedDirectory, "delete", only_mark)
    assert find_fault_of(roots, recorded_manager.deleting)


def test_a_log_created_again_does_not_start_where_the_deleted_one_did(roots):
    """A power cut may come after the log is removed, and before its checkpoints are."""
    recorded = recorded_manager.record_workload(
        roots[0], 0, workload=recorded_manager.deleting
    )
    between = [
        cut
        for cut in recorded_manager.check_cuts(recorded, roots[1], 0)
        if recorded_manager.NAMES[0] not in cut.contents
        and b"orders 0 5" in (cut.tree.get(LOG_STARTS) or b"")
    ]
    assert between
    for cut in between[:2]:
        later = recorded_manager.record_recovery(roots[0], cut, "created again")
        deque(recorded_manager.check_cuts(later, roots[1], 0, 0.3), maxlen=0)


def test_a_recovery_point_above_a_truncation_is_found(roots, monkeypatch):
    """It is lowered before a truncation, and checkpointed after it.

    A broker does the second. Either suffices: after a power cut between the two, the
    log ends before its recovery point, which is then lowered.
    """
    assert find_fault_of(roots, recorded_manager.cutting, SHARE) is None
    with monkeypatch.context() as without_checkpoint:
        without_checkpoint.setattr(LogManager, "truncate_to", only_cut)
        assert find_fault_of(roots, recorded_manager.cutting, SHARE) is None
    monkeypatch.setattr(OwnedDirectory, "lower_recovery_point", do_nothing)
    assert find_fault_of(roots, recorded_manager.cutting, SHARE) is None
    monkeypatch.setattr(LogManager, "truncate_to", only_cut)
    assert find_fault_of(roots, recorded_manager.cutting)


def test_segments_before_a_new_log_start_offset_that_are_not_synced_are_found(
    roots, monkeypatch
):
    monkeypatch.setattr(watermarks, "force_segments_before", do_nothing)
    assert find_fault_of(roots, recorded_manager.waiting)


class NoSegmentNamesDisk(RecordingDisk):
    def sync_directory(self, path):
        if path == self.root:
            super().sync_directory(path)


def find_fault_in_recovery(roots, make_disk):
    later = recorded_manager.record_recovery(
        roots[0], recorded_manager.truncated_segments(roots[0]), "torn", make_disk
    )
    try:
        deque(recorded_manager.check_cuts(later, roots[1], 0), maxlen=0)
    except InvalidStateError as error:
        return str(error)
    return None


def test_a_directory_that_is_not_synced_during_recovery_of_several_logs_is_found(roots):
    assert find_fault_in_recovery(roots, RecordingDisk) is None
    assert "never appended" in find_fault_in_recovery(roots, NoSegmentNamesDisk)
