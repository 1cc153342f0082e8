"""Commits that are killed, or lose power, at any step: each row is there once.

Each state is restarted as Spark would: the same commit, from new staged files.
"""

from collections import Counter
from itertools import islice
from random import Random

import pytest

import kafkalog
from kafkalog.sink.staging import CommitIdentity
from kafkalog.storage.durable_file import DISK
from tests.crash.disk_model import DiskModel
from tests.crash.recording import RecordingDisk, write_tree
from tests.sink.commits import committer, flat, plan, stage, staged_names, values

FIRST = CommitIdentity("query:1", 0)
SECOND = CommitIdentity("query:1", 1)
MORE = {
    ("orders", 0): [[b"x%d" % number] for number in range(12)],
    ("orders", 1): [[b"y0"], [b"y1" * 1200], [b"y2" * 1200]],
    ("late", 1): [[b"z0"]],
}
SETTINGS = {"internal.segment.bytes": "6000"}
"""Settings with which the second commit rolls segments."""


@pytest.fixture
def root(memory_path):
    """Return an empty directory in memory, in which commits are recorded."""
    path = memory_path / "recorded"
    path.mkdir()
    return path


def record(root, visibility, make_disk=RecordingDisk):
    """Record two commits; return the disk, and the event after the first one."""
    disk = make_disk(root)
    writer = committer(root, disk)
    files = stage(root, FIRST, disk=disk)
    writer.commit(plan(FIRST, files, visibility=visibility))
    first_done = len(disk.events)
    files = stage(root, SECOND, MORE, disk=disk)
    writer.commit(plan(SECOND, files, visibility=visibility, settings=SETTINGS))
    return disk, first_done


def states(disk, kinds):
    """Yield the event, kind and files of each state, each content once."""
    model, seen = DiskModel(disk.before), set()
    for event in range(len(disk.events) + 1):
        if event:
            model.take(disk.events[event - 1])
        for kind, tree in model.states(Random(event), 1):
            key = hash(frozenset(tree.items()))
            if key not in seen and (kinds is None or kind in kinds):
                seen.add(key)
                yield event, kind, tree


def restart(root, tree, first_is_done, visibility):
    """Commit again from a state, as Spark does; return what is in the logs then."""
    write_tree(root, tree)
    writer = committer(root, DISK)
    if not first_is_done:
        writer.commit(plan(FIRST, stage(root, FIRST), visibility=visibility))
    writer.commit(plan(SECOND, stage(root, SECOND, MORE), visibility=visibility))
    return values(root)


def check(root, recorded, visibility, kinds=None, step=1):
    """Restart from each state, or each `step`th, and count them by kind."""
    disk, first_done = recorded
    expected = flat()
    for name, rows in flat(MORE).items():
        expected.setdefault(name, []).extend(rows)
    figures = Counter()
    for event, kind, tree in islice(states(disk, kinds), 0, None, step):
        where = f"event {event} of {len(disk.events)}, {kind}"
        found = restart(root, tree, event >= first_done, visibility)
        assert found == expected, where
        assert values(root, "read_committed") == expected, where
        assert not kafkalog.verify(root).problems, where
        assert not staged_names(root), where
        figures[kind] += 1
    return figures


@pytest.mark.parametrize("visibility", ["record", "transaction"])
def test_a_commit_that_is_killed_at_any_step_is_written_once(root, visibility):
    recorded = record(root, visibility)
    figures = check(root, recorded, visibility, {"all kept"}, step=12)
    assert figures.total() >= 20


@pytest.mark.slow
@pytest.mark.parametrize("visibility", ["record", "transaction"])
def test_a_commit_that_loses_power_at_any_step_is_written_once(
    root, visibility, figure
):
    figures = check(root, record(root, visibility), visibility, step=6)
    assert figures.total() > 125
    figure("crash states", f"commits, {visibility}", figures.total())


class DiskForcingNoLogs(RecordingDisk):
    """A disk that does not sync segments."""

    def sync(self, file):
        if file.path.suffix != ".log":
            super().sync(file)


@pytest.mark.slow
def test_logs_that_are_not_forced_to_disk_before_the_end_of_a_commit_are_found(root):
    recorded = record(root, "record", DiskForcingNoLogs)
    with pytest.raises(AssertionError):
        check(root, recorded, "record", {"all lost", "names before data"})
