"""Failure of each read of a workload.

The caller gets the error. A failed read is not taken for damage: nothing is truncated,
and after opening again all flushed data exists.
"""

import errno
from dataclasses import replace

import pytest

import kafkalog
from tests.crash.failing_reads import reads
from tests.crash.power_cuts import record_workload
from tests.crash.recorded_log import RecordedLog
from tests.crash.recording import RecordingDisk, read_tree, write_tree
from tests.crash.state_checks import Opened, check_state, expected_at, expected_in
from tests.crash.test_failing_disk import CLEAN, full_workload
from tests.crash.workloads import WORKLOADS

pytestmark = pytest.mark.slow

SHARES = 2


def run_workload(root, fail_at=-1):
    """Run the workload until a read fails; return the counter and the error."""
    write_tree(root, CLEAN)
    recorded = RecordedLog(root, RecordingDisk(root))
    with reads(fail_at) as counter:
        try:
            full_workload(recorded)
        except OSError as error:
            return recorded, counter, error
    return recorded, counter, None


@pytest.mark.parametrize("share", range(SHARES))
def test_a_failing_read_is_raised_and_loses_nothing_that_was_flushed(
    roots, share, figure
):
    reference, counter, _ = run_workload(roots[0])
    assert counter.count > 100
    for fail_at in range(share, counter.count, SHARES):
        recorded, _, raised = run_workload(roots[0], fail_at)
        assert raised is not None, f"read {fail_at} failed without an error"
        assert raised.errno == errno.EIO
        if recorded.log is not None:
            with pytest.raises(kafkalog.LogClosedError):
                recorded.log.append(recorded.batch(1, 10))
            recorded.log.abandon()
        expected = expected_in(reference.marks, len(recorded.marks), inside=True)
        check_state(roots[1], read_tree(roots[0]), expected)
    failed = len(range(share, counter.count, SHARES))
    figure("failing reads", f"share {share}", failed, f"of {counter.count}")


def logs_of(tree):
    """Return the logs of segments, none if a swap is to replace some."""
    if any(name.endswith(".swap") for name in tree):
        return {}
    return {name: data for name, data in tree.items() if name.endswith(".log")}


def fails_while_opened(root, before, expected):
    """Fail each read of an opening in turn, and return their number."""
    fail_at = 0
    while True:
        write_tree(root, before)
        with reads(fail_at) as counter:
            try:
                Opened(root, expected.config).log.abandon()
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
            else:
                assert not counter.failed, f"read {fail_at} failed without an error"
                return fail_at
        left = read_tree(root)
        assert logs_of(before).items() <= left.items()
        check_state(root, left, expected)
        fail_at += 1


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_failing_read_while_a_log_is_opened_truncates_nothing(roots, name, figure):
    recorded, disk = record_workload(roots[0], name, 0)
    expected = expected_at(recorded.marks, len(disk.events))
    expected = replace(expected, config=recorded.config)
    count = fails_while_opened(roots[1], read_tree(roots[0]), expected)
    assert count > 3
    figure("failing reads", f"opening {name}", count)


def test_a_failing_read_while_indexes_are_rebuilt_loses_nothing(roots):
    recorded, disk = record_workload(roots[0], "aborting", 0)
    expected = expected_at(recorded.marks, len(disk.events))
    before = {
        name: data
        for name, data in read_tree(roots[0]).items()
        if not name.endswith("index")
    }
    assert fails_while_opened(roots[1], before, expected) > 10
