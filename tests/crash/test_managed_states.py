"""Power cuts while a log manager keeps several logs, makes, deletes and cuts them.

Of each log all is true that is true of a single one; and none of the directory fails.
"""

from collections import Counter, deque
from itertools import count, islice

import pytest

from kafkalog import LogManager
from kafkalog.log import watermarks
from kafkalog.log.ownership import OwnedDirectory
from kafkalog.manager.managed_directory import ManagedDirectory
from kafkalog.storage.checkpoint_file import LOG_STARTS
from tests.crash import managed
from tests.crash.judging import Lost
from tests.crash.recording import RecordingDisk

pytestmark = pytest.mark.slow

STATES = 600
STATES_WHILE_RECOVERED = 400
SHARE = 0.2
SEEDS = range(2)


def test_a_power_cut_loses_nothing_that_was_flushed_in_any_log(roots, figure):
    figures = Counter()
    for seed in count():
        life = managed.told(roots[0], seed)
        figures.update(cut.kind for cut in managed.tried(life, roots[1], seed, SHARE))
        if figures.total() >= STATES:
            break
    figure("crash states", "managed", figures.total(), f"{seed + 1} seeds")


def test_what_is_done_late_loses_nothing_that_was_flushed_in_any_log(roots, figure):
    figures = Counter()
    for seed in SEEDS:
        life = managed.told(roots[0], seed, story=managed.waiting)
        figures.update(cut.kind for cut in managed.tried(life, roots[1], seed, SHARE))
    assert figures.total() > 100
    figure("crash states", "managed, late", figures.total())


def test_a_power_cut_while_several_logs_are_recovered_is_harmless(roots, figure):
    figures = Counter()
    life = managed.told(roots[0], 1000)
    found = managed.tried(life, roots[1], 1000, SHARE)
    for number, cut in enumerate(islice(found, 20, None, 11)):
        later = managed.another_life(roots[0], cut, f"{life.name}, {number}")
        again = managed.tried(later, roots[1], number, SHARE)
        figures.update(one.kind for one in again)
        if figures.total() >= STATES_WHILE_RECOVERED:
            break
    assert figures.total() >= STATES_WHILE_RECOVERED
    told_of = ", ".join(f"{kind} {n}" for kind, n in sorted(figures.items()))
    figure("crash states", "managed, recovered", figures.total(), told_of)


def finds(roots, make_disk=RecordingDisk):
    for seed in SEEDS:
        try:
            life = managed.told(roots[0], seed, make_disk)
            deque(managed.tried(life, roots[1], seed), maxlen=0)
        except Lost as error:
            return str(error)
    return None


def test_a_log_that_is_not_forced_is_missed(roots):
    class LaxDisk(RecordingDisk):
        def sync(self, file):
            if not file.path.name.endswith(".log"):
                super().sync(file)

    assert finds(roots, LaxDisk)


class DiskForcingNoLogsNames(RecordingDisk):
    def sync_directory(self, path):
        if path != self.root:
            super().sync_directory(path)


def test_names_of_logs_that_are_not_forced_are_missed(roots):
    assert finds(roots, DiskForcingNoLogsNames)


def finds_in(roots, story):
    """Answer what the first state is that may not be, in what a story leaves."""
    try:
        life = managed.told(roots[0], 0, story=story)
        deque(managed.tried(life, roots[1], 0), maxlen=0)
    except Lost as error:
        return str(error)
    return None


def do_nothing(*_):
    """Stand for what is taken out."""


def only_mark(directory, name):
    return directory._close_and_mark(directory.logs.pop(name), "delete")


def only_cut(manager, offsets):
    for name, offset in offsets.items():
        manager[name].truncate_to(offset)


def test_a_deleted_log_that_is_left_in_the_checkpoints_is_missed(roots, monkeypatch):
    """It is taken out of them twice: by itself, then as all are written anew.

    The second is what a broker does; after either, taking out the other is harmless.
    Without both, a log of the same name would begin behind its end, and be emptied.
    """
    assert finds_in(roots, managed.deleting) is None
    with monkeypatch.context() as without_rewriting:
        without_rewriting.setattr(ManagedDirectory, "delete", only_mark)
        assert finds_in(roots, managed.deleting) is None
    monkeypatch.setattr(OwnedDirectory, "forget", do_nothing)
    assert finds_in(roots, managed.deleting) is None
    monkeypatch.setattr(ManagedDirectory, "delete", only_mark)
    assert finds_in(roots, managed.deleting)


def test_a_log_made_anew_does_not_begin_where_a_deleted_one_did(roots):
    """A power cut may come when the log is gone and its checkpoints are not."""
    life = managed.told(roots[0], 0, story=managed.deleting)
    between = [
        cut
        for cut in managed.tried(life, roots[1], 0)
        if managed.NAMES[0] not in cut.contents
        and b"orders 0 5" in (cut.tree.get(LOG_STARTS) or b"")
    ]
    assert between
    for cut in between[:2]:
        later = managed.another_life(roots[0], cut, "made anew")
        deque(managed.tried(later, roots[1], 0, 0.3), maxlen=0)


def test_a_recovery_point_behind_a_cut_is_missed(roots, monkeypatch):
    """It is lowered before a log is cut, and forced with the others' behind that.

    The second is what a broker does. Either suffices: a power cut between the two finds
    a log that ends before its recovery point, which is lowered then.
    """
    assert finds_in(roots, managed.cutting) is None
    with monkeypatch.context() as without_checkpoint:
        without_checkpoint.setattr(LogManager, "truncate_to", only_cut)
        assert finds_in(roots, managed.cutting) is None
    monkeypatch.setattr(OwnedDirectory, "lower_recovery_point", do_nothing)
    assert finds_in(roots, managed.cutting) is None
    monkeypatch.setattr(LogManager, "truncate_to", only_cut)
    assert finds_in(roots, managed.cutting)


def test_segments_before_a_new_start_that_are_not_forced_are_missed(roots, monkeypatch):
    monkeypatch.setattr(watermarks, "force_segments_before", do_nothing)
    assert finds_in(roots, managed.waiting)


class DiskForcingNoSegmentsNames(RecordingDisk):
    def sync_directory(self, path):
        if path == self.root:
            super().sync_directory(path)


def finds_in_recovery(roots, make_disk):
    later = managed.another_life(roots[0], managed.torn(roots[0]), "torn", make_disk)
    try:
        deque(managed.tried(later, roots[1], 0), maxlen=0)
    except Lost as error:
        return str(error)
    return None


def test_a_directory_not_forced_while_several_logs_are_recovered_is_missed(roots):
    assert finds_in_recovery(roots, RecordingDisk) is None
    assert "never appended" in finds_in_recovery(roots, DiskForcingNoSegmentsNames)
