"""Leader epochs that do not fit, by those around them and by the checkpoint."""

import numpy as np
import pytest

from kafkalog.copies.epoch_repair import epoch_corrections
from kafkalog.copies.offset_coverage import OffsetCoverage
from kafkalog.formats.checkpoint import EpochEntry
from kafkalog.formats.layout import BATCH

HIGH = 0x4000_0000


def rows_of(epochs, magic=2):
    rows = np.zeros(len(epochs), BATCH)
    rows["leader_epoch"], rows["magic"] = epochs, magic
    rows["last_offset"] = rows["base_offset"] = np.arange(len(epochs))
    rows["position"], rows["size_in_bytes"] = np.arange(len(epochs)) * 70, 70
    return rows


@pytest.mark.parametrize(
    ("epochs", "previous", "following", "known", "found"),
    [
        ([0, 0, 1, 5], -1, None, [], []),
        ([-1, -1, 0], -1, 2, [], []),
        ([0, HIGH, 0], -1, None, [], [(1, 0)]),
        ([3, -8, 3], -1, None, [], [(1, 3)]),
        ([HIGH, 3, 3], -1, None, [], [(0, 3)]),
        ([3, 3, HIGH], -1, 3, [], [(2, 3)]),
        ([3, 3, HIGH], -1, None, [(3, 0)], [(2, 3)]),
        ([1, HIGH, 3], -1, None, [(1, 0), (3, 1)], [(1, 3)]),
        ([1, HIGH, 3], -1, None, [(1, 0), (3, 2)], [(1, 1)]),
        ([HIGH, 3, 3], 2, None, [], [(0, 2)]),
        # Several batches agree: the one before, or the checkpoint, may be wrong.
        ([1, 1, 1], 5, 1, [], []),
        ([7, 7], -1, None, [(3, 0)], []),
    ],
)
def test_an_epoch_that_does_not_fit_is_found(epochs, previous, following, known, found):
    entries = [EpochEntry(*entry) for entry in known]
    rows = rows_of(epochs)
    assert list(epoch_corrections(rows, previous, following, entries)) == found


def test_messages_have_no_epoch():
    rows = rows_of([5, -1, 5])
    rows["magic"][1] = 1
    assert list(epoch_corrections(rows, -1, None, [])) == []


def coverage_of(rows, start, end_of_before=0):
    coverage = OffsetCoverage(start)
    coverage.add(rows, rows["base_offset"], end_of_before)
    return coverage


def test_a_gap_is_missing_only_where_bytes_are_damaged():
    rows = rows_of([0] * 6)
    rows["base_offset"] = rows["last_offset"] = [0, 1, 5, 6, 9, 10]
    assert coverage_of(rows, 0).missing == []
    rows["position"][4:] += 7
    coverage = coverage_of(rows, 0)
    assert coverage.missing == [(7, 8)]
    coverage.reach(12)
    assert coverage.missing == [(7, 8)]
    coverage.reach_end(15)
    assert coverage.missing == [(7, 8), (12, 14)]


def test_offsets_before_the_known_start_are_not_missing():
    rows = rows_of([0] * 4)
    rows["position"][1:] += 9
    rows["base_offset"] = rows["last_offset"] = [0, 5, 6, 7]
    assert coverage_of(rows, 3).missing == [(3, 4)]
    assert coverage_of(rows, 6).missing == []
    assert coverage_of(rows, None, 5).missing == [(1, 4)]
