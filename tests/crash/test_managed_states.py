"""Power cuts while a log manager keeps several logs, makes, deletes and cuts them.

Of each log all is true that is true of a single one; and none of the directory fails.
"""

from collections import Counter
from itertools import count

from tests.crash import managed
from tests.crash.judging import Lost
from tests.crash.recording import RecordingDisk

STATES = 600
SHARE = 0.2
SEEDS = range(2)


def test_a_power_cut_loses_nothing_that_was_flushed_in_any_log(roots, figure):
    figures = Counter()
    for seed in count():
        figures += managed.try_cuts(managed.told(roots[0], seed), roots[1], seed, SHARE)
        if figures.total() >= STATES:
            break
    figure("crash states", "managed", figures.total(), f"{seed + 1} seeds")


def finds(roots, make_disk=RecordingDisk):
    for seed in SEEDS:
        try:
            managed.try_cuts(managed.told(roots[0], seed, make_disk), roots[1], seed)
        except Lost as error:
            return str(error)
    return None


def test_a_log_that_is_not_forced_is_missed(roots):
    class LaxDisk(RecordingDisk):
        def sync(self, file):
            if not file.path.name.endswith(".log"):
                super().sync(file)

    assert finds(roots, LaxDisk)


def test_names_of_logs_that_are_not_forced_are_missed(roots):
    class LaxDisk(RecordingDisk):
        def sync_directory(self, path):
            if path != self.root:
                super().sync_directory(path)

    assert finds(roots, LaxDisk)
