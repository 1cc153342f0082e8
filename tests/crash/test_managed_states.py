"""Power cuts while a log manager keeps several logs, makes, deletes and cuts them.

Of each log all is true that is true of a single one; and none of the directory fails.
"""

from collections import Counter, deque
from itertools import count, islice

from tests.crash import managed
from tests.crash.judging import Lost
from tests.crash.recording import RecordingDisk

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
