"""Power cuts during compaction: the last value of each key is not lost, nor doubled.

The states are those of the workload `compacting`, and are checked like all others.
Also, of each key the state has the last record that was flushed, or a later one. A
tombstone may be missing once it is due.
"""

from collections import Counter
from itertools import count, pairwise

import pytest

from kafkalog import RecordBatch
from tests.crash.power_cuts import check_cuts, cuts, record_workload

STATES = 300
STATES_WHEN_SLOW = 2800
"""With those of the workloads `compacting` and `swapping`, all compacted, 5,000."""
MIXED = 3


def last_records(batches):
    """Return the last record of each key, of data that was not aborted."""
    aborted, pending, last = set(), {}, {}
    found = [RecordBatch(batch.data) for batch in batches]
    for number, batch in enumerate(found):
        if batch.is_control:
            for record in batch:
                if record.key[3] == 0:
                    aborted |= pending.get(batch.producer_id, set())
            pending.pop(batch.producer_id, None)
        elif batch.is_transactional:
            pending.setdefault(batch.producer_id, set()).add(number)
    for number, batch in enumerate(found):
        if number not in aborted and not batch.is_control:
            last |= {record.key: record for record in batch}
    return last


def check_keys(cut, batches):
    """Check that the last record of each key is there, and each offset once."""
    offsets = [batch.base_offset for batch in batches]
    assert all(first < second for first, second in pairwise(offsets)), cut.where
    there = last_records(batches)
    flushed = [
        one for one in cut.expected.histories[0] if one in cut.expected.forced_before
    ]
    for key, record in last_records(flushed).items():
        found = there.get(key)
        if found is None:
            assert record.value is None, (cut.where, cut.kind, record)
        elif found.offset <= record.offset:
            assert found == record, (cut.where, cut.kind)


def check_states(roots, most):
    """Check states inside of rounds of compaction, those of several seeds."""
    figures = Counter()
    for seed in count():
        recorded, disk = record_workload(roots[0], "compacting", seed)
        inside = (
            cut
            for cut in cuts(recorded, disk, seed, MIXED)
            if cut.expected.may_leave_holes
        )
        for cut, batches in check_cuts(inside, roots[1], figures):
            check_keys(cut, batches)
            if sum(figures.values()) >= most:
                return figures
    raise AssertionError("no end of seeds")


def test_a_power_cut_during_compaction_loses_no_key(roots):
    check_states(roots, STATES)


@pytest.mark.slow
def test_thousands_of_power_cuts_during_compaction_lose_no_key(roots, figure):
    figures = check_states(roots, STATES_WHEN_SLOW)
    kinds = ", ".join(f"{kind} {number}" for kind, number in sorted(figures.items()))
    figure("crash states", "compacting, keys", sum(figures.values()), kinds)
