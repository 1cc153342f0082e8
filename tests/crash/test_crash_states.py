"""Power cuts at every moment of a workload: flushed data is not lost.

Each state is checked: it opens; all flushed batches exist; the batches are the first
ones appended, by segment; epochs, producers, aborted transactions and timestamps are
those of the batches; opening it again does not change it.
"""

from collections import Counter
from itertools import chain, count, islice, repeat
from random import Random

import pytest

from tests.crash.disk_model import DiskModel
from tests.crash.power_cuts import check_cuts, cuts, record_recovery, record_workload
from tests.crash.recording import read_tree
from tests.crash.workloads import WORKLOADS

pytestmark = pytest.mark.slow

STATES_OF_A_WORKLOAD = 300
STATES_WHILE_RECOVERED = 120
MIXED = 1
REGRESSIONS = {"swapping": [(3, 3)]}
"""Seeds, and numbers of mixed states at each event, that found a fault.

It was an old index with the records of a swapped segment.
"""


def counts_of(figures):
    return ", ".join(f"{kind} {n}" for kind, n in sorted(figures.items()))


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_power_cut_loses_nothing_that_was_flushed(roots, name, figure):
    figures = Counter()
    for seed, mixed in chain(REGRESSIONS.get(name, ()), zip(count(), repeat(MIXED))):
        recorded, disk = record_workload(roots[0], name, seed)
        for _ in check_cuts(cuts(recorded, disk, seed, mixed), roots[1], figures):
            pass
        if sum(figures.values()) >= STATES_OF_A_WORKLOAD:
            break
    figure("crash states", name, sum(figures.values()), counts_of(figures))


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_power_cut_during_recovery_loses_nothing_that_was_flushed(
    roots, name, figure
):
    figures, again = Counter(), Counter()
    recorded, disk = record_workload(roots[0], name, 1000)
    states = check_cuts(cuts(recorded, disk, 1000, MIXED), roots[1], figures)
    for number, (cut, batches) in enumerate(islice(states, 20, None, 61)):
        later, disk = record_recovery(roots[0], cut, batches, f"{cut.where}, {number}")
        for _ in check_cuts(cuts(later, disk, number, 1), roots[1], again):
            pass
        if sum(again.values()) >= STATES_WHILE_RECOVERED:
            break
    assert sum(again.values()) >= STATES_WHILE_RECOVERED
    figure("crash states", f"{name}, recovered", sum(again.values()), counts_of(again))


@pytest.mark.parametrize("name", WORKLOADS)
def test_all_changes_of_the_disk_are_recorded(roots, name):
    _, disk = record_workload(roots[0], name, 0)
    model = DiskModel(disk.before)
    for event in disk.events:
        model.take(event)
    kept = dict(model.states(Random(0), 0))["all kept"]
    assert kept == read_tree(roots[0])
