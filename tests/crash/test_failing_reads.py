"""A disk that fails to read, once, at each of the reads of a log's life.

The error comes to whoever asked. Nothing is taken for damage that could not be read:
nothing is cut or emptied, and opened again the log has all that had been flushed.
"""

import errno
from dataclasses import replace

import pytest

import kafkalog
from tests.crash.failing_reads import reads
from tests.crash.judging import Opened, expected_at, expected_in, judge
from tests.crash.lives import Life
from tests.crash.power_cuts import told
from tests.crash.recording import RecordingDisk, read_tree, write_tree
from tests.crash.stories import STORIES
from tests.crash.test_failing_disk import CLEAN, whole_life

pytestmark = pytest.mark.slow

SHARES = 2


def lived(root, fail_at=-1):
    """Live until a read fails; answers the error, and the reads."""
    write_tree(root, CLEAN)
    life = Life(root, RecordingDisk(root))
    with reads(fail_at) as made:
        try:
            whole_life(life)
        except OSError as error:
            return life, made, error
    return life, made, None


@pytest.mark.parametrize("share", range(SHARES))
def test_whichever_read_fails_it_is_told_and_nothing_flushed_is_lost(
    roots, share, figure
):
    reference, made, _ = lived(roots[0])
    assert made.count > 100
    for fail_at in range(share, made.count, SHARES):
        life, _, raised = lived(roots[0], fail_at)
        assert raised is not None, f"read {fail_at} failed, and nobody was told"
        assert raised.errno == errno.EIO
        if life.log is not None:
            with pytest.raises(kafkalog.LogClosedError):
                life.log.append(life.batch(1, 10))
            life.log.abandon()
        expected = expected_in(reference.marks, len(life.marks), inside=True)
        judge(roots[1], read_tree(roots[0]), expected)
    failed = len(range(share, made.count, SHARES))
    figure("failing reads", f"share {share}", failed, f"of {made.count}")


def logs_of(tree):
    """The logs of segments, but for those that a cleaned one takes the place of."""
    if any(name.endswith(".swap") for name in tree):
        return {}
    return {name: data for name, data in tree.items() if name.endswith(".log")}


def fails_while_opened(root, before, expected):
    """Fail each read of an opening in turn; answers how many there were."""
    fail_at = 0
    while True:
        write_tree(root, before)
        with reads(fail_at) as made:
            try:
                Opened(root, expected.config).log.abandon()
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
            else:
                assert not made.failed, f"read {fail_at} failed, and nobody was told"
                return fail_at
        left = read_tree(root)
        assert logs_of(before).items() <= left.items()
        judge(root, left, expected)
        fail_at += 1


@pytest.mark.parametrize("name", STORIES)
def test_whichever_read_fails_while_a_log_is_opened_nothing_is_emptied(
    roots, name, figure
):
    life, disk = told(roots[0], name, 0)
    expected = expected_at(life.marks, len(disk.events))
    expected = replace(expected, config=life.config)
    count = fails_while_opened(roots[1], read_tree(roots[0]), expected)
    assert count > 3
    figure("failing reads", f"opening {name}", count)


def test_whichever_read_fails_while_indexes_are_made_anew_nothing_is_lost(roots):
    life, disk = told(roots[0], "aborting", 0)
    expected = expected_at(life.marks, len(disk.events))
    before = {
        name: data
        for name, data in read_tree(roots[0]).items()
        if not name.endswith("index")
    }
    assert fails_while_opened(roots[1], before, expected) > 10
