"""Power cuts and kills during a repair, and while it is undone.

After any of them the originals can be restored, and a second repair completes.
"""

from random import Random

import pytest

import kafkalog
from kafkalog import repair, verify
from kafkalog.repairs.directory_repair import DirectoryRepair
from kafkalog.testing import FailingDisk
from tests.crash.disk_model import DiskModel
from tests.crash.recording import RecordingDisk, read_tree, write_tree
from tests.repairs.damaged_logs import copy_log
from tests.startup import damages

MIXED = 1
SOURCE = ("k431-clean", "once-0")


class Killed(BaseException):
    """Stands for the end of the process."""


class KilledDisk(RecordingDisk):
    """A disk that ends the process before a given change."""

    left = 1 << 30

    def _count(self):
        self.left -= 1
        if self.left < 0:
            raise Killed

    def write(self, *arguments):
        self._count()
        super().write(*arguments)

    def rename(self, *arguments):
        self._count()
        super().rename(*arguments)

    def remove(self, *arguments):
        self._count()
        super().remove(*arguments)

    def make_directory(self, *arguments):
        self._count()
        super().make_directory(*arguments)


@pytest.fixture
def place(memory):
    """Return a directory with a damaged log directory, and its content."""
    place = memory / "disk"
    directory = copy_log(SOURCE, place / "logs", clean=True)
    damages.flip_payload_in_first(directory)
    damages.torn_index(directory)
    damages.cut_tail(directory)
    return place, read_tree(place)


def run(place, disk, *, undo=False):
    """Repair the directory, or undo that, with all changes made by a disk."""
    task = DirectoryRepair(place / "logs", None, 1, disk)
    return task.undo() if undo else task.apply(allow_data_loss=True)


def changed(place, before):
    """Return the files that differ; a directory without a manifest has nothing."""
    tree = read_tree(place)
    parts = {path.partition("/")[0] for path in tree}
    ignored = {part for part in parts if f"{part}/manifest.json" not in tree}
    return {
        path: content
        for path, content in tree.items() | before.items()
        if tree.get(path) != before.get(path) or (path in tree) != (path in before)
        if path != "logs/.lock"
        and not (path.startswith(".kafkalog") and path.partition("/")[0] in ignored)
    }


def undo_all(place):
    """Restore the originals, if anything was changed."""
    try:
        repair(place / "logs", undo=True)
    except FileNotFoundError:
        return


def states_of(disk):
    """Yield the states that a power cut may leave, each once."""
    model, seen = DiskModel(disk.before), set()
    for number, event in enumerate([None, *disk.events]):
        if event is not None:
            model.take(event)
        for kind, tree in model.states(Random(number), MIXED):
            key = hash(frozenset(tree.items()))
            if key not in seen:
                seen.add(key)
                yield f"event {number} of {len(disk.events)}, {kind}", tree


def check(place, before, where):
    """Check that the state can be undone, and that it can be repaired."""
    state = read_tree(place)
    undo_all(place)
    assert not changed(place, before), where
    write_tree(place, state)
    repair(place / "logs", apply=True, allow_data_loss=True)
    assert verify(place / "logs").ok, where
    undo_all(place)
    assert not changed(place, before), where


@pytest.mark.parametrize("undo", [False, True], ids=["repair", "undo"])
def test_after_a_power_cut_the_originals_can_be_restored(place, undo):
    place, before = place
    if undo:
        repair(place / "logs", apply=True, allow_data_loss=True)
    disk = RecordingDisk(place)
    run(place, disk, undo=undo)
    count = 0
    for where, tree in states_of(disk):
        write_tree(place, tree)
        check(place, before, where)
        count += 1
    assert count > 20


@pytest.mark.parametrize("undo", [False, True], ids=["repair", "undo"])
def test_after_a_kill_at_any_change_the_originals_can_be_restored(place, undo):
    place, before = place
    if undo:
        repair(place / "logs", apply=True, allow_data_loss=True)
    state, kills = read_tree(place), 0
    while True:
        write_tree(place, state)
        disk = KilledDisk(place)
        disk.left = kills
        try:
            run(place, disk, undo=undo)
        except Killed:
            check(place, before, f"kill before change {kills}")
            kills += 1
            continue
        break
    assert kills > 20


@pytest.mark.parametrize("undo", [False, True], ids=["repair", "undo"])
def test_after_a_failing_call_the_originals_can_be_restored(place, undo):
    place, before = place
    if undo:
        repair(place / "logs", apply=True, allow_data_loss=True)
    state, failed = read_tree(place), 0
    while True:
        write_tree(place, state)
        disk = FailingDisk(failed)
        try:
            run(place, disk, undo=undo)
        except OSError:
            undo_all(place)
            assert not changed(place, before), disk.calls[-1]
            failed += 1
            continue
        assert failed >= len(disk.calls)
        break
    assert failed > 60


def test_a_start_between_two_steps_recovers_the_logs(place):
    """There is no clean shutdown marker from the first change to the last one."""
    place, _ = place
    disk = RecordingDisk(place)
    run(place, disk)
    starts = 0
    for where, tree in states_of(disk):
        if "logs/.kafka_cleanshutdown" in tree:
            continue
        starts += 1
        write_tree(place, tree)
        config = kafkalog.LogConfig()
        with kafkalog.open(place / "logs" / "once-0", "a", config) as log:
            assert not log.report.clean, where
            assert log.log_end_offset, where
    assert starts > 10
